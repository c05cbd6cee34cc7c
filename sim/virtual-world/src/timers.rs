//! Timers: which task waits for which event.
//!
//! Invariant: a timer rings for the event that was planned for it last, and for no other.

/// Timers of tasks that sleep.
#[derive(Debug, Default)]
pub(super) struct SleepTimers {
    /// The number of the event that rings it, 0 for none, and the task that it wakes.
    timers: Vec<(u32, u32)>,
    vacant: Vec<u32>,
}

impl SleepTimers {
    pub(super) fn clear(&mut self) {
        self.timers.clear();
        self.vacant.clear();
    }

    /// A new timer.
    pub(super) fn add(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.timers.push((0, 0));
            u32::try_from(self.timers.len() - 1).expect("fewer than 2^32 timers")
        })
    }

    /// Has a timer wake this task; `plan` plans the event that rings it if there is none.
    pub(super) fn arm(&mut self, timer: u32, task: u32, plan: impl FnOnce() -> u32) {
        let (number, waiter) = &mut self.timers[timer as usize];
        if *number == 0 {
            *number = plan();
        }
        *waiter = task;
    }

    /// Whether this event is to ring the timer.
    pub(super) fn is_set(&self, timer: u32, number: u32) -> bool {
        self.timers[timer as usize].0 == number
    }

    /// The task that this event wakes, if it is to ring the timer.
    pub(super) fn ring(&mut self, timer: u32, number: u32) -> Option<u32> {
        if !self.is_set(timer, number) {
            return None;
        }
        let (number, task) = &mut self.timers[timer as usize];
        *number = 0;
        Some(*task)
    }

    /// A timer is no longer needed.
    pub(super) fn remove(&mut self, timer: u32) {
        // After a reset the timer may not exist any more.
        if let Some((number, _)) = self.timers.get_mut(timer as usize) {
            *number = 0;
            self.vacant.push(timer);
        }
    }
}
