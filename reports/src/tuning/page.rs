//! `report.html` of a tuning: the advice, the frontier, every setting.
//!
//! Invariant: no script, and nothing is fetched; every text is escaped, the chart alone is set in as it
//! is, for it was drawn here.

use maud::{Markup, html};
use ttl_model::tuning::{Confirmation, Protection, TargetStatus, Tuning};

use super::confirmed;
use super::table::{about, answer, belief, header, is_chosen, row};
use crate::format::plain;
use crate::html::{Picture, document};

/// The page of a tuning, with its chart.
pub fn page(tuning: &Tuning, chart: Option<&Picture>) -> String {
    let advice = &tuning.advice;
    let class = match advice.answer {
        TargetStatus::Met => "badge held",
        TargetStatus::Unknown => "badge inconclusive",
        TargetStatus::TooSlow | TargetStatus::TooManyOverlaps => "badge violated",
    };
    let title = format!("What TTL to set: {} — picklock", answer(advice.answer));
    let body = html! {
        header {
            h1 { "What TTL to set " span class=(class) { (answer(advice.answer)) } }
            p.lead { (plain(&advice.says)) }
        }
        main {
            section {
                h2 { "Why" }
                @if let Some(why) = &tuning.cut_short { p { "Incomplete: " (plain(why)) } }
                ul { @for reason in &advice.because { li { (plain(reason)) } } }
                @if !advice.objective.is_empty() { p { "Chosen: " (plain(&advice.objective)) "." } }
            }
            @if let Some(chart) = chart {
                section {
                    h2 { "The trade-off" }
                    (chart.figure("frontier"))
                }
            }
            section {
                h2 { "Every setting" }
                h3 { (about(tuning.keeping)) }
                (settings(tuning, tuning.keeping))
                @for keeping in Protection::ALL {
                    // Who asked for one lock may look at the others, but need not pass them by.
                    @if keeping != tuning.keeping && tuning.points.iter().any(|it| it.keeping == keeping) {
                        details {
                            summary { (about(keeping)) }
                            (settings(tuning, keeping))
                        }
                    }
                }
            }
            @if let Some(confirmation) = &tuning.confirmation { (shown(confirmation)) }
            section {
                h2 { "Inputs" }
                div.scroll tabindex="0" role="region" aria-label="Inputs" {
                    table.inputs {
                        thead { tr { th { "input" } th { "value" } th { "source" } } }
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
    };
    document(&title, &body)
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

fn settings(tuning: &Tuning, keeping: Protection) -> Markup {
    // A time or a rate is short, and reads best on one line.
    let class = |place: usize| match place {
        2 | 3 => "share",
        4 | 5 => "delay",
        7 => "misses",
        _ => "number",
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(about(keeping)) {
            table.settings {
                thead {
                    tr {
                        @for (place, name) in header(keeping, tuning.if_taken).into_iter().enumerate() {
                            th class=(class(place)) { (name) }
                        }
                    }
                }
                tbody {
                    @for point in tuning.points.iter().filter(|it| it.keeping == keeping) {
                        tr.chosen[is_chosen(tuning, point)].met[is_chosen(tuning, point) && point.meets()] {
                            @for (place, cell) in row(point).into_iter().enumerate() {
                                td class=(class(place)) { (cell) }
                            }
                        }
                    }
                }
            }
        }
        p { (belief(keeping)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::testing::{point, tuning};

    #[test]
    fn the_lock_that_was_asked_for_comes_first_and_its_advised_row_is_set_off() {
        let mut points = vec![point(1_000, None, 9.0, 9.0), point(5_000, None, 0.5, 0.5)];
        points[0].keeping = Protection::None;
        let page = page(&tuning(points, 1), None);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}"));
        let (asked, other) = (at(about(Protection::Tracked)), at(about(Protection::None)));
        assert!(asked < other && at("<details>") < other, "{asked} {other}");
        assert_eq!(page.matches("<tr class=\"chosen met\">").count(), 1);
        assert!(at("class=\"chosen") < other && !page.contains(about(Protection::Fenced)));
    }
}
