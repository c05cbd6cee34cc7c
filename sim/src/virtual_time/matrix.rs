//! Every recipe in every scenario, in the virtual world, on every core.
//!
//! Invariant: what is found depends on the scenario, the recipe and the seeds, not on how many threads
//! look. Deliberately absent: what was expected, which is set beside it elsewhere.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use scenarios::checker;
use scenarios::matrix::{Pair, VerdictCounts};
use scenarios::recipe::BuildError;
use scenarios::scenario::Scenario;
use scenarios::sweep::Facts;
use scenarios::verdict::{Level, Outcome, worst};

use super::choices::Choices;
use super::run::Runner;

/// A staged story is run with these seeds, where no others are asked for: it shows the same each time.
const STAGED: Range<u64> = 0..10;
/// The same where many wait: one schedule is as long as a hundred others, and draws as much.
const CROWDED: Range<u64> = 0..2;
/// So many clients are a crowd.
const CROWD: u32 = 50;
/// What is searched for is looked for in these.
const SEARCHED: Range<u64> = 0..100;

/// The seeds that a scenario is run with where no others are asked for.
fn usual(scenario: &Scenario) -> Range<u64> {
    match scenario.clients {
        _ if scenario.swarm.searched => SEARCHED,
        CROWD.. => CROWDED,
        _ => STAGED,
    }
}

/// What a matrix shows meanwhile, and how to end it early.
#[derive(Debug, Default)]
pub struct Progress {
    /// How many pairs have been run.
    pub done: AtomicU64,
    /// Once true, no further schedule is begun.
    pub stop: AtomicBool,
}

/// Runs every pair with the seeds that were asked for, or with as many as its kind of story takes, on so
/// many threads. Pairs that were not reached say so.
///
/// # Errors
/// [`BuildError`] where a recipe cannot work with its scenario's parameters.
pub fn pairs(
    scenarios: &[Scenario],
    seeds: Option<&Range<u64>>,
    threads: usize,
    progress: &Progress,
) -> Result<Vec<Pair>, BuildError> {
    let next = AtomicUsize::new(0);
    let found: Vec<Mutex<Option<Result<Pair, BuildError>>>> =
        scenarios.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some((scenario, place)) = {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    scenarios.get(place).zip(found.get(place))
                } {
                    let pair = pair(scenario, seeds.cloned(), progress);
                    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(pair);
                    progress.done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let taken = found.into_iter().zip(scenarios).map(|(place, scenario)| {
        let pair = place.into_inner().unwrap_or_else(PoisonError::into_inner);
        pair.unwrap_or_else(|| Ok(interrupted(scenario)))
    });
    taken.collect()
}

/// One pair over its seeds.
fn pair(
    scenario: &Scenario,
    seeds: Option<Range<u64>>,
    progress: &Progress,
) -> Result<Pair, BuildError> {
    let seeds = seeds.unwrap_or_else(|| usual(scenario));
    let mut runner = Runner::new(scenario)?;
    let mut runs = [VerdictCounts::default(); 4];
    let mut lasted_ns = 0;
    for seed in seeds {
        if progress.stop.load(Ordering::Relaxed) {
            return Ok(interrupted(scenario));
        }
        let facts = runner.run(seed, Choices::seeded(seed)).facts;
        lasted_ns += facts.virtual_ns;
        for (tally, shown) in runs.iter_mut().zip(of(&runner, facts)) {
            tally.add(seed, shown);
        }
    }
    Ok(Pair::found(scenario, runs).lasting(lasted_ns))
}

fn interrupted(scenario: &Scenario) -> Pair {
    Pair::not_run(scenario, Some("interrupted".to_owned()))
}

/// What one schedule shows at each level, in the order of [`Level::ALL`].
pub fn shown(runner: &mut Runner, seed: u64) -> [Outcome; 4] {
    let facts = runner.run(seed, Choices::seeded(seed)).facts;
    of(runner, facts)
}

/// What the schedule that was just run shows.
fn of(runner: &Runner, facts: Facts) -> [Outcome; 4] {
    let stuck = facts.stuck > 0;
    runner.journal().look(|history| {
        let findings = checker::judge(history, true);
        Level::ALL.map(|level| {
            let of_level = findings.iter().filter(|it| it.level == level);
            let stuck = (stuck && level == Level::Progress).then_some(Outcome::Violated);
            worst(of_level.map(|it| it.verdict.outcome()).chain(stuck))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenarios() -> Vec<Scenario> {
        let pairs =
            [("crash-holder", "no-ttl"), ("crash-holder", "single"), ("bonus-pool", "none")];
        pairs.map(|(name, lock)| Pair::scenario(name, lock).unwrap()).into()
    }

    #[test]
    fn what_is_found_does_not_depend_on_the_number_of_threads() {
        let on = |threads| pairs(&scenarios(), Some(&(0..3)), threads, &Progress::default());
        let alone = on(1).unwrap();
        assert_eq!(alone[0].cells[3].runs.first_violated, Some(0));
        assert_eq!(alone[1].cells[3].runs.held, 3);
        assert_eq!(on(3).unwrap(), alone);
    }

    #[test]
    fn what_was_not_reached_says_so() {
        let progress = Progress::default();
        progress.stop.store(true, Ordering::Relaxed);
        let found = pairs(&scenarios(), None, 2, &progress).unwrap();
        assert!(found.iter().all(|it| it.cells.is_empty() && it.not_run.is_some()));
    }
}
