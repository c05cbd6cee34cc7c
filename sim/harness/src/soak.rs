//! Soaks: every pair in turn with fresh seeds, on every core, until somebody says stop or something is violated.
//!
//! Invariant: which seeds a pair runs depends on the soak's base seed, not on the number of threads or on how often it was ended
//! and gone on with.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scenarios::scenario::Scenario;
use scenarios::soak::{Soak, Turn};
use scenarios::sweep::Sweep;

use crate::sweep::BatchProgress;
use crate::threads::on_threads;
use crate::world::{RunError, RunRequest, World};

/// A soak that is under way, shared between those who run it and those who look at it.
#[derive(Debug, Default)]
pub struct SharedSoak(Mutex<Soak>);

impl SharedSoak {
    /// Shares it.
    pub fn new(soak: Soak) -> Self {
        Self(Mutex::new(soak))
    }

    /// What there is so far.
    pub fn snapshot(&self) -> Soak {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Soak> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs pairs in turn on so many threads, until it is to stop, or a schedule violates what is claimed. The scenarios are those
/// of the soak's pairs, in their order.
///
/// # Errors
/// [`RunError`] where a scenario cannot run there.
pub fn soak<W: World>(
    world: impl Fn() -> W + Sync,
    scenarios: &[Arc<Scenario>],
    soak: &SharedSoak,
    threads: usize,
    progress: &BatchProgress,
) -> Result<(), RunError> {
    // Checked before any thread begins, so that nobody soaks for hours to hear of it.
    let first = world();
    scenarios.iter().try_for_each(|scenario| first.check(scenario))?;
    let failed = Mutex::new(None);
    on_threads(threads, || {
        if let Err(error) = work(world(), scenarios, soak, progress) {
            progress.stop.store(true, Ordering::Relaxed);
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    })?;
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Takes turns, one after the other.
fn work(
    mut world: impl World,
    scenarios: &[Arc<Scenario>],
    soak: &SharedSoak,
    progress: &BatchProgress,
) -> Result<(), RunError> {
    while !progress.stop.load(Ordering::Relaxed) {
        let turn = soak.locked().take(|place| scenarios[place].is_crowded());
        let scenario = &scenarios[turn.place];
        match swept(&mut world, scenario, &turn, progress)? {
            None => soak.locked().leave(&turn),
            Some(found) => {
                let mut soak = soak.locked();
                soak.done(&turn, scenario, found);
                if soak.conviction.is_some() {
                    progress.stop.store(true, Ordering::Relaxed);
                }
            }
        }
    }
    Ok(())
}

/// What the seeds of a turn show; nothing if it is to stop before all have been run.
fn swept(
    world: &mut impl World,
    scenario: &Arc<Scenario>,
    turn: &Turn,
    progress: &BatchProgress,
) -> Result<Option<Sweep>, RunError> {
    let mut found = Sweep::default();
    for seed in turn.seeds.clone() {
        if progress.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let run = world.run(&RunRequest::new(Arc::clone(scenario), seed))?;
        found.add(seed, &run.history, run.facts, 0);
        world.recycle(run);
        progress.done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(Some(found))
}
