//! The four levels, the invariants under each, and what was found.
//!
//! Invariant: all four levels are always listed, also one at which nothing was checked.

use history::verdict::{Level, Outcome};
use scenarios::result::{Invariant, RunResult};

use super::colour::Emphasis;
use super::{Style, Verbosity};
use crate::format::{count, plain};

const VERDICT_WIDTH: usize = Outcome::Inconclusive.name().len();
/// A reason that would have fewer columns beside the verdict stands below it.
const LEAST_BESIDE: usize = 30;

/// The table, a line of text each.
pub(super) fn table(result: &RunResult, style: Style) -> String {
    let names = result.invariants.iter().map(|it| plain(&it.name).chars().count() + 2);
    let name_width = names.max().unwrap_or_default().max(Level::Progress.name().len());
    let mut text = String::new();
    for level in Level::ALL {
        let name = style.ink(Emphasis::Bold, level.name());
        let blanks = " ".repeat(name_width - level.name().len());
        let verdict = style.verdict(result.level(level), 0);
        let mut of_level = result.invariants.iter().filter(|it| it.level == level).peekable();
        let note = if of_level.peek().is_none() {
            let blanks = " ".repeat(VERDICT_WIDTH - result.level(level).name().len());
            style.ink(Emphasis::Dim, &format!("{blanks}  nothing was checked"))
        } else {
            String::new()
        };
        text.push_str(&format!("{name}{blanks}  {verdict}{note}\n"));
        for invariant in of_level {
            text.push_str(&row(invariant, name_width, style));
        }
    }
    text
}

fn row(invariant: &Invariant, name_width: usize, style: Style) -> String {
    let name = plain(&invariant.name);
    let blanks = " ".repeat(name_width - 2 - name.chars().count());
    let said = note(invariant);
    if said.is_empty() {
        return format!("  {name}{blanks}  {}\n", style.verdict(invariant.verdict, 0));
    }
    let beside = name_width + 2 + VERDICT_WIDTH + 2;
    if style.room(beside) < LEAST_BESIDE {
        let verdict = style.verdict(invariant.verdict, 0);
        return format!("  {name}{blanks}  {verdict}\n      {}\n", style.wrap(&said, 6));
    }
    let verdict = style.verdict(invariant.verdict, VERDICT_WIDTH);
    format!("  {name}{blanks}  {verdict}  {}\n", style.wrap(&said, beside))
}

/// What is said beside a verdict.
fn note(invariant: &Invariant) -> String {
    match (&invariant.reason, &invariant.witness) {
        (Some(reason), _) => plain(reason).into_owned(),
        (None, Some(witness)) if witness.occurrences > 1 => {
            format!("{} times", count(witness.occurrences))
        }
        _ => String::new(),
    }
}

/// For a quiet summary: a line for everything that did not hold.
pub(super) fn failures(result: &RunResult, style: Style) -> String {
    debug_assert!(style.verbosity == Verbosity::Quiet, "others get the table");
    let mut text = String::new();
    for it in &result.invariants {
        let said = match (&it.witness, &it.reason) {
            (Some(witness), _) => plain(&witness.summary),
            (None, Some(reason)) if it.verdict != Outcome::NotApplicable => plain(reason),
            _ => continue,
        };
        let head = format!("{} {}", it.level.name(), plain(&it.name));
        let verdict = style.verdict(it.verdict, 0);
        text.push_str(&format!("{verdict}: {head}: {}\n", style.wrap(&said, 2)));
    }
    text
}
