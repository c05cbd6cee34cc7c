//! Workload W: `bonus-pool` with the lock `single` and its whole swarm of faults, in virtual time.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use harness::partition::Partition;
use harness::sweep::{BatchProgress, SweepPlan, sweep};
use harness::world::{RunRequest, World};
use history::What;
use nix::time::{ClockId, clock_gettime};
use scenarios::catalog;
use scenarios::scenario::{Overrides, Scenario};
use scenarios::sweep::Sweep;
use virtual_world::VirtualWorld;

/// What is run.
///
/// # Errors
/// Where the catalogue has no such scenario.
pub fn scenario() -> Result<Arc<Scenario>, Box<dyn Error>> {
    let lock = Some("single".to_owned());
    let overrides = Overrides { lock, ..Overrides::default() };
    let name = "bonus-pool";
    Ok(Arc::new(Scenario::parse(name, "bonus-pool.toml", catalog::text(name)?, &overrides)?))
}

/// Runs so many schedules with everything on.
///
/// # Errors
/// Where a world refuses the scenario.
pub fn run(scenario: &Arc<Scenario>, seeds: u64, threads: usize) -> Result<Sweep, Box<dyn Error>> {
    let plan =
        SweepPlan { seeds: 0..seeds, part: Partition::WHOLE, threads, keep: 1, digest: false };
    Ok(sweep(VirtualWorld::default, scenario, &plan, &BatchProgress::default())?)
}

/// What runs so many schedules of it in the program.
pub fn words(seeds: u64, threads: usize) -> Vec<String> {
    let all = format!(
        "run --scenario bonus-pool --lock single --world virtual --seeds 0..{seeds} --threads {threads} \
         --progress off"
    );
    all.split(' ').map(str::to_owned).collect()
}

/// How many commands clients send in so many schedules.
///
/// # Errors
/// Where a world refuses the scenario.
pub fn commands(scenario: &Arc<Scenario>, seeds: u64) -> Result<u64, Box<dyn Error>> {
    let (mut world, mut commands) = (VirtualWorld::default(), 0);
    for seed in 0..seeds {
        let run = world.run(&RunRequest::new(Arc::clone(scenario), seed))?;
        let sent = run.history.events.iter().filter(|it| matches!(it.what, What::Command { .. }));
        commands += sent.count() as u64;
        world.recycle(run);
    }
    Ok(commands)
}

/// How long processors have been busy with this, on all threads of the process.
///
/// # Errors
/// What the work says, and where the system does not tell the time.
pub fn timed<T>(
    work: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<(T, Duration), Box<dyn Error>> {
    let now = || clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from);
    let began = now()?;
    let done = work()?;
    Ok((done, now()?.saturating_sub(began)))
}
