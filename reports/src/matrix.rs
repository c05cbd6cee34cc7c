//! The matrix as files: markdown for people, JUnit for a CI. Of several servers there is one each, of the
//! same pairs.
//!
//! Invariant: what was expected stands beside what was found wherever the two differ, and a cell of
//! which nothing is claimed is never shown as a success.

pub(crate) mod servers;

use std::collections::BTreeMap;
use std::time::Duration;

use history::verdict::{Level, Outcome};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use scenarios::matrix::{Cell, Conformance, Matrix, Pair, Totals};
use scenarios::scenario::Scenario;
use scenarios::{catalog, recipe};

use crate::format::{count, counted, in_markdown};
use crate::junit::skipped;

/// The matrix in a line: how many cells stand how.
pub fn totals(totals: Totals) -> String {
    let Totals { as_expected, different, vacuous, unclaimed, not_run } = totals;
    let cells = as_expected + different + vacuous + unclaimed + not_run;
    let mut text = format!(
        "{} cells: {} as expected, {} not, {} vacuous, {} without a claim",
        count(cells),
        count(as_expected),
        count(different),
        count(vacuous),
        count(unclaimed)
    );
    if not_run > 0 {
        text += &format!(", {} not run", count(not_run));
    }
    text
}

/// How the matrices of all servers stand together, and in words.
pub(crate) fn verdict(matrices: &[Matrix]) -> (Outcome, &'static str) {
    let Totals { different, vacuous, .. } = Totals::sum(matrices);
    match () {
        () if different > 0 => (Outcome::Violated, "not as expected"),
        () if matrices.iter().any(|it| it.interrupted) => (Outcome::Inconclusive, "interrupted"),
        () if vacuous > 0 => (Outcome::Inconclusive, "inconclusive"),
        () if matrices.iter().all(Matrix::has_tested_nothing) => {
            (Outcome::Inconclusive, "nothing was tested")
        }
        () if matrices.iter().any(Matrix::has_tested_nothing) => {
            (Outcome::Inconclusive, "not tested on every server")
        }
        () => (Outcome::Held, "as expected"),
    }
}

/// How a cell of a claim that was not found true reads.
pub(crate) fn surprise(cell: &Cell) -> String {
    let (level, found, expected) = (cell.level.name(), cell.found.name(), cell.expected.name());
    let runs = cell.runs;
    // Of a story that is staged every run has to show what is expected.
    let each = if cell.found == cell.expected { " in every run" } else { "" };
    let seed =
        runs.first_violated.map_or(String::new(), |seed| format!(", first with seed {seed}"));
    format!(
        "{level} is {found}, and {expected}{each} is expected: of {} runs it held in {}, was violated in \
         {}{seed}, and {} do not say",
        runs.total(),
        runs.held,
        runs.violated,
        runs.inconclusive + runs.vacuous
    )
}

/// Which runs of a pair were made again, and why.
pub(crate) fn again(scenario: &str, lock: &str, why: &[String]) -> String {
    let runs = counted(why.len() as u64, "run");
    let mut each: Vec<&str> = why.iter().map(String::as_str).collect();
    each.dedup();
    format!("{scenario} with {lock}, after {runs} that showed nothing ({})", each.join("; "))
}

/// The matrix as JUnit: a scenario is a suite, a recipe in it a case. Of several servers, the suite's name
/// says which it is of. Times are those of the world: how long the runs of a pair lasted by its clock. A case
/// that failed holds the line that runs it again, which `replay` gives.
///
/// # Errors
/// None that memory does not give.
pub fn junit(
    matrices: &[Matrix],
    replay: impl Fn(&Pair) -> String,
) -> Result<String, quick_junit::SerializeError> {
    let mut whole = Duration::ZERO;
    let mut report = Report::new(format!("picklock matrix, world {}", world(matrices)));
    for (matrix, server) in matrices.iter().zip(servers::names(matrices)) {
        let world = &matrix.world;
        for scenario in matrix.scenarios() {
            let (suite, class) = match matrices.len() {
                1 => (scenario.to_owned(), format!("picklock.{world}.{scenario}")),
                _ => (
                    format!("{scenario} on {server}"),
                    format!("picklock.{world}.{}.{scenario}", one_word(server)),
                ),
            };
            let mut suite = TestSuite::new(suite);
            let mut of_suite = Duration::ZERO;
            for pair in matrix.pairs.iter().filter(|it| it.scenario == scenario) {
                let lasted = Duration::from_nanos(pair.lasted_ns);
                let mut case = TestCase::new(pair.lock.as_str(), status(pair, &replay));
                case.set_classname(class.as_str()).set_time(lasted);
                if !pair.run_again.is_empty() {
                    let line = again(&pair.scenario, &pair.lock, &pair.run_again);
                    case.set_system_out(format!("run again: {line}"));
                }
                suite.add_test_case(case);
                of_suite += lasted;
            }
            suite.set_time(of_suite);
            report.add_test_suite(suite);
            whole += of_suite;
        }
    }
    report.set_time(whole);
    report.to_string()
}

/// The world of all of them.
fn world(matrices: &[Matrix]) -> &str {
    matrices.first().map_or("", |it| &it.world)
}

/// A name as one part of a class's: there, dots part.
fn one_word(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(plain).collect()
}

fn status(pair: &Pair, replay: impl Fn(&Pair) -> String) -> TestCaseStatus {
    if let Some(why) = &pair.not_run {
        return skipped(why);
    }
    let surprises: Vec<String> =
        pair.cells.iter().filter(|it| is_surprising(it)).map(surprise).collect();
    if !surprises.is_empty() {
        let mut failed = TestCaseStatus::non_success(NonSuccessKind::Failure);
        failed.set_type("not as expected");
        failed.set_message(surprises.join("; "));
        failed.set_description(format!("replay: {}", replay(pair)));
        return failed;
    }
    match pair.standing() {
        Some(Conformance::Unclaimed) => skipped(&format!("nothing is claimed: {}", pair.why)),
        _ => TestCaseStatus::success(),
    }
}

pub(crate) fn is_surprising(cell: &Cell) -> bool {
    matches!(cell.standing, Conformance::Different | Conformance::Vacuous)
}

/// The matrix as a page: the recipes, then each scenario with its story and what the recipes have shown
/// in it; of several servers, those that showed the same in it together. `scenarios` are the scenarios, for their
/// stories; one that is missing is told by its name.
pub fn markdown(matrices: &[Matrix], scenarios: &[Scenario]) -> String {
    let scenarios: BTreeMap<&str, &Scenario> =
        scenarios.iter().map(|it| (it.name.as_str(), it)).collect();
    let server = match matrices {
        [Matrix { server: Some(server), .. }] => format!(" ({server})"),
        _ => String::new(),
    };
    let mut text = format!(
        "# Every recipe in every scenario\n\nThis page shows the verdict on each recipe in each scenario, at \
         four levels; each of them is a cell. **Bold** is a verdict that was not expected, with the one \
         that was. A dash means that the scenario claims nothing of the recipe at this level.\n\nWorld {}{}. {}.\n",
        world(matrices),
        server,
        totals(Totals::sum(matrices))
    );
    if matrices.len() > 1 {
        text += "\n## Servers\n\n| server | cells | how |\n|---|---|---|\n";
        for (matrix, name) in matrices.iter().zip(servers::names(matrices)) {
            let how = matrix.server.as_deref().and_then(|it| it.strip_prefix(name));
            let how = how.unwrap_or_default().trim_start_matches(", ");
            text +=
                &format!("| {} | {} | {} |\n", barred(name), totals(matrix.totals), barred(how));
        }
    }
    text += &repeated(matrices);
    text += &articles(&scenarios);
    let matrix = matrices.first();
    let pairs = || matrix.into_iter().flat_map(|it| &it.pairs);
    text += "\n## Recipes\n\n| recipe | how it locks | known flaw |\n|---|---|---|\n";
    for about in recipe::ALL {
        if pairs().any(|it| it.lock == about.name) {
            let flaw = about.flaw.unwrap_or("none known");
            text += &format!("| `{}` | {} | {} |\n", about.name, barred(about.how), barred(flaw));
        }
    }
    for name in matrix.map(Matrix::scenarios).unwrap_or_default() {
        text += &format!("\n## `{name}`\n");
        if let Some(scenario) = scenarios.get(name) {
            let story = scenario.story.split_whitespace().collect::<Vec<_>>().join(" ");
            let title = in_markdown(scenario.title.trim_end_matches('.'));
            text += &format!("\n**{title}.** {}\n", in_markdown(&story));
            for variant in &scenario.variants {
                let locks: Vec<String> = variant.locks.iter().map(|it| format!("`{it}`")).collect();
                let story = variant.story.split_whitespace().collect::<Vec<_>>().join(" ");
                text += &format!("\n*With {}:* {}\n", locks.join(", "), in_markdown(&story));
            }
            let source = in_markdown(scenario.source.trim_end_matches('.'));
            text += &format!("\nSource: {source}.\n");
            let is_searched = pairs().any(|it| it.scenario == name && it.searched);
            if let Some(search) = scenario.search.as_ref().filter(|_| is_searched) {
                let kinds = search.swarm.descriptions().join("; ");
                text += &format!("\nSearched for, with nothing staged: {kinds}.\n");
            }
        }
        let rows = |it: &Matrix| -> String {
            joined(&it.groups(name), said).iter().map(|group| row(group)).collect()
        };
        for (on, rows) in servers::alike(matrices, rows) {
            if let Some(on) = on {
                text += &format!("\n*{on}:*\n");
            }
            text += "\n| recipes | key | belief | effect | progress | why |\n|---|---|---|---|---|---|\n";
            text += &rows;
        }
    }
    text
}

/// The articles that the sources of these scenarios name.
fn articles(scenarios: &BTreeMap<&str, &Scenario>) -> String {
    let named = scenarios.values().flat_map(|it| catalog::articles(&it.source));
    let named: BTreeMap<usize, &str> = named.collect();
    let lines: String = named.iter().map(|(it, title)| format!("{it}. {title}\n")).collect();
    if lines.is_empty() { lines } else { format!("\n## Articles that sources name\n\n{lines}") }
}

/// What was run again, on which server where there are several.
fn repeated(matrices: &[Matrix]) -> String {
    let mut lines = String::new();
    for (matrix, server) in matrices.iter().zip(servers::names(matrices)) {
        let on = if matrices.len() == 1 { String::new() } else { format!(" on {server}") };
        for (scenario, lock, why) in matrix.run_again() {
            lines +=
                &format!("- `{scenario}`{on}: {}\n", again("the run", &format!("`{lock}`"), why));
        }
    }
    if lines.is_empty() { lines } else { format!("\n## Run again\n\n{lines}") }
}

/// Groups that show the same, joined.
pub(crate) fn joined<'a, T: PartialEq>(
    groups: &[Vec<&'a Pair>],
    shown: impl Fn(&Pair) -> T,
) -> Vec<Vec<&'a Pair>> {
    let mut joined: Vec<Vec<&Pair>> = Vec::new();
    for group in groups {
        match joined.iter_mut().find(|known| shown(known[0]) == shown(group[0])) {
            Some(known) => known.extend(group),
            None => joined.push(group.clone()),
        }
    }
    joined
}

fn row(group: &[&Pair]) -> String {
    let names: Vec<String> = group.iter().map(|pair| format!("`{}`", pair.lock)).collect();
    format!("| {} | {} |\n", names.join(", "), said(group[0]))
}

/// A row behind its names.
fn said(pair: &Pair) -> String {
    let cells: Vec<String> = match &pair.not_run {
        Some(_) => Level::ALL.map(|_| "not run".to_owned()).into(),
        None => pair.cells.iter().map(cell).collect(),
    };
    let why = pair.not_run.as_ref().unwrap_or(&pair.why);
    format!("{} | {}", cells.join(" | "), barred(why))
}

/// A text as a cell of a table in Markdown.
pub(crate) fn barred(text: &str) -> String {
    in_markdown(text).replace('|', "\\|")
}

fn cell(cell: &Cell) -> String {
    match cell.standing {
        Conformance::Unclaimed => "–".to_owned(),
        Conformance::AsExpected => cell.found.name().to_owned(),
        Conformance::Different | Conformance::Vacuous => {
            format!("**{}**, expected {}", cell.found.name(), cell.expected.name())
        }
    }
}

#[cfg(test)]
mod tests;
