//! Honesty: what a lock says of an acquisition or a release is true.
//!
//! Invariant: a client is blamed only for what is false in every reading. *Released* is false if no command of the
//! acquisition may have ended its hold; *already expired* and *taken by another* are false if the release itself
//! has deleted the one key that the acquisition had made, and where that key could not have gone by then in any other
//! way. *Released* is false, too, if that key had surely gone before anything was sent to delete it; *already expired*, if
//! another surely had the lock, and a script looked; *taken by another*, if no other can have taken it; and *unknown*, if all
//! was answered, by times that are exact. That work was *protected* is false if its release has found nothing of its own.
//! That the lock was surely not taken is false if the acquisition gives back, with a command that was sent only after it
//! had said so, more than it had been told of; that this is not known, if all its requests were answered with no. That another has the lock is false
//! if no server has said so, or if the last answer to it was a grant.
//! Deliberately absent: what the lock could have known; a lucky guess is no lie.

mod others;
mod release;

use history::fault::Fault;
use history::verdict::{Finding, Level, Witness};
use history::words::{EXPIRED, HELD, PROTECTED, RELEASED, TAKEN};
use history::{Answer, CommandOp, Event, Head, Intent, Recent, Touch, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd, frees, makes, verdict};
use super::story;
use history::words;
use others::Others;
use release::{NodeSet, ReleaseTries};

pub(super) const NAME: &str = "honesty";

pub(super) const NOT_ITS_OWN: [&str; 2] = [EXPIRED, TAKEN];

/// What an acquisition has done to the lock's key so far.
#[derive(Clone, Copy, Debug, Default)]
struct Statements {
    client: u32,
    /// The server that it asked; none before it asked any.
    node: Option<u16>,
    /// The lock is on several servers, or it asked several, so one key says nothing of the lock.
    several: bool,
    /// Requests to make the key that have no answer, and those that were answered with yes.
    unknown: u32,
    made: u32,
    /// Scripts that nobody knows, of which no answer has told what they have done: they may have made the key.
    scripts: u32,
    /// The servers that said yes.
    granted: NodeSet,
    /// Places in line that it was told of.
    places: u32,
    /// Commands that may end its hold and have no answer; and whether one surely or perhaps has ended it.
    freeing: u32,
    freed: bool,
    /// Its release has deleted a key that held its own value.
    deleted: bool,
    /// Its key lives at least until then, by a clock that runs as fast as the one of events, unless somebody deletes it.
    lives_until_ns: u64,
    /// The same of the key that its last request may make, as far as what it has sent since may cut that short.
    next_until_ns: u64,
    /// Its key has surely gone by then, as far as requests say that were answered; and until when it has said to rely on it.
    gone_ns: u64,
    until_ns: u64,
    /// The last command that anybody had sent when its key was last known to have been made.
    made_by: u32,
    /// Renewals without an answer.
    extending: u32,
    /// It has sent what deletes its key before that had surely gone.
    freed_in_time: bool,
    /// A command that ended its hold has found the key there.
    found: bool,
    /// When it first asked for the lock.
    asked_ns: Option<u64>,
    /// Whether the last request for it that was answered was granted. A script that nobody knows counts as a request.
    got_last: Option<bool>,
    /// When it was first granted.
    granted_ns: Option<u64>,
    /// It has sent something that leaves the lock's key alone, and perhaps asks for it all the same.
    looked: bool,
    /// It has sent something like this that may be a request, such as one for a place in line.
    asked_elsewhere: bool,
    /// It has sent what only looks at the lock's key.
    read: bool,
    /// All its other commands, and those that have no answer, or had none.
    sent: u32,
    unanswered: u32,
    /// The commands of its release.
    release: ReleaseTries,
    /// It has said that it surely has not got the lock; the last command that anybody had sent by then.
    refused: Option<u32>,
    /// What it has handed on since.
    handed_on: u32,
}

/// What acquisitions say.
#[derive(Default)]
struct Honesty {
    /// By acquisition.
    open: Recent<Statements>,
    others: Others,
    /// The last command that was sent.
    last_op: u32,
    /// A fault, or a command that does not ask whose key it is, may have taken a key away.
    taken: bool,
    judged: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    head.honest.then(|| Box::new(Honesty::default()) as Box<dyn Checker>)
}

impl Checker for Honesty {
    fn see(&mut self, seen: &EventView<'_>) {
        let EventView { event, head, texts, .. } = *seen;
        if let Some(command) = seen.command {
            return match event.what {
                What::Command { .. } => self.sends(seen, command),
                what => self.ends(event, command, what, head.stamped),
            };
        }
        if let What::Fault { fault, .. } = event.what {
            self.taken |= fault.loses_keys() || matches!(fault, Fault::Drift | Fault::ClockStep);
            return;
        }
        let acquisition = event.acquisition;
        match event.what {
            What::Acquire => {
                let it = Statements { client: event.client, ..Statements::default() };
                self.open.insert(acquisition, it);
            }
            What::Command { node, name, .. } => {
                let asks =
                    !seen.sends_on_key && !head.is_resource(node) && !asks_nothing(texts.get(name));
                self.with(acquisition, |it| {
                    it.looked = true;
                    it.asked_elsewhere |= asks;
                    it.read |= seen.sends_on_key;
                });
            }
            What::Phase(Phase::Wait) => self.with(acquisition, |it| it.places += 1),
            What::Release => self.with(acquisition, |it| it.release.begun_ns = Some(event.at_ns)),
            What::ValidUntil(until_ns) => self.with(acquisition, |it| it.until_ns = until_ns),
            What::NotAcquired(why) => {
                self.told_held(acquisition, texts.get(why));
                self.refused(acquisition);
            }
            What::Released(told) => {
                // In real time a key may go in ways that no history tells of.
                let surely = head.exact && !self.taken;
                let now_ns = event.at_ns.saturating_add(head.margin_ns);
                self.released(event, surely.then_some(now_ns), texts.get(told), head.margin_ns);
            }
            // In real time a call may be given up at the moment at which its answer is written down.
            What::AcquireUnknown(_) | What::ReleaseUnknown(_) if !head.exact => {
                self.open.remove(acquisition);
            }
            What::AcquireUnknown(why) => self.unknown(acquisition, texts.get(why), |it| {
                // What becomes of requests elsewhere is not seen here.
                let perhaps = it.scripts > 0 || it.asked_elsewhere;
                let no = it.asked_ns.is_some() && it.unanswered == 0 && it.made == 0 && !perhaps;
                no.then_some(
                    "it has the lock, though every request of it had been answered with no",
                )
            }),
            What::ReleaseUnknown(why) => self.unknown(acquisition, texts.get(why), |it| {
                let known = it.release.all_answered() && it.unknown == 0 && !it.several;
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
    fn with(&mut self, acquisition: u32, change: impl FnOnce(&mut Statements)) {
        if let Some(it) = self.open.get_mut(acquisition) {
            change(it);
        }
    }

    fn sends(&mut self, seen: &EventView<'_>, command: &CommandOp) {
        self.last_op = seen.event.op;
        let at_ns = command.invoke_ns;
        let by_command = || !seen.texts.get(command.name).starts_with("EVAL");
        let margin_ns = seen.head.margin_ns;
        let on_several = seen.head.nodes.is_some_and(|nodes| nodes > 1);
        self.others.sends(seen.event.op, command);
        let plain = !command.intent.compares;
        self.taken |= plain && (frees(command.intent.touch) || overwrites(command.intent.touch));
        self.with(command.acquisition, |it| {
            if let Touch::Extend(ttl_ns) = command.intent.touch {
                let until_ns = command.invoke_ns.saturating_add(ttl_ns);
                it.lives_until_ns = it.lives_until_ns.min(until_ns);
                it.next_until_ns = it.next_until_ns.min(until_ns);
            }
            if makes(command.intent.touch) {
                // What is under way may still do something to the key that this one makes.
                if it.unknown == 0 && it.extending == 0 {
                    it.next_until_ns = u64::MAX;
                }
                it.unknown += 1;
                it.asked_ns.get_or_insert(at_ns);
                (it.freed_in_time, it.found) = (false, false);
            }
            let is_script = is_script(command.intent);
            it.scripts += u32::from(is_script);
            if is_script || makes(command.intent.touch) {
                let first = *it.node.get_or_insert(command.node);
                it.several |= on_several || first != command.node;
            }
            it.sent += 1;
            it.unanswered += 1;
            it.extending += u32::from(extends(command.intent.touch));
            if frees(command.intent.touch) {
                let gone = it.unknown == 0
                    && it.extending == 0
                    && at_ns > it.gone_ns.saturating_add(margin_ns);
                it.freed_in_time |= !gone;
                let releasing = it.release.begun_ns.is_some();
                it.release.mixed |= !releasing;
                it.release.earlier += u32::from(!releasing);
                if releasing {
                    it.release.first_ns.get_or_insert(at_ns);
                    it.release.sent += 1;
                    it.release.by_command |= by_command();
                }
            }
            it.freeing += u32::from(frees(command.intent.touch));
        });
    }

    fn ends(&mut self, event: &Event, command: &CommandOp, what: What, stamped: bool) {
        let (touch, answer) = match what {
            What::Answered { touch, answer, .. } => (touch, answer),
            What::Refused(_) => (Touch::None, Answer::Nil),
            // It stays unknown what it has done.
            _ => return,
        };
        let (intent, last_op) = (command.intent, self.last_op);
        self.others.ends(event, command, touch);
        let Some(it) = self.open.get_mut(command.acquisition) else { return };
        it.unknown -= u32::from(makes(intent.touch));
        it.scripts -= u32::from(is_script(intent) && touch != Touch::Unknown);
        if makes(touch) && (makes(intent.touch) || is_script(intent)) {
            it.made += 1;
            it.granted.insert(command.node);
        }
        if (makes(intent.touch) || is_script(intent)) && matches!(what, What::Answered { .. }) {
            it.got_last = Some(makes(touch));
        }
        it.unanswered -= 1;
        it.extending -= u32::from(extends(intent.touch));
        match touch {
            // A key with a stamp stays, and one without a TTL as well.
            Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns) => {
                let ttl_ns = ttl_ns.filter(|_| !stamped).unwrap_or(u64::MAX);
                it.gone_ns = it.gone_ns.max(event.at_ns.saturating_add(ttl_ns));
                it.made_by = last_op;
            }
            Touch::Extend(ttl_ns) => {
                // What was sent after such a key had been made has surely given it a TTL.
                let has_none = it.gone_ns == u64::MAX && event.op > it.made_by;
                let before_ns = if has_none { 0 } else { it.gone_ns };
                it.gone_ns = before_ns.max(event.at_ns.saturating_add(ttl_ns));
            }
            _ => {}
        }
        if makes(touch) {
            it.granted_ns.get_or_insert(event.at_ns);
        }
        let deleted = intent.compares && touch == Touch::Delete;
        if frees(intent.touch) && it.release.first_ns.is_some_and(|it| it <= command.invoke_ns) {
            it.deleted |= deleted && it.release.surely_sent(command.invoke_ns);
            // What was refused did nothing: it is as good as not sent.
            match what {
                What::Answered { .. } => {
                    it.release.answered += 1;
                    it.release.nodes.insert(command.node);
                }
                _ => it.release.sent = it.release.sent.saturating_sub(1),
            }
        } else if frees(intent.touch) && matches!(what, What::Answered { .. }) {
            it.release.earlier -= 1;
        }
        match touch {
            Touch::Create(ttl_ns) => {
                let until_ns = ttl_ns.map_or(u64::MAX, |it| command.invoke_ns.saturating_add(it));
                it.lives_until_ns = it.next_until_ns.min(until_ns);
            }
            // It may have met any key.
            Touch::Overwrite(_) => it.lives_until_ns = 0,
            _ => {}
        }
        // Who hands on says 1 or 2 where it had the lock or a place in line, and otherwise has nothing to give.
        let hands_on = intent.compares && intent.touch == Touch::Unknown;
        let handed_on = hands_on && matches!(answer, Answer::Int(1 | 2));
        let had_nothing = hands_on && matches!(answer, Answer::Int(..=0));
        if frees(intent.touch) {
            it.freeing -= 1;
            it.freed |= frees(touch) && !had_nothing;
            it.found |= handed_on || intent.compares && frees(touch) && touch != Touch::Unknown;
        }
        if it.refused.is_none_or(|last_op| event.op <= last_op) {
            return;
        }
        it.handed_on += u32::from(handed_on);
        if deleted || it.handed_on > it.places {
            self.had_it(command.acquisition);
        }
    }

    /// It was told that something is not known: `but` says what is, against that.
    fn unknown(
        &mut self,
        acquisition: u32,
        why: &str,
        but: impl FnOnce(&Statements) -> Option<&'static str>,
    ) {
        let Some(it) = self.open.remove(acquisition) else { return };
        // Its caller did not wait for what it would have been told.
        let stopped = why.starts_with(words::DROPPED);
        let Some(but) = but(&it).filter(|_| !stopped) else { return };
        let client = it.client;
        let summary = format!("client {client} was told that nobody knows whether {but}");
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// Whether another acquisition surely had the lock all the while it was being released.
    fn another_had_it(&self, it: &Statements, now_ns: u64) -> bool {
        let Some(first_ns) = it
            .release
            .first_ns
            .filter(|_| it.has_one_key() && it.release.all_answered() && !it.release.by_command)
        else {
            return false;
        };
        self.open.iter().any(|(number, other)| {
            other.has_one_key()
                && other.node == it.node
                && other.granted_ns.is_some_and(|granted_ns| granted_ns < first_ns)
                && other.freeing == 0
                && !other.freed
                && now_ns < other.lives_until_ns
                && !self.others.ended(number, other, now_ns)
        })
    }

    /// It has not got the lock, and was told this.
    fn told_held(&mut self, acquisition: u32, told: &str) {
        let Some(it) = self.open.get(acquisition).filter(|_| told.ends_with(HELD)) else { return };
        let but = match it.got_last {
            None if it.sent == 0 && !it.looked => "it had asked no server",
            None if it.asked_ns.is_some() && !it.asked_elsewhere && !it.read => {
                "no server had said so"
            }
            Some(true) if !it.several => "its last request had been granted",
            _ => return,
        };
        let client = it.client;
        let summary = format!("client {client} was told that another held the lock, though {but}");
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// It has said that it surely has not got the lock.
    fn refused(&mut self, acquisition: u32) {
        self.judged = true;
        let last_op = self.last_op;
        let Some(it) = self.open.get_mut(acquisition) else { return };
        // What was granted, and not relied on, is given back; of several servers a few may grant it.
        if it.unknown == 0 || it.made > 0 || it.several {
            self.open.remove(acquisition);
        } else {
            it.refused = Some(last_op);
        }
    }

    /// It has given back what it had said that it surely had not.
    fn had_it(&mut self, acquisition: u32) {
        let Some(Statements { client, .. }) = self.open.remove(acquisition) else { return };
        let summary = format!(
            "client {client} was told that it surely had not got the lock, though a request of it was still \
             under way: later its key, or its place in line, was given back"
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// It was told this of its release; `now_ns` where a key that lives longer can surely not have gone by itself.
    fn released(&mut self, event: &Event, now_ns: Option<u64>, told: &str, margin_ns: u64) {
        let acquisition = event.acquisition;
        let Some(it) = self.open.remove(acquisition) else { return };
        self.judged = true;
        let client = it.client;
        let none_freed = it.freeing == 0 && !it.freed;
        let but = match told {
            RELEASED if none_freed => "no command of it had ended its hold",
            RELEASED
                if now_ns.is_some()
                    && it.was_gone()
                    && !self.others.prolonged(acquisition, &it, margin_ns) =>
            {
                "its key had gone by itself before anything was sent to delete it"
            }
            PROTECTED if none_freed && it.had_nothing_left() => {
                "nothing of its own was left for its release to end"
            }
            TAKEN
                if now_ns.is_some() && it.has_one_key() && !self.others.made(acquisition, &it) =>
            {
                "no other can have taken it"
            }
            EXPIRED if now_ns.is_some_and(|now_ns| self.another_had_it(&it, now_ns)) => {
                "another had surely taken it by then"
            }
            _ if NOT_ITS_OWN.contains(&told) && it.has_deleted_its_own() => {
                "its release had deleted the key that it had made"
            }
            _ if NOT_ITS_OWN.contains(&told)
                && it.has_one_key()
                && !it.release.mixed
                && now_ns.is_some_and(|now_ns| {
                    now_ns < it.lives_until_ns && !self.others.ended(acquisition, &it, now_ns)
                }) =>
            {
                "nothing but its release could have ended its hold by then"
            }
            _ => return,
        };
        let summary = format!("client {client} was told \"{told}\" of its release, though {but}");
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }
}

impl Statements {
    /// Whether what its release deleted was surely the key of its hold.
    fn has_deleted_its_own(&self) -> bool {
        self.deleted && self.release.earlier == 0 && self.has_one_key()
    }

    /// Whether its release has surely found nothing of its own: a server that had refused it may still have the key.
    fn had_nothing_left(&self) -> bool {
        let everywhere = self.unknown == 0 && self.granted.is_within(self.release.nodes);
        self.release.all_answered() && (everywhere || !self.several)
    }

    /// Whether its key had surely gone before it sent anything to delete it.
    fn was_gone(&self) -> bool {
        let by_its_own_requests = self.made > 0 && self.until_ns <= self.gone_ns;
        let known = self.unknown == 0 && self.extending == 0;
        by_its_own_requests && known && !self.freed_in_time && !self.found
    }

    /// Whether it has surely made the one key of its hold.
    fn has_one_key(&self) -> bool {
        self.made == 1 && self.unknown == 0 && self.scripts == 0 && !self.several
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

/// Whether a command of this name only reads, or has to do with messages, replicas or the connection.
fn asks_nothing(name: &str) -> bool {
    let reads =
        matches!(name, "GET" | "EXISTS" | "TYPE" | "TTL" | "PTTL" | "TIME" | "INFO" | "ROLE");
    let waits = matches!(name, "SUBSCRIBE" | "SSUBSCRIBE" | "PSUBSCRIBE" | "PUBLISH" | "WAIT");
    reads || waits || matches!(name, "PING" | "HELLO" | "CLIENT" | "CONFIG" | "SCRIPT")
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
