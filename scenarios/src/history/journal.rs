//! The pen of a run: many clients write one history.
//!
//! Invariant: an event's time is read while nobody else writes, so times never fall along the
//! history. Deliberately absent: a clock; whoever writes brings the run's time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::History;
use super::event::{Event, What};
use super::head::Head;
use super::text::{Text, Texts};

/// A handle to the history being written. Cloning gives another handle.
#[derive(Clone, Debug)]
pub struct Journal {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    history: History,
    acquisitions: u32,
    ops: u32,
}

impl Journal {
    /// An empty history of such a run.
    pub fn new(head: Head) -> Self {
        let history = History::new(head);
        Self { inner: Arc::new(Mutex::new(Inner { history, acquisitions: 0, ops: 0 })) }
    }

    /// A number for a new acquisition.
    pub fn next_acquisition(&self) -> u32 {
        let mut inner = self.lock();
        inner.acquisitions += 1;
        inner.acquisitions
    }

    /// Begins an operation: writes its invocation and returns its number.
    pub fn invoke(
        &self,
        clock: impl FnOnce() -> u64,
        client: u32,
        acquisition: u32,
        what: impl FnOnce(&mut Texts) -> What,
    ) -> u32 {
        let mut inner = self.lock();
        inner.ops += 1;
        let op = inner.ops;
        inner.write(clock, client, acquisition, op, what);
        op
    }

    /// Writes the end of an operation, or with `op` 0 a note.
    pub fn write(
        &self,
        clock: impl FnOnce() -> u64,
        client: u32,
        acquisition: u32,
        op: u32,
        what: impl FnOnce(&mut Texts) -> What,
    ) {
        self.lock().write(clock, client, acquisition, op, what);
    }

    /// The number of this text.
    pub fn text(&self, text: &str) -> Text {
        self.lock().history.texts.intern(text)
    }

    /// Begins anew, with another seed, keeping the memory.
    pub fn reset(&self, seed: u64) {
        let mut inner = self.lock();
        inner.history.head.seed = seed;
        inner.history.texts.clear();
        inner.history.events.clear();
        (inner.acquisitions, inner.ops) = (0, 0);
    }

    /// Looks at the history so far.
    pub fn look<R>(&self, look: impl FnOnce(&History) -> R) -> R {
        look(&self.lock().history)
    }

    /// The history so far.
    pub fn history(&self) -> History {
        self.lock().history.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(
        &mut self,
        clock: impl FnOnce() -> u64,
        client: u32,
        acquisition: u32,
        op: u32,
        what: impl FnOnce(&mut Texts) -> What,
    ) {
        let what = what(&mut self.history.texts);
        self.history.events.push(Event { at_ns: clock(), client, acquisition, op, what });
    }
}
