//! `picklock explore`: the smallest schedule that breaks a lock, as a scenario.
//!
//! Invariant: a file whose name is printed exists, and shows in virtual time what is printed of it. Counts of schedules
//! are printed together with the bounds of the search.

#![expect(clippy::disallowed_methods, reason = "how long a search took is said")]

mod part;
mod report;

use std::time::{Duration, Instant};

use explore::{Base, BaseError, Bounds, Counterexample, Explored, SearchPlan, SearchStage, search};
use harness::sweep::BatchProgress;
use reports::directory::RunDirectory;
use scenarios::scenario::Overrides;

pub(super) use self::part::merged;
use self::report::ExploreReport;
use super::args::{ExploreArgs, OutputFormat};
use super::example::ExampleReport;
use super::exit::Exit;
use super::failure::Failure;
use super::line::Line;
use super::run::report::finish;
use super::terminal::Terminal;
use super::{budget, confirm, load, output, print, regressions, run, world};

/// Searches, shrinks what is found, writes it, and has a redis-server confirm it.
pub(super) fn main(args: &ExploreArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::refuse_tables("explore", &args.format)?;
    output::check(&args.format)?;
    output::refuse_of_part(&args.shard, &args.format)?;
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
    if args.shard.shards.is_some() {
        return part::main(args, &base, terminal);
    }
    confirm::check(args.no_confirm, &args.server)?;
    regressions::check(&args.regressions)?;
    let directory = directory(args, &base)?;
    let kept = regressions::first(&args.regressions.directory, base.lock(), None, terminal)?;
    let began = Instant::now();
    let (explored, interrupted) = explored(args, &base, terminal)?;
    let spent = SearchSpent { took: began.elapsed(), interrupted, lacking: None };
    let exit = write_report((args, &base), &explored, spent, directory, terminal)?;
    Ok(exit.with_regressions(kept.broken, kept.stale))
}

/// What a search took, and what may have ended it early.
struct SearchSpent {
    took: Duration,
    /// A signal has ended it.
    interrupted: bool,
    /// What other machines should have tried and have not.
    lacking: Option<String>,
}

/// The directory for what is found. It is made before the search, so that its result can surely be kept.
fn directory(args: &ExploreArgs, base: &Base) -> Result<RunDirectory, Failure> {
    run::directory(&args.out.join("explore"), base.lock(), 1)
}

/// Shrinks what was found, writes it, has a redis-server confirm it, and prints the report. If a signal has ended the
/// search, nothing is confirmed.
fn write_report(
    (args, base): (&ExploreArgs, &Base),
    explored: &Explored,
    spent: SearchSpent,
    directory: RunDirectory,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    if spent.interrupted && !terminal.options.quiet {
        print::note("interrupted: writing what was found until then; nothing is confirmed");
    }
    let examples = counterexamples(args, base, explored)?;
    // If the disk is full, or the server fails that should confirm it, what was found is printed all the same.
    let (mut written, mut failures) = (Vec::new(), Vec::new());
    for example in &examples {
        let (it, failed) = ExampleReport::write(example, &directory, &args.regressions);
        written.push(it);
        failures.extend(failed);
    }
    if let (Some(nearest), Some(it)) = (examples.first(), written.first_mut()) {
        it.decide(base, nearest)?;
    }
    if !args.no_confirm && !spent.interrupted {
        let (confirmed, failed) = confirm::each(&examples, &args.server, terminal);
        written.iter_mut().zip(confirmed).for_each(|(it, confirmed)| it.confirmed(confirmed));
        failures.extend(failed);
    }
    let interrupted = spent.interrupted;
    if written.iter().any(ExampleReport::is_written) {
        finish(directory);
    }
    let report = ExploreReport::new(base, bounds(args), explored, written, spent);
    output::write(&args.format, |format| match format {
        OutputFormat::Json => output::json_text(&report),
        _ => Ok(report.text(&examples, terminal)),
    })?;
    match failures.into_iter().next() {
        Some(failure) => Err(failure),
        None => Ok(Exit::of_explored(explored, interrupted)),
    }
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
                BaseError::Run(error) => error.into(),
            })
        }
        (Some(asked), lock) => {
            let overrides = Overrides { lock: lock.clone(), ..Overrides::default() };
            let scenario = load::parsed(asked, &overrides)?;
            Base::of_scenario(scenario, &mut world::simulated(false)).map_err(Failure::from)
        }
    }
}

fn bounds(args: &ExploreArgs) -> Bounds {
    Bounds { clients: args.clients, rounds: args.rounds, faults: usize::from(args.faults) }
}

fn plan(args: &ExploreArgs) -> SearchPlan {
    SearchPlan { bounds: bounds(args), threads: args.threads.count(), beyond: args.beyond }
}

/// Searches for as long as the budget says; whether a signal has ended it.
fn explored(
    args: &ExploreArgs,
    base: &Base,
    terminal: &Terminal,
) -> Result<(Explored, bool), Failure> {
    let plan = plan(args);
    let (base, quiet) = (base.clone(), terminal.options.quiet);
    let seen = move |stage: &SearchStage| {
        if !quiet {
            print::note(&report::stage(stage));
        }
    };
    let work =
        move |batch: &BatchProgress| search(|| world::simulated(false), &base, &plan, batch, seen);
    let (explored, interrupted) = budget::within(args.budget.0, terminal, work)?;
    Ok((explored?, interrupted))
}

/// The counterexamples: what was found, shrunk, with its story.
fn counterexamples(
    args: &ExploreArgs,
    base: &Base,
    explored: &Explored,
) -> Result<Vec<Counterexample>, Failure> {
    let line = line(args, base).text();
    Counterexample::all(&mut world::simulated(false), base, explored, &line).map_err(Failure::from)
}

/// The command that finds the same.
fn line(args: &ExploreArgs, base: &Base) -> Line {
    Line::plain()
        .word("explore")
        .option("--lock", base.lock())
        .options("--scenario", args.scenario.iter().map(|it| it.display()))
        .option("--clients", args.clients)
        .option("--rounds", args.rounds)
        .option("--faults", args.faults)
        .switch("--beyond", args.beyond)
}
