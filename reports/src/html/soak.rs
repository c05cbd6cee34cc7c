//! `soak.html`: what hours of fresh seeds have shown, and what they took.
//!
//! Invariant: it is as large after hours as after a minute.

use std::collections::{BTreeMap, BTreeSet};

use history::verdict::Outcome;
use maud::{Markup, html};
use scenarios::soak::{SoakConviction, SoakedPair};

use super::document::document;
use super::sweep::{coverage, outcomes};
use super::verdicts::badge;
use crate::format::{count, counted, long_duration, plain};
use crate::soak::{SoakReport, megabytes};

/// The page.
pub fn soak_page(report: &SoakReport<'_>) -> String {
    let (found, verdict) = (report.found, report.verdict());
    let state = match (&found.conviction, report.is_running) {
        (Some(_), _) => "ended by a violation",
        (None, true) => "goes on",
        (None, false) if report.is_interrupted() => "interrupted",
        (None, false) => "done",
    };
    let title =
        format!("Soak: {} in {} schedules — picklock", verdict.name(), found.whole.schedules);
    let body = html! {
        header {
            h1 { "Soak " (badge(verdict)) }
            p.lead {
                (state) ": " (counted(found.pairs.len() as u64, "pair"))
                " of a scenario, in its searched form, and a recipe; each in turn with fresh seeds, drawn from "
                (found.base)
            }
        }
        main {
            @if let Some(it) = &found.conviction { (convicted(it)) }
            (figures(report))
            (coverage(&found.whole))
            (outcomes(&found.whole, |it| outcome(it, found.conviction.is_some())))
            (expected(&found.pairs))
            (pairs(&found.pairs))
            (sittings(report))
            section {
                h2 { @if found.conviction.is_some() { "Run it again" } @else { "Go on" } }
                pre { (plain(report.again)) }
            }
        }
    };
    document(&title, &body)
}

fn convicted(it: &SoakConviction) -> Markup {
    html! {
        section.alert {
            strong { "Violated: " }
            (plain(&it.lock)) " in " (plain(&it.scenario)) " with seed " (it.seed) ", at level " (it.level.name()) "."
        }
    }
}

/// An invariant's verdict. Until the soak has ended by a violation, everything that is violated was expected.
fn outcome(outcome: Outcome, is_convicted: bool) -> Markup {
    match outcome {
        Outcome::Violated if !is_convicted => html! { span.badge.na { "violated as expected" } },
        outcome => badge(outcome),
    }
}

/// Where violations were expected.
fn expected(pairs: &[SoakedPair]) -> Markup {
    let pairs = || pairs.iter().filter(|it| it.expected > 0);
    let scenarios: BTreeSet<&str> = pairs().map(|it| &*it.scenario).collect();
    html! {
        @if !scenarios.is_empty() {
            section {
                h2 { "Expected violations" }
                p.faint {
                    "Schedules that violated what their scenario expects to be violated, or, at level progress, what it does not \
                     claim. Any other violation ends the soak."
                }
                ul {
                    @for scenario in scenarios {
                        li {
                            (plain(scenario)) ":"
                            @for (place, it) in pairs().filter(|it| it.scenario == scenario).enumerate() {
                                @if place > 0 { "," }
                                " " (plain(&it.lock)) " " span.faint { (count(it.expected)) " of " (count(it.schedules)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figures(report: &SoakReport<'_>) -> Markup {
    let found = report.found;
    let now = report.sittings.last().map_or(0, |it| it.memory_bytes);
    let (all, missing) = (found.pairs.len(), found.missing());
    html! {
        section {
            h2 { "Figures" }
            dl {
                dt { "Schedules" } dd { (count(found.whole.schedules)) }
                dt { "Schedules a second" } dd { (count(report.pace())) }
                dt { "Virtual time" } dd { (long_duration(found.whole.virtual_ns)) }
                dt { "Operations" } dd { (count(found.whole.operations)) }
                dt { "Strikes in holds" } dd { (count(found.strikes_in_holds())) }
                dt { "Pairs" } dd { (count((all - missing) as u64)) " of " (count(all as u64)) " have been run" }
                dt { "Lasted" } dd {
                    (long_duration(report.lasted_ns())) " of " (long_duration(report.asked_ns)) ", in "
                    (counted(report.sittings.len() as u64, "sitting"))
                }
                dt { "Memory" } dd { (megabytes(now)) " now, " (megabytes(report.highest_bytes())) " at most" }
            }
        }
    }
}

/// How many schedules each pair has run: a row for each scenario, a column for each recipe.
fn pairs(pairs: &[SoakedPair]) -> Markup {
    let mut locks: Vec<&str> = Vec::new();
    let mut scenarios: Vec<&str> = Vec::new();
    for it in pairs {
        for (known, name) in [(&mut locks, &*it.lock), (&mut scenarios, &*it.scenario)] {
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
    let cells: BTreeMap<(&str, &str), &SoakedPair> =
        pairs.iter().map(|it| ((&*it.scenario, &*it.lock), it)).collect();
    html! {
        section {
            h2 { "What each pair has run" }
            p.faint { "Schedules, and in how many of them a fault met a hold. Scenarios with many clients have fewer." }
            div.scroll tabindex="0" role="region" aria-label="Schedules of each pair" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Scenario" }
                            @for lock in &locks { th.number scope="col" { (plain(lock)) } }
                        }
                    }
                    tbody {
                        @for scenario in &scenarios {
                            tr {
                                th scope="row" { (plain(scenario)) }
                                @for lock in &locks {
                                    td.number {
                                        @if let Some(it) = cells.get(&(*scenario, *lock)) {
                                            (count(it.schedules)) " " span.faint { (count(it.met_hold)) }
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

fn sittings(report: &SoakReport<'_>) -> Markup {
    html! {
        section {
            h2 { "Sittings" }
            div.scroll tabindex="0" role="region" aria-label="Sittings" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Began (UTC)" }
                            @for name in ["Lasted", "Schedules", "Memory at the end", "At most"] {
                                th.number scope="col" { (name) }
                            }
                        }
                    }
                    tbody {
                        @for it in report.sittings {
                            tr {
                                th scope="row" { (plain(&it.started_utc)) }
                                td.number { (long_duration(it.lasted_ns)) }
                                td.number { (count(it.schedules)) }
                                td.number { (megabytes(it.memory_bytes)) }
                                td.number { (megabytes(it.highest_bytes)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use history::fault::Fault;
    use history::verdict::Level;
    use scenarios::soak::{Sitting, Soak};
    use scenarios::sweep::{Coverage, InvariantCounts, Sweep};

    use super::*;

    fn found(conviction: Option<SoakConviction>) -> Soak {
        let pair = |scenario: &str, lock: &str, schedules| SoakedPair {
            scenario: scenario.to_owned(),
            lock: lock.to_owned(),
            schedules,
            met_hold: schedules / 2,
            vacuous: 0,
            expected: 0,
        };
        let coverage = Coverage { strikes: 99, in_hold: 66_000, ..Coverage::default() };
        let mut soak = Soak::default();
        (soak.base, soak.conviction) = (4711, conviction);
        soak.pairs = vec![
            pair("a <scenario>", "single", 12_340),
            pair("a <scenario>", "redlock", 12_330),
            pair("another", "single", 10),
        ];
        soak.whole = Sweep {
            schedules: 24_680,
            coverage: BTreeMap::from([(Fault::Pause, coverage)]),
            ..Sweep::default()
        };
        soak
    }

    fn page(found: &Soak, is_running: bool) -> String {
        let sitting = |started: &str, lasted_s: u64| Sitting {
            started_utc: started.to_owned(),
            lasted_ns: lasted_s * 1_000_000_000,
            schedules: 12_340,
            memory_bytes: 41_200_000,
            highest_bytes: 52_300_000 + lasted_s,
        };
        let sittings = [sitting("2026-11-21T06:15:00Z", 3_600), sitting("<later>", 34)];
        soak_page(&SoakReport {
            found,
            sittings: &sittings,
            asked_ns: 8 * 3_600_000_000_000,
            is_running,
            again: "picklock soak --resume <again>",
        })
    }

    #[test]
    fn a_soak_is_told_with_its_pace_its_strikes_and_its_sittings() {
        let page = page(&found(None), true);
        for part in [
            "Soak <span class=\"badge held\">held</span>",
            "goes on: 3 pairs of a scenario",
            "drawn from 4711",
            "<dd>24,680</dd>",
            // In 3,634 seconds.
            "<dt>Schedules a second</dt><dd>6</dd>",
            "<dt>Strikes in holds</dt><dd>66,000</dd>",
            "1 h of 8 h, in 2 sittings",
            "41.2 MB now, 52.3 MB at most",
            "<th scope=\"row\">a &lt;scenario&gt;</th><td class=\"number\">12,340 <span class=\"faint\">6,170</span>",
            "<th scope=\"row\">pause</th>",
            "&lt;later&gt;",
            "<h2>Go on</h2><pre>picklock soak --resume &lt;again&gt;</pre>",
        ] {
            assert!(page.contains(part), "{part:?} in\n{page}");
        }
    }

    #[test]
    fn an_interrupted_soak_is_inconclusive_though_every_pair_has_been_run() {
        let text = page(&found(None), false);
        assert!(text.contains("interrupted: 3 pairs") && text.contains("3 of 3 have been run"));
        assert!(text.contains("Soak <span class=\"badge inconclusive\">"), "{text}");
    }

    #[test]
    fn a_pair_that_has_not_been_run_and_a_violation_are_said() {
        let mut unfinished = found(None);
        unfinished.pairs[2].schedules = 0;
        let text = page(&unfinished, false);
        assert!(text.contains("interrupted: 3 pairs") && text.contains("2 of 3 have been run"));
        assert!(text.contains("badge inconclusive"), "{text}");
        let conviction = SoakConviction {
            scenario: "a <scenario>".to_owned(),
            lock: "single".to_owned(),
            seed: 17,
            level: Level::Belief,
        };
        let text = page(&found(Some(conviction)), false);
        assert!(text.contains("single in a &lt;scenario&gt; with seed 17, at level belief"));
        assert!(text.contains("ended by a violation") && text.contains("<h2>Run it again</h2>"));
    }

    #[test]
    fn an_expected_violation_is_no_alarm_and_is_told_with_its_pairs() {
        let mut soak = found(None);
        soak.whole.invariants = vec![InvariantCounts {
            name: "mutual-exclusion".to_owned(),
            level: Level::Belief,
            held: 9,
            violated: 1,
            inconclusive: 0,
            vacuous: 0,
            not_applicable: 0,
            first_violated: None,
        }];
        soak.pairs[1].expected = 7;
        let text = page(&soak, false);
        assert!(text.contains("<span class=\"badge na\">violated as expected</span>"), "{text}");
        assert!(!text.contains("badge violated"), "{text}");
        let told = "<li>a &lt;scenario&gt;: redlock <span class=\"faint\">7 of 12,330</span></li>";
        assert!(text.contains(told), "{text}");
        soak.conviction = Some(SoakConviction {
            scenario: "another".to_owned(),
            lock: "single".to_owned(),
            seed: 17,
            level: Level::Belief,
        });
        let text = page(&soak, false);
        assert!(text.contains("badge violated") && text.contains("7 of 12,330"), "{text}");
        assert!(!text.contains("violated as expected"), "{text}");
    }
}
