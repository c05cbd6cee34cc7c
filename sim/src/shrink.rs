//! `picklock shrink`: turns a run that violates something into the smallest scenario that violates the same.
//!
//! Invariant: what is written violates the same as the run: the same invariant at the same level, by clients in the
//! same places of the witness. If that cannot be staged, it says so and writes the smallest schedule of choices.

mod report;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use explore::{
    Base, Counterexample, DrawnSchedule, FoundSchedule, Violation, shrink_drawn, staged,
};
use harness::sweep::BatchProgress;
use harness::world::{ChoicePlan, RunError, RunRequest, World as _};

use self::report::ShrinkReport;
use super::args::{OutputFormat, ShrinkArgs};
use super::example::ExampleReport;
use super::exit::Exit;
use super::failure::Failure;
use super::line::Line;
use super::run::StoredSchedule;
use super::run::report::finish;
use super::terminal::Terminal;
use super::{budget, confirm, output, print, regressions, run, world};

/// The result of shrinking.
struct Shrunk {
    /// The smallest schedule of choices.
    smallest: DrawnSchedule,
    /// The same with everything staged, as small as possible.
    staged: Option<(Base, FoundSchedule)>,
}

/// Shrinks the run, writes what comes of it, and has a redis-server confirm it.
pub(super) fn main(args: &ShrinkArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::refuse_tables("shrink", &args.format)?;
    output::check(&args.format)?;
    world::refuse_several(&args.server)?;
    confirm::check(args.no_confirm, &args.server)?;
    regressions::check(&args.regressions)?;
    let stored = StoredSchedule::read(&args.run)?;
    let Some(whole) = failing(args, &stored)? else {
        print::results(&format!("nothing to shrink: {} violates nothing\n", args.run.display()))?;
        return Ok(Exit::NothingRan);
    };
    let directory = run::directory(&args.out.join("shrink"), &stored.scenario.name, stored.seed)?;
    let (theirs, quiet) = (whole.clone(), terminal.options.quiet);
    let work = move |batch: &BatchProgress| shrunk(&theirs, batch, quiet);
    let (shrunk, interrupted) = budget::within(args.budget.0, terminal, work)?;
    let Shrunk { smallest, staged } = shrunk?;
    if interrupted && !terminal.options.quiet {
        print::note("interrupted: writing the smallest schedule until then; nothing is confirmed");
    }
    let mut report = ShrinkReport::new(&whole, &smallest);
    let mut failure = None;
    let example = match &staged {
        Some((base, found)) => {
            let line = Line::plain().word("shrink").argument(&args.run.to_string_lossy());
            let line = format!("{}, of {}", line.text(), stored.manifest.replay);
            let simulated = &mut world::simulated(false);
            // If it cannot be written as a scenario, the schedule of choices is still there.
            let example = Counterexample::of(simulated, base, found.clone(), &line);
            example.map_err(|why| print::note(&format!("not written as a scenario: {why}"))).ok()
        }
        None => None,
    };
    match (&staged, &example) {
        (Some((base, _)), Some(example)) => {
            let (mut written, unwritten) =
                ExampleReport::write(example, &directory, &args.regressions);
            failure = unwritten;
            written.decide(base, example)?;
            if !args.no_confirm && !interrupted {
                let (confirmed, failed) =
                    confirm::each(std::slice::from_ref(example), &args.server, terminal);
                confirmed.into_iter().for_each(|it| written.confirmed(it));
                failure = failure.or(failed);
            }
            report.example = Some(written);
        }
        _ => match stored.write_choices(&smallest, &directory) {
            Ok(replay) => report.replay = Some(replay),
            Err(unwritten) => failure = Some(unwritten),
        },
    }
    if report.example.as_ref().is_some_and(ExampleReport::is_written) || report.replay.is_some() {
        finish(directory);
    }
    output::write(&args.format, |format| match format {
        OutputFormat::Json => output::json_text(&report),
        _ => Ok(report.text(example.as_ref(), terminal)),
    })?;
    failure.map_or(Ok(Exit::of_shrunk(whole.violation.level, interrupted)), Err)
}

/// The run's schedule, and what it violates; none if it violates nothing.
fn failing(args: &ShrinkArgs, stored: &StoredSchedule) -> Result<Option<DrawnSchedule>, Failure> {
    let scenario = Arc::new(stored.scenario.clone());
    let choices = stored.choices.clone().map_or(ChoicePlan::Recorded, ChoicePlan::Listed);
    let request = RunRequest { choices, ..RunRequest::new(Arc::clone(&scenario), stored.seed) };
    let again = world::simulated(false).run(&request)?;
    stored.compare(&again.history)?;
    let violations = Violation::all(&again.findings(), &[]);
    let violation = match &args.invariant {
        None => violations.first(),
        Some(name) => match violations.iter().find(|it| it.invariant == name) {
            None if !violations.is_empty() => {
                let names: Vec<&str> = violations.iter().map(|it| it.invariant).collect();
                return Err(Failure::usage_text(
                    format!("this run does not violate {name}"),
                    format!("it violates {}", names.join(", ")),
                ));
            }
            found => found,
        },
    };
    Ok(violation.map(|violation| DrawnSchedule {
        scenario,
        seed: stored.seed,
        choices: again.choices.into(),
        violation: violation.clone(),
    }))
}

/// The schedule, shrunk as far as the time allows.
fn shrunk(whole: &DrawnSchedule, batch: &BatchProgress, quiet: bool) -> Result<Shrunk, RunError> {
    let is_over = || batch.stop.load(Ordering::Relaxed);
    let mut simulated = world::simulated(false);
    let smallest = shrink_drawn(&mut simulated, whole, is_over)?;
    if !quiet {
        print::note(&report::smaller(whole, &smallest));
    }
    // If the smallest schedule cannot be staged, perhaps the whole one can.
    let mut staged_as = None;
    for schedule in [&smallest, whole] {
        if let Some((base, found)) = staged(&mut simulated, schedule)? {
            let found = explore::shrink_staged(&mut simulated, &base, &found)?;
            staged_as = Some((base, found));
            break;
        }
    }
    Ok(Shrunk { smallest, staged: staged_as })
}
