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
    /// A time-out of commands that a server keeps waiting may be over.
    Unblock(u32),
}

/// The order: time, then the order of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at_ns: u64,
    asked: u32,
    kind: u8,
    place: u32,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    asked: u32,
}

impl Queue {
    /// Plans an event, and returns its number, which no other event has.
    pub(super) fn push(&mut self, at_ns: u64, event: Event) -> u32 {
        self.asked += 1;
        let (kind, place) = match event {
            Event::Timer(place) => (0, place),
            Event::Request(place) => (1, place),
            Event::Reply(place) => (2, place),
            Event::Connected(place) => (3, place),
            Event::Nemesis(place) => (4, place),
            Event::Unblock(place) => (5, place),
        };
        self.heap.push(Reverse(Entry { at_ns, asked: self.asked, kind, place }));
        self.asked
    }

    /// The next event, its time and its number.
    pub(super) fn pop(&mut self) -> Option<(u64, u32, Event)> {
        let Reverse(Entry { at_ns, asked, kind, place }) = self.heap.pop()?;
        let event = match kind {
            0 => Event::Timer(place),
            1 => Event::Request(place),
            2 => Event::Reply(place),
            3 => Event::Connected(place),
            4 => Event::Nemesis(place),
            _ => Event::Unblock(place),
        };
        Some((at_ns, asked, event))
    }

    /// When the next event is due, whether or not it still concerns anybody.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.at_ns)
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
