//! The figures: latencies as a table, acquisitions and commands as lines.
//!
//! Invariant: every time stands with its unit.

use std::collections::BTreeMap;

use scenarios::result::{BypassFigures, LatencyFigures, RunResult, Tally};

use super::{Style, Verbosity, table};
use crate::format::{count, duration, plain};

/// The latency table; empty where nothing was measured.
pub(super) fn latencies(figures: &[LatencyFigures], style: Style) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let verbose = style.verbosity == Verbosity::Verbose;
    let mut header = vec!["latency", "count", "p50", "p90", "p99", "max"];
    if verbose {
        header.splice(2..2, ["min"]);
        header.push("mean");
    }
    let rows = figures.iter().map(|it| {
        let mut row = vec![plain(&it.operation).into_owned(), count(it.count)];
        row.extend([it.p50_ns, it.p90_ns, it.p99_ns, it.max_ns].map(duration));
        if verbose {
            row.splice(2..2, [duration(it.min_ns)]);
            row.push(duration(rounded(it.mean_ns)));
        }
        row
    });
    table(&header, rows, |place| place > 0)
}

/// A mean in whole nanoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of durations is neither negative nor beyond the longest of them"
)]
fn rounded(mean_ns: f64) -> u64 {
    mean_ns.round() as u64
}

/// What became of the acquisitions, who won, and in a long summary what was sent.
pub(super) fn counts(result: &RunResult, style: Style) -> String {
    let stats = &result.stats;
    let Tally { invoked, ok, failed, unknown } = stats.acquisitions;
    let [invoked, ok, failed, unknown] = [invoked, ok, failed, unknown].map(count);
    let mut text =
        format!("acquisitions: {invoked} begun, {ok} yes, {failed} no, {unknown} unknown\n");
    if let Some(winners) = stats.winners {
        text.push_str(&format!("winners: {}\n", count(u64::from(winners))));
    }
    if let Some(cost) = stats.commands_per_acquisition {
        text.push_str(&format!("commands for each yes: {cost:.2}\n"));
    }
    if let Some(BypassFigures { p99, max }) = stats.bypass {
        let (p99, max) = (count(p99), count(max));
        text.push_str(&format!("bypassed by later ones: p99 {p99}, max {max}\n"));
    }
    if style.verbosity == Verbosity::Verbose {
        text.push_str(&format!("lasted: {}\n", duration(stats.duration_ns)));
        text.push_str(&format!("validity: {}\n", plain(&result.validity)));
        let can = result.server.capability_list();
        if !can.is_empty() {
            text.push_str(&format!("the server can: {}\n", style.wrap(&plain(&can), 2)));
        }
        text.push_str(&format!("sent: {}\n", style.wrap(&commands(&stats.commands), 2)));
        if let Some(counted) = &stats.server_commands {
            text.push_str(&format!("server counted: {}\n", style.wrap(&commands(counted), 2)));
        }
    }
    text
}

fn commands(counts: &BTreeMap<String, u64>) -> String {
    let all: Vec<String> =
        counts.iter().map(|(name, number)| format!("{} {}", plain(name), count(*number))).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}
