//! A value that tasks can wait on, without a runtime.
//!
//! Invariant: no wake-up is lost. A waiter checks the value and registers its waker under the mutex under
//! which the value is changed, so a change comes either before the check or after the registration.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

use crate::sync::{Mutex, lock};

/// A hold usually has two waiters, its watchdog and one `lost()`: they fit without allocation.
type Waiters = SmallVec<[(u64, Waker); 2]>;

/// A value behind a lock, and the tasks that wait for it to change.
pub(crate) struct WatchCell<T> {
    state: Mutex<WatchState<T>>,
}

struct WatchState<T> {
    value: T,
    waiters: Waiters,
    next_id: u64,
}

impl<T: Default> Default for WatchCell<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> WatchCell<T> {
    /// Holds `value`; nobody waits yet.
    pub(crate) fn new(value: T) -> Self {
        Self { state: Mutex::new(WatchState { value, waiters: Waiters::new(), next_id: 0 }) }
    }

    /// Reads the value, or changes it in a way that no waiter waits for.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut lock(&self.state).value)
    }

    /// Changes the value and wakes every waiter if `act` says so.
    pub(crate) fn change<R>(&self, act: impl FnOnce(&mut T) -> (R, bool)) -> R {
        let (result, woken) = {
            let mut state = lock(&self.state);
            let (result, wake) = act(&mut state.value);
            let woken = if wake { mem::take(&mut state.waiters) } else { Waiters::new() };
            (result, woken)
        };
        // Outside the mutex: a waker may poll its task at once, which locks it again.
        for (_, waker) in woken {
            waker.wake();
        }
        result
    }

    /// Waits until `check` finds a result in the value.
    pub(crate) fn until<R, F: FnMut(&T) -> Option<R>>(&self, check: F) -> UntilFound<'_, T, F> {
        UntilFound { watched: self, check, id: None }
    }
}

/// The wait for a change; see [`WatchCell::until`].
pub(crate) struct UntilFound<'a, T, F> {
    watched: &'a WatchCell<T>,
    check: F,
    id: Option<u64>,
}

impl<T, R, F: FnMut(&T) -> Option<R> + Unpin> Future for UntilFound<'_, T, F> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let this = self.get_mut();
        let mut state = lock(&this.watched.state);
        if let Some(found) = (this.check)(&state.value) {
            return Poll::Ready(found);
        }
        let id = *this.id.get_or_insert(state.next_id);
        if id == state.next_id {
            state.next_id += 1;
        }
        let replaced = match state.waiters.iter_mut().find(|(waiter, _)| *waiter == id) {
            Some((_, waker)) if waker.will_wake(cx.waker()) => None,
            Some((_, waker)) => Some(mem::replace(waker, cx.waker().clone())),
            None => {
                state.waiters.push((id, cx.waker().clone()));
                None
            }
        };
        drop(state);
        // Outside the mutex: dropping a waker may drop a task, which may lock it again.
        drop(replaced);
        Poll::Pending
    }
}

impl<T, F> Drop for UntilFound<'_, T, F> {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let waker = {
            let mut state = lock(&self.watched.state);
            let index = state.waiters.iter().position(|(waiter, _)| *waiter == id);
            index.map(|index| state.waiters.swap_remove(index))
        };
        // Outside the mutex, as above.
        drop(waker);
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    /// The last handle to a task: its drop drops the task, which locks the cell.
    struct LastHandle {
        cell: Arc<WatchCell<()>>,
        dropped_outside: Arc<AtomicUsize>,
    }

    impl Wake for LastHandle {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for LastHandle {
        fn drop(&mut self) {
            let is_free = self.cell.state.try_lock().is_ok();
            self.dropped_outside.fetch_add(usize::from(is_free), Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waker_is_dropped_outside_the_mutex() {
        let (cell, dropped_outside) = (Arc::new(WatchCell::new(())), Arc::<AtomicUsize>::default());
        let mut waiting = Box::pin(cell.until(|()| None::<()>));
        let mut poll_by_another = || {
            let (cell, dropped_outside) = (Arc::clone(&cell), Arc::clone(&dropped_outside));
            let waker = Waker::from(Arc::new(LastHandle { cell, dropped_outside }));
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        };
        poll_by_another();
        poll_by_another();
        assert_eq!(dropped_outside.load(Ordering::Relaxed), 1, "replaced");
        drop(waiting);
        assert_eq!(dropped_outside.load(Ordering::Relaxed), 2);
    }
}
