//! Sweeps: many seeds, on every core.
//!
//! Invariant: what is found depends on the scenario and the seeds, not on the number of threads or their order.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use history::History;
use scenarios::scenario::Scenario;
use scenarios::sweep::{Digest, Facts, Sweep};

use crate::partition::Partition;
use crate::threads::on_threads;
use crate::world::{RunError, RunRequest, World};

/// What to sweep, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepPlan {
    /// Which seeds, the last one excluded.
    pub seeds: Range<u64>,
    /// Which of them; their place and their name are their number.
    pub part: Partition,
    /// On how many threads.
    pub threads: usize,
    /// How many of the lowest failing seeds are kept.
    pub keep: usize,
    /// Whether every history is written and digested, too, which takes longer than running it.
    pub digest: bool,
}

impl SweepPlan {
    /// How many schedules it runs.
    pub fn schedules(&self) -> u64 {
        self.seeds.clone().filter(|seed| self.takes(*seed)).count() as u64
    }

    fn takes(&self, seed: u64) -> bool {
        self.part.takes(seed, &seed.to_le_bytes())
    }
}

/// How far many runs in a row have come, and how to end them early: shared between those who run and those who watch.
#[derive(Debug, Default)]
pub struct BatchProgress {
    /// How many had been run by another process, which was cut short.
    pub before: AtomicU64,
    /// How many schedules of a sweep, or pairs of a matrix, have been run.
    pub done: AtomicU64,
    /// Once true, no further schedule is begun.
    pub stop: AtomicBool,
}

/// Runs every seed, on each thread in a world of its own.
///
/// # Errors
/// [`RunError`] where the scenario cannot run there.
pub fn sweep<W: World>(
    world: impl Fn() -> W + Sync,
    scenario: &Arc<Scenario>,
    plan: &SweepPlan,
    progress: &BatchProgress,
) -> Result<Sweep, RunError> {
    // Checked before any thread begins, so that an error is reported once.
    world().check(scenario)?;
    let next = AtomicU64::new(0);
    let whole = Mutex::new(Ok(Sweep::default()));
    on_threads(plan.threads, || {
        let part = work(world(), scenario, plan, &next, progress);
        let mut whole = whole.lock().unwrap_or_else(PoisonError::into_inner);
        match (&mut *whole, part) {
            (Ok(whole), Ok(part)) => whole.merge(part, plan.keep),
            (Ok(_), Err(error)) => *whole = Err(error),
            (Err(_), _) => {}
        }
    })?;
    whole.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs seeds, one after the other, as long as there are any.
fn work(
    mut world: impl World,
    scenario: &Arc<Scenario>,
    plan: &SweepPlan,
    next: &AtomicU64,
    progress: &BatchProgress,
) -> Result<Sweep, RunError> {
    let total = plan.seeds.end.saturating_sub(plan.seeds.start);
    let mut part = Sweep::default();
    while !progress.stop.load(Ordering::Relaxed) {
        let place = next.fetch_add(1, Ordering::Relaxed);
        if place >= total {
            break;
        }
        let seed = plan.seeds.start + place;
        if !plan.takes(seed) {
            continue;
        }
        let run = world.run(&RunRequest::new(Arc::clone(scenario), seed))?;
        let digest = plan.digest.then(|| digest(seed, &run.history));
        part.add(seed, &run.history, Facts { digest, ..run.facts }, plan.keep);
        world.recycle(run);
        progress.done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(part)
}

/// The digest of a seed and its history as it would be written.
fn digest(seed: u64, history: &History) -> Digest {
    let mut bytes = seed.to_le_bytes().to_vec();
    // Writing to memory does not fail.
    let _ = history::write(history, &mut bytes);
    let digest = sha1_smol::Sha1::from(bytes).digest().bytes();
    let word = |from: usize| u64::from_be_bytes(std::array::from_fn(|byte| digest[from + byte]));
    Digest([word(0), word(8)])
}
