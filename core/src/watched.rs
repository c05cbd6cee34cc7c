//! A value that tasks can wait on.
//!
//! Invariant: no wake-up is lost. A waiter looks at the value and leaves its waker under the same
//! lock under which the value is changed, so a change comes either before the look or after the
//! waker. Deliberately absent: any runtime; a waiter is woken, and looks again for itself.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

use crate::sync::{Mutex, lock};

/// A hold has one watchdog and one `lost()` waiter as a rule: they fit without allocation.
type Waiters = SmallVec<[(u64, Waker); 2]>;

/// A value behind a lock, and the tasks that wait for it to change.
pub(crate) struct Watched<T> {
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    value: T,
    waiters: Waiters,
    next_id: u64,
}

impl<T> Watched<T> {
    /// Holds `value`; nobody waits yet.
    pub(crate) fn new(value: T) -> Self {
        Self { inner: Mutex::new(Inner { value, waiters: Waiters::new(), next_id: 0 }) }
    }

    /// Looks at the value, or changes it in a way that concerns no waiter.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut lock(&self.inner).value)
    }

    /// Changes the value and wakes every waiter if `act` says so.
    pub(crate) fn change<R>(&self, act: impl FnOnce(&mut T) -> (R, bool)) -> R {
        let (result, woken) = {
            let mut inner = lock(&self.inner);
            let (result, wake) = act(&mut inner.value);
            let woken = if wake { mem::take(&mut inner.waiters) } else { Waiters::new() };
            (result, woken)
        };
        // A waker may run the waiter on the spot, which locks again.
        for (_, waker) in woken {
            waker.wake();
        }
        result
    }

    /// Waits until `check` finds what it looks for.
    pub(crate) fn until<R, F: FnMut(&T) -> Option<R>>(&self, check: F) -> Until<'_, T, F> {
        Until { watched: self, check, id: None }
    }
}

/// The wait for a change; see [`Watched::until`].
pub(crate) struct Until<'a, T, F> {
    watched: &'a Watched<T>,
    check: F,
    id: Option<u64>,
}

impl<T, R, F: FnMut(&T) -> Option<R> + Unpin> Future for Until<'_, T, F> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let this = self.get_mut();
        let mut inner = lock(&this.watched.inner);
        if let Some(found) = (this.check)(&inner.value) {
            return Poll::Ready(found);
        }
        let id = *this.id.get_or_insert(inner.next_id);
        if id == inner.next_id {
            inner.next_id += 1;
        }
        match inner.waiters.iter_mut().find(|(waiter, _)| *waiter == id) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => inner.waiters.push((id, cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl<T, F> Drop for Until<'_, T, F> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let forgotten = {
            let mut inner = lock(&self.watched.inner);
            let place = inner.waiters.iter().position(|(waiter, _)| *waiter == id);
            place.map(|place| inner.waiters.swap_remove(place))
        };
        // Dropping a waker may drop a task, which may reach back here: not under the lock.
        drop(forgotten);
    }
}
