//! Every recipe in every scenario, over many seeds, on every core.
//!
//! Invariant: what is found depends on the scenario, the recipe and the seeds, not on the number of threads.
//! Expectations are compared elsewhere, in [`scenarios::matrix`].

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use history::verdict::{Finding, Level, Outcome};
use scenarios::matrix::{INTERRUPTED, Pair, VerdictCounts};
use scenarios::scenario::Scenario;
use scenarios::sweep::{Facts, count};

use crate::sweep::BatchProgress;
use crate::threads::map_on_threads;
use crate::world::{Run, RunError, RunRequest, World};

/// The default seeds of a scenario whose faults are staged: it shows the same each time.
const STAGED: Range<u64> = 0..10;
/// The same with many clients.
const CROWDED: Range<u64> = 0..2;
/// The default seeds of a searched form.
const SEARCHED: Range<u64> = 0..100;
/// The default seeds where the scenario claims nothing about its recipe: one schedule is enough for an example.
const UNCLAIMED: Range<u64> = 0..1;

/// The default seeds of a scenario with its recipe.
fn default_seeds(scenario: &Scenario) -> Range<u64> {
    match scenario {
        _ if Pair::is_unclaimed(scenario) => UNCLAIMED,
        _ if scenario.swarm.searched => SEARCHED,
        _ if scenario.is_crowded() => CROWDED,
        _ => STAGED,
    }
}

/// Runs every pair with these seeds, or with the default ones of each, on so many threads. Pairs that were not
/// reached say so.
///
/// # Errors
/// [`RunError`] where a scenario cannot run there.
pub fn pairs<W: World>(
    world: impl Fn() -> W + Sync,
    scenarios: &[Arc<Scenario>],
    seeds: Option<&Range<u64>>,
    threads: usize,
    progress: &BatchProgress,
) -> Result<Vec<Pair>, RunError> {
    let found = map_on_threads(threads, scenarios, || {
        let mut world = world();
        move |_, scenario| {
            let pair = pair(&mut world, scenario, seeds.cloned(), progress);
            progress.done.fetch_add(1, Ordering::Relaxed);
            Some(pair)
        }
    })?;
    let all = found.into_iter().zip(scenarios);
    all.map(|(pair, scenario)| pair.unwrap_or_else(|| Ok(interrupted(scenario)))).collect()
}

/// One pair over its seeds.
fn pair(
    world: &mut impl World,
    scenario: &Arc<Scenario>,
    seeds: Option<Range<u64>>,
    progress: &BatchProgress,
) -> Result<Pair, RunError> {
    let seeds = seeds.unwrap_or_else(|| default_seeds(scenario));
    let (mut runs, mut invariants) = ([VerdictCounts::default(); 4], Vec::new());
    let mut lasted_ns = 0;
    for seed in seeds {
        if progress.stop.load(Ordering::Relaxed) {
            return Ok(interrupted(scenario));
        }
        let (findings, facts) = findings(world, scenario, seed)?;
        lasted_ns += facts.virtual_ns;
        findings.iter().for_each(|it| count(&mut invariants, seed, it));
        let levels = Level::ALL.into_iter().zip(&mut runs);
        levels.for_each(|(level, tally)| tally.add_run(seed, &findings, level));
    }
    Ok(Pair::swept(scenario, &invariants, runs).lasting(lasted_ns))
}

/// What one seed shows at each level, in the order of [`Level::ALL`](history::verdict::Level::ALL).
///
/// # Errors
/// [`RunError`] where the scenario cannot run there.
pub fn shown(
    world: &mut impl World,
    scenario: &Arc<Scenario>,
    seed: u64,
) -> Result<([Outcome; 4], Facts), RunError> {
    findings(world, scenario, seed).map(|(findings, facts)| (Run::levels(&findings), facts))
}

fn findings(
    world: &mut impl World,
    scenario: &Arc<Scenario>,
    seed: u64,
) -> Result<(Vec<Finding>, Facts), RunError> {
    let run = world.run(&RunRequest::new(Arc::clone(scenario), seed))?;
    let found = (run.findings(), run.facts);
    world.recycle(run);
    Ok(found)
}

fn interrupted(scenario: &Scenario) -> Pair {
    Pair::not_run(scenario, Some(INTERRUPTED.to_owned()))
}
