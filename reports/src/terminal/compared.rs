//! Runs beside each other, a line each.
//!
//! Invariant: a run in which something did not happen has a dash there, and no figure.

use history::verdict::Level;
use scenarios::result::{LatencyFigures, RunResult};

use super::table::table;
use crate::compared::ComparedRun;
use crate::format::{duration, plain};

/// Verdicts at each level, and the latencies that locks are compared by.
pub fn compared(runs: &[ComparedRun]) -> String {
    let mut header = vec!["", "run", "lock"];
    header.extend(Level::ALL.map(Level::name));
    header.extend(["acquire p50", "acquire p99", "handoff p99"]);
    let rows = (1..).zip(runs).map(|(number, ComparedRun { directory, result, .. })| {
        let mut cells = vec![
            number.to_string(),
            plain(directory).into_owned(),
            plain(&result.lock).into_owned(),
        ];
        cells.extend(Level::ALL.map(|level| result.level(level).name().to_owned()));
        cells.push(figure(result, "acquire", |it| it.p50_ns));
        cells.push(figure(result, "acquire", |it| it.p99_ns));
        cells.push(figure(result, "handoff", |it| it.p99_ns));
        cells
    });
    table(&header, rows, |place| place > 6) + "\n"
}

fn figure(result: &RunResult, operation: &str, of: impl Fn(&LatencyFigures) -> u64) -> String {
    let found = result.stats.latencies.iter().find(|it| it.operation == operation);
    found.map_or("-".to_owned(), |it| duration(of(it)))
}
