//! `picklock run`: a scenario from the command line to the report.
//!
//! Invariant: nothing is started before the whole command line and the scenario have been checked, and the
//! report's directory exists before the first client starts.

pub(super) mod expectation;
mod redraw;
mod replay;
pub(super) mod report;
mod schedule;
mod stored;
pub(super) mod sweep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use harness::world::{RunError, RunRequest, World as _};
use reports::directory::RunDirectory;
use scenarios::scenario::Scenario;
use virtual_world::WORLD;

pub(super) use self::redraw::main as redraw;
pub(super) use self::replay::main as replay;
use self::report::Report;
pub(super) use self::schedule::StoredSchedule;
use super::args::{RunArgs, World};
use super::exit::Exit;
use super::failure::Failure;
use super::progress::Progress;
use super::terminal::Terminal;
use super::world::{self, Opened};
use super::{load, output, print, regressions};

/// Why the live worlds have no searched forms.
pub(super) const SEARCHED_LIVE: &str =
    "--searched asks for faults that strike at random, and only the virtual world draws them";

/// Runs a scenario in a world, judges, writes the report, and returns the exit code.
pub(super) fn main(args: &RunArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::check(&args.format)?;
    output::refuse_of_part(&args.shard, &args.format)?;
    let scenario = Arc::new(load::scenario(args)?);
    expectation::check(args, &scenario)?;
    world::refuse_several(&args.server)?;
    if args.searched && args.world != World::Virtual {
        return Err(Failure::usage_text(SEARCHED_LIVE, "add --world virtual"));
    }
    world::refuse_lua(args.world, args.lua)?;
    match (&args.seeds, &args.shard.shards) {
        // A part of a sweep says only whether it was done.
        (Some(seeds), Some(_)) => return sweep::main(args, &scenario, seeds, terminal),
        (None, Some(_)) => {
            let why = "--shards saves a sweep, and without --seeds there is only one schedule";
            return Err(Failure::usage_text(why, "add --seeds A..B, or remove --shards"));
        }
        (_, None) => {}
    }
    let (lock, asked) = (&scenario.lock.recipe, args.scenario.as_deref());
    let kept = regressions::first(&args.regressions, lock, asked, terminal)?;
    if let Some(seeds) = &args.seeds {
        return sweep::main(args, &scenario, seeds, terminal)
            .map(|exit| exit.with_regressions(kept.broken, kept.stale));
    }
    let runtime = world::runtime()?;
    let entered = runtime.enter();
    let Opened { mut world, why } = world::open(args.world, &args.server, args.lua)?;
    world.check(&scenario)?;
    let request = request(&scenario, seed(args)?);
    let report = Report::begin(args, world.name(), &request)?;
    if let (Some(why), false) = (why, terminal.options.quiet) {
        print::note(&why);
    }
    // A schedule of the virtual world does not count its clients: there would be nothing to show.
    let is_live = args.world != World::Virtual;
    let progress = is_live.then(|| Progress::of_run(terminal, &request));
    let run = world.run(&request);
    drop((progress, entered));
    // Do not wait for threads that are still busy, such as a resolver.
    runtime.shutdown_background();
    match run {
        Err(error @ RunError::Interrupted) => {
            print::note(&format!("{error}: there is nothing to report"));
            Ok(Exit::Interrupted)
        }
        run => {
            report.write(run?, terminal).map(|exit| exit.with_regressions(kept.broken, kept.stale))
        }
    }
}

/// Runs again one of many schedules that were run without a report, and writes its report; returns where that is.
pub(super) fn one_of_many(
    args: &RunArgs,
    scenario: &Arc<Scenario>,
    seed: u64,
    terminal: &Terminal,
) -> Result<PathBuf, Failure> {
    let request = request(scenario, seed);
    let report = Report::begin(args, WORLD, &request)?;
    let run = world::simulated(args.lua).run(&request)?;
    report.files(run, terminal).1
}

/// Makes a directory for the results of a command.
pub(super) fn directory(out: &Path, name: &str, seed: u64) -> Result<RunDirectory, Failure> {
    RunDirectory::create(out, name, &stamp(&now()), seed)
        .map_err(|error| report::no_directory(&error))
}

/// A run of which a report is made.
fn request(scenario: &Arc<Scenario>, seed: u64) -> RunRequest {
    RunRequest { reported: true, ..RunRequest::new(Arc::clone(scenario), seed) }
}

/// The seed that was given, or one that is drawn.
fn seed(args: &RunArgs) -> Result<u64, Failure> {
    match args.seed {
        Some(seed) => Ok(seed),
        // Short enough to be read out, and exact in every JSON reader.
        None => Ok(draw()? >> 32),
    }
}

pub(super) fn draw() -> Result<u64, Failure> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a seed that nobody chose has to come from somewhere"
    )]
    getrandom::u64().map_err(Failure::unavailable)
}

/// The time, such as `2026-11-21T06:15:00Z`.
pub(crate) fn now() -> String {
    #[expect(clippy::disallowed_methods, reason = "a report says when it was made")]
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// A time as names of directories have it, such as `20261121T061500Z`.
pub(crate) fn stamp(utc: &str) -> String {
    utc.chars().filter(|c| !matches!(c, '-' | ':')).collect()
}
