//! Checkers: what a history says of each invariant.
//!
//! Invariant: a checker calls a history *violated* only where no reading of what is unknown in it
//! (an operation without an answer, the moment at which a command was carried out) would excuse it.
//! A run in which nobody ever contended shows nothing, and is called inconclusive. A file an
//! invariant or family of them. Deliberately absent: any knowledge of recipes and worlds.

mod contention;
mod deadlock_freedom;
mod mutual_exclusion;
mod ownership;
mod pool;
mod story;

use crate::history::{History, Timeline};
use crate::verdict::{Finding, Level, Verdict};

/// What checkers look at.
struct Case<'a> {
    history: &'a History,
    timeline: Timeline,
}

/// Judges a history. Where the run was cut short (`complete` is false), nothing counts as held, and
/// nothing that has not happened yet is missed.
pub fn check(history: &History, complete: bool) -> Vec<Finding> {
    let case = Case { history, timeline: Timeline::of(history) };
    let found = |name, level, verdict| Finding { name, level, verdict };
    let mut findings = vec![
        found("ownership", Level::Key, ownership::check(&case)),
        found("mutual-exclusion", Level::Belief, mutual_exclusion::check(&case)),
    ];
    if let Some(prizes) = history.head.prizes {
        findings.extend(pool::check(&case, prizes));
    }
    findings.push(found("deadlock-freedom", Level::Progress, deadlock_freedom::check(&case)));
    let doubt = if complete {
        contention::missing(&case)
    } else {
        Some("the run did not come to its end".to_owned())
    };
    if let Some(doubt) = doubt {
        for finding in &mut findings {
            let is_missed = !complete
                && finding.level == Level::Progress
                && matches!(finding.verdict, Verdict::Violated(_));
            if finding.verdict == Verdict::Held || is_missed {
                finding.verdict = Verdict::Inconclusive(doubt.clone());
            }
        }
    }
    findings
}

#[cfg(test)]
mod testing;
