//! Which acquisition a task works for.
//!
//! Invariant: while such work is polled or dropped, and at no other time, its thread says which acquisition it is
//! for. Handles that serve many acquisitions, of many tasks, ask there.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

thread_local! {
    /// The acquisition for which this thread is at work; 0 for none.
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// The acquisition for which this thread is at work; 0 for none.
pub(super) fn current() -> u32 {
    CURRENT.get()
}

pin_project! {
    /// Work for an acquisition. It is dropped as it was polled, since what it holds may still act.
    pub(crate) struct InAcquisition<F> {
        acquisition: u32,
        // None once it is being dropped.
        #[pin]
        work: Option<F>,
    }

    impl<F> PinnedDrop for InAcquisition<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _at_work = AtWork::begin(*this.acquisition);
            this.work.set(None);
        }
    }
}

impl<F> InAcquisition<F> {
    pub(super) fn new(acquisition: u32, work: F) -> Self {
        Self { acquisition, work: Some(work) }
    }
}

impl<F: Future> Future for InAcquisition<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _at_work = AtWork::begin(*this.acquisition);
        this.work.as_pin_mut().map_or(Poll::Pending, |work| work.poll(cx))
    }
}

/// This thread is at work for an acquisition, and was for another before.
struct AtWork {
    before: u32,
}

impl AtWork {
    fn begin(acquisition: u32) -> Self {
        Self { before: CURRENT.replace(acquisition) }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    /// Sees which acquisition it is dropped for.
    struct Dropped<'a>(&'a Cell<u32>);

    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(current());
        }
    }

    #[test]
    fn work_is_polled_and_dropped_for_its_acquisition() {
        let cx = &mut Context::from_waker(Waker::noop());
        let inner = InAcquisition::new(2, async { current() });
        let outer = async { (current(), inner.await, current()) };
        let outer = pin!(InAcquisition::new(1, outer));
        assert_eq!((outer.poll(cx), current()), (Poll::Ready((1, 2, 1)), 0));
        let seen = Cell::new(0);
        let held = Dropped(&seen);
        let waits = async {
            ready(()).await;
            let _held = held;
            pending::<()>().await;
        };
        let mut waits = Box::pin(InAcquisition::new(3, waits));
        assert!(waits.as_mut().poll(cx).is_pending());
        drop(waits);
        assert_eq!((seen.get(), current()), (3, 0));
    }
}
