//! What a history is counted by: acquisitions, prizes, commands, and how long it lasted.
//!
//! Invariant: events are seen once, in order, and what is kept does not grow with their number.
//! Deliberately absent: how long operations took, which reports measure.

use std::collections::BTreeMap;

use crate::history::{Event, Head, Texts, What};
use crate::result::{Stats, Tally};

/// More names of commands are not told apart: Redis has not half as many.
const NAMES_MOST: usize = 1_000;
const OTHERS: &str = "others";

/// The counts of a history, which is shown to them event by event.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    first_ns: Option<u64>,
    last_ns: u64,
    acquisitions: Tally,
    taken: u32,
    commands: BTreeMap<String, u64>,
}

impl Counts {
    /// Counts the next event.
    pub fn see(&mut self, event: &Event, texts: &Texts) {
        self.first_ns.get_or_insert(event.at_ns);
        self.last_ns = event.at_ns;
        match event.what {
            What::Acquire => self.acquisitions.invoked += 1,
            What::Acquired => self.acquisitions.ok += 1,
            What::NotAcquired(_) => self.acquisitions.failed += 1,
            What::Taken { .. } => self.taken += 1,
            What::Command { name, .. } => self.sent(texts.get(name)),
            _ => {}
        }
    }

    fn sent(&mut self, name: &str) {
        if let Some(count) = self.commands.get_mut(name) {
            *count += 1;
        } else {
            let name = if self.commands.len() < NAMES_MOST { name } else { OTHERS };
            *self.commands.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// The figures of a result, as far as they follow from a history with this head.
    pub fn stats(self, head: &Head) -> Stats {
        let Tally { invoked, ok, failed, .. } = self.acquisitions;
        Stats {
            clients: head.clients,
            duration_ns: self.first_ns.map_or(0, |first_ns| self.last_ns.saturating_sub(first_ns)),
            // Also what has no end.
            acquisitions: Tally {
                unknown: invoked.saturating_sub(ok + failed),
                ..self.acquisitions
            },
            winners: head.prizes.map(|_| self.taken),
            commands: self.commands,
            ..Stats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Intent, Touch};

    #[test]
    fn every_event_counts_once() {
        let (mut texts, mut counts) = (Texts::default(), Counts::default());
        let (get, set, why) = (texts.intern("GET"), texts.intern("SET"), texts.intern("why"));
        let intent = Intent { touch: Touch::None, compares: false };
        let command = |name| What::Command { node: 0, name, key: name, intent };
        let all = [
            What::Acquire,
            command(get),
            What::Acquire,
            What::Acquired,
            What::Acquire,
            What::NotAcquired(why),
            command(set),
            What::Acquire,
            What::AcquireUnknown(why),
            command(get),
            What::Taken { prize: 1, left: 0 },
        ];
        for (at_ns, what) in (5..).zip(all) {
            counts.see(&Event { at_ns, client: 1, acquisition: 1, op: 1, what }, &texts);
        }
        let head = Head { clients: 3, prizes: Some(1), ..Head::default() };
        let stats = counts.clone().stats(&head);
        let tally = Tally { invoked: 4, ok: 1, failed: 1, unknown: 2 };
        assert_eq!(stats.acquisitions, tally);
        assert_eq!((stats.clients, stats.duration_ns, stats.winners), (3, 10, Some(1)));
        let commands = [("GET", 2), ("SET", 1)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(stats.commands, BTreeMap::from(commands));
        assert_eq!(counts.stats(&Head::default()).winners, None);
        assert_eq!(Counts::default().stats(&Head::default()), Stats::default());
    }

    #[test]
    fn names_without_end_are_counted_together() {
        let (mut texts, mut counts) = (Texts::default(), Counts::default());
        let intent = Intent { touch: Touch::None, compares: false };
        for number in 0..NAMES_MOST + 5 {
            let name = texts.intern(&number.to_string());
            let what = What::Command { node: 0, name, key: name, intent };
            counts.see(&Event { at_ns: 1, client: 1, acquisition: 1, op: 1, what }, &texts);
        }
        let commands = counts.stats(&Head::default()).commands;
        assert_eq!((commands.len(), commands[OTHERS]), (NAMES_MOST + 1, 5));
    }
}
