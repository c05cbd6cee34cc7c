//! The results of an attack, as data.

use std::collections::BTreeMap;

use history::History;
use history::verdict::Outcome;
use reports::plain;
use scenarios::format::plural;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judgement::{AttackFinding, Severity, gravest};
use crate::plan::{AttackFault, AttackPlan, LockStep};
use crate::protocol::Promises;

/// The format of a report.
pub const ATTACK_SCHEMA: &str = "picklock/attack/1";

/// The name of the run without faults.
pub const NO_FAULT: &str = "no-fault";

/// An attack on one lock.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "picklock attack")]
pub struct AttackReport {
    /// The format: `picklock/attack/1`.
    pub schema: String,
    /// The worker's command.
    pub command: Vec<String>,
    /// The world: `embedded` or `redis`.
    pub world: String,
    /// What served it, such as `picklock model 7.0`.
    pub server: String,
    /// How many servers the lock was kept on.
    pub nodes: u16,
    /// How many workers contended.
    pub clients: u32,
    /// The TTL they were told, in milliseconds.
    pub ttl_ms: u64,
    /// The key that stands for the lock, as found in a run without faults; none where nothing looked like one.
    pub lock_key: Option<String>,
    /// The command line that says whether what programs have left is right; none where the command is a worker.
    pub oracle: Option<String>,
    /// What the worker promised.
    pub promises: Promises,
    /// Each plan, in the order of the victim's commands.
    pub plans: Vec<PlanReport>,
    /// Whether all of them were run.
    pub complete: bool,
}

/// What one plan has shown.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlanReport {
    /// Its name, as `--only` takes it.
    pub plan: String,
    /// The step in which its fault strikes.
    pub step: LockStep,
    /// The command at which it strikes; none in the middle of the hold.
    pub command: Option<String>,
    /// The fault.
    pub fault: String,
    /// How many servers it struck.
    pub servers: u16,
    /// What the fault does.
    pub does: String,
    /// What it came to.
    pub outcome: PlanOutcome,
    /// What was decided about the key.
    pub key: Outcome,
    /// Why, where nothing was shown.
    pub why: Option<String>,
    /// How often it was run, and how often it came to this outcome.
    pub runs: u32,
    /// See `runs`.
    pub shown: u32,
    /// What was found, the gravest first.
    pub findings: Vec<AttackFinding>,
    /// What else was seen, such as a program that gave up.
    pub remarks: Vec<String>,
    /// Whether a busy machine has spoilt it.
    #[serde(skip)]
    pub(crate) disturbed: bool,
    /// What happened, for `picklock check`.
    #[serde(skip)]
    pub history: History,
}

impl PlanReport {
    /// The report of an undecided plan, with the reason; without a plan, of the run without faults.
    pub(crate) fn undecided(plan: Option<&AttackPlan>, why: String) -> Self {
        let boundary = plan.and_then(|plan| plan.boundary.as_ref());
        let command = boundary.map(|it| match it.nth {
            1 => it.command.clone(),
            nth => format!("{} {nth}", it.command),
        });
        let fault = plan.map(|plan| plan.fault);
        Self {
            plan: plan.map_or_else(|| NO_FAULT.to_owned(), AttackPlan::to_string),
            step: boundary.map_or(LockStep::Hold, |it| it.step),
            command,
            fault: fault.map_or(NO_FAULT, AttackFault::name).to_owned(),
            servers: plan.map_or(1, |plan| plan.servers),
            does: fault.map_or("nothing goes wrong", AttackFault::does).to_owned(),
            outcome: PlanOutcome::Inconclusive,
            key: Outcome::Inconclusive,
            why: Some(why),
            runs: 1,
            shown: 1,
            findings: Vec::new(),
            remarks: Vec::new(),
            disturbed: false,
            history: History::default(),
        }
    }

    /// Adds a finding to those of a plan that was decided.
    pub(crate) fn add(&mut self, finding: AttackFinding) {
        self.outcome = self.outcome.max(finding.severity.into());
        self.findings.push(finding);
        self.findings = gravest(std::mem::take(&mut self.findings));
    }

    /// Where its fault strikes, as a column of a table.
    pub(crate) fn place(&self) -> String {
        let place = match &self.command {
            Some(command) => format!("{} {command}", self.step.name()),
            None if self.plan == NO_FAULT => String::from("whole run"),
            None => String::from("while held"),
        };
        if self.servers > 1 { place + ", most" } else { place }
    }
}

/// What a plan came to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PlanOutcome {
    /// The fault cannot be staged here.
    NotStageable,
    /// The fault met nothing.
    Vacuous,
    /// The lock held.
    Held,
    /// Something could not be decided.
    Inconclusive,
    /// What no lock without a fence survives.
    Assumption,
    /// A misleading answer, or another flaw that harms no other client at once.
    Api,
    /// A bug.
    Bug,
}

impl PlanOutcome {
    /// As a cell of a table.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NotStageable => "n/a",
            Self::Vacuous => "-",
            Self::Held => "ok",
            Self::Inconclusive => "?",
            Self::Assumption => "assumes",
            Self::Api => "api",
            Self::Bug => "BUG",
        }
    }
}

impl From<Severity> for PlanOutcome {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Assumption => Self::Assumption,
            Severity::Api => Self::Api,
            Severity::Bug => Self::Bug,
        }
    }
}

/// The JSON schema of [`AttackReport`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(AttackReport).to_value()
}

impl AttackReport {
    /// The gravest outcome of a plan.
    pub fn worst(&self) -> PlanOutcome {
        self.plans.iter().map(|it| it.outcome).max().unwrap_or(PlanOutcome::Vacuous)
    }

    /// How many plans came to what, in a sentence.
    pub fn sentence(&self) -> String {
        if self.plans.is_empty() {
            return String::from(
                "interrupted before the first plan had ended: nothing is known of the lock",
            );
        }
        let all = [
            (PlanOutcome::Bug, "with a bug"),
            (PlanOutcome::Api, "with a lesser flaw (api)"),
            (PlanOutcome::Assumption, "that no lock with a TTL survives (assumes)"),
            (PlanOutcome::Held, "held"),
            (PlanOutcome::Inconclusive, "undecided"),
            (PlanOutcome::Vacuous, "vacuous"),
            (PlanOutcome::NotStageable, "not stageable"),
        ];
        let parts = all.into_iter().map(|(outcome, says)| (self.count(outcome), says));
        let parts: Vec<String> =
            parts.filter(|it| it.0 > 0).map(|(count, says)| format!("{count} {says}")).collect();
        let plans = plural(self.plans.len() as u64, "plan");
        let rest = if self.complete { "" } else { "; others were not run" };
        format!("{} {plans}: {}{rest}", self.plans.len(), parts.join(", "))
    }

    /// What was attacked, and where, in a line.
    pub(crate) fn subject(&self) -> String {
        let Self { clients, ttl_ms, server, .. } = self;
        let who = if self.oracle.is_some() { "programs" } else { "workers" };
        let key = match &self.lock_key {
            Some(key) => format!("lock key {}", plain(key)),
            None => String::from("no key that looks like a lock's: nothing is said of it"),
        };
        format!("{clients} {who}, TTL {ttl_ms} ms, {server}, {key}")
    }

    /// What else was seen, and in which plans.
    pub(crate) fn remarks(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut remarks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for plan in &self.plans {
            for remark in &plan.remarks {
                remarks.entry(remark).or_default().push(&plan.plan);
            }
        }
        remarks
    }

    /// How many of its plans have this outcome.
    pub fn count(&self, outcome: PlanOutcome) -> usize {
        self.plans.iter().filter(|plan| plan.outcome == outcome).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_that_was_interrupted_says_what_is_missing() {
        let nothing = AttackReport::default();
        let says = "interrupted before the first plan had ended: nothing is known of the lock";
        assert_eq!(nothing.sentence(), says);
        let plans = vec![PlanReport::undecided(None, String::new())];
        let first = AttackReport { plans, ..nothing };
        assert_eq!(first.sentence(), "1 plan: 1 undecided; others were not run");
        assert_eq!(first.plans[0].place(), "whole run");
    }
}
