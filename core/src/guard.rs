//! The guard: a held lock.
//!
//! Invariant: dropping a guard stops renewal and starts the release, once. The release is a task. If the
//! runtime ends before the task has run, the key stays until its TTL is over, and a warning is logged: so it
//! is with a guard that lives to the end of an `async fn main` on one thread. A guard promises local validity
//! and no more: a process that is paused for longer than the validity lasts cannot notice that in time, and
//! only the protected resource can refuse its late write.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::env::{Env, Mark};
use crate::fence::Fence;
use crate::held_lock::HeldLock;
use crate::lock::{Lost, NotExtended, Released};
use crate::shared_hold::HoldStatus;
use crate::time::Instant;
use crate::token::OwnerToken;
use crate::watchdog;

/// A held lock. Dropping it starts the release; [`release`](Self::release) also reports the outcome.
///
/// The release of a dropped guard is a background task, and a runtime that ends drops tasks that have not
/// run: then the key stays for the rest of its TTL, the release counts as unknown, and a warning is logged. At the
/// end of a program, await `release`, or drop the guard and await [`Locks::drain`](crate::Locks::drain) or the
/// lock's own `drain`.
///
/// Watchdog and release are tasks, and tokio may start a new task only when the task that has started it yields its
/// thread. So put work that blocks into `spawn_blocking` or `block_in_place`, and await `release` before blocking.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard<E: Env> {
    pub(crate) held: Arc<HeldLock<E>>,
}

impl<E: Env> Guard<E> {
    /// For an acquisition that has just been granted; starts its watchdog.
    pub(crate) fn new(held: HeldLock<E>) -> Self {
        let held = Arc::new(held);
        let env = &held.target.env;
        env.mark(Mark::ValidUntil(held.hold.valid_until()));
        if let Some(renewal) = held.target.options.renewal() {
            env.spawn(watchdog::watch(Arc::clone(&held), renewal));
        }
        Self { held }
    }

    /// The token of this acquisition.
    pub fn token(&self) -> &OwnerToken {
        &self.held.token
    }

    /// The fencing token of this hold, where the lock has them ([`Options::fenced`]): higher than that
    /// of every hold before it. Send it to the resource with every write. It may fall if the server loses
    /// writes, as in a failover.
    ///
    /// [`Options::fenced`]: crate::options::OptionsBuilder::fenced
    pub fn fence(&self) -> Option<Fence> {
        self.held.fence
    }

    /// The end of validity so far, on this node's monotonic clock. The lock must not be relied on from this
    /// instant on, unless it is renewed before.
    pub fn valid_until(&self) -> Instant {
        self.held.hold.valid_until()
    }

    /// How much validity is left; zero once the lock is lost.
    pub fn remaining(&self) -> Duration {
        self.held.remaining()
    }

    /// True while the lock may be relied on. Reads the clock; sends nothing.
    pub fn is_valid(&self) -> bool {
        matches!(self.held.status(), HoldStatus::Held(_))
    }

    /// True once the lock is lost, which is final: reported by the server, or by the end of validity.
    pub fn is_lost(&self) -> bool {
        self.loss().is_some()
    }

    /// Waits until the lock is lost: when a renewal finds it gone, or at the end of validity, also without a
    /// watchdog or any answer from Redis. A renewal moves that end.
    ///
    /// # Panics
    /// With [`TokioEnv`](crate::TokioEnv), if the runtime in which this future was first polled has ended. Outside of a
    /// runtime, if all runtimes in which a lock of the environment was acquired have ended.
    pub async fn lost(&self) -> Lost {
        match self.held.over().await {
            HoldStatus::Lost(lost) => lost,
            // `release` consumes the guard, so nobody is left to wait here.
            HoldStatus::Held(_) | HoldStatus::Releasing => Lost::ValidityEnded,
        }
    }

    /// Renews the lock for a whole TTL from now; returns the new end of validity. Takes at most two call timeouts, one
    /// for a connection and one for the answer, and not longer than the lock is valid.
    ///
    /// If the future is dropped, the key may be extended all the same; the end of validity is what it was.
    ///
    /// # Errors
    /// [`NotExtended::Lost`] where the hold has ended; [`NotExtended::Failed`] where the server refused or did
    /// not answer, in which case the end of validity is what it was.
    ///
    /// # Panics
    /// As [`lost`](Self::lost).
    pub async fn extend(&self) -> Result<Instant, NotExtended> {
        self.held.renew().await
    }

    /// Runs `work` while the lock is held, and returns its output with the guard. Once the lock is lost,
    /// `work` is dropped. Work that blocks its thread cannot be stopped, and may keep the watchdog from running; see
    /// [`Guard`]. Dropping the future drops the work, and then the guard.
    ///
    /// # Errors
    /// [`Lost`], where the lock was lost before the work was done.
    ///
    /// # Panics
    /// As [`lost`](Self::lost).
    pub async fn run<F: Future>(self, work: F) -> Result<(F::Output, Self), Lost> {
        let output = {
            let mut lost = pin!(self.lost());
            let mut work = pin!(work);
            poll_fn(|cx| {
                if let Poll::Ready(lost) = lost.as_mut().poll(cx) {
                    return Poll::Ready(Err(lost));
                }
                // A timer may fire late, above all after a pause, so the clock is read as well.
                if let Some(lost) = self.loss() {
                    return Poll::Ready(Err(lost));
                }
                work.as_mut().poll(cx).map(Ok)
            })
            .await?
        };
        Ok((output, self))
    }

    /// Releases the lock and reports the outcome. Dropping this future does not cancel the release, which runs as a
    /// task of its own. A deletion that has no answer, or is refused, is sent three times at most, with a pause of a
    /// quarter of the call timeout before the next. With a connection for each, this takes at most six and a half call
    /// timeouts. If none is answered, the outcome is [`Released::Unknown`], and a warning is logged.
    pub async fn release(self) -> Released {
        self.held.begin_release();
        self.held.hold.outcome().await
    }

    fn loss(&self) -> Option<Lost> {
        match self.held.status() {
            HoldStatus::Lost(lost) => Some(lost),
            HoldStatus::Held(_) | HoldStatus::Releasing => None,
        }
    }
}

impl<E: Env> Drop for Guard<E> {
    fn drop(&mut self) {
        self.held.begin_release();
    }
}

impl<E: Env> fmt::Debug for Guard<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("key", &format_args!("{}", self.held.target))
            .field("token", &self.held.token)
            .field("valid_until", &self.valid_until())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
