//! The shipped lock under the conditions of a tuning, in any world: the lease model is validated against it.
//!
//! Invariant: nothing here computes what the lock does. What the lock and the server report is counted, and durations
//! are measured. Nobody else wants the lock.

use std::future::Future;
use std::time::Duration;

use picklock::env::{CallError, Env};
use picklock::{NotAcquired, Released, Single};

use super::law::Random;
use super::lease::Conditions;

/// A client that can be paused.
pub trait Pausable: Env {
    /// Pauses the whole process for `span`.
    fn pause_for(&self, span: Duration) -> impl Future<Output = ()> + Send;
}

/// Why a hold does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// The lock was not granted.
    #[error("an uncontended lock was not granted: {0}")]
    NotAcquired(#[from] NotAcquired),
    /// The release had no answer.
    #[error("the release was not answered: {0}")]
    Unanswered(CallError),
    /// Another client holds it.
    #[error("an uncontended lock belonged to another client")]
    Another,
}

/// Holds of the shipped lock, counted and measured.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// Holds whose validity ended before their work.
    pub lost: u64,
    /// Holds whose release arrived after the end of their lease.
    pub outlived: u64,
    /// Duration of each acquisition, in nanoseconds.
    pub round_trips: Vec<u64>,
    /// Work of each hold without pauses, in nanoseconds.
    pub works: Vec<u64>,
    /// Length of each pause, in nanoseconds.
    pub pauses: Vec<u64>,
}

impl Measurements {
    /// Number of holds.
    pub fn holds(&self) -> u64 {
        self.works.len() as u64
    }

    /// Adds the measurements of another client.
    pub fn merge(&mut self, mut other: Self) {
        self.lost += other.lost;
        self.outlived += other.outlived;
        self.round_trips.append(&mut other.round_trips);
        self.works.append(&mut other.works);
        self.pauses.append(&mut other.pauses);
    }

    /// Acquires the lock, works, and releases it.
    ///
    /// # Errors
    /// [`HoldError`].
    pub async fn hold<E: Pausable>(
        &mut self,
        env: &E,
        lock: &Single<E>,
        conditions: &Conditions,
        random: &mut Random,
    ) -> Result<(), HoldError> {
        let asked = env.now();
        let guard = lock.try_acquire().await?;
        let round_trip_ns = env.now().as_ns() - asked.as_ns();
        let (work_ns, mut pauses) = work(env, conditions, random).await;
        let lost = !guard.is_valid();
        let outlived = match guard.release().await {
            Released::Released => false,
            Released::AlreadyExpired => true,
            Released::Unknown(error) => return Err(HoldError::Unanswered(error)),
            _ => return Err(HoldError::Another),
        };
        self.lost += u64::from(lost);
        self.outlived += u64::from(outlived);
        self.round_trips.push(round_trip_ns);
        self.works.push(work_ns);
        self.pauses.append(&mut pauses);
        Ok(())
    }
}

/// Works while its process runs, with pauses: the time worked, and the length of each pause.
async fn work<E: Pausable>(
    env: &E,
    conditions: &Conditions,
    random: &mut Random,
) -> (u64, Vec<u64>) {
    let per_ns = conditions.pauses_per_ns();
    let mut left_ns = conditions.hold.draw(random);
    let (mut worked_ns, mut pauses) = (0, Vec::new());
    loop {
        let gap_ns = random.gap(per_ns);
        let begun = env.now();
        env.sleep(Duration::from_nanos(gap_ns.min(left_ns))).await;
        let stopped = env.now();
        worked_ns += stopped.as_ns() - begun.as_ns();
        let Some((_, lengths)) = conditions.pause.as_ref().filter(|_| gap_ns < left_ns) else {
            return (worked_ns, pauses);
        };
        left_ns -= gap_ns;
        env.pause_for(Duration::from_nanos(lengths.draw(random))).await;
        pauses.push(env.now().as_ns() - stopped.as_ns());
    }
}
