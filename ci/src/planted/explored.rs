//! Which planted errors `picklock explore` finds by itself, in small worlds that nobody has staged.
//!
//! Invariant: an error counts as found only where the same search finds nothing in the same build without it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::page::capital;
use super::sources::{PLANTED, PROGRAM};
use super::{PlantedError, PlantedFailure};

/// The page, with `--markdown`.
const PAGE: &str = "docs/explored.md";
const HEAD: &str = "\
# Errors that `explore` finds

This page shows which [planted errors](planted.md) `picklock explore` finds without a scenario. Each is planted alone in a copy of
picklock's lock library. Then [`explore`](explore.md) searches for 30 s at most, on two cores: it stages every fault that a sound lock
survives at every step of two or three clients, first one fault and then two.

*Steps* are those of the smallest schedule that shows the error. *Schedules* and *seconds* are those of the whole search, which
completes all schedules with that number of faults. `ci/planted --explore --markdown` writes this page.
";
/// Those that are tried where none is named: of every kind some.
pub(super) const ERRORS: [&str; 26] = [
    "release-without-comparing",
    "notify-releases-without-comparing",
    "queue-releases-without-comparing",
    "get-then-del",
    "del-sent-twice",
    "always-says-released",
    "token-of-few-bits",
    "validity-from-the-reply",
    "drift-added",
    "validity-never-ends",
    "timeout-is-a-yes",
    "any-answer-is-a-yes",
    "no-clean-up",
    "clean-up-does-not-wait",
    "clean-up-deletes-without-comparing",
    "dropped-guard-not-released",
    "renewal-without-comparing",
    "renewal-revives",
    "lost-key-renewed",
    "minority-kept",
    "minority-left-behind",
    "handed-to-the-dead",
    "no-attempt-after-subscribing",
    "fence-not-counted",
    "no-wait",
    "delex-without-comparing",
];
/// So many of them have to be found; of fewer, all.
const LEAST: usize = 20;
/// How far it searches: with one fault, and then with two, as far as the time goes.
const SEARCH: [&str; 6] = ["--faults", "2", "--budget", "30s", "--threads", "2"];

/// What `picklock explore` writes, as far as it is read.
#[derive(Deserialize)]
struct FoundExploration {
    ended: String,
    schedules: u64,
    seconds: f64,
    counterexamples: Vec<FoundExample>,
}

/// The smallest schedule that violates an invariant.
#[derive(Deserialize)]
struct FoundExample {
    invariant: String,
    level: String,
    clients: u32,
    faults: Vec<String>,
    steps: usize,
}

/// Explores each of these errors in each of its recipes. Whether as many were found, in one of them at least, as have to be.
///
/// # Errors
/// [`PlantedFailure::Sound`] where something is found without an error, and [`PlantedFailure::Program`].
pub(super) fn run(errors: &[&PlantedError], writes: bool) -> Result<bool, PlantedFailure> {
    let recipes: BTreeSet<&str> =
        errors.iter().flat_map(|error| error.recipes.iter().map(String::as_str)).collect();
    for recipe in recipes {
        if let Some(found) = explore("", recipe)?.counterexamples.first() {
            let what = format!("{recipe} at {} by explore, {}", found.level, found.invariant);
            return Err(PlantedFailure::Sound(what));
        }
    }
    let (mut tables, mut found) = (String::new(), 0);
    for class in errors.chunk_by(|one, other| one.class == other.class) {
        let _ = write!(
            tables,
            "\n## {}\n\n| error | recipe | violated | clients | faults | steps | schedules | seconds |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |\n",
            capital(&class[0].class)
        );
        for error in class {
            let mut is_found = false;
            for recipe in &error.recipes {
                let explored = explore(&error.name, recipe)?;
                is_found |= !explored.counterexamples.is_empty();
                let row = row(error, recipe, &explored);
                eprint!("{row}");
                tables.push_str(&row);
            }
            found += usize::from(is_found);
        }
    }
    let summary = format!("{found} of {} errors are found", errors.len());
    if writes {
        let page = format!("{HEAD}\n{summary}.\n{tables}");
        fs::write(PAGE, page).map_err(PlantedFailure::read(PAGE))?;
    }
    println!("{tables}\n{summary}");
    Ok(found >= errors.len().min(LEAST))
}

fn row(error: &PlantedError, recipe: &str, explored: &FoundExploration) -> String {
    let FoundExploration { ended, schedules, seconds, counterexamples } = explored;
    let found = match counterexamples.first() {
        Some(FoundExample { invariant, level, clients, faults, steps }) => {
            let faults = if faults.is_empty() { "none".to_owned() } else { faults.join(", ") };
            format!("{invariant} ({level}) | {clients} | {faults} | {steps}")
        }
        None if ended == "exhausted" => "nothing within the bounds | | |".to_owned(),
        None => "nothing in the time | | |".to_owned(),
    };
    let (name, what) = (&error.name, &error.what);
    format!("| `{name}`: {what} | {recipe} | {found} | {schedules} | {seconds:.1} |\n")
}

fn explore(error: &str, recipe: &str) -> Result<FoundExploration, PlantedFailure> {
    let failed = || {
        PlantedFailure::Program(format!(
            "PICKLOCK_PLANTED={error} picklock explore --lock {recipe}"
        ))
    };
    let explored = Command::new(PROGRAM)
        .args(["explore", "--quiet", "--no-confirm", "--lock", recipe])
        .args(["--format", "json", "--out", &format!("{PLANTED}/explored")])
        .args(SEARCH)
        .env("PICKLOCK_PLANTED", error)
        .stderr(Stdio::null())
        .output()
        .map_err(PlantedFailure::read(PROGRAM))?;
    serde_json::from_slice(&explored.stdout).map_err(|_| failed())
}
