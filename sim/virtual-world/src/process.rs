//! Processes: the nodes of the world that clients run on.
//!
//! Invariant: a paused process does nothing, and its clocks go on; a crashed one is gone at once,
//! before anything of it is dropped, so that nothing posthumous happens.

use harness::clock::Clock;

/// How a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It runs.
    #[default]
    Running,
    /// It stands still.
    Paused,
    /// It is gone.
    Crashed,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) state: State,
    pub(super) clock: Clock,
    /// Tasks that were to be polled while it stood still.
    pub(super) deferred: Vec<u32>,
    /// How many numbers it has drawn.
    pub(super) drawn: u64,
    /// Its connection to each server, by place.
    pub(super) conns: Vec<Option<u32>>,
    /// The one it listens on, where it does.
    pub(super) ears: Vec<Option<u32>>,
    /// The acquisition it holds, as its marks tell; 0 for none.
    pub(super) holds: bool,
}

impl Process {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            state: State::Running,
            clock,
            deferred: Vec::new(),
            drawn: 0,
            conns: Vec::new(),
            ears: Vec::new(),
            holds: false,
        }
    }

    /// As new, keeping the memory.
    pub(super) fn reset(&mut self, clock: Clock) {
        self.deferred.clear();
        self.conns.clear();
        self.ears.clear();
        (self.state, self.clock, self.drawn, self.holds) = (State::Running, clock, 0, false);
    }
}
