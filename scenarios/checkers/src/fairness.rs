//! Fairness: a client in line is not overtaken by more clients than the recipe claims.
//!
//! Invariant: an acquisition is in line from the note that it waits, which a fair recipe writes once its place is
//! certain, until it asks anew. It is overtaken by each acquisition that sent its first command after that note and
//! got the lock first. Two kinds of asking anew do not end its time in line: giving up a place that it certainly had;
//! and being put out of the line, though nothing has struck anybody and all answers came soon, so that no client could
//! be taken for dead. A client that a fault has struck is excused, unless only messages were lost, late or refused: then
//! it asks again, and keeps its place. A fault without a particular victim excuses all clients that wait or come before
//! it is over.

use std::collections::BTreeMap;

use history::fault::Fault;
use history::verdict::{Finding, Level, Witness};
use history::{Answer, CommandOp, Event, Head, Touch, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd, keeps_from_sending, verdict};
use super::story;

/// What a lock that is handed over answers a client that leaves the line, and had a place there while another had the
/// lock.
const STOOD_IN_LINE: i64 = 2;

/// An answer that takes a larger part of the TTL is not soon.
const SOON_PART: u64 = 8;

/// An acquisition that wants the lock.
#[derive(Clone, Copy, Debug, Default)]
struct QueuedAcquire {
    client: u32,
    /// The place of its first command among all events.
    came: Option<u64>,
    /// The place of the moment from which it is surely in line.
    in_line: Option<u64>,
    /// A fault may have cost it its place.
    excused: bool,
    /// Requests that may have lined it up, and have no answer.
    unknown: u32,
    /// Whether it has one place in line, and nothing that it had asked for before can come to another.
    placed: bool,
    /// The command by which it gives up that place, and whether it was answered that it had one.
    leaving: Option<u32>,
    left: bool,
    /// How many have overtaken it, and the first of them: the acquisition, and the client.
    overtaken: u32,
    by: (u32, u32),
}

impl QueuedAcquire {
    /// It has no place any more: it may have lost that, unless it has left by itself, or nobody loses any.
    fn asks_anew(&mut self, is_calm: bool) {
        if !self.left && !is_calm {
            (self.in_line, self.overtaken) = (None, 0);
        }
        self.placed = false;
    }

    /// It is surely in line from now on; also before, where it has left by itself, or nobody loses a place.
    fn lines_up(&mut self, now: Option<u64>, is_calm: bool) {
        if self.in_line.is_none() || !self.left && !is_calm {
            (self.in_line, self.overtaken) = (now, 0);
        }
        (self.left, self.leaving, self.placed) = (false, None, self.unknown == 0);
    }

    /// Whether this one surely lined up only when the other was in line.
    fn came_behind(&self, other: &Self) -> bool {
        other.in_line.zip(self.came).is_some_and(|(in_line, came)| in_line < came)
    }
}

/// Who is in line.
#[derive(Default)]
struct Fairness {
    within: u32,
    /// Whether clients may leave the line in the middle of an acquisition.
    give_up: bool,
    /// Whether nobody has any cause to lose a place: nothing was struck yet, and all answers came soon.
    is_calm: bool,
    /// By acquisition.
    waiting: BTreeMap<u32, QueuedAcquire>,
    /// Clients that a fault has struck.
    struck: Vec<u32>,
    /// Until when whoever comes has been struck by what strikes nobody in particular.
    until_ns: Option<u64>,
    seen: u64,
    /// Whether anybody got the lock who could have been overtaken.
    tried: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let within = head.fair_within?;
    let give_up = head.gives_up_ns.is_some();
    // Where machines are real, a client may stand still without a fault.
    let is_calm = head.exact && !give_up;
    Some(Box::new(Fairness { within, give_up, is_calm, ..Fairness::default() }))
}

impl Checker for Fairness {
    fn see(&mut self, seen: &EventView<'_>) {
        let EventView { event, head, .. } = *seen;
        self.seen += 1;
        let acquisition = event.acquisition;
        if let Some(command) = seen.command {
            let took_ns = event.at_ns.saturating_sub(command.invoke_ns);
            self.is_calm &= took_ns <= head.ttl_ns / SOON_PART;
            self.command(event, command);
        }
        let is_calm = self.is_calm;
        match event.what {
            What::Acquire => self.began(event),
            What::Command { node, .. } if !head.is_resource(node) => {
                let seen = self.seen;
                self.with(acquisition, |it| _ = it.came.get_or_insert(seen));
            }
            What::Phase(Phase::Wait) => {
                let in_line = Some(self.seen);
                self.with(acquisition, |it| it.lines_up(in_line, is_calm));
            }
            What::Phase(Phase::AcquireBeforeSend) => {
                self.with(acquisition, |it| it.asks_anew(is_calm));
            }
            What::Acquired => self.granted(acquisition),
            What::NotAcquired(_) | What::AcquireUnknown(_) => _ = self.waiting.remove(&acquisition),
            What::Fault { fault, for_ns, .. } => self.strikes(event, fault, for_ns),
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict =
            verdict(self.first.take(), self.tried, "nobody surely came behind another in line");
        vec![Finding::new("fairness", Level::Progress, verdict)]
    }
}

impl Fairness {
    fn with(&mut self, acquisition: u32, change: impl FnOnce(&mut QueuedAcquire)) {
        if let Some(it) = self.waiting.get_mut(&acquisition) {
            change(it);
        }
    }

    fn began(&mut self, event: &Event) {
        let Event { at_ns, client, acquisition, .. } = *event;
        let during = self.until_ns.is_some_and(|until_ns| at_ns <= until_ns);
        let excused = during || self.struck.contains(&client);
        let it = QueuedAcquire { client, excused, ..QueuedAcquire::default() };
        self.waiting.insert(acquisition, it);
    }

    /// A command on the lock's key is sent, or ends.
    fn command(&mut self, event: &Event, command: &CommandOp) {
        let (op, intent, leaves) = (event.op, command.intent, !self.give_up);
        let makes = matches!(intent.touch, Touch::Create(_) | Touch::Overwrite(_));
        let hands_on = intent.compares && intent.touch == Touch::Unknown;
        self.with(command.acquisition, |it| match event.what {
            What::Command { .. } => {
                it.unknown += u32::from(makes);
                if hands_on && it.placed && leaves {
                    it.leaving = Some(op);
                }
            }
            What::Answered { answer, .. } => {
                it.unknown -= u32::from(makes);
                it.left |= it.leaving == Some(op) && answer == Answer::Int(STOOD_IN_LINE);
            }
            What::Refused(_) => it.unknown -= u32::from(makes),
            _ => {}
        });
    }

    fn granted(&mut self, acquisition: u32) {
        let Some(it) = self.waiting.remove(&acquisition) else { return };
        let overtaken = |other: &&mut QueuedAcquire| !other.excused && it.came_behind(other);
        for other in self.waiting.values_mut().filter(overtaken) {
            if other.overtaken == 0 {
                other.by = (acquisition, it.client);
            }
            other.overtaken += 1;
        }
        if it.excused {
            return;
        }
        self.tried |= it.overtaken > 0 || self.waiting.values().any(|other| other.came_behind(&it));
        if it.overtaken > self.within {
            self.broken(acquisition, it);
        }
    }

    fn broken(&mut self, acquisition: u32, it: QueuedAcquire) {
        let QueuedAcquire { client, overtaken, by, .. } = it;
        let others = match overtaken - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let summary = format!(
            "client {client} was in line before client {}{others} came, and they got the lock before it: \
             the recipe claims that no more than {} do",
            by.1, self.within
        );
        story::note(&mut self.first, summary, &[(acquisition, client), by]);
    }

    fn strikes(&mut self, event: &Event, fault: Fault, for_ns: u64) {
        let client = event.client;
        let all = client == 0;
        self.is_calm = false;
        if !keeps_from_sending(fault) {
            return;
        }
        if fault == Fault::Crash {
            self.waiting.retain(|_, it| it.client != client);
        }
        let theirs = self.waiting.values_mut().filter(|it| all || it.client == client);
        theirs.for_each(|it| it.excused = true);
        if all {
            // Clocks that drift go on drifting.
            let for_ns = if fault == Fault::Drift { u64::MAX } else { for_ns };
            let until_ns = event.at_ns.saturating_add(for_ns);
            self.until_ns = self.until_ns.max(Some(until_ns));
        } else if !self.struck.contains(&client) {
            self.struck.push(client);
        }
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
