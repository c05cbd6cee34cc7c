//! Honesty: what a lock says of an acquisition or a release is true.
//!
//! Invariant: a client is blamed only for what is false in every reading; `docs/safety.md` lists the lies. What an
//! acquisition has asked for (`requests.rs`), how long the key that it made lives (`made_key.rs`), what its release has done
//! (`release.rs`) and what others may have done to its key (`others.rs`) decide it together.
//! Deliberately absent: what the lock could have known; a lucky guess is no lie.

mod made_key;
mod others;
mod release;
mod requests;

use history::fault::Fault;
use history::verdict::{Finding, Level, Witness};
use history::words::{DROPPED, EXPIRED, HELD, PROTECTED, RELEASED, TAKEN};
use history::{CommandOp, Event, Head, Intent, Recent, Touch, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd, frees, makes, may_take_key, verdict};
use super::story;
use made_key::MadeKey;
use others::{Maker, Others};
use release::{Freed, ReleaseTries};
use requests::LockRequests;

pub(super) const NAME: &str = "honesty";

pub(super) const NOT_ITS_OWN: [&str; 2] = [EXPIRED, TAKEN];

/// What an acquisition has done to the lock's key so far.
#[derive(Clone, Copy, Debug, Default)]
struct Claimant {
    client: u32,
    requests: LockRequests,
    key: MadeKey,
    release: ReleaseTries,
    maker: Maker,
    /// Places in line that it was told of.
    places: u32,
    /// It has said that it surely has not got the lock; the last command that anybody had sent by then.
    refused: Option<u32>,
    /// What it has handed on since.
    handed_on: u32,
}

/// What acquisitions say.
#[derive(Default)]
struct Honesty {
    /// By acquisition.
    open: Recent<Claimant>,
    others: Others,
    /// The last command that was sent.
    last_op: u32,
    /// A fault, or a command that does not ask whose key it is, may have taken a key away.
    taken: bool,
    /// A command may have handed the lock on to another.
    hands_on: bool,
    /// When the run last kept something else under the lock's key, which was free.
    foreign_ns: Option<u64>,
    judged: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    head.honest.then(|| Box::new(Honesty::default()) as Box<dyn Checker>)
}

impl Checker for Honesty {
    fn see(&mut self, seen: &EventView<'_>) {
        let EventView { event, head, texts, .. } = *seen;
        let Event { at_ns, client, acquisition, what, .. } = *event;
        if let Some(command) = seen.command {
            return match what {
                What::Command { .. } => self.sends(seen, command),
                what => self.ends(event, command, what, head.stamped),
            };
        }
        match what {
            What::Fault { fault, .. } => {
                self.taken |= may_take_key(fault);
                if matches!(fault, Fault::ForeignKey | Fault::ForeignList) {
                    self.foreign_ns = Some(at_ns);
                }
            }
            What::Acquire => {
                self.open.insert(acquisition, Claimant { client, ..Claimant::default() })
            }
            What::Command { node, name, .. } => {
                self.with(acquisition, |it| it.requests.looks(seen, node, texts.get(name)));
            }
            What::Phase(Phase::Wait) => self.with(acquisition, |it| it.places += 1),
            What::Release => self.with(acquisition, |it| it.release.begun_ns = Some(at_ns)),
            What::ValidUntil(until_ns) => self.with(acquisition, |it| it.key.until_ns = until_ns),
            What::Acquired => self.acquired(acquisition),
            What::NotAcquired(why) => {
                self.told_held(acquisition, texts.get(why));
                self.refused(acquisition);
            }
            What::Released(told) => {
                // In real time a key may go in ways that no history tells of.
                let surely = head.exact && !self.taken;
                let now_ns = at_ns.saturating_add(head.margin_ns);
                self.released(
                    acquisition,
                    surely.then_some(now_ns),
                    texts.get(told),
                    head.margin_ns,
                );
            }
            // In real time a call may be given up at the moment at which its answer is written down.
            What::AcquireUnknown(_) | What::ReleaseUnknown(_) if !head.exact => {
                self.close(acquisition);
            }
            What::AcquireUnknown(why) => self.unknown(acquisition, texts.get(why), |it| {
                // Who has a place in line may be handed the lock.
                let in_line = head.fair_within.is_some() && it.places > 0;
                (!in_line && it.requests.surely_got_nothing()).then_some(
                    "it has the lock, though every request of it had been answered with no",
                )
            }),
            What::ReleaseUnknown(why) => self.unknown(acquisition, texts.get(why), |it| {
                let LockRequests { unknown, several, .. } = it.requests;
                let known = it.release.all_answered() && unknown == 0 && !several;
                known.then_some("it had still had the lock, though its release had been answered")
            }),
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict =
            verdict(self.first.take(), self.judged, "nobody said what had become of the lock");
        vec![Finding::new(NAME, Level::Belief, verdict)]
    }
}

impl Honesty {
    fn with(&mut self, acquisition: u32, change: impl FnOnce(&mut Claimant)) {
        if let Some(it) = self.open.get_mut(acquisition) {
            change(it);
        }
    }

    /// Nothing more that it says is judged; what it has done to the key may have been done to another's.
    fn close(&mut self, acquisition: u32) -> Option<Claimant> {
        let it = self.open.remove(acquisition)?;
        self.others.keep(acquisition, it.maker);
        Some(it)
    }

    fn sends(&mut self, seen: &EventView<'_>, command: &CommandOp) {
        let EventView { event, head, texts, .. } = *seen;
        let intent = command.intent;
        self.last_op = event.op;
        self.hands_on |= intent.touch == Touch::Unknown;
        self.taken |= !intent.compares && (frees(intent.touch) || overwrites(intent.touch));
        self.others.sends(event.op, command);
        let Some(it) = self.open.get_mut(command.acquisition) else {
            return self.others.maker(command.acquisition).sends(command);
        };
        it.maker.sends(command);
        it.key.sends(command, it.requests.unknown > 0);
        it.requests.sends(command, head);
        let gone = it.requests.unknown == 0 && it.key.is_gone(command.invoke_ns, head.margin_ns);
        it.release.sends(command, gone, || texts.get(command.name).starts_with("EVAL"));
    }

    fn ends(&mut self, event: &Event, command: &CommandOp, what: What, stamped: bool) {
        let (touch, answer) = match what {
            What::Answered { touch, answer, .. } => (touch, Some(answer)),
            What::Refused(_) => (Touch::None, None),
            // It stays unknown what it has done.
            _ => return,
        };
        self.others.ends(event, command, touch);
        let Some(it) = self.open.get_mut(command.acquisition) else {
            return self.others.maker(command.acquisition).ends(event, command, touch);
        };
        it.maker.ends(event, command, touch);
        it.requests.ends(event, command, touch, answer.is_none());
        it.key.ends(event, command, touch, (self.last_op, stamped));
        let Freed { deleted, handed_on } = it.release.ends(command, touch, answer);
        if it.refused.is_some_and(|last_op| event.op > last_op) {
            it.handed_on += u32::from(handed_on);
            if deleted || it.handed_on > it.places {
                self.had_it(command.acquisition);
            }
        }
    }

    /// It has the lock, it says.
    fn acquired(&mut self, acquisition: u32) {
        let Some(it) = self.open.get(acquisition) else { return };
        // Who has read that the key is its own, or has extended it, may have had it before; and another may have handed it on.
        let perhaps =
            it.requests.read || it.requests.several || it.key.gone_ns > 0 || self.hands_on;
        if perhaps || !it.requests.surely_got_nothing() {
            return;
        }
        let client = it.client;
        let summary = format!(
            "client {client} took the lock, though every request of it had been answered with no"
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// It was told that something is not known: `but` says what is, against that.
    fn unknown(
        &mut self,
        acquisition: u32,
        why: &str,
        but: impl FnOnce(&Claimant) -> Option<&'static str>,
    ) {
        let Some(it) = self.close(acquisition) else { return };
        // Its caller did not wait for what it would have been told.
        let stopped = why.starts_with(DROPPED);
        let Some(but) = but(&it).filter(|_| !stopped) else { return };
        let client = it.client;
        let summary = format!("client {client} was told that nobody knows whether {but}");
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// Whether another acquisition surely had the lock all the while it was being released.
    fn another_had_it(&self, it: &Claimant, now_ns: u64) -> bool {
        let known =
            it.requests.has_one_key() && it.release.all_answered() && !it.release.by_command;
        let Some(first_ns) = it.release.first_ns.filter(|_| known) else { return false };
        self.open.iter().any(|(number, other)| {
            other.requests.has_one_key()
                && other.requests.node == it.requests.node
                && other.requests.granted_ns.is_some_and(|granted_ns| granted_ns < first_ns)
                && other.release.freed_nothing()
                && now_ns < other.key.lives_until_ns
                && !self.others.ended(&self.open, number, other, now_ns)
        })
    }

    /// It has not got the lock, and was told this.
    fn told_held(&mut self, acquisition: u32, told: &str) {
        let Some(it) = self.open.get(acquisition).filter(|_| told.ends_with(HELD)) else { return };
        let Some(but) = it.requests.against_held() else { return };
        let client = it.client;
        let summary = format!("client {client} was told that another held the lock, though {but}");
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// It has said that it surely has not got the lock.
    fn refused(&mut self, acquisition: u32) {
        self.judged = true;
        let last_op = self.last_op;
        let Some(it) = self.open.get_mut(acquisition) else { return };
        let LockRequests { unknown, made, found_own, several, .. } = it.requests;
        // What was granted, and not relied on, is given back; of several servers a few may grant it.
        if unknown == 0 || made > 0 || found_own || several {
            self.close(acquisition);
        } else {
            it.refused = Some(last_op);
        }
    }

    /// It has given back what it had said that it surely had not.
    fn had_it(&mut self, acquisition: u32) {
        let Some(Claimant { client, .. }) = self.close(acquisition) else { return };
        let summary = format!(
            "client {client} was told that it surely had not got the lock, though a request of it was still \
             under way: later its key, or its place in line, was given back"
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// It was told this of its release; `now_ns` where a key that lives longer can surely not have gone by itself.
    fn released(&mut self, acquisition: u32, now_ns: Option<u64>, told: &str, margin_ns: u64) {
        let Some(it) = self.close(acquisition) else { return };
        self.judged = true;
        let Some(but) = self.against_told(acquisition, &it, now_ns, told, margin_ns) else {
            return;
        };
        let client = it.client;
        let summary = format!("client {client} was told \"{told}\" of its release, though {but}");
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// What contradicts this, if anything does.
    fn against_told(
        &self,
        acquisition: u32,
        it: &Claimant,
        now_ns: Option<u64>,
        told: &str,
        margin_ns: u64,
    ) -> Option<&'static str> {
        let Claimant { requests, key, release, .. } = it;
        let Self { open, others, .. } = self;
        let freed_nothing = release.freed_nothing();
        match told {
            RELEASED if freed_nothing => Some("no command of it had ended its hold"),
            RELEASED
                if now_ns.is_some()
                    && it.was_gone()
                    && !others.prolonged(open, acquisition, it, margin_ns) =>
            {
                Some("its key had gone by itself before anything was sent to delete it")
            }
            PROTECTED if freed_nothing && it.had_nothing_left() => {
                Some("nothing of its own was left for its release to end")
            }
            TAKEN
                if now_ns.is_some()
                    && requests.has_one_key()
                    && self.foreign_ns < requests.asked_ns
                    && !others.made(open, acquisition, it) =>
            {
                Some("no other can have taken it")
            }
            EXPIRED if now_ns.is_some_and(|now_ns| self.another_had_it(it, now_ns)) => {
                Some("another had surely taken it by then")
            }
            EXPIRED | TAKEN if release.surely_deleted() && requests.has_one_key() => {
                Some("its release had deleted the key that it had made")
            }
            EXPIRED | TAKEN
                if requests.has_one_key()
                    && !release.mixed
                    && now_ns.is_some_and(|now_ns| {
                        now_ns < key.lives_until_ns && !others.ended(open, acquisition, it, now_ns)
                    }) =>
            {
                Some("nothing but its release could have ended its hold by then")
            }
            _ => None,
        }
    }
}

impl Claimant {
    /// Whether its release has surely found nothing of its own: a server that had refused it may still have the key.
    fn had_nothing_left(&self) -> bool {
        let LockRequests { unknown, granted, several, .. } = self.requests;
        let everywhere = unknown == 0 && granted.is_within(self.release.nodes);
        self.release.all_answered() && (everywhere || !several)
    }

    /// Whether its key had surely gone before it sent anything to delete it.
    fn was_gone(&self) -> bool {
        let Self { requests, key, .. } = self;
        let by_its_own_requests = requests.made > 0 && key.until_ns <= key.gone_ns;
        let known = requests.unknown == 0 && key.extending == 0;
        by_its_own_requests && known && self.release.came_too_late()
    }
}

/// Whether this makes the key, or may.
fn may_make(touch: Touch) -> bool {
    makes(touch) || touch == Touch::Unknown
}

/// Whether this is a script that nobody knows, and that may do something to any key.
fn is_script(intent: Intent) -> bool {
    intent.touch == Touch::Unknown && !intent.compares
}

/// Whether this lets the key live longer.
fn extends(touch: Touch) -> bool {
    matches!(touch, Touch::Extend(1..))
}

/// Whether this puts another value in the place of the key's, or may.
fn overwrites(touch: Touch) -> bool {
    matches!(touch, Touch::Overwrite(_))
}

#[cfg(test)]
mod tests;
