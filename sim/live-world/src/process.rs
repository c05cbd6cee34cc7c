//! A client of a live run as a process: whether it runs, stands still or is gone, and its clocks.
//!
//! Invariant: who stands still does nothing more from its next word to the world on, and its clocks go
//! on; who is gone never does anything again, and what it still waits for is dropped. Deliberately
//! absent: stopping a task in the middle of its breath; nobody but the world can tell the difference.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use picklock::time::{Instant, WallTime, span_ns};
use tokio::sync::watch;

use harness::clock::Clock;

/// A client as a process.
#[derive(Debug)]
pub(super) struct Process {
    standing: watch::Sender<Standing>,
    clock: Mutex<Clock>,
    /// Whether it has the lock and has not begun to release it, as its marks tell.
    pub(super) holds: AtomicBool,
    /// Whether it has done all that it was to do.
    done: AtomicBool,
    /// How many of its timers have not rung yet.
    timers: AtomicUsize,
}

/// A timer that has not rung yet.
pub(super) struct Timer<'a>(&'a Process);

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.0.timers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// A fault has it stand still.
    stopped: bool,
    /// So many things have to be done before it goes on.
    held: u32,
    gone: bool,
}

impl Process {
    /// One that runs, whose clocks show what these do.
    pub(super) fn new(now: Instant, wall: WallTime) -> Self {
        let wall_zero_ns = wall.as_unix_ns().saturating_sub(now.as_ns());
        Self {
            standing: watch::Sender::default(),
            clock: Mutex::new(Clock::exact(wall_zero_ns)),
            holds: AtomicBool::new(false),
            done: AtomicBool::new(false),
            timers: AtomicUsize::new(0),
        }
    }

    /// Sets a timer, until this is dropped.
    pub(super) fn timer(&self) -> Timer<'_> {
        self.timers.fetch_add(1, Ordering::Relaxed);
        Timer(self)
    }

    /// Its clocks.
    pub(super) fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the machine's clock takes for what is `span` by its own.
    pub(super) fn by_the_machine(&self, now: Instant, span: Duration) -> Duration {
        let clock = self.clock();
        let end_ns = clock.local(now.as_ns()).saturating_add(span_ns(span));
        Duration::from_nanos(clock.moment(end_ns).saturating_sub(now.as_ns()))
    }

    /// Has it stand still; whether it ran.
    pub(super) fn stop(&self) -> bool {
        self.standing.send_if_modified(|it| {
            let ran = !it.stopped && !it.gone;
            it.stopped = true;
            ran
        })
    }

    /// Has it go on after a stop.
    pub(super) fn resume(&self) {
        self.standing.send_modify(|it| it.stopped = false);
    }

    /// Has it wait until something has been done.
    pub(super) fn hold(&self) {
        self.standing.send_modify(|it| it.held += 1);
    }

    /// That has been done.
    pub(super) fn release(&self) {
        self.standing.send_modify(|it| it.held = it.held.saturating_sub(1));
    }

    /// Ends it; whether it was there.
    pub(super) fn end(&self) -> bool {
        self.standing.send_if_modified(|it| !std::mem::replace(&mut it.gone, true))
    }

    /// It has done all that it was to do.
    pub(super) fn finish(&self) {
        self.done.store(true, Ordering::Relaxed);
    }

    /// Whether it may still do something by itself: it is not gone, does not stand still and has not done.
    pub(super) fn is_at_work(&self) -> bool {
        let Standing { stopped, gone, .. } = *self.standing.borrow();
        !stopped && !gone && !self.done.load(Ordering::Relaxed)
    }

    /// Whether a timer of it has not rung yet: who stands still finds out when it goes on.
    pub(super) fn has_timers(&self) -> bool {
        self.timers.load(Ordering::Relaxed) > 0
    }

    /// Whether it stands still.
    pub(super) fn is_stopped(&self) -> bool {
        let Standing { stopped, gone, .. } = *self.standing.borrow();
        stopped && !gone
    }

    /// Whether it is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.standing.borrow().gone
    }

    /// Comes back when it runs; never where it is gone.
    pub(super) async fn running(&self) {
        let runs = |it: &Standing| !it.stopped && it.held == 0 && !it.gone;
        if runs(&self.standing.borrow()) {
            return;
        }
        // The sender is its own.
        let _ = self.standing.subscribe().wait_for(runs).await;
    }

    /// Does this work unless it goes; the work is dropped then.
    pub(super) async fn unless_gone<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut standing = self.standing.subscribe();
        let mut gone = pin!(standing.wait_for(|it| it.gone));
        let mut work = pin!(work);
        poll_fn(|cx| {
            if gone.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn process() -> Process {
        Process::new(Instant::from_ns(1_000), WallTime::from_unix_ns(5_000))
    }

    #[tokio::test]
    async fn who_stands_still_goes_on_when_nothing_holds_it_any_more() {
        let process = Arc::new(process());
        assert!(process.stop());
        assert!(!process.stop(), "it stands still already");
        process.hold();
        let theirs = Arc::clone(&process);
        let waiting = tokio::spawn(async move { theirs.running().await });
        process.resume();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        process.release();
        waiting.await.unwrap();
        assert!(process.is_at_work());
    }

    #[tokio::test]
    async fn who_is_gone_leaves_its_work() {
        let process = process();
        assert_eq!(process.unless_gone(async { 1 }).await, Some(1));
        assert!(process.end());
        assert!(!process.end());
        assert_eq!(process.unless_gone(std::future::pending::<()>()).await, None);
        assert_eq!(process.unless_gone(async { 1 }).await, None, "not a breath more");
        assert!(!process.is_at_work() && !process.stop());
    }

    #[test]
    fn its_clocks_are_its_own() {
        let process = process();
        let wall = |ns| process.clock().wall(ns);
        assert_eq!(wall(1_000), 5_000);
        process.clock().step_wall(-2_000);
        assert_eq!(wall(1_000), 3_000);
        process.clock().set_drift(1_000, 500_000);
        let second = Duration::from_secs(1);
        let takes = process.by_the_machine(Instant::from_ns(1_000), second * 3);
        assert_eq!(takes, second * 2);
    }
}
