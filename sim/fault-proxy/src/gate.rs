//! Gates that hold frames, and the registry of tasks to wake on a change.
//!
//! Invariant: a task that registers and then checks sees every change, because a change is made before the wake-up. A
//! gate opens once and never closes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// Tasks that want to be woken, each under a number of its own.
#[derive(Debug, Default)]
pub(super) struct TaskWakers {
    tasks: Mutex<BTreeMap<u64, Waker>>,
}

impl TaskWakers {
    pub(super) fn register(&self, task: u64, waker: &Waker) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.insert(task, waker.clone());
    }

    pub(super) fn remove(&self, task: u64) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(&task);
    }

    pub(super) fn wake_all(&self) {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.values().for_each(Waker::wake_by_ref);
    }
}

/// An event that frames wait for: shut until somebody opens it, then open for ever.
/// Cloning gives another handle to the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    inner: Arc<GateState>,
}

#[derive(Debug, Default)]
struct GateState {
    open: AtomicBool,
    waiting: TaskWakers,
}

impl Gate {
    /// A gate that is shut.
    pub fn shut() -> Self {
        Self::default()
    }

    /// Lets everything pass, waiting or later.
    pub fn open(&self) {
        self.inner.open.store(true, Ordering::SeqCst);
        self.inner.waiting.wake_all();
    }

    /// True once somebody has opened it.
    pub fn is_open(&self) -> bool {
        self.inner.open.load(Ordering::SeqCst)
    }

    /// Asks to be woken when it opens; true if it is open already.
    pub(super) fn passes(&self, task: u64, waker: &Waker) -> bool {
        if self.is_open() {
            return true;
        }
        self.inner.waiting.register(task, waker);
        self.is_open()
    }
}
