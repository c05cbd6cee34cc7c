//! A run or a sweep beside what its scenario expects: `[[expect]]`.
//!
//! Invariant: an interrupted run exits as interrupted, whatever is expected.

use history::verdict::{Level, Outcome};
use scenarios::matrix::expected::{self, RunConformance};
use scenarios::matrix::{Cell, Conformance};
use scenarios::scenario::Scenario;

use crate::args::RunArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::{load, print};

/// Refuses `--expected` for a recipe of which nothing is expected.
pub(super) fn check(args: &RunArgs, scenario: &Scenario) -> Result<(), Failure> {
    let lock = &scenario.lock.recipe;
    if !args.expected || scenario.expectation(lock).is_some() {
        return Ok(());
    }
    Err(Failure::usage_text(
        format!("--expected compares with [[expect]], and none of {} names {lock}", scenario.name),
        "add one to the scenario's file, as docs/scenarios.md shows, or remove --expected",
    ))
}

/// What was found beside what was expected, with `--expected`.
pub(super) fn compared(
    args: &RunArgs,
    scenario: &Scenario,
    is_sweep: bool,
    found: impl Fn(Level) -> Outcome,
) -> Option<RunConformance> {
    expected::compare(scenario, is_sweep, found).filter(|_| args.expected)
}

/// The exit code of the verdicts or, with `--expected`, of the comparison. A short summary does not compare, so the
/// reason is printed.
pub(crate) fn exit(
    args: &RunArgs,
    scenario: &Scenario,
    of_verdicts: Exit,
    is_sweep: bool,
    found: impl Fn(Level) -> Outcome,
    terminal: &Terminal,
) -> Exit {
    let compared = compared(args, scenario, is_sweep, found);
    let Some(compared) = compared.filter(|_| of_verdicts != Exit::Interrupted) else {
        return of_verdicts;
    };
    let exit = Exit::of_conformance(compared.standing);
    if terminal.options.quiet && exit != Exit::Held {
        print::note(&format!("note: {}", compared.remark));
    }
    exit
}

/// The comparison as a remark: with `--expected`, for a file of the user, and for a violation that the catalogue tells,
/// which a reader may otherwise take for a bug of a sound lock.
pub(super) fn remark(
    args: &RunArgs,
    scenario: &Scenario,
    is_sweep: bool,
    found: impl Fn(Level) -> Outcome,
) -> Option<String> {
    let name = args.scenario.as_deref()?;
    let compared = expected::compare(scenario, is_sweep, found)?;
    let is_shown = args.expected || load::is_file(name) || is_told_violation(args, &compared);
    is_shown.then(|| format!("{}: {}", name.to_string_lossy(), compared.remark))
}

/// Whether a scenario of the catalogue, as it is written, is violated as it tells.
fn is_told_violation(args: &RunArgs, compared: &RunConformance) -> bool {
    let is_as_written =
        args.set.is_empty() && args.clients.is_none() && args.ttl.is_none() && args.hold.is_none();
    let is_violated =
        |it: &Cell| it.found == Outcome::Violated && it.standing == Conformance::AsExpected;
    is_as_written
        && compared.standing == Conformance::AsExpected
        && compared.cells.iter().any(is_violated)
}
