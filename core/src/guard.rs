//! The guard: what the holder of a lock has in hand.
//!
//! Invariant: a guard that goes, goes with its lock: dropping it stops renewal and queues the
//! release, once. The release is a task: where the runtime ends before it has run, as behind a guard that
//! lives to the end of an `async fn main` on one thread, the key stays until its TTL is over, and a warning
//! says so. Deliberately absent: blocking, and any promise beyond local validity. A process
//! that stops for longer than the validity lasts cannot notice it in time; only the protected
//! resource can refuse its late write.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::env::{Env, Mark};
use crate::fence::Fence;
use crate::hold::Standing;
use crate::lease::Lease;
use crate::lock::{Lost, NotExtended, Released};
use crate::time::Instant;
use crate::token::OwnerToken;
use crate::watchdog;
use crate::with::Holding;

/// A held lock. Dropping it queues the release; [`release`](Self::release) also says what came of
/// it.
///
/// The release of a dropped guard is a task in the background, and a runtime that ends drops the tasks that have not
/// run: then the key stays for the rest of its TTL, the release counts as unknown, and a warning is logged. At the
/// end of a program, await `release`, or drop the guard and await [`Locks::drain`](crate::Locks::drain) or the
/// lock's own `drain`.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard<E: Env> {
    lease: Arc<Lease<E>>,
}

impl<E: Env> Guard<E> {
    /// Takes charge of a lease that has just been granted.
    pub(crate) fn new(lease: Lease<E>) -> Self {
        let lease = Arc::new(lease);
        let env = &lease.target.env;
        env.mark(Mark::ValidUntil(lease.hold.valid_until()));
        if let Some(renewal) = lease.target.options.renewal() {
            env.spawn(watchdog::watch(Arc::clone(&lease), renewal));
        }
        Self { lease }
    }

    /// The token of this acquisition.
    pub fn token(&self) -> &OwnerToken {
        &self.lease.token
    }

    /// The fencing token of this hold, where the lock has them ([`Options::fenced`]): higher than that
    /// of every hold before it. Show it to the resource with every write. It falls back if the server
    /// forgets, as a failover may have it do.
    ///
    /// [`Options::fenced`]: crate::options::OptionsBuilder::fenced
    pub fn fence(&self) -> Option<Fence> {
        self.lease.fence
    }

    /// The end of validity as now known, on this node's monotonic clock. The lock must not be
    /// relied on from this instant on, unless it is renewed before.
    pub fn valid_until(&self) -> Instant {
        self.lease.hold.valid_until()
    }

    /// How much validity is left; zero once the lock is lost.
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// True while the lock may be relied on. Reads the clock; asks nobody.
    pub fn is_valid(&self) -> bool {
        matches!(self.lease.standing(), Standing::Held(_))
    }

    /// True once the lock is lost, which is for ever: by a notice, or by the end of validity.
    pub fn is_lost(&self) -> bool {
        self.loss().is_some()
    }

    /// Waits until the lock is lost: by a notice of the watchdog, or at the end of validity even if
    /// there is no watchdog and Redis says nothing. Renewal moves that end.
    pub async fn lost(&self) -> Lost {
        match self.lease.over().await {
            Standing::Lost(lost) => lost,
            // The release takes the guard, so nobody is left to wait here.
            Standing::Held(_) | Standing::Releasing => Lost::ValidityEnded,
        }
    }

    /// Asks the server for another whole TTL, counted from now; returns the new end of validity.
    ///
    /// # Errors
    /// [`NotExtended::Lost`] where the hold has ended; [`NotExtended::Failed`] where the server
    /// refused or its answer is unknown, in which case the hold is valid for as long as before.
    pub async fn extend(&self) -> Result<Instant, NotExtended> {
        self.lease.renew().await
    }

    /// Runs `work` for as long as the lock is held, and gives the guard back with its output. Once
    /// the lock is lost, `work` is polled no more and dropped. Work that blocks its thread cannot
    /// be stopped.
    ///
    /// # Errors
    /// [`Lost`], where the lock was lost before the work was done.
    pub async fn run<F: Future>(self, work: F) -> Result<(F::Output, Self), Lost> {
        let output = {
            let mut lost = pin!(self.lost());
            let mut work = pin!(work);
            poll_fn(|cx| {
                if let Poll::Ready(lost) = lost.as_mut().poll(cx) {
                    return Poll::Ready(Err(lost));
                }
                // A timer may ring late, above all after a pause: the clock is asked as well.
                if let Some(lost) = self.loss() {
                    return Poll::Ready(Err(lost));
                }
                work.as_mut().poll(cx).map(Ok)
            })
            .await?
        };
        Ok((output, self))
    }

    /// What work under this lock may know of it, to give away.
    pub fn holding(&self) -> Holding<E> {
        Holding::of(&self.lease)
    }

    /// Releases the lock and says what came of it. Dropping this future does not recall the
    /// release, which runs as a task of its own. A deletion without an answer is tried again, a
    /// bounded number of times.
    pub async fn release(self) -> Released {
        self.lease.begin_release();
        self.lease.hold.outcome().await
    }

    fn loss(&self) -> Option<Lost> {
        match self.lease.standing() {
            Standing::Lost(lost) => Some(lost),
            Standing::Held(_) | Standing::Releasing => None,
        }
    }
}

impl<E: Env> Drop for Guard<E> {
    fn drop(&mut self) {
        self.lease.begin_release();
    }
}

impl<E: Env> fmt::Debug for Guard<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("key", &format_args!("{}", self.lease.target.key_text()))
            .field("token", &self.lease.token)
            .field("valid_until", &self.valid_until())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
