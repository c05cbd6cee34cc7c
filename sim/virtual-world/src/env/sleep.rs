//! A sleep on a process's own monotonic clock.
//!
//! Invariant: it ends only when that clock has reached the deadline; where the clock's rate has changed
//! meanwhile, the sleeper looks again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::super::queue::SimEvent;
use super::super::simulation::{with, with_if_open};

/// A wait for a moment of the process's monotonic clock.
#[derive(Debug)]
pub(super) struct SleepFuture {
    process: u32,
    deadline_ns: u64,
    timer: Option<u32>,
}

impl SleepFuture {
    /// Waits until the process's monotonic clock shows this.
    pub(super) fn until(process: u32, deadline_ns: u64) -> Self {
        Self { process, deadline_ns, timer: None }
    }
}

impl Future for SleepFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        with(|sim| {
            let clock = sim.processes[this.process].clock;
            if clock.local(sim.time.now_ns()) >= this.deadline_ns {
                return Poll::Ready(());
            }
            let timer = *this.timer.get_or_insert_with(|| sim.timers.add());
            sim.timers.arm(timer, sim.executor.current(), || {
                sim.time.plan(clock.moment(this.deadline_ns), SimEvent::Timer(timer))
            });
            Poll::Pending
        })
    }
}

impl Drop for SleepFuture {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            with_if_open(|sim| sim.timers.remove(timer));
        }
    }
}
