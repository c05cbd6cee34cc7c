//! Sweeps: many seeds, on every core.
//!
//! Invariant: what is found depends on the scenario and the seeds, not on how many threads look, nor
//! in which order they come. Deliberately absent: shrinking what is found.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use scenarios::history::{self, History};
use scenarios::recipe::BuildError;
use scenarios::scenario::Scenario;
use scenarios::sweep::{Digest, Facts, Sweep};

use super::choices::Choices;
use super::run::Runner;

/// What to sweep, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Which seeds, the last one excluded.
    pub seeds: Range<u64>,
    /// On how many threads.
    pub threads: usize,
    /// How many of the lowest failing seeds are kept.
    pub keep: usize,
    /// Whether every history is written and digested, too, which takes longer than running it.
    pub digest: bool,
}

/// What a sweep shows meanwhile, and how to end it early.
#[derive(Debug, Default)]
pub struct Progress {
    /// How many schedules have been run.
    pub done: AtomicU64,
    /// Once true, no further schedule is begun.
    pub stop: AtomicBool,
}

/// Runs every seed.
///
/// # Errors
/// [`BuildError`] where the recipe cannot work with the scenario's parameters.
pub fn sweep(scenario: &Scenario, order: &Order, progress: &Progress) -> Result<Sweep, BuildError> {
    // Looked at before any thread begins, so that what is wrong is said once.
    drop(Runner::new(scenario)?);
    let next = AtomicU64::new(0);
    let whole = Mutex::new(Sweep::default());
    std::thread::scope(|scope| {
        for _ in 0..order.threads.max(1) {
            scope.spawn(|| {
                let Ok(mut runner) = Runner::new(scenario) else { return };
                let part = work(&mut runner, order, &next, progress);
                let mut whole = whole.lock().unwrap_or_else(PoisonError::into_inner);
                whole.merge(part, order.keep);
            });
        }
    });
    Ok(whole.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Runs seeds, one after the other, as long as there are any.
fn work(runner: &mut Runner, order: &Order, next: &AtomicU64, progress: &Progress) -> Sweep {
    let total = order.seeds.end.saturating_sub(order.seeds.start);
    let mut part = Sweep::default();
    while !progress.stop.load(Ordering::Relaxed) {
        let place = next.fetch_add(1, Ordering::Relaxed);
        if place >= total {
            break;
        }
        let seed = order.seeds.start + place;
        let schedule = runner.run(seed, Choices::seeded(seed));
        runner.journal().look(|history| {
            let digest = order.digest.then(|| digest(seed, history));
            part.add(seed, history, Facts { digest, ..schedule.facts }, order.keep);
        });
        progress.done.fetch_add(1, Ordering::Relaxed);
    }
    part
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

#[cfg(test)]
mod tests {
    use scenarios::scenario::Overrides;

    use super::*;

    #[test]
    fn what_is_found_does_not_depend_on_the_number_of_threads() {
        let text = scenarios::catalog::text("bonus-pool").unwrap();
        for lock in ["single", "none"] {
            let overrides = Overrides { lock: Some(lock.to_owned()), ..Overrides::default() };
            let scenario = Scenario::parse("pool", "pool.toml", text, &overrides).unwrap();
            let on = |threads| {
                let order = Order { seeds: 5..45, threads, keep: 3, digest: true };
                let progress = Progress::default();
                let found = sweep(&scenario, &order, &progress).unwrap();
                assert_eq!(progress.done.into_inner(), 40);
                found
            };
            let alone = on(1);
            assert_eq!(alone.schedules, 40);
            assert!(alone.digest.is_some());
            assert_eq!(on(2), alone);
            assert_eq!(on(7), alone);
            let seeds = u64::MAX - 2..u64::MAX;
            let last = Order { seeds, threads: 3, keep: 3, digest: false };
            assert_eq!(sweep(&scenario, &last, &Progress::default()).unwrap().schedules, 2);
            assert_eq!(alone.failing.len(), if lock == "none" { 3 } else { 0 });
        }
    }
}
