//! The driver: polls this thread's tasks and drops their futures, while the simulation is not borrowed.
//!
//! Invariant: once a schedule is closed, what its futures do when they are dropped has no effect.

use std::task::Context;

use super::simulation::{NextStep, with};
use super::tasks::{TaskFuture, WakerCache};

/// Starts a task of a process that has just begun.
pub(super) fn spawn(process: u32, future: TaskFuture) {
    let refused = with(|sim| sim.executor.spawn(process, future));
    assert!(refused.is_none(), "a process that has just begun takes tasks");
}

/// Runs the simulation until no task is left, or nothing happens before `end_ns`.
pub(super) fn drive(end_ns: u64) {
    let mut wakers = WakerCache::take();
    let mut polled = None;
    loop {
        match with(|sim| sim.next_step(polled.take(), end_ns)) {
            NextStep::Poll(task, mut future) => {
                let state = future.as_mut().poll(&mut Context::from_waker(wakers.of(task)));
                polled = Some((task, future, state.is_ready()));
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
