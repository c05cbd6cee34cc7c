//! Virtual time: the present moment, and the events to come.
//!
//! Invariant: time only goes forward, from one event to the next, and an event in the past happens now.

use std::cell::Cell;

use super::queue::{EventQueue, SimEvent};

/// Where every wall clock begins: 2023-11-14T22:13:20Z.
pub(super) const EPOCH_NS: u64 = 1_700_000_000_000_000_000;
/// More events and polls than this at one instant are a livelock.
pub(super) const BUDGET_PER_INSTANT: u32 = 1_000_000;

thread_local! {
    /// The present moment once more: every line of a history asks for it, also while the simulation is
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
    /// Events and polls since the beginning, and at this instant.
    pub(super) events: u64,
    events_at_once: u32,
}

impl VirtualTime {
    /// Begins anew, keeping the memory.
    pub(super) fn reset(&mut self) {
        (self.events, self.events_at_once) = (0, 0);
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

    /// Goes on to a moment.
    pub(super) fn advance(&mut self, at_ns: u64) {
        if self.now_ns != at_ns {
            self.now_ns = at_ns;
            self.events_at_once = 0;
            NOW_NS.set(at_ns);
        }
    }

    /// Counts an event or a poll; true where there are too many at one instant.
    pub(super) fn count_event(&mut self) -> bool {
        self.events += 1;
        self.events_at_once += 1;
        self.events_at_once > BUDGET_PER_INSTANT
    }
}
