//! An attack as a page: the table as a heat map, and every finding with its story.

use history::verdict::WitnessStep;
use maud::{Markup, html};
use reports::html::document;

use crate::judgement::AttackFinding;
use crate::protocol::cut;
use crate::report::{AttackReport, PlanOutcome, PlanReport};
use crate::table::{Grid, Incident, who};

/// The report as a page of its own, without scripts. `replay` is the command that runs one plan again.
pub fn page(report: &AttackReport, replay: impl Fn(&str) -> String) -> String {
    let sections = [PlanOutcome::Bug, PlanOutcome::Api, PlanOutcome::Assumption];
    let body = html! {
        header {
            h1 { "picklock attack" (badge(report.worst())) }
            p.lead {
                code { (report.command.join(" ")) } ": " (report.subject())
            }
        }
        main {
            section {
                h2 { "Commands and faults" }
                div.scroll tabindex="0" { (heat(report)) }
                p.faint { (report.sentence()) }
            }
            @for outcome in sections {
                @for incident in Incident::all(report, outcome) {
                    @let plan = incident.told;
                    section {
                        h2 { (plan.plan) (badge(outcome)) }
                        p.faint { "In this plan " (plan.does) "." }
                        // Further findings belong to the same incident, so only the first has its story.
                        @for (place, finding) in plan.findings.iter().enumerate() {
                            (told(finding, place == 0))
                        }
                        @if plan.runs > 1 {
                            p { "Shown in " (plan.shown) " of " (plan.runs) " runs." }
                        }
                        @if let Some(same) = incident.same_in() { p { "The same in " (same) "." } }
                        pre { (replay(&plan.plan)) }
                    }
                }
            }
            @let unknown: Vec<&PlanReport> = report.plans.iter().filter(|it| it.why.is_some()).collect();
            @if !unknown.is_empty() {
                section {
                    h2 { "What shows nothing" }
                    ul { @for plan in unknown {
                        li { (plan.plan) ": " (plan.why.as_deref().unwrap_or_default()) }
                    } }
                }
            }
            @let remarks = report.remarks();
            @if !remarks.is_empty() {
                section {
                    h2 { "What else was seen" }
                    ul { @for (remark, plans) in remarks { li { (plans.join(", ")) ": " (remark) } } }
                }
            }
        }
    };
    document("picklock attack", &body)
}

fn class(outcome: PlanOutcome) -> &'static str {
    match outcome {
        PlanOutcome::Bug => "violated",
        PlanOutcome::Api | PlanOutcome::Assumption | PlanOutcome::Inconclusive => "inconclusive",
        PlanOutcome::Held => "held",
        PlanOutcome::Vacuous | PlanOutcome::NotStageable => "na",
    }
}

fn badge(outcome: PlanOutcome) -> Markup {
    html! { " " span.badge.(class(outcome)) { (outcome.word()) } }
}

fn heat(report: &AttackReport) -> Markup {
    let grid = Grid::of(report);
    html! {
        table {
            thead { tr {
                th { "fault" }
                @for place in &grid.places { th { (place) } }
            } }
            tbody {
                @for (fault, cells) in &grid.rows {
                    tr {
                        th { (fault) }
                        @for cell in cells {
                            td { @if let Some(plan) = cell { (badge(plan.outcome)) } }
                        }
                    }
                }
            }
        }
    }
}

fn told(finding: &AttackFinding, with_story: bool) -> Markup {
    html! {
        div.story {
            h3 { (finding.level.name()) ": " (cut(&finding.summary)) }
            @if with_story {
                table.all { tbody { @for step in &finding.story { (line(step)) } } }
            }
        }
    }
}

fn line(step: &WitnessStep) -> Markup {
    html! {
        tr {
            td.time { (step.at_ns / 1_000_000) " ms" }
            td.who { (who(step.client)) }
            td { (cut(&step.text)) }
        }
    }
}
