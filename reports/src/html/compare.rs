//! `compare.html`: runs beside each other.
//!
//! Invariant: everything on it follows from what the runs have stored; runs stand in the order in which they were named, and the
//! first is what the others are compared with.

use std::collections::BTreeMap;

use history::verdict::Level;
use maud::{Markup, html};
use scenarios::result::{Invariant, LatencyFigures, RunResult};
use serde_json::Value;

use super::document::document;
use super::picture::Picture;
use super::verdicts::badge;
use crate::chart::{ChartError, LatencyChart};
use crate::compared::ComparedRun;
use crate::format::{count, counted, duration, plain};
use crate::latency::{Latencies, Operation};

/// The operations of which the distributions are drawn over one another.
const DRAWN: [Operation; 4] =
    [Operation::Acquire, Operation::Hold, Operation::Release, Operation::Handoff];
/// The columns of a latency table; on a telephone each cell says its own.
const COLUMNS: [&str; 6] = ["Count", "p50", "p90", "p99", "Max", "p99, by run 1"];

/// What a scenario is called, tells and expects is no setting, and neither is the form of it that was not run.
const PROSE: [&str; 10] = [
    "expect",
    "name",
    "properties",
    "search",
    "source",
    "story",
    "title",
    "unsearched",
    "variant",
    "why",
];

/// The page.
///
/// # Errors
/// Where a chart cannot be drawn, which would be a defect.
pub fn compare_page(runs: &[ComparedRun]) -> Result<String, ChartError> {
    let title = format!("{} compared — picklock", counted(runs.len() as u64, "run"));
    let charts = charts(runs)?;
    let body = html! {
        header {
            h1 { (counted(runs.len() as u64, "run")) " compared" }
            p.lead { "Numbers stand for the runs, in the order of the first table." }
        }
        main {
            section { h2 { "Verdicts" } (verdicts(runs)) }
            (settings(runs))
            (invariants(runs))
            @if !charts.is_empty() {
                section {
                    h2 { "Latency by percentile" }
                    @for (operation, picture) in &charts {
                        h3 { (operation) }
                        (picture.figure(&operation.to_string()))
                    }
                }
            }
            (figures(runs))
            section {
                h2 { "Run them again" }
                @for (number, run) in (1..).zip(runs) {
                    h3 { (number) ": " (plain(&run.directory)) }
                    pre { (plain(&run.result.replay)) }
                }
            }
        }
    };
    Ok(document(&title, &body))
}

/// What each run was, and its verdict at each level.
fn verdicts(runs: &[ComparedRun]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Verdicts by run" {
            table.latencies {
                thead {
                    tr {
                        th scope="col" { "Run" }
                        @for name in ["Scenario", "Lock", "World", "Seed"] { th scope="col" { (name) } }
                        @for level in Level::ALL { th scope="col" { (level.name()) } }
                    }
                }
                tbody {
                    @for (number, run) in (1..).zip(runs) {
                        @let RunResult { scenario, lock, world, seed, .. } = &run.result;
                        tr {
                            th scope="row" { (number) ": " (plain(&run.directory)) }
                            @for (name, value) in [("Scenario", scenario), ("Lock", lock), ("World", world)] {
                                td data-name=(name) { (plain(value)) }
                            }
                            td data-name="Seed" { (seed) }
                            @for level in Level::ALL {
                                td data-name=(level.name()) { (badge(run.result.level(level))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What is not the same in how they were run; nothing where all is.
fn settings(runs: &[ComparedRun]) -> Markup {
    let mut all: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for (place, run) in runs.iter().enumerate() {
        let mut leaves = BTreeMap::new();
        flatten("", &run.manifest.scenario_as_run, &mut leaves);
        let server = &run.manifest.server;
        leaves.insert("server".to_owned(), format!("{} {}", server.software, server.version));
        leaves.insert("picklock".to_owned(), run.manifest.picklock.clone());
        for (key, value) in leaves {
            all.entry(key).or_insert_with(|| vec![None; runs.len()])[place] = Some(value);
        }
    }
    let is_prose = |key: &str| PROSE.iter().any(|it| key.split(['.', '[']).next() == Some(it));
    all.retain(|key, values| !is_prose(key) && values.windows(2).any(|pair| pair[0] != pair[1]));
    html! {
        @if !all.is_empty() {
            section {
                h2 { "Settings that differ" }
                (table("Settings that differ", runs.len(), |row| html! {
                    @for (key, values) in &all {
                        (row(html! { (plain(key)) }, &|place| html! {
                            @match &values[place] {
                                Some(value) => (plain(value)),
                                None => span.faint { "–" },
                            }
                        }))
                    }
                }))
            }
        }
    }
}

/// The leaves of a value, by their paths.
fn flatten(path: &str, value: &Value, leaves: &mut BTreeMap<String, String>) {
    let under = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| flatten(&under(key), value, leaves));
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                flatten(&format!("{path}[{place}]"), item, leaves);
            }
        }
        Value::String(text) => _ = leaves.insert(path.to_owned(), text.clone()),
        Value::Null => {}
        other => _ = leaves.insert(path.to_owned(), other.to_string()),
    }
}

/// A row: what it is of, and its cell for each run.
type CompareRow<'a> = dyn Fn(Markup, &dyn Fn(usize) -> Markup) -> Markup + 'a;

/// A table with a column for each run.
fn table(label: &str, runs: usize, rows: impl Fn(&CompareRow<'_>) -> Markup) -> Markup {
    let row = |of: Markup, cell: &dyn Fn(usize) -> Markup| {
        html! {
            tr {
                th scope="row" { (of) }
                @for place in 0..runs { td data-name=(format!("run {}", place + 1)) { (cell(place)) } }
            }
        }
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.latencies {
                thead {
                    tr { th {} @for number in 1..=runs { th scope="col" { "Run " (number) } } }
                }
                tbody { (rows(&row)) }
            }
        }
    }
}

/// Invariants on which runs differ, and how many others there are.
fn invariants(runs: &[ComparedRun]) -> Markup {
    let mut known: Vec<&Invariant> = Vec::new();
    for it in runs.iter().flat_map(|run| &run.result.invariants) {
        if !known.iter().any(|other| other.name == it.name) {
            known.push(it);
        }
    }
    known.sort_by_key(|it| it.level);
    let of = |run: &ComparedRun, name: &str| {
        run.result.invariants.iter().find(|it| it.name == name).map(|it| it.verdict)
    };
    let differs = |it: &&Invariant| {
        runs.windows(2).any(|pair| of(&pair[0], &it.name) != of(&pair[1], &it.name))
    };
    let (differing, same): (Vec<_>, Vec<_>) = known.into_iter().partition(differs);
    let shown = |all: &[&Invariant], label: &str| {
        table(label, runs.len(), |row| {
            html! {
                @for it in all {
                    (row(html! { (it.level.name()) ": " (plain(&it.name)) }, &|place| html! {
                        @match of(&runs[place], &it.name) {
                            Some(verdict) => (badge(verdict)),
                            None => span.faint { "not checked" },
                        }
                    }))
                }
            }
        })
    };
    html! {
        section {
            h2 { "Invariants" }
            @if differing.is_empty() { p { "All runs say the same of every invariant." } }
            @else { (shown(&differing, "Invariants on which runs differ")) }
            @if !same.is_empty() {
                details {
                    summary { (counted(same.len() as u64, "invariant")) " of which all say the same" }
                    (shown(&same, "Invariants of which all say the same"))
                }
            }
        }
    }
}

fn charts(runs: &[ComparedRun]) -> Result<Vec<(Operation, Picture)>, ChartError> {
    let named: Vec<(String, &Latencies)> =
        (1..).zip(runs).map(|(number, run)| (run.name(number), &run.latencies)).collect();
    let mut charts = Vec::new();
    for operation in DRAWN {
        if named.iter().any(|(_, it)| it.get(&operation).is_some()) {
            let [wide, narrow] = LatencyChart::compared(&operation, &named);
            charts.push((operation, Picture::new(&wide, &narrow)?));
        }
    }
    Ok(charts)
}

/// Each operation with its figures in every run.
fn figures(runs: &[ComparedRun]) -> Markup {
    let mut operations: Vec<&str> = Vec::new();
    for it in runs.iter().flat_map(|run| &run.result.stats.latencies) {
        if !operations.contains(&it.operation.as_str()) {
            operations.push(&it.operation);
        }
    }
    let of = |run: &'_ ComparedRun, operation: &str| -> Option<LatencyFigures> {
        run.result.stats.latencies.iter().find(|it| it.operation == operation).cloned()
    };
    html! {
        @if !operations.is_empty() {
            section {
                h2 { "Latency figures" }
                div.scroll tabindex="0" role="region" aria-label="Latency figures" {
                    table.latencies {
                        thead {
                            tr {
                                th scope="col" { "Operation and run" }
                                @for name in COLUMNS { th.number scope="col" { (name) } }
                            }
                        }
                        @for operation in operations {
                            tbody {
                                tr.level { th scope="rowgroup" colspan="7" { (plain(operation)) } }
                                @for (number, run) in (1..).zip(runs) {
                                    @if let Some(it) = of(run, operation) {
                                        tr {
                                            th scope="row" { (plain(&run.name(number))) }
                                            td.number data-name=(COLUMNS[0]) { (count(it.count)) }
                                            @for (name, ns) in COLUMNS[1..].iter().zip([it.p50_ns, it.p90_ns, it.p99_ns, it.max_ns]) {
                                                td.number data-name=(name) { (duration(ns)) }
                                            }
                                            td.number data-name=(COLUMNS[5]) { (times(&it, of(&runs[0], operation).as_ref())) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How many times as long as in the first run; nothing where that has none.
fn times(it: &LatencyFigures, first: Option<&LatencyFigures>) -> String {
    match first {
        Some(first) if first.p99_ns > 0 => {
            format!("{:.2} ×", it.p99_ns as f64 / first.p99_ns as f64)
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use history::verdict::Outcome;
    use serde_json::json;

    use super::*;
    use crate::manifest::Manifest;
    use crate::support;

    fn run(directory: &str, lock: &str, ttl: &str, invariants: Vec<Invariant>) -> ComparedRun {
        let history = support::bonus_pool();
        let result = RunResult { lock: lock.to_owned(), ..support::result(&history, invariants) };
        let scenario_as_run = json!({
            "name": lock, "lock": { "ttl": ttl, "retries": 3 }, "cues": [{ "at": "hold" }]
        });
        let manifest = Manifest { scenario_as_run, ..Manifest::default() };
        let latencies = Latencies::of(&history);
        ComparedRun { directory: directory.to_owned(), result, manifest, latencies }
    }

    #[test]
    fn what_differs_stands_out_and_what_does_not_is_counted() {
        let held = |name| support::held(name, Level::Key);
        let runs = [
            run("out/<a>", "single", "5s", vec![held("ownership"), support::overlap()]),
            run(
                "out/b",
                "queue",
                "7s",
                vec![held("ownership"), support::held("mutual-exclusion", Level::Belief)],
            ),
        ];
        assert_eq!(runs[0].result.verdict, Outcome::Violated);
        let page = compare_page(&runs).unwrap();
        for part in [
            "<h1>2 runs compared</h1>",
            "1: out/&lt;a&gt;",
            "<th scope=\"row\">lock.ttl</th><td data-name=\"run 1\">5s</td><td data-name=\"run 2\">7s</td>",
            "<summary>1 invariant of which all say the same</summary>",
            "1.00 ×",
            ">1: single<",
            ">2: queue<",
        ] {
            assert!(page.replace('\n', "").contains(part), "{part} in {page}");
        }
        assert!(!page.contains("lock.retries") && !page.contains("cues"), "the same in both");
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(at("belief: mutual-exclusion") < at("<details>"));
        assert!(at("<details>") < at("key: ownership"));
        assert_eq!(page.matches("<svg").count(), 2 * DRAWN.len());
    }

    #[test]
    fn runs_that_say_the_same_and_have_no_figures_have_a_page() {
        let empty = || {
            let mut it = run("d", "single", "5s", Vec::new());
            it.latencies = Latencies::default();
            it.result.stats.latencies.clear();
            it
        };
        let page = compare_page(&[empty(), empty()]).unwrap();
        assert!(page.contains("All runs say the same") && !page.contains("<svg"));
        assert!(!page.contains("set otherwise") && !page.contains("Latency"));
    }
}
