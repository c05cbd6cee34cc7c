//! Judges the run of a plan: finds bugs of the lock, misleading answers of its library, and limits of any lock.
//!
//! Invariant: a *bug* breaks what every lock promises, under a fault that locks are made for. An *assumption* is harm
//! that only a fencing token could have prevented. A matter of the *API* is an answer that misleads and harms nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use history::verdict::{Level, Outcome, Verdict, WitnessStep};
use history::{History, Text, Touch};
use picklock::time::span_ns;
use redis_model::witness::KeyChange;
use scenarios::span::rounded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::board::{VICTIM, WAITER};
use crate::fault_story::StagedFault;
use crate::key_search::SOON;
use crate::plan::{AttackFault, AttackPlan, Target};
use crate::protocol::Promises;
use crate::recorder::{Claim, ClaimOf, ValidityClaim};
use crate::shared_key::KeyDoubts;
use crate::tenure::{Tenure, are_enough, tenures};
use crate::transcript::{Phases, TracedCommand};
use crate::worker::WorkerError;

/// How many refusals show that clients asked: one may have begun before the lock was free.
const REFUSALS_LEAST: usize = 2;

/// How far a validity may exceed the key's life, as a part of it: workers count in ms, and are read a little later.
const VALIDITY_GRAIN: f64 = 0.15;

/// The invariant of fencing tokens.
const TOKENS: &str = "rising-tokens";

/// How many reasons are given why the key level is undecided: further ones are of the same kind.
const DOUBTS_MOST: usize = 2;

/// How much a finding weighs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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

/// What is judged.
pub(crate) struct PlanEvidence<'a> {
    pub(crate) plan: Option<&'a AttackPlan>,
    /// The number of servers on which a client must have the key to have the lock.
    pub(crate) quorum: usize,
    pub(crate) promises: Promises,
    /// The lock's key.
    pub(crate) key: &'a [u8],
    pub(crate) history: &'a History,
    pub(crate) sent: &'a [TracedCommand],
    pub(crate) phases: &'a [Phases],
    pub(crate) claims: &'a [Claim],
    pub(crate) validities: &'a [ValidityClaim],
    pub(crate) doubts: &'a KeyDoubts,
    pub(crate) failures: &'a [(u32, WorkerError)],
    pub(crate) start: Instant,
    /// When the fault struck.
    pub(crate) struck: Option<Instant>,
    /// When the fault was over.
    pub(crate) healed: Option<Instant>,
    pub(crate) end: Instant,
    /// Since when rivals have asked for the lock, if none of them got it again.
    pub(crate) unserved: Option<Instant>,
}

impl PlanEvidence<'_> {
    /// Whether the plan may strike this client: one that strikes servers may strike every client.
    fn may_be_struck(&self, client: u32) -> bool {
        client == VICTIM || self.plan.is_none_or(|plan| plan.fault.target() == Target::Server)
    }
}

/// The outcome of each level, and the findings.
pub(crate) struct Judged {
    pub(crate) levels: Vec<(Level, Outcome)>,
    pub(crate) findings: Vec<AttackFinding>,
    /// Why the key level, or the run, says nothing.
    pub(crate) doubts: Vec<String>,
}

pub(crate) fn judge(shown: &PlanEvidence<'_>) -> Judged {
    let mut findings = Vec::new();
    let (mut levels, mut doubts) = (Vec::new(), Vec::new());
    let tenures = tenures(shown.sent, shown.phases, shown.key, shown.end);
    // If a later attempt of a client cleans up after an earlier one, nobody is harmed.
    let is_harmful = |it: &Tenure| it.ended_by.is_some_and(|by| by < it.acquisition);
    let harms_itself = tenures.iter().any(is_harmful);
    let fault = shown.plan.map(|plan| plan.fault);
    let assumed = fault.is_some_and(AttackFault::is_assumed_away);
    for found in checkers::check(shown.history, true) {
        levels.push((found.level, found.verdict.outcome()));
        match found.verdict {
            Verdict::Violated(witness) => {
                // A client must never touch another's key, but holds may overlap if one client was stopped.
                // Fencing tokens must rise even then: by them a resource tells the two holders apart.
                let is_of_tokens = found.name == TOKENS && !fault.is_some_and(AttackFault::forgets);
                // That one client stands still excuses no overlap of two others.
                let is_of_others = fault.is_some_and(AttackFault::stands_still)
                    && found.level == Level::Belief
                    && !witness.clients.contains(&VICTIM);
                let is_assumed = assumed
                    && !is_of_tokens
                    && !is_of_others
                    && matches!(found.level, Level::Belief | Level::Effect);
                // Only one client is concerned, so no other is harmed.
                let is_own = found.level == Level::Key
                    && witness.clients.windows(2).all(|it| it[0] == it[1]);
                if is_own && !harms_itself {
                    levels.last_mut().into_iter().for_each(|it| it.1 = Outcome::Held);
                    continue;
                }
                let severity = match () {
                    () if is_assumed => Severity::Assumption,
                    () if is_own => Severity::Api,
                    () => Severity::Bug,
                };
                findings.push(AttackFinding {
                    severity,
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
    // Only a server that forgets can end a hold without its client being able to tell.
    let forgets = fault.is_some_and(AttackFault::forgets);
    let is_decided = |acquisition| !shown.doubts.undecided.contains(&acquisition);
    for claim in shown.claims.iter().filter(|it| is_decided(it.acquisition)) {
        findings.extend(dishonest(shown, &tenures, claim, forgets));
    }
    let validities =
        shown.validities.iter().filter(|(_, _, acquisition, _)| is_decided(*acquisition));
    findings.extend(validities.filter_map(|it| overlong(shown, &tenures, *it)));
    for (client, error) in shown.failures {
        let killed = fault.and_then(|fault| match fault {
            AttackFault::Kill | AttackFault::HolderKill => Some(VICTIM),
            AttackFault::WaiterKill => Some(WAITER),
            _ => None,
        });
        if Some(*client) != killed {
            findings.push(failed(*client, error, ns(shown.end, shown.start)));
        }
    }
    // A key that is left for ever is the reason, if there is one.
    let is_told = |it: &AttackFinding| (it.severity, it.level) == (Severity::Bug, Level::Progress);
    if let Some(since) = shown.unserved.filter(|_| !findings.iter().any(is_told)) {
        findings.extend(unserved(shown, since));
    }
    if !shown.doubts.reasons.is_empty() {
        levels.push((Level::Key, Outcome::Inconclusive));
        doubts.extend(shown.doubts.reasons.iter().take(DOUBTS_MOST).cloned());
    }
    let mut findings = gravest(findings);
    if let Some(fault) = StagedFault::new(shown.plan, shown.struck, shown.healed, shown.start) {
        findings.iter_mut().for_each(|it| fault.tell(&mut it.story, shown.history));
    }
    Judged { levels, findings, doubts }
}

/// One finding of each invariant, the gravest first. Beside a bug, lesser findings follow from it and are dropped.
pub(crate) fn gravest(mut findings: Vec<AttackFinding>) -> Vec<AttackFinding> {
    let is_bug = findings.iter().any(|it| it.severity == Severity::Bug);
    let mut kinds = BTreeSet::new();
    findings.retain(|it| {
        (!is_bug || it.severity == Severity::Bug) && kinds.insert(it.invariant.clone())
    });
    findings.sort_by_key(|it| std::cmp::Reverse(it.severity));
    findings
}

/// A validity that ends after the key's life, counted from when its client got or extended the key.
fn overlong(
    shown: &PlanEvidence<'_>,
    tenures: &[Tenure],
    (told, client, _, until): ValidityClaim,
) -> Option<AttackFinding> {
    // By server: when the client had last got or extended the key. One that does not expire lasts for long enough.
    let mut got: BTreeMap<u16, Instant> = BTreeMap::new();
    for tenure in tenures.iter().filter(|it| it.client == client && it.from <= told) {
        got.insert(tenure.node, if tenure.expires { tenure.from } else { until });
    }
    let is_longer = |it: &KeyChange| it.key == shown.key && matches!(it.touch, Touch::Extend(_));
    for command in shown.sent.iter().filter(|it| it.client == client) {
        let Some(seen) = command.seen.as_ref().filter(|it| it.changes.iter().any(is_longer)) else {
            continue;
        };
        if let Some(at) = got.get_mut(&command.node).filter(|at| (**at..=told).contains(&seen.at)) {
            *at = seen.at;
        }
    }
    // The lock ends with the oldest of the newest `quorum` keys: then too few are left.
    let mut got: Vec<Instant> = got.into_values().collect();
    got.sort_unstable_by_key(|at| std::cmp::Reverse(*at));
    let got = *got.get(shown.quorum - 1)?;
    let life = Duration::from_nanos(shown.history.head.ttl_ns);
    let too_long = until.checked_duration_since(got + life)?;
    if too_long < life.mul_f64(VALIDITY_GRAIN) {
        return None;
    }
    let too_long = rounded(span_ns(too_long));
    let step =
        |at, text: &str| WitnessStep { at_ns: ns(at, shown.start), client, text: text.to_owned() };
    Some(AttackFinding {
        severity: Severity::Bug,
        invariant: String::from("validity-is-true"),
        level: Level::Belief,
        summary: format!(
            "client {client} was told to rely on the lock for {too_long} longer than its key lives"
        ),
        story: vec![step(got, "gets the lock's key"), step(told, "answers ok with its valid_ms")],
    })
}

/// A worker that has ended, or does not answer, as was seen at this time.
pub(crate) fn failed(client: u32, error: &WorkerError, at_ns: u64) -> AttackFinding {
    let (severity, invariant) = match error {
        WorkerError::Silent { .. } => (Severity::Bug, "answers"),
        // What cannot be read ends the attack, and is judged by nobody.
        WorkerError::Ended { .. }
        | WorkerError::Start(_)
        | WorkerError::NoRoom(_)
        | WorkerError::Misspelt { .. } => (Severity::Api, "survives"),
    };
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

/// What is wrong with a claim of a worker, if anything.
fn dishonest(
    shown: &PlanEvidence<'_>,
    tenures: &[Tenure],
    claim: &Claim,
    forgets: bool,
) -> Option<AttackFinding> {
    let ClaimFlaw { severity, invariant, level, summary } =
        claim_flaw(shown, tenures, claim, forgets)?;
    let story = claim_story(shown, tenures, claim);
    Some(AttackFinding { severity, invariant: invariant.to_owned(), level, summary, story })
}

/// What is wrong with a claim.
struct ClaimFlaw {
    severity: Severity,
    invariant: &'static str,
    level: Level,
    summary: String,
}

fn claim_flaw(
    shown: &PlanEvidence<'_>,
    tenures: &[Tenure],
    claim: &Claim,
    forgets: bool,
) -> Option<ClaimFlaw> {
    // A key that an earlier attempt of the same client left counts, too: one holder may take a lock twice.
    let of_client: Vec<Tenure> =
        tenures.iter().filter(|it| it.client == claim.client).copied().collect();
    let owned = are_enough(&of_client, shown.quorum, (claim.asked, claim.answered));
    let left = || left(theirs(tenures, claim), shown.quorum, claim.answered);
    let client = claim.client;
    let untrue = |severity, invariant, what: &str| {
        let most = if shown.quorum > 1 { " on most servers" } else { "" };
        let summary = format!("client {client} said that it {what}{most}");
        ClaimFlaw { severity, invariant, level: Level::Belief, summary }
    };
    let unclean = |severity, invariant, summary| {
        let level = Level::Progress;
        ClaimFlaw { severity, invariant, level, summary }
    };
    Some(match claim.of {
        ClaimOf::Acquired if !owned => {
            untrue(Severity::Bug, "acquired-is-true", "has the lock, and never had its key")
        }
        ClaimOf::Held if !owned => untrue(
            if shown.promises.checks && !forgets { Severity::Bug } else { Severity::Assumption },
            "held-is-true",
            "still has the lock, whose key was not its own any more",
        ),
        ClaimOf::Extended if !owned => untrue(
            // Who asks later is told by the server that there is nothing to extend.
            if forgets && shown.healed.is_none_or(|healed| claim.asked < healed) {
                Severity::Assumption
            } else {
                Severity::Bug
            },
            "extended-is-true",
            "has extended the lock, whose key was not its own any more",
        ),
        ClaimOf::Released if !owned && shown.promises.reports => untrue(
            Severity::Api,
            "released-is-true",
            "has released the lock, which was not its own any more",
        ),
        // If nothing has struck this client, the machine is the cause, or the run without faults shows it.
        ClaimOf::NotAcquired(why) if shown.may_be_struck(client) => {
            let (span, said) = (rounded(span_ns(left()?)), not_acquired(shown, why));
            unclean(
                Severity::Api,
                "not-acquired-is-clean",
                format!(
                    "client {client} left the lock's key behind for {span}, and answered {said}"
                ),
            )
        }
        // A library that does not report on its release may fail at it under a fault, but not without one. A key that its
        // server has forgotten is not left.
        ClaimOf::Released | ClaimOf::NotReleased
            if shown.plan.is_none()
                || shown.promises.reports && shown.may_be_struck(client) && !forgets =>
        {
            let ttl = Duration::from_nanos(shown.history.head.ttl_ns);
            let span = rounded(span_ns(left().filter(|span| *span >= ttl / SOON)?));
            let said = match claim.of {
                ClaimOf::NotReleased => "had nothing to release",
                _ => "has released the lock",
            };
            unclean(
                if shown.plan.is_none() { Severity::Bug } else { Severity::Api },
                "released-is-clean",
                format!("client {client} said that it {said}, and left its key behind for {span}"),
            )
        }
        _ => return None,
    })
}

/// The tenures of the acquisition that a claim is about.
fn theirs<'a>(tenures: &'a [Tenure], claim: &Claim) -> impl Iterator<Item = &'a Tenure> {
    let acquisition = claim.acquisition;
    tenures.iter().filter(move |it| it.acquisition == acquisition)
}

/// What became of the key of a claim's acquisition, the order and the answer.
fn claim_story(shown: &PlanEvidence<'_>, tenures: &[Tenure], claim: &Claim) -> Vec<WitnessStep> {
    let client = claim.client;
    let mut story = Vec::new();
    let mut tell = |at: Instant, text: &str| {
        story.push(WitnessStep { at_ns: ns(at, shown.start), client, text: text.to_owned() });
    };
    for tenure in theirs(tenures, claim) {
        tell(tenure.from, "gets the lock's key");
        match tenure.until {
            Some(until) if tenure.expired => tell(until, "its key expires"),
            Some(until) => tell(until, "its key is deleted or taken over"),
            None => {}
        }
    }
    let asks = match claim.of {
        ClaimOf::Acquired | ClaimOf::NotAcquired(_) => "is told to acquire",
        ClaimOf::Held => "is asked whether it has the lock",
        ClaimOf::Extended => "is told to extend",
        ClaimOf::Released | ClaimOf::NotReleased => "is told to release",
    };
    let says = match claim.of {
        ClaimOf::NotAcquired(why) => not_acquired(shown, why),
        ClaimOf::NotReleased => String::from("no"),
        _ => String::from("ok"),
    };
    tell(claim.asked, asks);
    tell(claim.answered, &format!("answers {says}"));
    story.sort_by_key(|step| step.at_ns);
    story
}

/// For how long after this answer the keys of an acquisition kept others from the lock, until they expired.
fn left<'a>(
    theirs: impl Iterator<Item = &'a Tenure>,
    quorum: usize,
    answered: Instant,
) -> Option<Duration> {
    let is_left = |it: &&Tenure| it.expired && it.until.is_some_and(|it| it > answered);
    // Keys left on fewer servers keep nobody from the lock.
    let left = theirs.filter(is_left).nth(quorum - 1)?;
    Some(left.until?.saturating_duration_since(left.from.max(answered)))
}

/// The finding that rivals have asked for the lock since then, or since one last got it, and were refused.
fn unserved(shown: &PlanEvidence<'_>, since: Instant) -> Option<AttackFinding> {
    let got = shown.claims.iter().filter(|it| it.of == ClaimOf::Acquired).map(|it| it.answered);
    let since = got.max().map_or(since, |got| got.max(since));
    let refusals = shown.claims.iter().filter(|it| it.client != VICTIM && it.asked >= since);
    let refusals: Vec<_> = refusals
        .filter_map(|it| match it.of {
            ClaimOf::NotAcquired(why) => Some((it, not_acquired(shown, why))),
            _ => None,
        })
        .collect();
    let (first, _) = refusals.first()?;
    let (last, said) = refusals.last().filter(|_| refusals.len() >= REFUSALS_LEAST)?;
    let (count, span) = (refusals.len(), rounded(span_ns(last.answered - since)));
    let step = |at, client, text: String| WitnessStep { at_ns: ns(at, shown.start), client, text };
    Some(AttackFinding {
        severity: Severity::Bug,
        invariant: String::from("free-again"),
        level: Level::Progress,
        summary: format!(
            "nobody got the lock any more: others asked {count} times in {span}, and the last answer was {said}"
        ),
        story: vec![
            step(since, 0, String::from("nothing goes wrong any more")),
            step(first.asked, first.client, String::from("is told to acquire")),
            step(last.answered, last.client, format!("has not got the lock: it answers {said}")),
        ],
    })
}

/// The answer of a worker that says that it has not got the lock.
fn not_acquired(shown: &PlanEvidence<'_>, why: Option<Text>) -> String {
    why.map_or_else(|| String::from("no"), |why| format!("unknown: {}", shown.history.text(why)))
}

fn ns(at: Instant, start: Instant) -> u64 {
    span_ns(at.saturating_duration_since(start))
}

#[cfg(test)]
mod tests;
