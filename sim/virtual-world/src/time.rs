//! Virtual time: the present moment, and the events to come.
//!
//! Invariant: time only goes forward, from one event to the next, and an event in the past happens now.

use std::cell::Cell;

use super::queue::{EventQueue, SimEvent};

/// Where every wall clock begins: 2023-11-14T22:13:20Z.
pub(super) const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

thread_local! {
    /// A copy of the present moment: every line of a history asks for it, even while the simulation is
    /// borrowed.
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

/// The present moment of this thread's simulation.
pub(super) fn now_ns() -> u64 {
    NOW_NS.get()
}

/// The present moment and the events to come.
#[derive(Debug, Default)]
pub(super) struct VirtualTime {
    now_ns: u64,
    pub(super) queue: EventQueue,
}

impl VirtualTime {
    /// Starts again, keeping the memory.
    pub(super) fn reset(&mut self) {
        self.advance(0);
        self.queue.clear();
    }

    /// The present moment.
    pub(super) const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Plans an event, and returns its number, which no other event has.
    pub(super) fn plan(&mut self, at_ns: u64, event: SimEvent) -> u32 {
        self.queue.push(at_ns.max(self.now_ns), event)
    }

    /// Goes on to a moment; true if it is a later one.
    pub(super) fn advance(&mut self, at_ns: u64) -> bool {
        let is_later = self.now_ns != at_ns;
        if is_later {
            self.now_ns = at_ns;
            NOW_NS.set(at_ns);
        }
        is_later
    }
}
