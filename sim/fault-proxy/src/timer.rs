//! Wakes tasks at a moment, with a finer resolution than the milliseconds of tokio's timers.
//!
//! Invariant: no wake-up comes early, and while nothing is due the thread sleeps in the kernel. Wake-ups cannot be
//! cancelled: a task woken needlessly checks its queue and sleeps again.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct WakeTimer {
    shared: Arc<TimerShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct TimerShared {
    queue: Mutex<TimerQueue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TimerQueue {
    /// By moment, and then in the order of the calls.
    entries: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    closed: bool,
}

impl WakeTimer {
    pub(super) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(TimerShared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("picklock-timer".into())
            .spawn(move || run(&theirs))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Wakes `waker` at `at`, or at once if that has passed.
    pub(super) fn wake_at(&self, at: Instant, waker: &Waker) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let order = queue.next;
        queue.next += 1;
        let sooner = queue.entries.keys().next().is_none_or(|(first, _)| at < *first);
        queue.entries.insert((at, order), waker.clone());
        drop(queue);
        if sooner {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for WakeTimer {
    fn drop(&mut self) {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // Only a panicking waker could make it panic, and nobody is left to report that to.
            let _ = thread.join();
        }
    }
}

fn run(shared: &TimerShared) {
    let mut due = Vec::new();
    let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    while !queue.closed {
        let now = Instant::now();
        while let Some(first) = queue.entries.first_entry().filter(|it| it.key().0 <= now) {
            due.push(first.remove());
        }
        if !due.is_empty() {
            drop(queue);
            due.drain(..).for_each(Waker::wake);
            queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let next = queue.entries.keys().next().map(|(at, _)| *at);
        queue = match next {
            None => shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Some(at) => {
                let span = at.saturating_duration_since(now);
                let waited = shared.changed.wait_timeout(queue, span);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    struct Tell(mpsc::Sender<(u32, Instant)>, u32);

    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            self.0.send((self.1, Instant::now())).expect("the test listens");
        }
    }

    #[test]
    fn tasks_wake_in_the_order_of_their_moments_and_never_early() {
        let timer = WakeTimer::start().unwrap();
        let (sender, receiver) = mpsc::channel();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        for (name, ms) in [(3, 30), (1, 10), (2, 20), (0, 0)] {
            timer.wake_at(at(ms), &Waker::from(Arc::new(Tell(sender.clone(), name))));
        }
        for name in 0..4 {
            let (woken, when) = receiver.recv().unwrap();
            assert_eq!(woken, name);
            assert!(when >= at(u64::from(name) * 10));
        }
    }

    #[test]
    fn dropping_the_timer_ends_its_thread() {
        let timer = WakeTimer::start().unwrap();
        timer.wake_at(Instant::now() + Duration::from_secs(3600), Waker::noop());
        let shared = Arc::downgrade(&timer.shared);
        drop(timer);
        assert!(shared.upgrade().is_none());
    }
}
