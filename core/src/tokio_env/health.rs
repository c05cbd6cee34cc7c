//! What calls have observed of their connection.
//!
//! Invariant: a connection counts as silent for as long as somebody has waited for an answer, and no longer. Nobody hears
//! of the answer to a call that was dropped, so what comes behind its drop says nothing of the connection.

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

/// How long nothing has been received although calls waited.
#[derive(Default)]
struct Silence {
    /// How many calls wait.
    waiting: usize,
    /// When it began, if it has.
    began: Option<Instant>,
    /// When the last call was dropped.
    ended: Option<Instant>,
}

/// A call that waits for its answer.
pub(super) struct WaitingCall<'a>(&'a Health);

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        let mut silence = lock(&self.0.silence);
        silence.waiting -= 1;
        silence.ended = Some(monotonic());
    }
}

impl Health {
    /// A command is sent, whose call waits until it is dropped.
    pub(super) fn sent(&self) -> WaitingCall<'_> {
        let mut silence = lock(&self.silence);
        if silence.waiting == 0 || silence.began.is_none() {
            silence.began = Some(monotonic());
        }
        silence.waiting += 1;
        WaitingCall(self)
    }

    pub(super) fn received(&self) {
        self.received_ns.store(monotonic().as_ns(), Ordering::Relaxed);
        lock(&self.silence).began = None;
    }

    pub(super) fn is_silent(&self) -> bool {
        self.is_silent_for(SILENCE)
    }

    pub(super) fn is_silent_for(&self, span: Duration) -> bool {
        let silence = lock(&self.silence);
        let until = silence.ended.filter(|_| silence.waiting == 0).unwrap_or_else(monotonic);
        silence.began.is_some_and(|began| until.since(began) >= span)
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
