//! An attack as people read it: the table of commands and faults, and what was found.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::judgement::Severity;
use crate::report::{AttackReport, PlanOutcome, PlanReport};

/// The rows of the table: each place in the lock's life, with its plans by fault.
fn rows(report: &AttackReport) -> Vec<(String, BTreeMap<&str, &PlanReport>)> {
    let mut rows: Vec<(String, BTreeMap<&str, &PlanReport>)> = Vec::new();
    for plan in &report.plans {
        let place = match &plan.command {
            Some(command) => format!("{} {command}", plan.step.name()),
            None => String::from("while held"),
        };
        match rows.iter_mut().find(|(known, _)| *known == place) {
            Some((_, plans)) => {
                plans.insert(&plan.fault, plan);
            }
            None => rows.push((place, BTreeMap::from([(plan.fault.as_str(), plan)]))),
        }
    }
    rows
}

/// The table with a row for each fault and a column for each place.
fn table(report: &AttackReport) -> String {
    let rows = rows(report);
    let mut faults: Vec<&str> = Vec::new();
    for plan in &report.plans {
        if !faults.contains(&plan.fault.as_str()) {
            faults.push(&plan.fault);
        }
    }
    let left = faults.iter().map(|it| it.len()).max().unwrap_or(0);
    let mut text = format!("  {:left$}", "");
    for (place, _) in &rows {
        let _ = write!(text, "  {place:>8}");
    }
    text.push('\n');
    for fault in faults {
        let _ = write!(text, "  {fault:left$}");
        for (place, plans) in &rows {
            let word = plans.get(fault).map_or("", |plan| plan.outcome.word());
            let width = place.len().max(8);
            let _ = write!(text, "  {word:>width$}");
        }
        text.push('\n');
    }
    text
}

/// The report as text; `replay` is the command that runs one plan again, up to the plan's name.
pub fn human(report: &AttackReport, replay: impl Fn(&str) -> String) -> String {
    let AttackReport { clients, ttl_ms, server, lock_key, .. } = report;
    let mut text = format!(
        "picklock attack: {clients} workers, TTL {ttl_ms} ms, {server}, key {lock_key}\n\n{}\n",
        table(report)
    );
    for severity in [Severity::Bug, Severity::Api, Severity::Assumption] {
        let (title, outcome) = match severity {
            Severity::Bug => ("BUG", PlanOutcome::Bug),
            Severity::Api => ("API", PlanOutcome::Api),
            Severity::Assumption => ("ASSUMPTION", PlanOutcome::Assumption),
        };
        for plan in report.plans.iter().filter(|it| it.outcome == outcome) {
            let of = plan.findings.iter().filter(|it| it.severity == severity);
            let mut is_first = true;
            for finding in of {
                if is_first {
                    let _ = writeln!(text, "{title}  {}", plan.plan);
                }
                let _ = writeln!(
                    text,
                    "  {} ({}): {}",
                    finding.invariant,
                    finding.level.name(),
                    finding.summary
                );
                if is_first {
                    for step in &finding.story {
                        let at_ms = step.at_ns / 1_000_000;
                        let who = match step.client {
                            0 => String::from("picklock"),
                            client => format!("client {client}"),
                        };
                        let _ = writeln!(text, "    {at_ms:>6} ms  {who:<9} {}", step.text);
                    }
                }
                is_first = false;
            }
            if plan.runs > 1 {
                let _ = writeln!(text, "    shown in {} of {} runs", plan.shown, plan.runs);
            }
            let _ = writeln!(text, "    again: {}\n", replay(&plan.plan));
        }
    }
    let count = |outcome| report.count(outcome);
    let _ = writeln!(
        text,
        "{} plans: {} with a bug, {} with a misleading answer, {} with an assumption, {} held, {} vacuous, {} \
         undecided, {} not stageable",
        report.plans.len(),
        count(PlanOutcome::Bug),
        count(PlanOutcome::Api),
        count(PlanOutcome::Assumption),
        count(PlanOutcome::Held),
        count(PlanOutcome::Vacuous),
        count(PlanOutcome::Inconclusive),
        count(PlanOutcome::NotStageable),
    );
    text
}
