//! After an acquisition of unknown outcome: make sure that no orphan key is left.
//!
//! Invariant: it ends only when the key surely is not this acquisition's and cannot become so, or when the
//! linger time is over. A definite answer on the acquisition's own connection proves that, because the
//! server has processed the acquisition by then. On another connection only *deleted* does: the acquisition
//! runs at most once, but it may still be on its way. If its task is dropped, it counts as answered, and its acquisition
//! stays unknown.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Span};

use crate::env::{CallError, Conn, Env};
use crate::lock_conn::{ConnEpoch, LockConn};
use crate::observe;
use crate::target::{KeyOwner, LockTarget};
use crate::time::Instant;
use crate::timeout::within;
use crate::token::OwnerToken;
use crate::watch_cell::WatchCell;

/// The name of its task in the log.
const WHAT: &str = "the clean-up of an acquisition";
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Once the key was found not to be ours, the next look comes after this fraction of the time since the acquisition was
/// sent: so their number grows with the logarithm of the linger time, which may be hours.
const WAITED_PART: u32 = 8;
/// The acquisition's own connection has this fraction of the call timeout to answer.
const QUICK_PART: u32 = 4;

/// The answer that a clean-up has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CleanupProgress {
    Running,
    /// The key is not ours now, but the acquisition may still arrive. Or nobody looks any more: the task was dropped.
    NotOursNow,
    /// The clean-up has ended.
    Settled,
}

/// A running clean-up, as its acquisition sees it.
pub(crate) struct Cleanup {
    progress: WatchCell<CleanupProgress>,
}

impl Cleanup {
    /// Starts the clean-up of the acquisition that was sent at `sent`, on `conn`.
    pub(crate) fn start<E: Env>(
        target: &Arc<LockTarget<E>>,
        conn: &E::Conn,
        token: &OwnerToken,
        sent: Instant,
    ) -> Arc<Self> {
        Self::on(target, own_conn(target, conn), token, sent)
    }

    /// Starts it for an acquisition whose own connection has broken.
    pub(crate) fn unconnected<E: Env>(
        target: &Arc<LockTarget<E>>,
        token: &OwnerToken,
        sent: Instant,
    ) -> Arc<Self> {
        Self::on(target, LockConn::unconnected(), token, sent)
    }

    fn on<E: Env>(
        target: &Arc<LockTarget<E>>,
        lock_conn: LockConn<E::Conn>,
        token: &OwnerToken,
        sent: Instant,
    ) -> Arc<Self> {
        let cleanup = Arc::new(Self { progress: WatchCell::new(CleanupProgress::Running) });
        let work = CleanupTask(Arc::clone(&cleanup)).work(target, lock_conn, token, sent);
        target.spawn(WHAT, work);
        cleanup
    }

    /// Starts it for an acquisition without an answer yet: it waits for `granted`, which says whether the lock may
    /// have been granted.
    pub(crate) fn after<E: Env>(
        target: &Arc<LockTarget<E>>,
        granted: impl Future<Output = bool> + Send + 'static,
        lock_conn: &Arc<LockConn<E::Conn>>,
        token: &OwnerToken,
    ) -> Arc<Self> {
        let cleanup = Arc::new(Self { progress: WatchCell::new(CleanupProgress::Running) });
        let (task, owned) = (CleanupTask(Arc::clone(&cleanup)), Arc::clone(target));
        let (lock_conn, token) = (Arc::clone(lock_conn), token.clone());
        target.spawn(WHAT, async move {
            let granted = granted.await;
            match lock_conn.withdraw() {
                Some((conn, sent)) if granted => {
                    // Boxed: few were granted, and the tasks of the others need no room for the work.
                    let lock_conn = own_conn(&owned, &conn);
                    Box::pin(task.work(&owned, lock_conn, &token, sent)).await;
                }
                _ => task.0.reach(CleanupProgress::Settled),
            }
        });
        cleanup
    }

    /// Waits until the key no longer obstructs another attempt.
    pub(crate) async fn answered(&self) {
        let answered =
            |progress: &CleanupProgress| (*progress > CleanupProgress::Running).then_some(());
        self.progress.until(answered).await;
    }

    /// True while it has had no answer: the key may still be there.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.progress.with(|progress| *progress == CleanupProgress::Running)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.progress.with(|progress| *progress == CleanupProgress::Settled)
    }

    async fn run<E: Env>(
        &self,
        target: &LockTarget<E>,
        lock_conn: &LockConn<E::Conn>,
        token: &OwnerToken,
        sent: Instant,
        span: &Span,
    ) {
        let options = &target.options;
        let end = sent.after(options.linger());
        let pause = (options.call_timeout() / 2).max(PAUSE_MIN);
        loop {
            // Nobody else uses `lock_conn`, so this is the epoch of the answer.
            let epoch = lock_conn.epoch();
            let answer = self.ask(target, lock_conn, epoch, token).await;
            let settled = match answer {
                Ok(KeyOwner::Own | KeyOwner::Waiting { .. }) => true,
                Ok(KeyOwner::Missing | KeyOwner::Other) => epoch.is_behind_acquire(),
                Err(_) => false,
            };
            if settled {
                tracing::debug!(key = %target, found = ?answer, "unknown acquisition cleaned up");
                observe::cleaned_up(target, span, true);
                return self.reach(CleanupProgress::Settled);
            }
            if answer.is_ok() {
                self.reach(CleanupProgress::NotOursNow);
            }
            if epoch.is_behind_acquire() && lock_conn.epoch() != epoch {
                // Its own connection has just been abandoned: another is tried at once. After a refusal,
                // which is an answer, comes the pause.
                continue;
            }
            let left = end.since(target.env.now());
            if left.is_zero() {
                tracing::warn!(key = %target, ?answer, "unknown acquisition given up; its key goes by its ttl");
                observe::cleaned_up(target, span, false);
                return self.reach(CleanupProgress::Settled);
            }
            // Where the key was found not to be ours, what may still come is less likely the longer it has not. Where nobody
            // answers, the lock may wait for the answer.
            let pause = match answer {
                Ok(_) => pause.max(target.env.now().since(sent) / WAITED_PART),
                Err(_) => pause,
            };
            target.env.sleep(pause.min(left)).await;
        }
    }

    /// Deletes once. The acquisition's own connection has just left a call unanswered, so it does not get a
    /// whole call timeout again.
    async fn ask<E: Env>(
        &self,
        target: &LockTarget<E>,
        lock_conn: &LockConn<E::Conn>,
        epoch: ConnEpoch,
        token: &OwnerToken,
    ) -> Result<KeyOwner, CallError> {
        let mut deletion = pin!(target.give_up(lock_conn, token));
        if !epoch.is_behind_acquire() {
            return deletion.await;
        }
        let quick = target.options.call_timeout() / QUICK_PART;
        match within(&target.env, quick, deletion.as_mut()).await {
            Some(answer) => answer,
            None => {
                lock_conn.broke(epoch);
                let silent = format!("no answer within {quick:?}");
                Err(CallError::Indeterminate(silent.into()))
            }
        }
    }

    fn reach(&self, reached: CleanupProgress) {
        self.progress.change(|progress| {
            *progress = reached.max(*progress);
            ((), true)
        });
    }
}

/// A clean-up as a task. If it is dropped unfinished, as by a runtime that shuts down, nobody waits for its answer for ever.
struct CleanupTask(Arc<Cleanup>);

impl CleanupTask {
    fn work<E: Env>(
        self,
        target: &Arc<LockTarget<E>>,
        lock_conn: LockConn<E::Conn>,
        token: &OwnerToken,
        sent: Instant,
    ) -> impl Future<Output = ()> + Send + use<E> {
        let (target, token) = (Arc::clone(target), token.clone());
        let span = observe::clean_up(&target);
        let around = span.clone();
        async move { self.0.run(&target, &lock_conn, &token, sent, &span).await }.instrument(around)
    }
}

impl Drop for CleanupTask {
    fn drop(&mut self) {
        self.0.reach(CleanupProgress::NotOursNow);
    }
}

/// The acquisition's own connection, which keeps the order; unless that has been silent for so long that a further command
/// would have no answer either.
fn own_conn<E: Env>(target: &LockTarget<E>, conn: &E::Conn) -> LockConn<E::Conn> {
    let silent = conn.gave_up(target.silence_limit());
    if silent { LockConn::unconnected() } else { LockConn::on(conn.clone()) }
}
