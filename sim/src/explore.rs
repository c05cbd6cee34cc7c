//! `picklock explore`: the smallest schedule that breaks a lock, as a scenario.
//!
//! Invariant: what is printed as a file is there, and shows in virtual time what is said of it. What was tried is said
//! together with the bounds within which it was.

#![expect(clippy::disallowed_methods, reason = "a budget is the user's time")]

mod report;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use explore::{Base, BaseError, Bounds, Counterexample, Explored, SearchPlan, SearchStage, search};
use harness::sweep::BatchProgress;
use reports::directory::{Latest, RunDirectory};
use reports::write::write_incident;
use scenarios::scenario::{Overrides, Scenario};

use self::report::ExploreReport;
use super::args::{ExploreArgs, Output, OutputFormat};
use super::exit::Exit;
use super::failure::Failure;
use super::line::Line;
use super::terminal::Terminal;
use super::world::{self, runtime};
use super::{confirm, load, output, print, run, signal};

/// Searches, makes what is found smaller, writes it, and has a redis-server confirm it.
pub(super) fn main(args: &ExploreArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let is_other = |it: &Output| !matches!(it.format, OutputFormat::Human | OutputFormat::Json);
    if args.format.iter().any(is_other) {
        return Err(Failure::usage_text(
            "explore has no JUnit or Markdown output",
            "use human or json, as in --format json",
        ));
    }
    output::check(&args.format)?;
    world::refuse_several(&args.server)?;
    let base = base(args)?;
    if args.beyond && base.is_sound() {
        return Err(Failure::usage_text(
            format!(
                "{} assumes that servers do not forget, and that their clocks do not jump",
                base.lock()
            ),
            "omit --beyond: it is for recipes with a known flaw",
        ));
    }
    let directory = directory(args, base.lock())?;
    let began = Instant::now();
    let (explored, interrupted) = explored(args, &base, terminal)?;
    let took = began.elapsed();
    let examples = counterexamples(args, &base, &explored)?;
    for it in &examples {
        let written = directory.write(&file_name(it), |file| file.write_all(it.toml.as_bytes()));
        written.map_err(Failure::unavailable)?;
        write_incident(&directory, it.found.violation.invariant, &it.history, &it.result)
            .map_err(Failure::unavailable)?;
    }
    let decided = examples.first().map(|nearest| {
        explore::explain(&mut world::simulated(false), &base, &nearest.found).map_err(run::failed)
    });
    let decided = decided.transpose()?.unwrap_or_default();
    let (confirmed, failure) = match examples.first() {
        Some(nearest) if !args.no_confirm && !interrupted => {
            match confirm::again(nearest, &args.server, terminal) {
                Ok(confirmed) => (confirmed, None),
                // What was found is not lost with the server that should have confirmed it.
                Err(failure) => (None, Some(failure)),
            }
        }
        _ => (None, None),
    };
    let report = ExploreReport::new(&base, bounds(args), &explored, &examples, took)
        .interrupted(interrupted)
        .at(directory.path())
        .decided(decided)
        .confirmed(confirmed);
    if !examples.is_empty()
        && let Ok(Latest::Taken(place)) = directory.finish()
    {
        let place = place.display();
        print::note(&format!("note: {place} is not a link of picklock's and was left alone"));
    }
    output::write(&args.format, |format| match format {
        OutputFormat::Json => output::json_text(&report),
        _ => Ok(report.text(&examples, terminal)),
    })?;
    failure.map_or_else(|| Ok(Exit::of_explored(&explored, interrupted)), Err)
}

/// What a counterexample is called in its directory.
fn file_name(example: &Counterexample) -> String {
    format!("{}.toml", example.found.violation.invariant)
}

/// The world without faults.
fn base(args: &ExploreArgs) -> Result<Base, Failure> {
    match (&args.scenario, &args.lock) {
        (None, None) => Err(Failure::usage_text(
            "no lock given",
            "choose one, such as --lock single; `picklock list` shows them all",
        )),
        (None, Some(lock)) => {
            Base::of_lock(lock, &mut world::simulated(false)).map_err(|error| match error {
                BaseError::Scenario(error) => Failure::usage(error),
                BaseError::Run(error) => run::failed(error),
            })
        }
        (Some(asked), lock) => {
            let load::Source { name, file, text, .. } = load::source(asked)?;
            let overrides = Overrides { lock: lock.clone(), ..Overrides::default() };
            let scenario = Scenario::parse(&name, &file, &text, &overrides);
            let scenario = scenario.map_err(Failure::usage)?;
            Base::of_scenario(scenario, &mut world::simulated(false)).map_err(run::failed)
        }
    }
}

fn bounds(args: &ExploreArgs) -> Bounds {
    Bounds { clients: args.clients, rounds: args.rounds, faults: usize::from(args.faults) }
}

/// Searches for as long as the budget says; whether a signal has ended it.
fn explored(
    args: &ExploreArgs,
    base: &Base,
    terminal: &Terminal,
) -> Result<(Explored, bool), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or(cores, usize::from);
    let plan = SearchPlan { bounds: bounds(args), threads, beyond: args.beyond };
    let (base, budget, quiet) = (base.clone(), args.budget.0, terminal.options.quiet);
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let signals = signal::watch().map_err(Failure::unavailable)?;
        let batch = Arc::new(BatchProgress::default());
        let (theirs, timed) = (Arc::clone(&batch), Arc::clone(&batch));
        let seen = move |stage: &SearchStage| {
            if !quiet {
                print::note(&report::stage(stage));
            }
        };
        let work = move || search(|| world::simulated(false), &base, &plan, &theirs, seen);
        let work = tokio::task::spawn_blocking(work);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(budget).await;
            timed.stop.store(true, Ordering::Relaxed);
        });
        let ended = signal::finish(work, signals, &batch.stop).await;
        timer.abort();
        ended
    });
    runtime.shutdown_timeout(Duration::ZERO);
    let (explored, interrupted) = outcome?;
    Ok((explored.map_err(run::failed)?, interrupted))
}

/// What was found, made smaller and told.
fn counterexamples(
    args: &ExploreArgs,
    base: &Base,
    explored: &Explored,
) -> Result<Vec<Counterexample>, Failure> {
    let line = line(args, base);
    Counterexample::all(&mut world::simulated(false), base, explored, &line).map_err(run::failed)
}

/// The command that finds the same.
fn line(args: &ExploreArgs, base: &Base) -> String {
    let line = Line::plain().word("explore").option("--lock", base.lock());
    let line = match &args.scenario {
        Some(asked) => line.option("--scenario", &asked.to_string_lossy()),
        None => line,
    };
    if args.beyond { line.word("--beyond") } else { line }.text()
}

/// Where what is found is written.
fn directory(args: &ExploreArgs, lock: &str) -> Result<RunDirectory, Failure> {
    let stamp: String = run::now().chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let made = RunDirectory::create(&args.out.join("explore"), lock, &stamp, 1);
    made.map_err(Failure::usage_error)
}
