//! What calls have observed of their connection.
//!
//! Invariant: a connection counts as silent for as long as calls have waited since something was received, and no longer.
//! Nobody hears of the answer to a call that was dropped, so the time behind its drop says nothing of the connection.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::clock::monotonic;
use crate::sync::lock;
use crate::time::Instant;

/// A connection on which a command waits and nothing has been received for this long is replaced: a peer that
/// vanished without closing is otherwise noticed only after minutes.
const SILENCE: Duration = Duration::from_secs(1);

/// A connection that has been idle for this long is checked before it is used again. The PING of a check is sometimes
/// sent, so a connection that is in use, perhaps in the middle of a transaction, is not checked.
const IDLE: Duration = Duration::from_secs(1);

/// The atomics need no ordering: each is read by itself, and a late read only delays a replacement.
#[derive(Default)]
pub(super) struct Health {
    pub(super) broken: AtomicBool,
    /// It takes no more commands.
    closed: AtomicBool,
    /// The server has too few replicas to take writes: it may be a primary that was cut off and replaced.
    pub(super) lacks_replicas: AtomicBool,
    silence: Mutex<Silence>,
    /// In nanoseconds, zero for never.
    pub(super) received_ns: AtomicU64,
}

/// How long calls have waited since something was received.
#[derive(Default)]
struct Silence {
    /// How many calls wait.
    waiting: usize,
    /// Since when, if nothing has been received since the first of them was sent.
    since: Option<Instant>,
    /// How long calls had waited that were dropped before.
    before: Duration,
}

/// A call that waits for its answer.
pub(super) struct WaitingCall<'a>(&'a Health);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        let mut silence = lock(&self.0.silence);
        silence.waiting -= 1;
        if silence.waiting == 0
            && let Some(since) = silence.since.take()
        {
            silence.before += monotonic().since(since);
        }
    }
}

impl Health {
    /// A command is sent, whose call waits until it is dropped.
    pub(super) fn sent(&self) -> WaitingCall<'_> {
        let mut silence = lock(&self.silence);
        silence.since.get_or_insert_with(monotonic);
        silence.waiting += 1;
        WaitingCall(self)
    }

    pub(super) fn received(&self) {
        self.received_ns.store(monotonic().as_ns(), Ordering::Relaxed);
        let mut silence = lock(&self.silence);
        (silence.since, silence.before) = (None, Duration::ZERO);
    }

    pub(super) fn is_silent(&self) -> bool {
        self.is_silent_for(SILENCE)
    }

    pub(super) fn is_silent_for(&self, span: Duration) -> bool {
        let silence = lock(&self.silence);
        let now = silence.since.map_or(Duration::ZERO, |since| monotonic().since(since));
        let waited = silence.before + now;
        !waited.is_zero() && waited >= span
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.broken.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn is_idle(&self) -> bool {
        let received_ns = self.received_ns.load(Ordering::Relaxed);
        received_ns == 0 || monotonic().since(Instant::from_ns(received_ns)) >= IDLE
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;

    const TENTH: Duration = Duration::from_millis(100);

    #[test]
    #[expect(clippy::disallowed_methods, reason = "there is no executor here")]
    fn silence_is_what_calls_have_waited_for() {
        let health = Health::default();
        assert!(!health.is_silent_for(Duration::ZERO), "nobody waits");
        for _ in 0..2 {
            let waiting = health.sent();
            std::thread::sleep(TENTH / 2);
            drop(waiting);
        }
        assert!(health.is_silent_for(TENTH), "two calls in vain");
        health.received();
        std::thread::sleep(TENTH);
        assert!(!health.is_silent_for(Duration::from_nanos(1)), "nobody waits");
    }
}
