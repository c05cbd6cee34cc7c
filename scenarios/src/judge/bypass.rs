//! How often acquisitions were bypassed by others that began later.
//!
//! Invariant: an acquisition is bypassed by each other one that began after it and was answered with yes
//! before it was. What is kept is who waits, and how many were bypassed how often.

use std::collections::BTreeMap;

use history::fault::Fault;
use history::{Event, What};

use crate::result::BypassFigures;

/// More bypasses than this are not told apart in the percentile.
const TOLD_APART: u64 = 10_000;

/// An acquisition that waits, in the order in which they began.
#[derive(Clone, Copy, Debug)]
struct BypassedAcquire {
    acquisition: u32,
    client: u32,
    bypassed: u64,
}

/// Who waits, and who was bypassed.
#[derive(Clone, Debug, Default)]
pub(super) struct Bypass {
    waiting: Vec<BypassedAcquire>,
    /// How many got the lock, by how often they had been bypassed.
    granted: BTreeMap<u64, u64>,
    max: u64,
}

impl Bypass {
    pub(super) fn see(&mut self, event: &Event) {
        let Event { client, acquisition, .. } = *event;
        match event.what {
            What::Acquire => {
                self.waiting.push(BypassedAcquire { acquisition, client, bypassed: 0 });
            }
            What::Acquired => {
                let Some(place) = self.place(acquisition) else { return };
                self.waiting[..place].iter_mut().for_each(|it| it.bypassed += 1);
                let bypassed = self.waiting.remove(place).bypassed;
                self.max = self.max.max(bypassed);
                *self.granted.entry(bypassed.min(TOLD_APART)).or_default() += 1;
            }
            What::NotAcquired(_) | What::AcquireUnknown(_) => {
                self.waiting.retain(|it| it.acquisition != acquisition);
            }
            What::Fault { fault: Fault::Crash, .. } => {
                self.waiting.retain(|it| it.client != client);
            }
            _ => {}
        }
    }

    fn place(&self, acquisition: u32) -> Option<usize> {
        self.waiting.iter().position(|it| it.acquisition == acquisition)
    }

    /// The figures of those that got the lock; none where nobody did.
    pub(super) fn figures(&self) -> Option<BypassFigures> {
        let all: u64 = self.granted.values().sum();
        let most = all - all / 100;
        let mut so_far = 0;
        let p99 = self.granted.iter().find_map(|(bypassed, count)| {
            so_far += count;
            (so_far >= most).then_some(*bypassed)
        });
        p99.map(|p99| BypassFigures { p99, max: self.max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acquisitions that begin and end in this order: a number begins, another sign ends.
    fn figures(events: &[(u32, What)]) -> Option<BypassFigures> {
        let mut bypass = Bypass::default();
        for &(acquisition, what) in events {
            let (at_ns, client, op) = (0, acquisition, 0);
            bypass.see(&Event { at_ns, client, acquisition, op, what });
        }
        bypass.figures()
    }

    const ASKS: What = What::Acquire;
    const HAS: What = What::Acquired;

    #[test]
    fn who_came_later_and_was_first_has_bypassed() {
        let bypassed = |events: &[_]| figures(events).map(|it| it.max);
        assert_eq!(bypassed(&[]), None);
        assert_eq!(bypassed(&[(1, ASKS)]), None);
        assert_eq!(bypassed(&[(1, ASKS), (2, ASKS), (1, HAS), (2, HAS)]), Some(0));
        assert_eq!(bypassed(&[(1, ASKS), (2, ASKS), (2, HAS), (1, HAS)]), Some(1));
        let three = [(1, ASKS), (2, ASKS), (3, ASKS), (3, HAS), (2, HAS), (1, HAS)];
        assert_eq!(bypassed(&three), Some(2));
        let again = [(1, ASKS), (2, ASKS), (2, HAS), (3, ASKS), (3, HAS), (1, HAS)];
        assert_eq!(bypassed(&again), Some(2));
    }

    #[test]
    fn who_does_not_get_it_is_not_counted_and_bypasses_nobody() {
        let why = history::Text::default();
        let crash = What::Fault {
            fault: Fault::Crash,
            node: None,
            for_ns: 0,
            in_hold: false,
            staged: None,
        };
        for end in [What::NotAcquired(why), What::AcquireUnknown(why), crash] {
            let later = [(1, ASKS), (2, ASKS), (2, end), (1, HAS), (2, HAS)];
            assert_eq!(figures(&later), Some(BypassFigures { p99: 0, max: 0 }));
            let earlier = [(1, ASKS), (2, ASKS), (2, HAS), (1, end), (1, HAS)];
            assert_eq!(figures(&earlier).unwrap().max, 0);
        }
    }

    #[test]
    fn ninety_nine_in_a_hundred_were_bypassed_no_more_often() {
        // So many were not bypassed, and these twice.
        let with = |zero: u32, twice: u32| {
            let mut events: Vec<_> = (0..zero).flat_map(|it| [(it, ASKS), (it, HAS)]).collect();
            let two = [(1, ASKS), (2, ASKS), (3, ASKS), (2, HAS), (3, HAS), (1, HAS)];
            (0..twice).for_each(|_| events.extend(two));
            figures(&events).unwrap()
        };
        assert_eq!(with(97, 1), BypassFigures { p99: 0, max: 2 });
        assert_eq!(with(96, 1), BypassFigures { p99: 2, max: 2 });
        let last = u32::try_from(TOLD_APART).unwrap() + 9;
        let mut events: Vec<_> = (1..=last).map(|it| (it, ASKS)).collect();
        events.extend((2..=last).map(|it| (it, HAS)));
        events.push((1, HAS));
        assert_eq!(figures(&events).unwrap().max, TOLD_APART + 8);
    }
}
