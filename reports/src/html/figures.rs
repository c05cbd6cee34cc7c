//! Figures on the page: latencies, acquisitions, commands.
//!
//! Invariant: what clients sent and what the server counted stand side by side, so that a difference
//! shows.

use std::collections::BTreeSet;

use maud::{Markup, html};
use scenarios::result::{BypassFigures, LatencyFigures, RunResult, Stats};

use crate::format::{count, duration, plain};

/// The columns of the latency table; on a telephone each cell says its own.
const COLUMNS: [&str; 6] = ["Count", "Min", "p50", "p90", "p99", "Max"];

/// The latency table; nothing where nothing was measured.
pub(super) fn latencies(figures: &[LatencyFigures]) -> Markup {
    html! {
        @if !figures.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Latency figures" {
                table.latencies {
                    thead {
                        tr {
                            th scope="col" { "Operation" }
                            @for name in COLUMNS {
                                th.number scope="col" { (name) }
                            }
                        }
                    }
                    tbody {
                        @for it in figures {
                            tr {
                                th scope="row" { (plain(&it.operation)) }
                                td.number data-name=(COLUMNS[0]) { (count(it.count)) }
                                @let times = [it.min_ns, it.p50_ns, it.p90_ns, it.p99_ns, it.max_ns];
                                @for (name, ns) in COLUMNS[1..].iter().zip(times) {
                                    td.number data-name=(name) { (duration(ns)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What became of the acquisitions, and who won.
pub(super) fn acquisitions(result: &RunResult) -> Markup {
    let stats = &result.stats;
    let tally = stats.acquisitions;
    html! {
        dl {
            dt { "Clients" } dd { (count(u64::from(stats.clients))) }
            dt { "Acquisitions" }
            dd {
                (count(tally.invoked)) " begun: " (count(tally.ok)) " yes, " (count(tally.failed))
                " no, " (count(tally.unknown)) " unknown"
            }
            @if let Some(winners) = stats.winners {
                dt { "Winners" } dd { (count(u64::from(winners))) }
            }
            @if let Some(cost) = stats.commands_per_acquisition {
                dt { "Commands for each yes" } dd { (format!("{cost:.2}")) }
            }
            @if let Some(BypassFigures { p99, max }) = stats.bypass {
                dt { "Bypassed by later ones" } dd { "p99 " (count(p99)) ", max " (count(max)) }
            }
            dt { "Lasted" } dd { (duration(stats.duration_ns)) }
        }
    }
}

/// Commands by name; nothing where there were none.
pub(super) fn commands(stats: &Stats) -> Markup {
    let counted = stats.server_commands.as_ref();
    let names: BTreeSet<&String> =
        stats.commands.keys().chain(counted.iter().flat_map(|it| it.keys())).collect();
    html! {
        @if !names.is_empty() {
            section {
                h2 { "Commands" }
                div.scroll tabindex="0" role="region" aria-label="Commands by name" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Command" }
                                th.number scope="col" { "Sent by clients" }
                                @if counted.is_some() {
                                    th.number scope="col" { "Carried out by the server" }
                                }
                            }
                        }
                        tbody {
                            @for name in names {
                                tr {
                                    th scope="row" { (plain(name)) }
                                    td.number { (of(stats.commands.get(name))) }
                                    @if let Some(counted) = counted {
                                        td.number { (of(counted.get(name))) }
                                    }
                                }
                            }
                        }
                    }
                }
                @if counted.is_some() {
                    p.faint {
                        "The server also counts what scripts call, such as the DEL in a script that releases, \
                         and the few commands by which picklock itself looks at it. It does not count requests \
                         that were lost on their way or refused."
                    }
                }
            }
        }
    }
}

fn of(number: Option<&u64>) -> String {
    count(number.copied().unwrap_or_default())
}
