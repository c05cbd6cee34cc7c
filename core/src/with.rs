//! Work under a lock, from the guard to the release.
//!
//! Invariant: output is returned as protected only where the lock was still held when the work was done.
//! Work that was not protected is reported and not undone.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::env::Env;
use crate::fence::Fence;
use crate::guard::Guard;
use crate::held_lock::HeldLock;
use crate::lock::{Lost, Released};
use crate::shared_hold::HoldStatus;
use crate::time::Instant;

/// The state of a lock, for the work done under it. It does not keep the lock: once the guard is dropped, it
/// reports the lock as not valid.
#[derive(Clone)]
pub struct Holding<E: Env> {
    held: Arc<HeldLock<E>>,
}

impl<E: Env> Holding<E> {
    /// The fencing token of this hold; see [`Guard::fence`].
    pub fn fence(&self) -> Option<Fence> {
        self.held.fence
    }

    /// The end of validity so far; see [`Guard::valid_until`].
    pub fn valid_until(&self) -> Instant {
        self.held.hold.valid_until()
    }

    /// How much validity is left; zero once the lock is lost or being released.
    pub fn remaining(&self) -> Duration {
        self.held.remaining()
    }

    /// True while the lock may be relied on. Reads the clock; sends nothing.
    pub fn is_valid(&self) -> bool {
        matches!(self.held.status(), HoldStatus::Held(_))
    }
}

impl<E: Env> fmt::Debug for Holding<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding")
            .field("key", &format_args!("{}", self.held.target))
            .field("valid_until", &self.valid_until())
            .finish_non_exhaustive()
    }
}

/// The lock did not last until the work was done. It is an error whatever the output is, and `Debug` leaves the output
/// out.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unprotected<T> {
    /// It was lost while the work ran, and the work was dropped.
    #[error("work stopped: {0}")]
    Stopped(Lost),
    /// The work was done, but the release found that the lock may have ended before that.
    #[error("work done, but the lock may have ended before it: {released:?}")]
    Done {
        /// The output of the work.
        output: T,
        /// The outcome of the release; never [`Released::Released`].
        released: Released,
    },
}

impl<T> From<Lost> for Unprotected<T> {
    fn from(lost: Lost) -> Self {
        Self::Stopped(lost)
    }
}

impl<T> fmt::Debug for Unprotected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(lost) => f.debug_tuple("Stopped").field(lost).finish(),
            Self::Done { released, .. } => {
                f.debug_struct("Done").field("released", released).finish_non_exhaustive()
            }
        }
    }
}

impl<E: Env> Guard<E> {
    /// The state of this lock, for the work done under it.
    pub fn holding(&self) -> Holding<E> {
        Holding { held: Arc::clone(&self.held) }
    }

    /// Does the work while the lock is held, and releases it. Dropping the future stops the work and
    /// releases the lock.
    ///
    /// A release that has no answer or is refused, after work that was done within the validity, is no error: the work
    /// was protected. `Ok` does not say that the lock is free: its key expires at the latest with its TTL, and a warning
    /// is logged.
    ///
    /// # Errors
    /// [`Unprotected`], where the lock did not last until the work was done.
    pub async fn protect<F: Future>(
        self,
        work: impl FnOnce(Holding<E>) -> F,
    ) -> Result<F::Output, Unprotected<F::Output>> {
        let work = work(self.holding());
        let (output, guard) = self.run(work).await?;
        let in_time = guard.is_valid();
        match guard.release().await {
            Released::Released => Ok(output),
            Released::Unknown(_) if in_time => Ok(output),
            released => Err(Unprotected::Done { output, released }),
        }
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::testing::{Fault, MS, TTL, TestEnv, World, exact};

    fn taken(world: &World) -> Guard<TestEnv> {
        world.block_on(world.lock(exact().fenced()).try_acquire()).unwrap()
    }

    #[test]
    fn work_is_done_under_the_lock_which_is_free_behind_it() {
        let world = World::new();
        let guard = taken(&world);
        let end = guard.valid_until();
        let work = |holding: Holding<TestEnv>| async move {
            assert!(holding.is_valid());
            assert_eq!((holding.remaining(), holding.valid_until()), (TTL, end));
            assert_eq!(holding.fence(), Some(Fence::new(1)));
            holding
        };
        let left = world.block_on(guard.protect(work)).unwrap();
        assert!(!left.is_valid(), "it holds nothing");
        assert_eq!(left.remaining(), Duration::ZERO);
        assert_eq!(world.value("k"), None);
    }

    #[test]
    fn work_is_stopped_when_validity_ends() {
        let world = World::new();
        let guard = taken(&world);
        let stopped = world.block_on(guard.protect(|_| pending::<()>())).unwrap_err();
        assert_eq!(stopped, Unprotected::Stopped(Lost::ValidityEnded));
        assert_eq!(world.now(), Instant::from_ns(0).after(TTL));
    }

    #[test]
    fn a_key_that_went_before_the_work_was_done_is_told_with_its_output() {
        for (left, released) in
            [(None, Released::AlreadyExpired), (Some("another"), Released::TakenByOther)]
        {
            let world = World::new();
            let guard = taken(&world);
            let work = |_| {
                world.put("k", left);
                async { 7 }
            };
            let done = world.block_on(guard.protect(work)).unwrap_err();
            assert_eq!(done, Unprotected::Done { output: 7, released });
        }
    }

    #[test]
    fn a_release_without_an_answer_harms_no_work_that_was_done_in_time() {
        let world = World::new();
        let guard = taken(&world);
        world.fault_times(10, "DELETE", Fault::Hang);
        assert_eq!(world.block_on(guard.protect(|_| async { 7 })), Ok(7));
        // At the end of validity it is another matter: the last poll of the work was too long.
        let world = World::new();
        let guard = taken(&world);
        world.fault_times(10, "DELETE", Fault::Hang);
        let work = |_| {
            let world = world.clone();
            async move { world.pause_clients(TTL) }
        };
        let late = world.block_on(guard.protect(work)).unwrap_err();
        assert!(
            matches!(late, Unprotected::Done { released: Released::Unknown(_), .. }),
            "{late:?}"
        );
    }

    #[test]
    fn dropping_the_future_stops_the_work_and_releases() {
        let world = World::new();
        let guard = taken(&world);
        assert!(world.poll_and_drop(guard.protect(|_| pending::<()>())).is_none());
        world.advance(MS);
        assert_eq!(world.value("k"), None);
    }
}
