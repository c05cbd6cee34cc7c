//! The driver: polls this thread's tasks and drops their futures, while the simulation is not borrowed.
//!
//! Invariant: once a schedule is closed, what its futures do when they are dropped has no effect.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Context;

use super::simulation::{NextStep, SpinsInPoll, with};
use super::tasks::{TaskFuture, WakerCache};

/// Starts a task of a process that has just begun.
pub(super) fn spawn(process: u32, future: TaskFuture) {
    let refused = with(|sim| sim.executor.spawn(process, future));
    assert!(refused.is_none(), "a process that has just begun takes tasks");
}

/// Runs the simulation until no task is left, nothing happens before `end_ns`, or the budget is spent.
pub(super) fn drive(end_ns: u64) {
    let mut wakers = WakerCache::take();
    let mut polled = None;
    loop {
        match with(|sim| sim.next_step(polled.take(), end_ns)) {
            NextStep::Poll(task, mut future) => {
                let mut context = Context::from_waker(wakers.of(task));
                let poll = AssertUnwindSafe(|| future.as_mut().poll(&mut context).is_ready());
                let is_ready = catch_unwind(poll).unwrap_or_else(|thrown| {
                    // A task whose poll was unwound is never polled again.
                    if thrown.is::<SpinsInPoll>() { true } else { resume_unwind(thrown) }
                });
                polled = Some((task, future, is_ready));
            }
            NextStep::Drop(future) => drop(future),
            NextStep::Done => break,
        }
    }
    wakers.put_back();
}

/// Ends a schedule, and drops what is left of its tasks.
pub(super) fn close() {
    let left = with(|sim| sim.executor.close());
    drop(left);
}
