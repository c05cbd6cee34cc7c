//! The mutex under everything that tasks share: the standard library's, or loom's.
//!
//! Invariant: shared state of the lock is reached through this module only, so that loom sees every
//! access. Deliberately absent: atomics. One mutex, held for a few instructions and never across an
//! await, leaves no ordering to reason about.

#[cfg(picklock_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(picklock_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks, also after a panic elsewhere: nothing here is left half-changed by one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
