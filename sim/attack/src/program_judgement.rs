//! Judges the run of a plan with programs that do not report on their lock.
//!
//! Invariant: a program must not touch another's key, and must end by itself. What the oracle finds is a *bug*, too, or
//! an *assumption* if only a fencing token could have prevented it.

use std::time::{Duration, Instant};

use history::History;
use history::verdict::{Level, Outcome, Vacuous, Verdict, WitnessStep};
use picklock::time::span_ns;
use scenarios::span::rounded;

use crate::assessment::too_late;
use crate::board::VICTIM;
use crate::copies::CopiesRun;
use crate::copy::{CopyEnd, SUCCESS};
use crate::fault_story::StagedFault;
use crate::judgement::{AttackFinding, Severity, gravest};
use crate::known::LATE_MOST;
use crate::oracle::OracleAnswer;
use crate::plan::{AttackFault, AttackPlan, Target};
use crate::program_trace::ProgramTrace;
use crate::report::{PlanOutcome, PlanReport};
use crate::tenure::Tenure;

/// How many holds of the lock's key are told in the story of an oracle's finding.
const TOLD_MOST: usize = 4;

/// The outcome at the key level, and the findings.
pub(crate) struct ProgramVerdict {
    key: Outcome,
    pub(crate) findings: Vec<AttackFinding>,
    /// Why the key level, or the oracle, says nothing.
    doubts: Vec<String>,
    /// Why nothing can have gone wrong with the key, if so.
    vacuous: Option<String>,
}

/// Judges a run, of one plan or without a fault.
pub(crate) fn judge(
    plan: Option<&AttackPlan>,
    run: &CopiesRun,
    trace: &ProgramTrace,
    answer: &OracleAnswer,
) -> ProgramVerdict {
    let (key, findings, doubts, vacuous) = (Outcome::NotApplicable, Vec::new(), Vec::new(), None);
    let mut verdict = ProgramVerdict { key, findings, doubts, vacuous };
    match (&trace.lock_key, &trace.divergence) {
        (None, _) => {}
        (Some(_), Some(why)) => {
            verdict.key = Outcome::Inconclusive;
            verdict.doubts.push(why.clone());
        }
        (Some(_), None) => verdict.look_at_key(trace),
    }
    let overdue = run.ends.iter().filter(|end| end.overdue);
    verdict.findings.extend(overdue.map(|end| endless(run, end)));
    match answer {
        OracleAnswer::Content => {}
        OracleAnswer::Wrong(end) => {
            verdict.findings.push(wrong(plan, run, trace, end));
        }
        OracleAnswer::Silent(end) => {
            verdict.doubts.push(format!("the oracle did not end{}", end.last_words()));
        }
    }
    verdict.findings = gravest(verdict.findings);
    if let Some(fault) = StagedFault::new(plan, run.struck, run.healed, run.start) {
        verdict.findings.iter_mut().for_each(|it| fault.tell(&mut it.story, &trace.history));
    }
    verdict
}

impl ProgramVerdict {
    fn look_at_key(&mut self, trace: &ProgramTrace) {
        let mut outcomes = Vec::new();
        let found = checkers::check(&trace.history, true);
        for found in found.into_iter().filter(|it| matches!(it.level, Level::Key | Level::Progress))
        {
            let outcome = match &found.verdict {
                // Programs do not report when they have the lock, so nobody seems to hold it. Nothing else is missing.
                Verdict::Vacuous(Vacuous::NobodyHeld) => Outcome::Held,
                verdict => verdict.outcome(),
            };
            if found.level == Level::Key {
                outcomes.push(outcome);
            }
            match found.verdict {
                Verdict::Violated(witness) => {
                    // A client that touches a key of its own harms nobody.
                    let is_own = found.level == Level::Key
                        && witness.clients.windows(2).all(|it| it[0] == it[1]);
                    self.findings.push(AttackFinding {
                        severity: if is_own { Severity::Api } else { Severity::Bug },
                        invariant: found.name.to_owned(),
                        level: found.level,
                        summary: witness.summary.clone(),
                        story: witness.short_story().to_vec(),
                    });
                }
                Verdict::Inconclusive(why) => self.doubts.push(format!("{}: {why}", found.name)),
                Verdict::Vacuous(Vacuous::KeyUntouched) => {
                    self.vacuous = Some(Vacuous::KeyUntouched.what());
                }
                Verdict::Vacuous(_) | Verdict::Held | Verdict::NotApplicable(_) => {}
            }
        }
        if let Some(why) = trace.doubts.first() {
            outcomes.push(Outcome::Inconclusive);
            self.doubts.push(why.clone());
        }
        self.key = history::verdict::worst(outcomes);
    }
}

fn step(run: &CopiesRun, at: Instant, client: u32, text: impl Into<String>) -> WitnessStep {
    WitnessStep {
        at_ns: span_ns(at.saturating_duration_since(run.start)),
        client,
        text: text.into(),
    }
}

/// A copy that had to be killed.
fn endless(run: &CopiesRun, end: &CopyEnd) -> AttackFinding {
    let client = end.client;
    let mut story: Vec<WitnessStep> = end
        .printed
        .iter()
        .map(|line| step(run, end.at, client, format!("printed: {line}")))
        .collect();
    story.push(step(run, end.at, client, "is killed"));
    let summary = format!(
        "client {client} did not end within {}, though no fault kept it any more",
        rounded(span_ns(run.end_within))
    );
    let (severity, invariant, level) = (Severity::Bug, String::from("ends"), Level::Progress);
    AttackFinding { severity, invariant, level, summary, story }
}

/// The finding of an oracle that is not content.
fn wrong(
    plan: Option<&AttackPlan>,
    run: &CopiesRun,
    trace: &ProgramTrace,
    end: &CopyEnd,
) -> AttackFinding {
    let is_assumed = plan.is_some_and(|plan| {
        plan.fault.is_assumed_away() || (outlasts_ttl(plan.fault) && !strikes_key(plan, trace))
    });
    let severity = if is_assumed { Severity::Assumption } else { Severity::Bug };
    let said = end.printed.last().map(|line| format!(": {line}")).unwrap_or_default();
    let summary = format!("the oracle is not content ({}){said}", end.status);
    let mut story = Vec::new();
    let from = run.struck.unwrap_or(run.start);
    let later = trace.tenures.iter().filter(|it| it.until.is_none_or(|until| until >= from));
    for tenure in later.take(TOLD_MOST) {
        story.push(step(run, tenure.from, tenure.client, "gets the lock's key"));
        if let Some(until) = tenure.until.filter(|until| *until <= run.end) {
            let how = if tenure.expired { "it expires" } else { "it is deleted or taken over" };
            story.push(step(run, until, tenure.client, format!("has its key no more: {how}")));
        }
    }
    let told = |it: &CopyEnd| step(run, it.at, it.client, format!("ends ({})", it.status));
    story.extend(run.ends.iter().map(told));
    story
        .extend(end.printed.iter().map(|line| step(run, end.at, 0, format!("the oracle: {line}"))));
    story.sort_by_key(|step| step.at_ns);
    AttackFinding {
        severity,
        invariant: String::from("oracle"),
        level: Level::Effect,
        summary,
        story,
    }
}

/// Whether the fault may make its client wait for longer than the TTL and then go on with its work.
fn outlasts_ttl(fault: AttackFault) -> bool {
    matches!(
        fault,
        AttackFault::LateRequest
            | AttackFault::LateReply
            | AttackFault::LoseRequest
            | AttackFault::LoseReply
    )
}

/// Whether the fault strikes the lock itself, and not the work under it.
fn strikes_key(plan: &AttackPlan, trace: &ProgramTrace) -> bool {
    let (Some(boundary), Some(key)) = (&plan.boundary, &trace.lock_key) else { return false };
    let nth = usize::try_from(boundary.nth).unwrap_or(usize::MAX);
    let mut struck =
        trace.sent.iter().filter(|it| it.client == VICTIM && it.name == boundary.command);
    struck.nth(nth - 1).is_some_and(|it| {
        it.key == *key || it.seen.iter().flat_map(|seen| &seen.changes).any(|it| it.key == *key)
    })
}

/// The report of a plan. `releases` says whether keys are deleted in time in a run without faults.
pub(crate) fn report(
    plan: &AttackPlan,
    run: &CopiesRun,
    trace: ProgramTrace,
    verdict: ProgramVerdict,
    releases: bool,
    life: Duration,
) -> PlanReport {
    let ProgramVerdict { key, mut findings, doubts, vacuous } = verdict;
    let disturbed = disturbed(plan.fault, run.late(), &trace.tenures, releases, life)
        .filter(|_| !findings.is_empty());
    let is_clear = key != Outcome::Inconclusive && doubts.is_empty();
    let (outcome, why) = match (&run.not_stageable, findings.iter().map(|it| it.severity).max()) {
        (Some(why), _) => (PlanOutcome::NotStageable, Some(why.clone())),
        (None, _) if disturbed.is_some() => (PlanOutcome::Inconclusive, disturbed.clone()),
        (None, _) if run.struck.is_none() => {
            let why = match plan.boundary {
                Some(_) => "the command did not come again",
                None => "client 1 did not hold the lock for long enough",
            };
            (PlanOutcome::Vacuous, Some(why.to_owned()))
        }
        (None, Some(severity)) => (severity.into(), None),
        (None, None) if vacuous.is_some() => (PlanOutcome::Vacuous, vacuous),
        (None, None) if !is_clear => (PlanOutcome::Inconclusive, Some(doubts.join("; "))),
        (None, None)
            if waits_for_another(plan.fault) && trace.lock_key.is_some() && !run.taken_over =>
        {
            let why = "nobody else took the lock while the fault lasted: the other programs had ended, or did not want it";
            (PlanOutcome::Vacuous, Some(why.to_owned()))
        }
        (None, None) => (PlanOutcome::Held, None),
    };
    if outcome <= PlanOutcome::Inconclusive {
        findings.clear();
    }
    PlanReport {
        outcome,
        key,
        why,
        findings,
        remarks: remarks(plan, run),
        disturbed: disturbed.is_some() || trace.divergence.is_some(),
        history: trace.history,
        ..PlanReport::undecided(Some(plan), String::new())
    }
}

/// The report of the run without faults, in which nothing was wrong.
pub(crate) fn held(history: History) -> PlanReport {
    let key = if history.head.locks { Outcome::Held } else { Outcome::NotApplicable };
    let (outcome, why) = (PlanOutcome::Held, None);
    PlanReport { outcome, key, why, history, ..PlanReport::undecided(None, String::new()) }
}

/// Whether a fault shows something only if another takes the lock meanwhile.
fn waits_for_another(fault: AttackFault) -> bool {
    matches!(
        fault,
        AttackFault::LateRequest
            | AttackFault::LateReply
            | AttackFault::Stop
            | AttackFault::HolderStop
    )
}

/// The programs that ended with an error. A program may give up under a fault, so this is no finding.
fn remarks(plan: &AttackPlan, run: &CopiesRun) -> Vec<String> {
    let is_killed = |end: &CopyEnd| {
        end.client == VICTIM && matches!(plan.fault, AttackFault::Kill | AttackFault::HolderKill)
    };
    let failed = run.ends.iter().filter(|it| it.status != SUCCESS && !it.overdue && !is_killed(it));
    failed.map(|it| format!("client {} ended with {}", it.client, it.status)).collect()
}

/// How a busy machine may have caused the findings, if so: on it a hold may outlast its TTL without any fault.
fn disturbed(
    fault: AttackFault,
    late: Duration,
    tenures: &[Tenure],
    releases: bool,
    life: Duration,
) -> Option<String> {
    let is_delayed = outlasts_ttl(fault) || waits_for_another(fault);
    if late > life.mul_f64(LATE_MOST) && !is_delayed {
        return Some(too_late(late, life));
    }
    // Only client 1 meets a fault of messages or processes: the others behave as in a run without faults.
    let spares_others = releases && fault.target() != Target::Server;
    let slow = tenures.iter().find(|it| it.client > VICTIM && it.expired && spares_others)?;
    Some(format!(
        "the machine was too busy: client {}, which meets no fault, had the lock until its key expired",
        slow.client
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    #[test]
    fn a_busy_machine_is_told_from_a_lock_that_fails() {
        let life = Duration::from_millis(600);
        let tenure = |client, expired| Tenure {
            node: 0,
            ended_by: None,
            client,
            acquisition: client,
            from: now(),
            until: Some(now()),
            expires: true,
            expired,
        };
        let (punctual, late) = (Duration::from_millis(90), Duration::from_millis(91));
        let is_spoilt = |fault, late, tenure, releases| {
            disturbed(fault, late, &[tenure], releases, life).is_some()
        };
        let reset = AttackFault::ResetAfter;
        assert!(!is_spoilt(reset, punctual, tenure(2, false), true));
        assert!(is_spoilt(reset, late, tenure(2, false), true));
        assert!(!is_spoilt(AttackFault::Stop, late, tenure(2, false), true), "it waits anyway");
        assert!(is_spoilt(reset, punctual, tenure(2, true), true));
        assert!(!is_spoilt(reset, punctual, tenure(VICTIM, true), true), "it meets the fault");
        assert!(!is_spoilt(reset, punctual, tenure(2, true), false), "it always does");
        assert!(!is_spoilt(AttackFault::Restart, punctual, tenure(2, true), true), "all meet it");
    }
}
