//! A client of a live run as a process: whether it runs, is stopped or gone, and its clocks.
//!
//! Invariant: a client that is stopped does nothing more from its next I/O on, while its clocks go on. One that is gone
//! never does anything again, and what it still awaits is dropped. A task is never stopped between two I/Os: nothing
//! outside it could tell the difference.

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
pub(super) struct ClientProcess {
    state: watch::Sender<RunState>,
    clock: Mutex<Clock>,
    /// Whether it has done all that it was to do.
    finished: AtomicBool,
    /// How many of its timers have not fired yet.
    timers: AtomicUsize,
}

/// A timer that has not fired yet.
pub(super) struct PendingTimer<'a>(&'a ClientProcess);

impl Drop for PendingTimer<'_> {
    fn drop(&mut self) {
        self.0.timers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct RunState {
    /// A fault has stopped it.
    stopped: bool,
    /// How many operations have to be done before it goes on.
    blocked: u32,
    gone: bool,
    /// It will come back.
    comes_back: bool,
    /// How many times it has come back.
    lives: u32,
    /// How many times it has ended with its work done.
    ends: u32,
}

impl ClientProcess {
    /// A process that runs, whose clocks show these times.
    pub(super) fn new(now: Instant, wall: WallTime) -> Self {
        let wall_zero_ns = wall.as_unix_ns().saturating_sub(now.as_ns());
        Self {
            state: watch::Sender::default(),
            clock: Mutex::new(Clock::exact(wall_zero_ns)),
            finished: AtomicBool::new(false),
            timers: AtomicUsize::new(0),
        }
    }

    /// Sets a timer, until this is dropped.
    pub(super) fn timer(&self) -> PendingTimer<'_> {
        self.timers.fetch_add(1, Ordering::Relaxed);
        PendingTimer(self)
    }

    /// Its clocks.
    pub(super) fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much time passes by the machine's clock while `span` passes by its own.
    pub(super) fn machine_span(&self, now: Instant, span: Duration) -> Duration {
        let clock = self.clock();
        let end_ns = clock.local(now.as_ns()).saturating_add(span_ns(span));
        Duration::from_nanos(clock.moment(end_ns).saturating_sub(now.as_ns()))
    }

    /// Stops it; true if it ran.
    pub(super) fn stop(&self) -> bool {
        self.state.send_if_modified(|it| {
            let ran = !it.stopped && !it.gone;
            it.stopped = true;
            ran
        })
    }

    /// Lets it go on after a stop.
    pub(super) fn resume(&self) {
        self.state.send_modify(|it| it.stopped = false);
    }

    /// Keeps it waiting, until it has been unblocked as often as blocked.
    pub(super) fn block(&self) {
        self.state.send_modify(|it| it.blocked += 1);
    }

    /// Undoes one block.
    pub(super) fn unblock(&self) {
        self.state.send_modify(|it| it.blocked = it.blocked.saturating_sub(1));
    }

    /// Ends it, for good unless it comes back; true if it was not gone already.
    pub(super) fn end(&self, comes_back: bool) -> bool {
        self.state.send_if_modified(|it| {
            let was_there = !std::mem::replace(&mut it.gone, true);
            it.comes_back |= was_there && comes_back;
            was_there
        })
    }

    /// It comes back and runs; nothing that it did in its life before goes on.
    pub(super) fn revive(&self) {
        self.state.send_if_modified(|it| {
            let revives = it.gone && it.comes_back;
            if revives {
                *it = RunState { lives: it.lives + 1, ..RunState::default() };
            }
            revives
        });
    }

    /// Returns when it has come back after its end; false if it never will.
    pub(super) async fn is_revived(&self) -> bool {
        let mut state = self.state.subscribe();
        let known = state.wait_for(|it| !it.gone || !it.comes_back).await;
        // The channel cannot close: its sender is this process's own.
        known.is_ok_and(|it| !it.gone)
    }

    /// It has done all that it was to do.
    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }

    /// Whether it has.
    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    /// Whether it is stopped, and not gone.
    pub(super) fn is_stopped(&self) -> bool {
        let RunState { stopped, gone, .. } = *self.state.borrow();
        stopped && !gone
    }

    /// Whether it may still do something before it is resumed: if it is stopped, only its timers go on.
    pub(super) fn is_busy(&self, tasks: usize) -> bool {
        let RunState { stopped, gone, comes_back, .. } = *self.state.borrow();
        if gone {
            return comes_back;
        }
        if stopped {
            return self.timers.load(Ordering::Relaxed) > 0;
        }
        tasks > 0 || !self.is_finished()
    }

    /// Whether it is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.state.borrow().gone
    }

    /// Returns when it runs; never if it is gone.
    pub(super) async fn running(&self) {
        let runs = |it: &RunState| !it.stopped && it.blocked == 0 && !it.gone;
        let mut state = self.state.subscribe();
        let mut waiting = pin!(state.wait_for(runs));
        // Those who wait are told one after the other, and a task may have a call and its time-out among them. So each looks for
        // itself: what was about to be sent is sent before anybody gives it up.
        poll_fn(|cx| {
            if runs(&self.state.borrow()) {
                return Poll::Ready(());
            }
            // The channel cannot close: its sender is this process's own.
            waiting.as_mut().poll(cx).map(drop)
        })
        .await;
    }

    /// How many times it has ended with its work done.
    pub(super) fn ends(&self) -> u32 {
        self.state.borrow().ends
    }

    /// It has done its work and ends: its tasks are dropped.
    pub(super) fn end_tasks(&self) {
        self.state.send_modify(|it| it.ends += 1);
    }

    /// Does this work; drops it, and returns `None`, once the process is gone.
    pub(super) async fn unless_gone<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.unless(|_| false, work).await
    }

    /// The same for a task, which is also dropped once the process has ended more than `ends` times.
    pub(super) async fn unless_ended<T>(
        &self,
        ends: u32,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        self.unless(move |it| it.ends != ends, work).await
    }

    async fn unless<T>(
        &self,
        over: impl Fn(&RunState) -> bool,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut state = self.state.subscribe();
        let life = state.borrow().lives;
        // By now it may have come back, and this work belongs to its life before.
        let mut gone = pin!(state.wait_for(move |it| it.gone || it.lives != life || over(it)));
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
    use std::task::{Context, Waker};

    use super::*;

    fn process() -> ClientProcess {
        ClientProcess::new(Instant::from_ns(1_000), WallTime::from_unix_ns(5_000))
    }

    #[tokio::test]
    async fn a_stopped_process_goes_on_when_nothing_blocks_it_any_more() {
        let process = Arc::new(process());
        assert!(process.stop());
        assert!(!process.stop(), "it is stopped already");
        process.block();
        let theirs = Arc::clone(&process);
        let waiting = tokio::spawn(async move { theirs.running().await });
        process.resume();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        process.unblock();
        waiting.await.unwrap();
        assert!(process.is_busy(0));
    }

    /// False alarms where the time-out of a call was told before the call.
    #[test]
    fn who_is_polled_looks_whether_the_process_runs() {
        let process = process();
        process.stop();
        let mut waiting = pin!(process.running());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        // Nobody is told.
        process.state.send_if_modified(|it| {
            it.stopped = false;
            false
        });
        assert!(waiting.as_mut().poll(&mut context).is_ready());
    }

    #[tokio::test]
    async fn a_process_that_is_gone_drops_its_work() {
        let process = process();
        assert_eq!(process.unless_gone(async { 1 }).await, Some(1));
        assert!(process.end(false));
        assert!(!process.end(false));
        assert_eq!(process.unless_gone(std::future::pending::<()>()).await, None);
        assert_eq!(process.unless_gone(async { 1 }).await, None, "nothing more");
        assert!(!process.is_busy(1) && !process.stop());
        process.revive();
        assert!(process.is_gone() && !process.is_revived().await, "it was not to come back");
    }

    #[tokio::test]
    async fn a_process_that_ends_drops_its_tasks_and_goes_on() {
        let process = Arc::new(process());
        let ends = process.ends();
        process.end_tasks();
        assert_eq!(process.unless_ended(ends, async { 1 }).await, None, "also one not yet begun");
        assert_eq!(process.unless_ended(process.ends(), async { 1 }).await, Some(1));
        assert_eq!(process.unless_gone(async { 1 }).await, Some(1));
        let theirs = Arc::clone(&process);
        let begun = tokio::spawn(async move {
            theirs.unless_ended(theirs.ends(), std::future::pending::<()>()).await
        });
        tokio::task::yield_now().await;
        process.end_tasks();
        assert_eq!(begun.await.unwrap(), None);
        assert!(!process.is_gone());
    }

    #[tokio::test]
    async fn a_process_that_comes_back_does_nothing_of_its_life_before() {
        let process = Arc::new(process());
        let theirs = Arc::clone(&process);
        let before =
            tokio::spawn(async move { theirs.unless_gone(std::future::pending::<()>()).await });
        tokio::task::yield_now().await;
        assert!(process.end(true) && process.is_busy(0), "there is something to come");
        process.revive();
        assert!(process.is_revived().await && !process.is_gone());
        assert_eq!(before.await.unwrap(), None);
        assert_eq!(process.unless_gone(async { 1 }).await, Some(1));
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
        let takes = process.machine_span(Instant::from_ns(1_000), second * 3);
        assert_eq!(takes, second * 2);
    }
}
