//! What is going to happen, in order of time.
//!
//! Invariant: what was asked for first happens first where the times are equal. Deliberately
//! absent: taking something back; whoever is told of an event that concerns nobody any more skips it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that is going to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A timer rings.
    Timer(u32),
    /// A request reaches its server.
    Request(u32),
    /// A reply reaches its client.
    Reply(u32),
    /// A connection attempt is answered.
    Connected(u32),
    /// The nth thing the nemesis has planned.
    Nemesis(u32),
    /// Something between servers, or in one, is due.
    Chore(u32),
    /// A time-out of commands that a server keeps waiting may be over.
    Unblock(u32),
}

/// The bits of a kind of event, below them its place.
const PLACE_BITS: u32 = 28;
const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;

/// The queue. An entry is one number, time above the order of asking above what it is: comparing two
/// is most of what the queue does.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<u128>>,
    asked: u32,
}

impl Queue {
    /// Plans an event, and returns its number, which no other event has.
    ///
    /// # Panics
    /// Where more things are under way at once than fit, which is far beyond any memory.
    pub(super) fn push(&mut self, at_ns: u64, event: Event) -> u32 {
        self.asked += 1;
        let (kind, place) = match event {
            Event::Timer(place) => (0, place),
            Event::Request(place) => (1, place),
            Event::Reply(place) => (2, place),
            Event::Connected(place) => (3, place),
            Event::Nemesis(place) => (4, place),
            Event::Unblock(place) => (5, place),
            Event::Chore(place) => (6, place),
        };
        assert!(place <= PLACE_MASK, "fewer than 2^28 of a kind at once");
        let what = (kind << PLACE_BITS) | place;
        let entry = u128::from(at_ns) << 64 | u128::from(self.asked) << 32 | u128::from(what);
        self.heap.push(Reverse(entry));
        self.asked
    }

    /// The next event, its time and its number.
    #[expect(clippy::cast_possible_truncation, reason = "the parts of an entry are taken apart")]
    pub(super) fn pop(&mut self) -> Option<(u64, u32, Event)> {
        let Reverse(entry) = self.heap.pop()?;
        let (at_ns, asked, what) = ((entry >> 64) as u64, (entry >> 32) as u32, entry as u32);
        let place = what & PLACE_MASK;
        let event = match what >> PLACE_BITS {
            0 => Event::Timer(place),
            1 => Event::Request(place),
            2 => Event::Reply(place),
            3 => Event::Connected(place),
            4 => Event::Nemesis(place),
            5 => Event::Unblock(place),
            _ => Event::Chore(place),
        };
        Some((at_ns, asked, event))
    }

    /// When the next event is due, whether or not it still concerns anybody.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| u64::try_from(entry >> 64).unwrap_or(u64::MAX))
    }

    /// Forgets everything, keeping the memory.
    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.asked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_asking() {
        let mut queue = Queue::default();
        let late = queue.push(9, Event::Timer(1));
        let first = queue.push(5, Event::Reply(2));
        let second = queue.push(5, Event::Request(3));
        assert_eq!(queue.next_ns(), Some(5));
        assert_eq!(queue.pop(), Some((5, first, Event::Reply(2))));
        assert_eq!(queue.pop(), Some((5, second, Event::Request(3))));
        assert_eq!(queue.pop(), Some((9, late, Event::Timer(1))));
        assert_eq!(queue.pop(), None);
    }
}
