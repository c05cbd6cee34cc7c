//! The shipped lock at the work of a tuning, in whatever world: what the lease model is compared with.
//!
//! Invariant: nothing here computes what the lock does. What it says and what the server says are counted, and how
//! long everything took is measured. Deliberately absent: who else wants the lock, which is nobody.

use std::future::Future;
use std::time::Duration;

use picklock::env::{CallError, Env};
use picklock::{NotAcquired, Released, Single};

use super::law::Dice;
use super::lease::Conditions;

/// A client that can be had to stand still.
pub trait StandStill: Env {
    /// It does nothing for so long, and goes on.
    fn stand_still(&self, span: Duration) -> impl Future<Output = ()> + Send;
}

/// Why a hold cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unplayed {
    /// The lock was not granted.
    #[error("a lock that nobody else wants was not granted: {0}")]
    NotAcquired(#[from] NotAcquired),
    /// The release had no answer.
    #[error("a release had no answer: {0}")]
    Unanswered(CallError),
    /// It is another's.
    #[error("a lock that nobody else wants was another's")]
    Another,
}

/// What has been counted and measured.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Those whose validity ended before their work.
    pub lost: u64,
    /// Those whose release came after the end of their lease.
    pub outlived: u64,
    /// How long each acquisition took, in nanoseconds.
    pub round_trips: Vec<u64>,
    /// How long the work of each took, without its pauses.
    pub works: Vec<u64>,
    /// How long each pause was.
    pub pauses: Vec<u64>,
}

impl Played {
    /// How many holds.
    pub fn holds(&self) -> u64 {
        self.works.len() as u64
    }

    /// Adds what another client has counted.
    pub fn merge(&mut self, mut other: Self) {
        self.lost += other.lost;
        self.outlived += other.outlived;
        self.round_trips.append(&mut other.round_trips);
        self.works.append(&mut other.works);
        self.pauses.append(&mut other.pauses);
    }

    /// Takes the lock, does the work under it, and gives it back.
    ///
    /// # Errors
    /// [`Unplayed`].
    pub async fn hold<E: StandStill>(
        &mut self,
        env: &E,
        lock: &Single<E>,
        conditions: &Conditions,
        dice: &mut Dice,
    ) -> Result<(), Unplayed> {
        let asked = env.now();
        let guard = lock.try_acquire().await?;
        let round_trip_ns = env.now().as_ns() - asked.as_ns();
        let (work_ns, mut pauses) = work(env, conditions, dice).await;
        let lost = !guard.is_valid();
        let outlived = match guard.release().await {
            Released::Released => false,
            Released::AlreadyExpired => true,
            Released::Unknown(error) => return Err(Unplayed::Unanswered(error)),
            _ => return Err(Unplayed::Another),
        };
        self.lost += u64::from(lost);
        self.outlived += u64::from(outlived);
        self.round_trips.push(round_trip_ns);
        self.works.push(work_ns);
        self.pauses.append(&mut pauses);
        Ok(())
    }
}

/// Works for so long as its process runs, which stands still now and then: how long that took, and how long each
/// pause was.
async fn work<E: StandStill>(env: &E, conditions: &Conditions, dice: &mut Dice) -> (u64, Vec<u64>) {
    let per_ns = conditions.pause.as_ref().map_or(0.0, |(per_ns, _)| *per_ns);
    let mut left_ns = conditions.hold.draw(dice);
    let (mut worked_ns, mut pauses) = (0, Vec::new());
    loop {
        let gap_ns = dice.gap(per_ns);
        let begun = env.now();
        env.sleep(Duration::from_nanos(gap_ns.min(left_ns))).await;
        let stopped = env.now();
        worked_ns += stopped.as_ns() - begun.as_ns();
        let Some((_, lengths)) = conditions.pause.as_ref().filter(|_| gap_ns < left_ns) else {
            return (worked_ns, pauses);
        };
        left_ns -= gap_ns;
        env.stand_still(Duration::from_nanos(lengths.draw(dice))).await;
        pauses.push(env.now().as_ns() - stopped.as_ns());
    }
}
