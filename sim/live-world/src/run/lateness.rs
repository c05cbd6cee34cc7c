//! How late the run itself was: if a busy machine delays a client, the lock is not the cause.
//!
//! Invariant: it is measured where the clients run, and for as long as they do.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// How often it is looked at.
const BEAT: Duration = Duration::from_millis(10);

/// Measures until it is dropped.
#[derive(Debug)]
pub(super) struct Lateness {
    most_ns: Arc<AtomicU64>,
    _beating: JoinSet<()>,
}

impl Lateness {
    /// From now on.
    pub(super) fn measure() -> Self {
        let most_ns = Arc::new(AtomicU64::new(0));
        let noted = Arc::clone(&most_ns);
        let mut beating = JoinSet::new();
        beating.spawn(async move {
            loop {
                let due = Instant::now() + BEAT;
                sleep(BEAT).await;
                let late = Instant::now().saturating_duration_since(due);
                noted.fetch_max(picklock::time::span_ns(late), Ordering::Relaxed);
            }
        });
        Self { most_ns, _beating: beating }
    }

    /// The longest so far, in nanoseconds.
    pub(super) fn most_ns(&self) -> u64 {
        self.most_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_that_was_kept_from_running_was_late() {
        let lateness = Lateness::measure();
        tokio::task::yield_now().await;
        let kept = BEAT * 3;
        std::thread::sleep(kept);
        sleep(BEAT).await;
        assert!(lateness.most_ns() >= picklock::time::span_ns(kept - BEAT));
    }
}
