//! The summary as a whole, and the lines that follow it.
//!
//! Invariant: it begins with what was run and ends with the verdict.

use std::path::Path;

use history::verdict::{Level, Outcome};
use scenarios::result::{RunResult, ServerFacts};

use super::colour::Emphasis;
use super::{Style, Verbosity, figures, story, verdicts};
use crate::format::{counted, plain};
use crate::incident::group::groups;

/// The summary of a run, ending with a line break.
pub fn summary(result: &RunResult, style: Style) -> String {
    let mut blocks = vec![headline(result, style)];
    let verdict = verdict_line(result.verdict, |level| result.level(level), style);
    if style.verbosity == Verbosity::Quiet {
        blocks[0].push_str(&verdicts::failures(result, style));
        blocks[0].push_str(&verdict);
        return blocks.remove(0);
    }
    blocks.push(verdicts::table(result, style));
    blocks.extend(groups(&result.invariants).iter().map(|incident| story::tell(incident, style)));
    blocks.push(figures::latencies(&result.stats.latencies, style));
    blocks.push(figures::counts(result, style));
    blocks.push(remarks(result, style));
    blocks.push(verdict);
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

/// What the caller prints last: where the report lies, and what runs the same again.
pub fn footer(result: &RunResult, report_dir: &Path, style: Style) -> String {
    let report = report_dir.join("report.html").display().to_string();
    let (report, replay) = (plain(&report), plain(&result.replay));
    let [report_word, replay_word] =
        ["report:", "replay:"].map(|word| style.ink(Emphasis::Bold, word));
    format!("{report_word} {report}\n{replay_word} {replay}\n")
}

/// What was run.
fn headline(result: &RunResult, style: Style) -> String {
    let clients = counted(u64::from(result.stats.clients), "client");
    let server = server(&result.server);
    let server = if server.is_empty() { server } else { format!(" ({server})") };
    let RunResult { scenario, lock, world, seed, .. } = result;
    let line = format!("{clients}, lock {lock}, world {world}{server}, seed {seed}");
    let scenario = style.ink(Emphasis::Bold, &plain(scenario));
    // One line whatever the width, so that it can be searched for.
    format!("{scenario}: {}\n", plain(&line))
}

/// The server in a few words.
fn server(facts: &ServerFacts) -> String {
    let ServerFacts { software, version, origin, .. } = facts;
    let program = format!("{software} {version}");
    let parts = [program.trim(), origin.as_str()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn remarks(result: &RunResult, style: Style) -> String {
    let mut text = String::new();
    let mut remark = |word: &str, said: &str| {
        let said = style.wrap(&plain(said), word.len() + 2);
        text.push_str(&format!("{}: {said}\n", style.ink(Emphasis::Yellow, word)));
    };
    if !result.complete {
        remark("interrupted", INTERRUPTED);
    }
    for said in &result.remarks {
        remark("note", said);
    }
    text
}

/// What a reader of a partial report must know.
pub(crate) const INTERRUPTED: &str =
    "the run was cut short, and this report covers what had happened by then";

/// The verdict, and the levels at which it was found.
pub(super) fn verdict_line(
    verdict: Outcome,
    of: impl Fn(Level) -> Outcome,
    style: Style,
) -> String {
    let where_found = match verdict {
        Outcome::Violated | Outcome::Inconclusive => {
            let found = Level::ALL.into_iter().filter(|&level| of(level) == verdict);
            let names: Vec<&str> = found.map(Level::name).collect();
            if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
        }
        Outcome::Held | Outcome::NotApplicable => String::new(),
    };
    let verdict = style.verdict(verdict, 0);
    format!("{}: {verdict}{where_found}\n", style.ink(Emphasis::Bold, "verdict"))
}

#[cfg(test)]
mod tests;
