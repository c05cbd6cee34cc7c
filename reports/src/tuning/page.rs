//! `report.html` of a tuning: the advice, the frontier, every setting.
//!
//! Invariant: no script, and nothing is fetched; every text is escaped, the chart alone is set in as it is, for
//! it was drawn here.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use scenarios::tuning::{Answer, Confirmation, Keeping, Tuning};

use super::confirmed;
use super::table::{about, answer, header, row};
use crate::format::plain;
use crate::html::SHEET;

/// The page of a tuning, with its chart.
pub fn page(tuning: &Tuning, chart: Option<&str>) -> String {
    let advice = &tuning.advice;
    let class = match advice.answer {
        Answer::Met => "badge held",
        Answer::Unknown => "badge inconclusive",
        Answer::TooSlow | Answer::TooManyOverlaps => "badge violated",
    };
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "What TTL to set: " (answer(advice.answer)) " — picklock" }
                style { (PreEscaped(SHEET)) }
            }
            body {
                header {
                    h1 { "What TTL to set " span class=(class) { (answer(advice.answer)) } }
                    p.lead { (plain(&advice.says)) }
                }
                main {
                    section {
                        h2 { "Why" }
                        ul { @for reason in &advice.because { li { (plain(reason)) } } }
                    }
                    @if let Some(chart) = chart {
                        section {
                            h2 { "The trade-off" }
                            figure.scroll tabindex="0" aria-label="Frontier" { (PreEscaped(chart)) }
                        }
                    }
                    @for keeping in Keeping::ALL { (settings(tuning, keeping)) }
                    @if let Some(confirmation) = &tuning.confirmation { (shown(confirmation)) }
                    section {
                        h2 { "What it counts with" }
                        div.scroll tabindex="0" role="region" aria-label="Inputs" {
                            table {
                                thead { tr { th { "what" } th { "how much" } th { "from" } } }
                                tbody {
                                    @for it in &tuning.inputs {
                                        tr { th { (it.name) } td { (plain(&it.value)) } td { (plain(&it.source)) } }
                                    }
                                }
                            }
                        }
                    }
                    section {
                        h2 { "Say it again" }
                        pre { (plain(&tuning.replay)) }
                    }
                }
            }
        }
    };
    markup.into_string()
}

fn shown(confirmation: &Confirmation) -> Markup {
    html! {
        section {
            h2 { "Tried on " (plain(&confirmation.server)) }
            div.scroll tabindex="0" role="region" aria-label="What a server has shown" {
                table {
                    thead { tr { @for name in confirmed::HEADER { th { (name) } } } }
                    tbody {
                        @for tried in &confirmation.tried {
                            tr { @for cell in confirmed::row(tried) { td { (cell) } } }
                        }
                    }
                }
            }
            @for note in confirmed::notes(confirmation) { p { (plain(&note)) } }
        }
    }
}

fn settings(tuning: &Tuning, keeping: Keeping) -> Markup {
    let points = || tuning.points.iter().filter(|it| it.keeping == keeping);
    html! {
        @if points().next().is_some() {
            section {
                h2 { (about(keeping)) }
                div.scroll tabindex="0" role="region" aria-label=(about(keeping)) {
                    table {
                        thead { tr { @for name in header(keeping) { th { (name) } } } }
                        tbody {
                            @for point in points() {
                                tr { @for cell in row(point) { td { (cell) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}
