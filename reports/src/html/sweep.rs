//! `sweep.html`: what many schedules of one scenario have shown.
//!
//! Invariant: everything on it follows from the sweep, so the same seeds give the same bytes; a share stands beside the
//! number of schedules it is of and its interval.

use history::verdict::{Level, Outcome};
use maud::{Markup, html};
use scenarios::sweep::{Coverage, InvariantCounts, NO_FAULT, Sweep, VacuousSchedules};
use ttl_model::stat::wilson;

use super::document::document;
use super::verdicts::{FailingRun, badge};
use crate::format::{count, counted, plain};

/// The columns behind the verdict; on a telephone each cell says its own.
const COLUMNS: [&str; 6] = ["Share violated", "Violated", "Held", "Inconclusive", "Vacuous", "n/a"];
/// The same of what struck.
const STRUCK: [&str; 4] = ["Strikes", "In a hold", "Schedules", "Schedules, in a hold"];

/// What a sweep was, beside what it found.
#[derive(Clone, Debug, Default)]
pub struct SweptPage<'a> {
    /// The scenario's name.
    pub scenario: &'a str,
    /// What was run, in a line.
    pub headline: &'a str,
    /// What deserves attention.
    pub remarks: &'a [String],
    /// The seed that `report.html` beside it is of.
    pub reported: u64,
    /// The worst schedules, the worst first.
    pub worst: &'a [FailingRun],
    /// The line that runs the whole sweep again.
    pub again: &'a str,
}

/// The page. `replay` gives the line that runs one seed again.
pub fn sweep_page(page: &SweptPage<'_>, found: &Sweep, replay: impl Fn(u64) -> String) -> String {
    let (scenario, verdict) = (plain(page.scenario), found.verdict());
    let title =
        format!("{scenario}: {} in {} schedules — picklock", verdict.name(), found.schedules);
    let body = html! {
        header {
            h1 { (scenario) " " (badge(verdict)) }
            p.lead { (plain(page.headline)) }
        }
        main {
            @if found.interrupted {
                section.alert { strong { "Interrupted: " } "not every seed that was asked for has been run." }
            }
            (outcomes(found, badge))
            (worst(page, found))
            (failing(page, found, replay))
            (by_fault(found))
            (coverage(found))
            (vacuous(found))
            @if !page.remarks.is_empty() {
                section {
                    h2 { "Remarks" }
                    ul { @for remark in page.remarks { li { (plain(remark)) } } }
                }
            }
            section {
                h2 { "Run it again" }
                pre { (plain(page.again)) }
                @if let Some(digest) = found.digest { p.faint { "Digest of all histories: " (digest) } }
            }
        }
    };
    document(&title, &body)
}

/// Each invariant: how many schedules violate it, and which share of all schedules that may be; its verdict as `verdict`
/// shows it.
pub(super) fn outcomes(found: &Sweep, verdict: impl Fn(Outcome) -> Markup) -> Markup {
    let row = |it: &InvariantCounts| {
        let InvariantCounts { held, violated, inconclusive, vacuous, not_applicable, .. } = it;
        let judged = held + violated;
        html! {
            tr {
                th scope="row" { (plain(&it.name)) }
                td data-name="Verdict" { (verdict(found.outcome(it))) }
                @if judged > 0 {
                    td.number.wide data-name=(COLUMNS[0]) { (share(*violated, judged)) }
                } @else {
                    td.number.wide {}
                }
                @for (name, number) in COLUMNS[1..].iter().zip([violated, held, inconclusive, vacuous, not_applicable]) {
                    td.number data-name=(name) { (count(*number)) }
                }
            }
        }
    };
    html! {
        section {
            h2 { "Invariants" }
            p.faint {
                "The share is that of the schedules that say yes or no, with its 95 % interval. Where nothing was violated, the \
                 interval says how rare a violation has to be."
            }
            div.scroll tabindex="0" role="region" aria-label="Schedules by invariant" {
                table.latencies {
                    thead {
                        tr {
                            th scope="col" { "Invariant" }
                            th scope="col" { "Verdict" }
                            @for name in COLUMNS { th.number scope="col" { (name) } }
                        }
                    }
                    @for level in Level::ALL {
                        tbody {
                            tr.level { th colspan="2" scope="rowgroup" { (level.name()) } td colspan="6" {} }
                            @for it in found.invariants.iter().filter(|it| it.level == level) { (row(it)) }
                        }
                    }
                }
            }
        }
    }
}

/// The worst schedules, each with its picture and story.
fn worst(page: &SweptPage<'_>, found: &Sweep) -> Markup {
    let kinds = found.worst(page.worst.len());
    let kind = |seed: u64| kinds.iter().find(|(_, it)| it.seed == seed);
    html! {
        @if !page.worst.is_empty() {
            section {
                h2 { "The worst schedules" }
                p.faint {
                    "Of the schedules that violate the same invariants, the one with the fewest faults; those at most levels first. "
                    "In all, " (counted(found.kinds.len() as u64, "combination")) " of invariants."
                }
                @for it in page.worst {
                    @let seed = it.result.seed;
                    article.told {
                        h3 {
                            "Seed " (seed)
                            @if let Some((what, kind)) = kind(seed) {
                                ": " (plain(what)) " "
                                span.faint {
                                    "— " (counted(kind.schedules, "schedule")) " of this kind, "
                                    (counted(kind.strikes, "strike")) " in this one"
                                }
                            }
                        }
                        (it.markup(&format!("seed-{seed}")))
                    }
                }
            }
        }
    }
}

/// Faults beside invariants: which share of the schedules with a fault violate what.
fn by_fault(found: &Sweep) -> Markup {
    let violated: Vec<&InvariantCounts> = Level::ALL
        .into_iter()
        .flat_map(|level| found.invariants.iter().filter(move |it| it.level == level))
        .filter(|it| it.violated > 0)
        .collect();
    html! {
        @if !violated.is_empty() && !found.struck_by.is_empty() {
            section {
                h2 { "Faults and what was violated" }
                p.faint {
                    "Of the schedules in which a fault struck, how many violated the invariant. Several faults may have struck \
                     in one schedule, so a share is no cause."
                }
                div.scroll tabindex="0" role="region" aria-label="Violations by fault" {
                    table.latencies.heat {
                        thead {
                            tr {
                                th scope="col" { "Fault" }
                                th.number scope="col" { "Schedules" }
                                @for it in &violated { th.number scope="col" { (plain(&it.name)) } }
                            }
                        }
                        tbody {
                            @for (fault, it) in &found.struck_by {
                                tr {
                                    th scope="row" { @if fault == NO_FAULT { "no fault" } @else { (plain(fault)) } }
                                    td.number data-name="Schedules" { (count(it.schedules)) }
                                    @for invariant in &violated {
                                        @let hits = it.violated.get(&invariant.name).copied().unwrap_or_default();
                                        td.number.(warmth(hits, it.schedules)) data-name=(invariant.name) {
                                            (count(hits)) " "
                                            span.faint { (percent(hits as f64 / it.schedules.max(1) as f64)) " %" }
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

/// How warm a cell is, from nothing to nearly all.
fn warmth(hits: u64, of: u64) -> &'static str {
    match hits * 100 / of.max(1) {
        _ if hits == 0 => "heat-0",
        0..=4 => "heat-1",
        5..=24 => "heat-2",
        25..=74 => "heat-3",
        _ => "heat-4",
    }
}

/// The lowest seeds that violate something, each with its line.
fn failing(page: &SweptPage<'_>, found: &Sweep, replay: impl Fn(u64) -> String) -> Markup {
    html! {
        @if !found.failing.is_empty() {
            section {
                h2 { "Seeds that violate something" }
                p {
                    (count(found.violations)) " of " (count(found.schedules)) " schedules: "
                    (share(found.violations, found.schedules)) ". The lowest seeds:"
                }
                @for (seed, violated) in &found.failing {
                    article.story {
                        h3 {
                            "Seed " (seed) ": " (plain(&violated.join(", ")))
                            @if *seed == page.reported { " — " a href="./report.html" { "its picture and story" } }
                        }
                        pre { (plain(&replay(*seed))) }
                    }
                }
            }
        }
    }
}

/// What struck, and how often it met a hold.
pub(super) fn coverage(found: &Sweep) -> Markup {
    html! {
        @if !found.coverage.is_empty() {
            section {
                h2 { "What struck" }
                p { "A fault met a hold in " (count(found.met_hold)) " schedules." }
                div.scroll tabindex="0" role="region" aria-label="Faults" {
                    table.latencies {
                        thead {
                            tr {
                                th scope="col" { "Fault" }
                                @for name in STRUCK { th.number scope="col" { (name) } }
                            }
                        }
                        tbody {
                            @for (fault, it) in &found.coverage {
                                @let Coverage { strikes, in_hold, schedules, schedules_in_hold } = *it;
                                tr {
                                    th scope="row" { (fault.name()) }
                                    @for (name, number) in STRUCK.into_iter().zip([strikes, in_hold, schedules, schedules_in_hold]) {
                                        td.number data-name=(name) { (count(number)) }
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

/// What was not put to the test, and where.
fn vacuous(found: &Sweep) -> Markup {
    html! {
        @if !found.vacuous.is_empty() {
            section {
                h2 { "What showed nothing" }
                ul {
                    @for (what, VacuousSchedules { schedules, seed }) in &found.vacuous {
                        li { (count(*schedules)) " schedules: " (plain(what)) " (the first is seed " (seed) ")" }
                    }
                }
            }
        }
    }
}

/// A share in per cent, with its interval.
fn share(hits: u64, of: u64) -> String {
    let it = wilson(hits, of);
    let [middle, low, high] = [it.middle, it.low, it.high].map(percent);
    if hits == 0 { format!("below {high} %") } else { format!("{middle} % ({low} to {high})") }
}

/// With as many digits as a reader needs to tell it from nothing and from all.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent >= 10.0 => format!("{percent:.1}"),
        _ if percent == 0.0 => "0".to_owned(),
        _ if percent >= 0.1 => format!("{percent:.2}"),
        _ => format!("{percent:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use history::fault::Fault;
    use scenarios::result::RunResult;
    use scenarios::sweep::{FailureKind, StruckSchedules};

    use super::*;
    use crate::support;

    fn counts(name: &str, level: Level, held: u64, violated: u64) -> InvariantCounts {
        InvariantCounts {
            name: name.to_owned(),
            level,
            held,
            violated,
            inconclusive: 4,
            vacuous: 3,
            not_applicable: 0,
            first_violated: None,
        }
    }

    fn of(found: &Sweep) -> String {
        let page = SweptPage {
            scenario: "a <scenario>",
            headline: "a headline",
            remarks: &["a <remark>".to_owned()],
            reported: 17,
            worst: &[],
            again: "picklock --seeds 0..2000",
        };
        sweep_page(&page, found, |seed| format!("picklock --seed {seed}"))
    }

    #[test]
    fn shares_have_intervals_and_the_seeds_their_lines() {
        let strikes =
            Coverage { strikes: 12_345, in_hold: 67, schedules: 89, schedules_in_hold: 5 };
        let found = Sweep {
            schedules: 2_000,
            invariants: vec![
                counts("ownership", Level::Key, 2_000, 0),
                counts("mutual-exclusion", Level::Belief, 1_500, 500),
            ],
            coverage: BTreeMap::from([(Fault::Pause, strikes)]),
            met_hold: 1_500,
            vacuous: BTreeMap::from([(
                "nobody <came>".to_owned(),
                VacuousSchedules { schedules: 1, seed: 8 },
            )]),
            violations: 500,
            failing: BTreeMap::from([
                (17, vec!["mutual-exclusion".to_owned()]),
                (18, vec!["mutual-exclusion".to_owned(), "ownership".to_owned()]),
            ]),
            ..Sweep::default()
        };
        let page = of(&found);
        for part in [
            "a &lt;scenario&gt; <span class=\"badge violated\">violated</span>",
            // Three in 2,000 would be seen with 95 %.
            "below 0.15 %",
            "25.0 % (23.2 to 26.9)",
            "12,345",
            "Seed 17: mutual-exclusion — <a href=\"./report.html\">",
            "Seed 18: mutual-exclusion, ownership</h3><pre>picklock --seed 18</pre>",
            "nobody &lt;came&gt; (the first is seed 8)",
            "a &lt;remark&gt;",
            "<pre>picklock --seeds 0..2000</pre>",
        ] {
            assert!(page.contains(part), "{part:?} in\n{page}");
        }
        assert!(!page.contains("Interrupted"));
    }

    #[test]
    fn faults_stand_beside_what_was_violated_and_the_worst_schedules_come_first() {
        let kind = |schedules, seed, levels, invariants| FailureKind {
            schedules,
            seed,
            strikes: 7,
            levels,
            invariants,
        };
        let struck = |schedules, hits| StruckSchedules {
            schedules,
            violated: BTreeMap::from([("mutual-exclusion".to_owned(), hits)]),
        };
        let found = Sweep {
            schedules: 400,
            invariants: vec![
                counts("ownership", Level::Key, 400, 0),
                counts("mutual-exclusion", Level::Belief, 300, 100),
            ],
            struck_by: BTreeMap::from([
                ("pause".to_owned(), struck(200, 100)),
                (
                    NO_FAULT.to_owned(),
                    StruckSchedules { schedules: 150, ..StruckSchedules::default() },
                ),
            ]),
            kinds: BTreeMap::from([
                ("mutual-exclusion".to_owned(), kind(99, 3, 1, 1)),
                ("mutual-exclusion, ownership".to_owned(), kind(1, 42, 2, 2)),
            ]),
            ..Sweep::default()
        };
        assert_eq!(found.worst(9).iter().map(|it| it.1.seed).collect::<Vec<_>>(), [42, 3]);
        let history = support::bonus_pool();
        let told = found.worst(9).into_iter().map(|(_, it)| {
            let result =
                RunResult { seed: it.seed, ..support::result(&history, vec![support::overlap()]) };
            let replay = format!("picklock --seed {}", it.seed);
            FailingRun { picture: crate::write::incident(&history, &result), result, replay }
        });
        let worst: Vec<FailingRun> = told.collect();
        let page = sweep_page(&SweptPage { worst: &worst, ..SweptPage::default() }, &found, |_| {
            String::new()
        });
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} in {page}"));
        assert!(at("Seed 42: mutual-exclusion, ownership") < at("Seed 3: mutual-exclusion"));
        assert!(at("picklock --seed 42</pre>") < at("zoom-seed-42-wide-1"));
        assert!(page.contains("<th scope=\"row\">no fault</th>"), "{page}");
        let row = &page[at("<th scope=\"row\">pause</th>")..];
        assert!(
            row.contains(
                "heat-3\" data-name=\"mutual-exclusion\">100 <span class=\"faint\">50.0 %"
            ),
            "{row}"
        );
        assert!(!page.contains("data-name=\"ownership\""), "nothing violated it");
    }

    #[test]
    fn a_sweep_without_a_violation_says_how_rare_one_is_and_nothing_of_seeds() {
        let page = of(&Sweep {
            schedules: 10,
            interrupted: true,
            invariants: vec![counts("ownership", Level::Key, 10, 0)],
            ..Sweep::default()
        });
        assert!(page.contains("below 30.0 %") && page.contains("Interrupted"), "{page}");
        assert!(!page.contains("Seeds that violate") && !page.contains("What struck"), "{page}");
    }
}
