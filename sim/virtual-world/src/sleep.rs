//! Sleeping: a timer on the process's own monotonic clock.
//!
//! Invariant: a sleeper goes on only when its own clock has reached the deadline; a clock whose rate
//! was changed meanwhile makes it look again. A timer that nobody waits for rings nowhere.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::queue::Event;
use super::world::{with, with_if_free};

/// Timers that are set.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// The number of the event that rings it, and whom it wakes; 0 for none.
    set: Vec<(u32, u32)>,
    vacant: Vec<u32>,
}

impl Timers {
    fn add(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.set.push((0, 0));
            u32::try_from(self.set.len() - 1).expect("fewer than 2^32 timers")
        })
    }

    /// Whether this event still concerns anybody.
    pub(super) fn is_set(&self, timer: u32, number: u32) -> bool {
        self.set[timer as usize].0 == number
    }

    /// Whom the timer wakes, if this event still concerns anybody.
    pub(super) fn ring(&mut self, timer: u32, number: u32) -> Option<u32> {
        let set = &mut self.set[timer as usize];
        if set.0 != number {
            return None;
        }
        set.0 = 0;
        Some(set.1)
    }

    pub(super) fn clear(&mut self) {
        self.set.clear();
        self.vacant.clear();
    }
}

/// A wait on the process's own clock.
#[derive(Debug)]
pub(super) struct Sleep {
    process: u32,
    deadline_ns: u64,
    timer: Option<u32>,
}

impl Sleep {
    /// Waits until the process's monotonic clock shows this.
    pub(super) fn until(process: u32, deadline_ns: u64) -> Self {
        Self { process, deadline_ns, timer: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        with(|world| {
            let clock = world.processes[this.process as usize].clock;
            if clock.local(world.now_ns) >= this.deadline_ns {
                return Poll::Ready(());
            }
            let timer = *this.timer.get_or_insert_with(|| world.timers.add());
            let set = &mut world.timers.set[timer as usize];
            // Rung too early, for the clock has been slowed down, or not set yet.
            if set.0 == 0 {
                let moment_ns = clock.moment(this.deadline_ns).max(world.now_ns);
                set.0 = world.queue.push(moment_ns, Event::Timer(timer));
            }
            set.1 = world.current;
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(timer) = self.timer else { return };
        with_if_free(|world| {
            // In a world that has been reset meanwhile the timer is somebody else's, or nobody's.
            if !world.closed
                && let Some(set) = world.timers.set.get_mut(timer as usize)
            {
                set.0 = 0;
                world.timers.vacant.push(timer);
            }
        });
    }
}
