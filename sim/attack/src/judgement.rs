//! What a plan shows: of the lock, of its client library, and of what no lock can promise.
//!
//! Invariant: a *bug* breaks what every lock promises under a fault that a lock is made for. What only a fence could have
//! prevented is an *assumption*, and an answer that misleads without harming anybody is a matter of the *API*.

use std::time::Instant;

use scenarios::checker;
use scenarios::history::{History, Touch};
use scenarios::span::rounded;
use scenarios::verdict::{Level, Outcome, Verdict, WitnessStep};
use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::{AttackFault, AttackPlan};
use crate::protocol::Promises;
use crate::recorder::{Claim, ClaimOf};
use crate::transcript::{Phases, SentCommand, acquisition};
use crate::worker::WorkerError;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No lock with a TTL and without a fence survives this.
    Assumption,
    /// The library's answer misleads its caller, and nobody is harmed by it alone.
    Api,
    /// A promise that every lock makes is broken.
    Bug,
}

impl Severity {
    /// As a heading.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Assumption => "ASSUMES",
            Self::Api => "API",
            Self::Bug => "BUG",
        }
    }
}

/// Something that a plan has shown.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AttackFinding {
    /// How much it weighs.
    pub severity: Severity,
    /// The invariant.
    pub invariant: String,
    /// What it is about.
    pub level: Level,
    /// What happened, in one sentence.
    pub summary: String,
    /// How it came about.
    pub story: Vec<WitnessStep>,
}

/// A time in which one acquisition had the lock's key.
#[derive(Clone, Copy, Debug)]
struct Tenure {
    acquisition: u32,
    from: Instant,
    until: Option<Instant>,
    /// Nobody ended it: its time passed.
    expired: bool,
}

/// Who had the key and when, by the effects of commands alone.
fn tenures(sent: &[SentCommand], phases: &[Phases], key: &[u8], end: Instant) -> Vec<Tenure> {
    let mut commands: Vec<_> =
        sent.iter().filter_map(|it| it.seen.as_ref().map(|seen| (seen.at, it))).collect();
    commands.sort_by_key(|(at, _)| *at);
    let mut all: Vec<Tenure> = Vec::new();
    for (at, command) in commands {
        let changes = command.seen.iter().flat_map(|it| &it.changes);
        for change in changes.filter(|it| it.key == key) {
            let last = all.last_mut().filter(|it| it.until.is_none_or(|until| until > at));
            let life = |ns: Option<u64>| {
                ns.and_then(|ns| at.checked_add(std::time::Duration::from_nanos(ns)))
            };
            match (change.touch, last) {
                (Touch::Create(ttl) | Touch::Overwrite(ttl), last) => {
                    if let Some(last) = last {
                        (last.until, last.expired) = (Some(at), false);
                    }
                    let acquisition = acquisition(phases, command.client, command.sent);
                    all.push(Tenure { acquisition, from: at, until: life(ttl), expired: true });
                }
                (Touch::Extend(ns), Some(last)) => last.until = life(Some(ns)),
                (Touch::Delete, Some(last)) => (last.until, last.expired) = (Some(at), false),
                _ => {}
            }
        }
    }
    for tenure in &mut all {
        tenure.expired &= tenure.until.is_some_and(|until| until <= end);
    }
    all
}

/// What is judged.
pub(crate) struct Shown<'a> {
    pub(crate) plan: Option<&'a AttackPlan>,
    pub(crate) promises: Promises,
    pub(crate) history: &'a History,
    pub(crate) sent: &'a [SentCommand],
    pub(crate) phases: &'a [Phases],
    pub(crate) claims: &'a [Claim],
    pub(crate) failures: &'a [(u32, WorkerError)],
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

/// What each level came to, and what was found.
pub(crate) struct Judged {
    pub(crate) levels: Vec<(Level, Outcome)>,
    pub(crate) findings: Vec<AttackFinding>,
    /// Why the key level, or the run, says nothing.
    pub(crate) doubts: Vec<String>,
}

pub(crate) fn judge(shown: &Shown<'_>) -> Judged {
    let mut findings = Vec::new();
    let (mut levels, mut doubts) = (Vec::new(), Vec::new());
    let fault = shown.plan.map(|plan| plan.fault);
    let assumed = fault.is_some_and(AttackFault::is_assumed_away);
    for found in checker::check(shown.history, true) {
        levels.push((found.level, found.verdict.outcome()));
        match found.verdict {
            Verdict::Violated(witness) => {
                // Another's key is never a client's to touch; what overlaps because one stood still is.
                let is_assumed = assumed && matches!(found.level, Level::Belief | Level::Effect);
                findings.push(AttackFinding {
                    severity: if is_assumed { Severity::Assumption } else { Severity::Bug },
                    invariant: found.name.to_owned(),
                    level: found.level,
                    summary: witness.summary.clone(),
                    story: witness.short_story().to_vec(),
                });
            }
            Verdict::Inconclusive(why) => doubts.push(format!("{}: {why}", found.name)),
            Verdict::Vacuous(_) | Verdict::Held | Verdict::NotApplicable(_) => {}
        }
    }
    let key = shown.history.head.lock_key.as_bytes();
    let tenures = tenures(shown.sent, shown.phases, key, shown.end);
    for claim in shown.claims {
        findings.extend(dishonest(shown, &tenures, claim, assumed));
    }
    for (client, error) in shown.failures {
        let is_killed =
            matches!(fault, Some(AttackFault::Kill | AttackFault::HolderKill)) && *client == 1;
        if !is_killed {
            findings.push(failed(*client, error, shown));
        }
    }
    // The same thing is told once, by the gravest.
    findings.sort_by(|one, other| other.severity.cmp(&one.severity));
    Judged { levels, findings, doubts }
}

/// A worker that has ended, or does not answer.
fn failed(client: u32, error: &WorkerError, shown: &Shown<'_>) -> AttackFinding {
    let (severity, invariant) = match error {
        WorkerError::Silent { .. } => (Severity::Bug, "answers"),
        WorkerError::Ended { .. } | WorkerError::Start(_) => (Severity::Api, "survives"),
    };
    let at_ns = ns(shown.end, shown.start);
    let text = error.to_string();
    AttackFinding {
        severity,
        invariant: invariant.to_owned(),
        level: Level::Progress,
        summary: format!("client {client}: {}", text.lines().next().unwrap_or_default()),
        story: text
            .lines()
            .map(|line| WitnessStep { at_ns, client, text: line.to_owned() })
            .collect(),
    }
}

/// What is wrong with something that a worker has said.
fn dishonest(
    shown: &Shown<'_>,
    tenures: &[Tenure],
    claim: &Claim,
    assumed: bool,
) -> Option<AttackFinding> {
    let theirs = || tenures.iter().filter(|it| it.acquisition == claim.acquisition);
    let owned = theirs()
        .any(|it| it.from <= claim.answered && it.until.is_none_or(|until| until >= claim.asked));
    let client = claim.client;
    let (severity, invariant, level, summary) = match claim.of {
        ClaimOf::Acquired if !owned => (
            Severity::Bug,
            "acquired-is-true",
            Level::Belief,
            format!("client {client} was told that it has the lock, and never had its key"),
        ),
        ClaimOf::Held if !owned => (
            if shown.promises.checks && !assumed { Severity::Bug } else { Severity::Assumption },
            "held-is-true",
            Level::Belief,
            format!(
                "client {client} was told that it still has the lock, whose key was not its own any more"
            ),
        ),
        ClaimOf::Released if !owned => (
            Severity::Api,
            "released-is-true",
            Level::Belief,
            format!(
                "client {client} was told that it has released the lock, which was not its own any more"
            ),
        ),
        ClaimOf::NotAcquired => {
            let left =
                theirs().find(|it| it.expired && it.until.is_some_and(|it| it > claim.answered))?;
            let span = left.until?.saturating_duration_since(left.from.max(claim.answered));
            let span = rounded(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
            (
                Severity::Api,
                "not-acquired-is-clean",
                Level::Progress,
                format!(
                    "client {client} was told that it does not have the lock, whose key it left behind for {span}"
                ),
            )
        }
        _ => return None,
    };
    let mut story = Vec::new();
    let mut tell = |at: Instant, text: &str| {
        story.push(WitnessStep { at_ns: ns(at, shown.start), client, text: text.to_owned() });
    };
    for tenure in theirs() {
        tell(tenure.from, "gets the lock's key");
        match tenure.until {
            Some(until) if tenure.expired => tell(until, "has its key no more: it expires"),
            Some(until) => tell(until, "has its key no more: it is deleted or taken over"),
            None => {}
        }
    }
    let (asks, says) = match claim.of {
        ClaimOf::Acquired => ("is told to acquire", "answers ok"),
        ClaimOf::Held => ("is asked whether it has the lock", "answers ok"),
        ClaimOf::Released => ("is told to release", "answers ok"),
        ClaimOf::NotAcquired => ("is told to acquire", "answers that it has not, or does not know"),
    };
    tell(claim.asked, asks);
    tell(claim.answered, says);
    story.sort_by_key(|step| step.at_ns);
    Some(AttackFinding { severity, invariant: invariant.to_owned(), level, summary, story })
}

fn ns(at: Instant, start: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX)
}
