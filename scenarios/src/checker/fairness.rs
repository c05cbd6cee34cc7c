//! Fairness: whoever is in line is not overtaken by more than the recipe claims.
//!
//! Invariant: an acquisition is in line from when its lock says that it waits, which a recipe that
//! claims to be fair says once its place is sure, and again where it has to line up anew. It is
//! overtaken by each acquisition that sent its first command only then and got the lock before it. A
//! client that a fault has struck may have lost its place, now or later, and shows nothing any more;
//! what strikes nobody in particular does that to all who wait, and to all who come before it is over.

use std::collections::BTreeMap;

use history::fault::Fault;
use history::verdict::{Finding, Level, Verdict, Witness};
use history::{Event, Head, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd};
use super::story;

/// An acquisition that wants the lock.
#[derive(Clone, Copy, Debug)]
struct QueuedAcquire {
    client: u32,
    /// The place of its first command among all events.
    came: Option<u64>,
    /// The place of the moment from which it is surely in line.
    in_line: Option<u64>,
    /// A fault may have cost it its place.
    excused: bool,
    /// How many have overtaken it, and the first of them: the acquisition, and the client.
    overtaken: u32,
    by: (u32, u32),
}

impl QueuedAcquire {
    /// Whether this one surely lined up only when the other was in line.
    fn came_behind(&self, other: &Self) -> bool {
        other.in_line.zip(self.came).is_some_and(|(in_line, came)| in_line < came)
    }
}

/// Who is in line.
#[derive(Default)]
struct Fairness {
    within: u32,
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
    Some(Box::new(Fairness { within, ..Fairness::default() }))
}

impl Checker for Fairness {
    fn see(&mut self, seen: &EventView<'_>) {
        let EventView { event, head, .. } = *seen;
        self.seen += 1;
        let acquisition = event.acquisition;
        match event.what {
            What::Acquire => self.began(event),
            What::Command { node, .. } if !head.is_resource(node) => {
                let seen = self.seen;
                self.with(acquisition, |it| _ = it.came.get_or_insert(seen));
            }
            What::Phase(Phase::Wait) => {
                let in_line = Some(self.seen);
                self.with(acquisition, |it| *it = QueuedAcquire { in_line, overtaken: 0, ..*it });
            }
            What::Acquired => self.granted(acquisition),
            What::NotAcquired(_) | What::AcquireUnknown(_) => _ = self.waiting.remove(&acquisition),
            What::Fault { fault, for_ns, .. } => self.strikes(event, fault, for_ns),
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict = match self.first.take() {
            Some(witness) => Verdict::Violated(witness),
            None if self.tried => Verdict::Held,
            None => Verdict::NotApplicable("nobody surely came behind another in line".to_owned()),
        };
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
        let (came, in_line, overtaken, by) = (None, None, 0, (0, 0));
        let it = QueuedAcquire { client, came, in_line, excused, overtaken, by };
        self.waiting.insert(acquisition, it);
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
mod tests;
