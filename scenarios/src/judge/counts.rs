//! What a history is counted by: acquisitions, prizes, commands, and how long it lasted.
//!
//! Invariant: events are seen once, in order, and what is kept does not grow with their number.

use std::collections::BTreeMap;

use history::{Event, Head, Texts, What};

use super::bypass::Bypass;
use crate::result::{Stats, Tally};
use checkers::efficiency::Efficiency;

/// More names of commands are not told apart: Redis has not half as many.
const NAMES_MOST: usize = 1_000;
const OTHERS: &str = "others";

/// The counts of a history, which is shown to them event by event.
#[derive(Clone, Debug)]
pub struct HistoryCounts<'a> {
    head: &'a Head,
    first_ns: Option<u64>,
    last_ns: u64,
    acquisitions: Tally,
    taken: u32,
    commands: BTreeMap<String, u64>,
    cost: Efficiency,
    bypass: Bypass,
}

impl<'a> HistoryCounts<'a> {
    /// No event yet, of a history that begins with this head.
    pub fn new(head: &'a Head) -> Self {
        let (acquisitions, commands) = (Tally::default(), BTreeMap::new());
        let (cost, bypass) = (Efficiency::default(), Bypass::default());
        Self { head, first_ns: None, last_ns: 0, acquisitions, taken: 0, commands, cost, bypass }
    }

    /// Counts the next event.
    pub fn see(&mut self, event: &Event, texts: &Texts) {
        self.first_ns.get_or_insert(event.at_ns);
        self.last_ns = event.at_ns;
        self.cost.see(event, self.head, texts);
        self.bypass.see(event);
        match event.what {
            What::Acquire => self.acquisitions.invoked += 1,
            What::Acquired => self.acquisitions.ok += 1,
            What::NotAcquired(_) => self.acquisitions.failed += 1,
            What::Taken { .. } => self.taken += 1,
            // What locking costs, and what the lock's own server counts.
            What::Command { node, name, .. } if !self.head.is_resource(node) => {
                self.sent(texts.get(name));
            }
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

    /// The figures of a result, as far as they follow from the history.
    pub fn stats(self) -> Stats {
        let Tally { invoked, ok, failed, .. } = self.acquisitions;
        Stats {
            clients: self.head.clients,
            duration_ns: self.first_ns.map_or(0, |first_ns| self.last_ns.saturating_sub(first_ns)),
            // Also what has no end.
            acquisitions: Tally {
                unknown: invoked.saturating_sub(ok + failed),
                ..self.acquisitions
            },
            winners: self.head.prizes.map(|_| self.taken),
            commands_per_acquisition: (self.cost.granted > 0)
                .then(|| self.cost.commands as f64 / self.cost.granted as f64),
            bypass: self.bypass.figures(),
            commands: self.commands,
            ..Stats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::BypassFigures;
    use history::{Intent, Text, Touch};

    const NODE: u16 = 3;

    fn command(name: Text, node: u16) -> What {
        let intent = Intent { touch: Touch::None, compares: false };
        What::Command { node, name, key: name, intent }
    }

    #[test]
    fn every_event_counts_once() {
        let head = Head { clients: 3, prizes: Some(1), resource: Some(NODE), ..Head::default() };
        let (mut texts, mut counts) = (Texts::default(), HistoryCounts::new(&head));
        let (get, set, why) = (texts.intern("GET"), texts.intern("SET"), texts.intern("why"));
        let all = [
            What::Acquire,
            command(get, 0),
            What::Acquire,
            What::Acquired,
            What::Acquire,
            What::NotAcquired(why),
            command(set, 1),
            command(set, NODE),
            What::Acquire,
            What::AcquireUnknown(why),
            command(get, 0),
            What::Taken { prize: 1, left: 0 },
        ];
        for (at_ns, what) in (5..).zip(all) {
            counts.see(&Event { at_ns, client: 1, acquisition: 1, op: 1, what }, &texts);
        }
        let stats = counts.stats();
        let tally = Tally { invoked: 4, ok: 1, failed: 1, unknown: 2 };
        assert_eq!(stats.acquisitions, tally);
        assert_eq!(stats.commands_per_acquisition, Some(3.0));
        assert_eq!(stats.bypass, Some(BypassFigures { p99: 0, max: 0 }));
        assert_eq!((stats.clients, stats.duration_ns, stats.winners), (3, 11, Some(1)));
        let commands = [("GET", 2), ("SET", 1)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(stats.commands, BTreeMap::from(commands));
        assert_eq!(HistoryCounts::new(&Head::default()).stats(), Stats::default());
    }

    #[test]
    fn names_without_end_are_counted_together() {
        let head = Head::default();
        let (mut texts, mut counts) = (Texts::default(), HistoryCounts::new(&head));
        for number in 0..NAMES_MOST + 5 {
            let what = command(texts.intern(&number.to_string()), 0);
            counts.see(&Event { at_ns: 1, client: 1, acquisition: 1, op: 1, what }, &texts);
        }
        let commands = counts.stats().commands;
        assert_eq!((commands.len(), commands[OTHERS]), (NAMES_MOST + 1, 5));
    }
}
