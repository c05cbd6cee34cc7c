//! Verdicts and stories on the page.
//!
//! Invariant: a verdict is a word in a badge; its colour only repeats it. What several invariants say of one incident is
//! told once.

use history::verdict::{Level, Outcome, WitnessStep};
use maud::{Markup, html};
use scenarios::result::{Invariant, RunResult};

use super::picture::Picture;
use crate::format::{count, plain, told};
use crate::incident::group::{FindingGroup, groups, most_telling};

/// A verdict in its badge.
pub(super) fn badge(outcome: Outcome) -> Markup {
    html! { span.badge.(class(outcome)) { (outcome.name()) } }
}

/// The style of a badge.
pub(super) fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "held",
        Outcome::Violated => "violated",
        Outcome::Inconclusive => "inconclusive",
        Outcome::NotApplicable => "na",
    }
}

/// The four levels and the invariants under each.
pub(super) fn levels(result: &RunResult) -> Markup {
    html! {
        table.levels {
            thead {
                tr {
                    th scope="col" { "Level and invariant" }
                    th scope="col" { "Verdict" }
                    th scope="col" { "Why" }
                }
            }
            @for level in Level::ALL {
                tbody { (of_level(result, level)) }
            }
        }
    }
}

fn of_level(result: &RunResult, level: Level) -> Markup {
    let invariants: Vec<&Invariant> =
        result.invariants.iter().filter(|it| it.level == level).collect();
    html! {
        tr.level {
            th scope="rowgroup" { (level.name()) }
            td { (badge(result.level(level))) }
            td.faint { @if invariants.is_empty() { "nothing was checked" } }
        }
        @for it in invariants {
            tr {
                th scope="row" { (plain(&it.name)) }
                td { (badge(it.verdict)) }
                td.faint {
                    @if let Some(reason) = &it.reason { (plain(reason)) }
                    @if let Some(witness) = &it.witness { (plain(&witness.summary)) }
                }
            }
        }
    }
}

/// Every violation as a story; nothing where there is none.
pub(super) fn stories(result: &RunResult) -> Markup {
    let incidents = groups(&result.invariants);
    html! {
        @if !incidents.is_empty() {
            section {
                h2 { "What went wrong" }
                @for incident in incidents { (story(&incident)) }
            }
        }
    }
}

/// A run of many that violates something.
#[derive(Clone, Debug)]
pub struct FailingRun {
    /// What it found.
    pub result: RunResult,
    /// Its picture, if it could be drawn.
    pub picture: Option<Picture>,
    /// The line that runs it again.
    pub replay: String,
}

impl FailingRun {
    /// The same for a page with very many of them.
    #[must_use]
    pub fn single(self) -> Self {
        Self { picture: self.picture.map(Picture::single), ..self }
    }

    /// Its line, its picture and the story that says most. `name` tells its picture from others of the page.
    pub(super) fn markup(&self, name: &str) -> Markup {
        let incidents = groups(&self.result.invariants);
        html! {
            pre { (plain(&self.replay)) }
            @if let Some(picture) = &self.picture { (picture.figure(name)) }
            @if let Some(incident) = most_telling(&incidents) { (story(incident)) }
        }
    }
}

/// An incident: each invariant that it violates, and its story, told once.
fn story(incident: &FindingGroup<'_>) -> Markup {
    let (told, all) = (incident.story(), incident.steps());
    html! {
        article.story {
            @for (invariant, witness) in &incident.findings {
                h3 {
                    (invariant.level.name()) ": " (plain(&invariant.name))
                    @if witness.occurrences > 1 {
                        span.faint { " — the first of " (count(witness.occurrences)) }
                    }
                }
                p { (plain(&witness.summary)) }
            }
            @if !told.is_empty() {
                (table(&told, "What happened, step by step", true))
            }
            @if all.len() > told.len() {
                details {
                    summary { "All that they did" }
                    (table(&all, "All that those concerned did", false))
                }
            }
        }
    }
}

fn table(steps: &[WitnessStep], label: &str, is_numbered: bool) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.all[!is_numbered] {
                thead {
                    tr {
                        @if is_numbered { th.time scope="col" { "No." } }
                        th.time scope="col" { "Time" }
                        th scope="col" { "Who" }
                        th scope="col" { "What happened" }
                    }
                }
                tbody {
                    @for (place, (when, who, what)) in told(steps).enumerate() {
                        tr {
                            @if is_numbered { td.time { (place + 1) } }
                            td.time { (when) }
                            td.who { (who) }
                            td { (plain(what)) }
                        }
                    }
                }
            }
        }
    }
}
