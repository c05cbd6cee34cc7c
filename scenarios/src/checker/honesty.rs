//! Honesty: what a lock says of an acquisition or a release is true.
//!
//! Invariant: a client is blamed only for what is false in every reading. *Released* is false if no command of the
//! acquisition may have ended its hold; *already expired* and *taken by another* are false if the release itself
//! has deleted the one key that the acquisition had made, and where that key could not have gone by then in any other
//! way. That the lock was surely not taken is false if the
//! acquisition gives back, with a command that was sent only after it had said so, more than it had been told of.
//! Deliberately absent: what the lock could have known; a lucky guess is no lie.

use std::collections::BTreeMap;

use history::fault::Fault;
use history::verdict::{Finding, Level, Witness};
use history::{Answer, CommandOp, Head, Touch, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd, frees, verdict};
use super::story;

pub(super) const NAME: &str = "honesty";

/// What is said of a release: see `docs/history.md`.
const RELEASED: &str = "released";
const NOT_ITS_OWN: [&str; 2] = ["already expired", "taken by another"];

/// What an acquisition has done to the lock's key so far.
#[derive(Clone, Copy, Debug, Default)]
struct Statements {
    client: u32,
    /// The server that it asked; none before it asked any.
    node: Option<u16>,
    /// It asked several servers, so one key says nothing of the lock.
    several: bool,
    /// Requests to make the key that have no answer, and those that were answered with yes.
    unknown: u32,
    made: u32,
    /// Places in line that it was told of.
    places: u32,
    /// Commands that may end its hold and have no answer; and whether one surely or perhaps has ended it.
    freeing: u32,
    freed: bool,
    releasing: bool,
    /// Its release has deleted a key that held its own value.
    deleted: bool,
    /// Its key lives at least until then, by a clock that runs as fast as the one of events, unless somebody deletes it.
    lives_until_ns: u64,
    /// It has said that it surely has not got the lock; the last command that anybody had sent by then.
    refused: Option<u32>,
    /// What it has handed on since.
    handed_on: u32,
}

/// What acquisitions say.
#[derive(Default)]
struct Honesty {
    /// By acquisition.
    open: BTreeMap<u32, Statements>,
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
                What::Command { .. } => self.sends(event.op, &command),
                what => self.ends(event.op, &command, what),
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
            What::Phase(Phase::Wait) => self.with(acquisition, |it| it.places += 1),
            What::Release => self.with(acquisition, |it| it.releasing = true),
            What::NotAcquired(_) => self.refused(acquisition),
            What::Released(told) => {
                // In real time a key may go in ways that no history tells of.
                let surely = head.exact && !self.taken;
                let now_ns = event.at_ns.saturating_add(head.margin_ns);
                self.released(acquisition, surely.then_some(now_ns), texts.get(told));
            }
            What::AcquireUnknown(_) | What::ReleaseUnknown(_) => {
                self.open.remove(&acquisition);
            }
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
        if let Some(it) = self.open.get_mut(&acquisition) {
            change(it);
        }
    }

    fn sends(&mut self, op: u32, command: &CommandOp) {
        self.last_op = op;
        let plain = !command.intent.compares;
        self.taken |= plain && (frees(command.intent.touch) || overwrites(command.intent.touch));
        self.with(command.acquisition, |it| {
            if let Touch::Extend(ttl_ns) = command.intent.touch {
                let until_ns = command.invoke_ns.saturating_add(ttl_ns);
                it.lives_until_ns = it.lives_until_ns.min(until_ns);
            }
            if makes(command.intent.touch) {
                it.unknown += 1;
                let first = *it.node.get_or_insert(command.node);
                it.several |= first != command.node;
            }
            it.freeing += u32::from(frees(command.intent.touch));
        });
    }

    fn ends(&mut self, op: u32, command: &CommandOp, what: What) {
        let (touch, answer) = match what {
            What::Answered { touch, answer, .. } => (touch, answer),
            What::Refused(_) => (Touch::None, Answer::Nil),
            // It stays unknown what it has done.
            _ => return,
        };
        let intent = command.intent;
        let Some(it) = self.open.get_mut(&command.acquisition) else { return };
        if makes(intent.touch) {
            it.unknown -= 1;
            it.made += u32::from(makes(touch));
        }
        if let Touch::Create(ttl_ns) = touch {
            let until_ns = ttl_ns.map_or(u64::MAX, |it| command.invoke_ns.saturating_add(it));
            it.lives_until_ns = until_ns;
        }
        // Who hands on says 1 or 2 where it had the lock or a place in line, and otherwise has nothing to give.
        let hands_on = intent.compares && intent.touch == Touch::Unknown;
        let handed_on = hands_on && matches!(answer, Answer::Int(1 | 2));
        let had_nothing = hands_on && matches!(answer, Answer::Int(..=0));
        if frees(intent.touch) {
            it.freeing -= 1;
            it.freed |= frees(touch) && !had_nothing;
        }
        let deleted = intent.compares && touch == Touch::Delete;
        it.deleted |= it.releasing && deleted;
        if it.refused.is_none_or(|last_op| op <= last_op) {
            return;
        }
        it.handed_on += u32::from(handed_on);
        if deleted || it.handed_on > it.places {
            self.had_it(command.acquisition);
        }
    }

    /// It has said that it surely has not got the lock.
    fn refused(&mut self, acquisition: u32) {
        self.judged = true;
        let last_op = self.last_op;
        let Some(it) = self.open.get_mut(&acquisition) else { return };
        // What was granted, and not relied on, is given back; of several servers a few may grant it.
        if it.unknown == 0 || it.made > 0 || it.several {
            self.open.remove(&acquisition);
        } else {
            it.refused = Some(last_op);
        }
    }

    /// It has given back what it had said that it surely had not.
    fn had_it(&mut self, acquisition: u32) {
        let Some(Statements { client, .. }) = self.open.remove(&acquisition) else { return };
        let summary = format!(
            "client {client} was told that it surely had not got the lock, though a request of it was still \
             under way: later its key, or its place in line, was given back"
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// It was told this of its release; `now_ns` where a key that lives longer can surely not have gone by itself.
    fn released(&mut self, acquisition: u32, now_ns: Option<u64>, told: &str) {
        let Some(it) = self.open.remove(&acquisition) else { return };
        self.judged = true;
        let client = it.client;
        let but = match told {
            RELEASED if it.freeing == 0 && !it.freed => "no command of it had ended its hold",
            _ if NOT_ITS_OWN.contains(&told) && it.has_deleted_its_own() => {
                "its release had deleted the key that it had made"
            }
            _ if NOT_ITS_OWN.contains(&told)
                && it.has_one_key()
                && now_ns.is_some_and(|now_ns| now_ns < it.lives_until_ns) =>
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
        self.deleted && self.has_one_key()
    }

    /// Whether it has surely made the one key of its hold.
    fn has_one_key(&self) -> bool {
        self.made == 1 && self.unknown == 0 && !self.several
    }
}

/// Whether this makes the key.
fn makes(touch: Touch) -> bool {
    matches!(touch, Touch::Create(_) | Touch::Overwrite(_))
}

/// Whether this puts another value in the place of the key's, or may.
fn overwrites(touch: Touch) -> bool {
    matches!(touch, Touch::Overwrite(_))
}

#[cfg(test)]
mod tests;
