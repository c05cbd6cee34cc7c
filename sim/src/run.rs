//! `picklock run`: a scenario from the command line to the report.
//!
//! Invariant: nothing is started before everything that can be wrong with the user's words has been
//! looked at, and the report's directory is there before the first client is. Deliberately absent:
//! judgement and drawing.

mod replay;
pub(super) mod report;
mod schedules;

use std::io::ErrorKind;
use std::time::SystemTime;

use reports::directory::{RunDirectory, WriteError};
use scenarios::recipe::BuildError;
use scenarios::scenario::Scenario;
use scenarios::trial::{Naming, Trial};
use tokio::sync::watch;

pub(super) use self::replay::main as replay;
use self::report::Made;
use super::args::{RunArgs, World};
use super::exit::Exit;
use super::failure::Failure;
use super::progress::Progress;
use super::terminal::Terminal;
use super::world::{self, Chosen};
use super::{load, output, print, signal};
use live_world::capability;
use live_world::endpoint::{KeySpace, Settings};
use live_world::env::LiveEnv;
use live_world::fleet::Fleet;
use live_world::run::{CutShort, Gauge, Order, Run, RunError, run};

/// Why the live worlds have no searched forms.
pub(super) const SEARCHED_LIVE: &str =
    "--searched asks for faults that strike at random, and only the virtual world draws them";

/// Runs, reports, and says how picklock ends.
pub(super) fn main(args: &RunArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::check(&args.format)?;
    let scenario = load::scenario(args)?;
    world::refuse_several(&args.server)?;
    if args.world == World::Virtual {
        return schedules::main(args, &scenario, terminal);
    }
    if args.searched {
        return Err(Failure::usage_text(SEARCHED_LIVE, "add --world virtual"));
    }
    if let Some(seeds) = &args.seeds {
        return Err(Failure::usage_text(
            format!("--seeds {seeds} asks for many schedules, and only the virtual world has them"),
            "add --world virtual, or give one --seed",
        ));
    }
    let chosen = world::choose(args.world, &args.server)?;
    if let Some((why, help)) = world::cannot(chosen.world, &scenario) {
        return Err(Failure::usage_text(why, help));
    }
    let seed = seed(args)?;
    let world = chosen.world.name();
    // Only to see whether it can be put together: nothing is started in vain.
    let naming = Naming { world, seed, prefix: "", exact: false };
    Trial::<LiveEnv>::new(&scenario, naming).map_err(|error| unbuildable(&error))?;
    let (started, directory) = directory(args, &scenario, seed)?;
    if !terminal.is_quiet() {
        print::note(&chosen.why);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(&error))?;
    let made = runtime.block_on(live(&scenario, chosen, seed, terminal))?;
    // What is still at work, a resolver say, is not waited for.
    runtime.shutdown_background();
    let Some(made) = made else {
        print::note("interrupted before the run began: there is nothing to report");
        return Ok(Exit::Interrupted);
    };
    let order = Order { scenario: &scenario, seed, world };
    report::write(args, order, &started, made, directory, terminal)
}

/// The seed that was given, or one that is drawn.
fn seed(args: &RunArgs) -> Result<u64, Failure> {
    match args.seed {
        Some(seed) => Ok(seed),
        // Short enough to be read out, and exact in every JSON reader.
        None => Ok(draw()? >> 32),
    }
}

/// The time at which the run begins, and the directory its report goes to.
fn directory(
    args: &RunArgs,
    scenario: &Scenario,
    seed: u64,
) -> Result<(String, RunDirectory), Failure> {
    let started = now();
    let stamp: String = started.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let directory = RunDirectory::create(&args.out, &scenario.name, &stamp, seed)
        .map_err(|error| no_directory(&error))?;
    Ok((started, directory))
}

/// The run itself; none where it was interrupted before it had a server.
async fn live(
    scenario: &Scenario,
    chosen: Chosen,
    seed: u64,
    terminal: &Terminal,
) -> Result<Option<Made>, Failure> {
    let mut interrupted = signal::watch().map_err(|error| Failure::unavailable(&error))?;
    let unique = draw()?;
    let keys = KeySpace::of_run(&format!("{}-{seed}-{unique:016x}", scenario.name));
    let world = chosen.world.name();
    let settings = Settings { software: scenario.software(), ..Settings::default() };
    let opening = Fleet::open(chosen.choice, keys, &settings, scenario);
    let fleet = tokio::select! {
        biased;
        Ok(_) = interrupted.wait_for(|interrupted| *interrupted) => return Ok(None),
        fleet = opening => fleet.map_err(|error| Failure::unavailable(&error))?,
    };
    let made = on(&fleet, Order { scenario, seed, world }, terminal, interrupted).await;
    fleet.close().await;
    made
}

async fn on(
    fleet: &Fleet,
    order: Order<'_>,
    terminal: &Terminal,
    interrupted: watch::Receiver<bool>,
) -> Result<Option<Made>, Failure> {
    let gauge = Gauge::default();
    let clients = u64::from(order.scenario.clients);
    let shown = gauge.clone();
    let done = move || u64::from(shown.done());
    let progress = Progress::show(terminal, done, clients, "clients");
    let capabilities = capability::facts(&capability::of(fleet.first()).await);
    let run = run(fleet, order, &gauge, interrupted).await;
    drop(progress);
    let run: Run = match run {
        Err(RunError::Interrupted) => return Ok(None),
        run => run.map_err(|error| failed(&error))?,
    };
    if run.cut_short == Some(CutShort::Interrupted) && !terminal.is_quiet() {
        print::note("interrupted: writing what there is");
    }
    let (server, is_private) = (fleet.server().clone(), fleet.is_private());
    let logs = fleet.logs().await;
    Ok(Some(Made { run, server, capabilities, logs, is_private }))
}

/// Why there was no run, as picklock ends then.
pub(super) fn failed(error: &RunError) -> Failure {
    match error {
        RunError::Build(build) => unbuildable(build),
        RunError::Panicked(_) => Failure::internal(error.to_string()),
        _ => Failure::unavailable(error),
    }
}

pub(super) fn unbuildable(error: &BuildError) -> Failure {
    let help = "change the TTL with --ttl, or the recipe with --lock";
    Failure::usage_text(error.to_string(), help)
}

/// A place that cannot be written is the user's to change; a disk that is full may be right
/// tomorrow.
fn no_directory(error: &WriteError) -> Failure {
    match error {
        WriteError::Create { source, .. } if source.kind() == ErrorKind::StorageFull => {
            Failure::unavailable(error)
        }
        _ => Failure::usage_error(error),
    }
}

pub(super) fn draw() -> Result<u64, Failure> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a seed that nobody chose has to come from somewhere"
    )]
    getrandom::u64().map_err(|error| Failure::unavailable(&error))
}

/// The time, such as `2026-11-21T06:15:00Z`.
pub(crate) fn now() -> String {
    #[expect(clippy::disallowed_methods, reason = "a report says when it was made")]
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
