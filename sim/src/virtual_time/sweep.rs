//! Sweeps: many seeds, on every core.
//!
//! Invariant: what is found depends on the scenario and the seeds, not on how many threads look, nor
//! in which order they come. Deliberately absent: shrinking what is found.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use scenarios::recipe::BuildError;
use scenarios::scenario::Scenario;
use scenarios::sweep::Sweep;

use super::choices::Choices;
use super::run::Runner;

/// Runs every seed of the range on so many threads, keeping the lowest `keep` that fail. `done` is
/// counted up meanwhile; once `stop` is true no further seed is begun.
///
/// # Errors
/// [`BuildError`] where the recipe cannot work with the scenario's parameters.
pub fn sweep(
    scenario: &Scenario,
    seeds: Range<u64>,
    threads: usize,
    keep: usize,
    done: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Sweep, BuildError> {
    // Looked at before any thread begins, so that what is wrong is said once.
    drop(Runner::new(scenario)?);
    let next = AtomicU64::new(seeds.start);
    let whole = Mutex::new(Sweep::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let Ok(mut runner) = Runner::new(scenario) else { return };
                let mut part = Sweep::default();
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let schedule = runner.run(seed, Choices::seeded(seed));
                    runner.journal().look(|history| part.add(seed, history, schedule.facts, keep));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                let mut whole = whole.lock().unwrap_or_else(PoisonError::into_inner);
                whole.merge(part, keep);
            });
        }
    });
    Ok(whole.into_inner().unwrap_or_else(PoisonError::into_inner))
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
                let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
                let found = sweep(&scenario, 5..45, threads, 3, &done, &stop).unwrap();
                assert_eq!(done.into_inner(), 40);
                found
            };
            let alone = on(1);
            assert_eq!(alone.schedules, 40);
            assert_eq!(on(2), alone);
            assert_eq!(on(7), alone);
            assert_eq!(alone.failing.len(), if lock == "none" { 3 } else { 0 });
        }
    }
}
