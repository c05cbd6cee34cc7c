//! The mutex under everything that tasks share: the standard library's, or loom's.
//!
//! Invariant: the shared state of a lock is accessed through this module only, so that loom sees every
//! access. Atomics are only the counts and one hint that is set once: with one mutex, held for a few instructions
//! and never across an await, no memory ordering has to be reasoned about.

#[cfg(picklock_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(picklock_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks, also after another thread has panicked: no change under these mutexes can panic half-way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
