//! `result.json`: what a run found, for machines.
//!
//! Invariant: the type is the schema (`picklock schema` prints it), and its first field names the
//! version of the format.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use history::verdict::{Finding, Level, Outcome, Verdict, Witness, worst};

/// The version of the format.
pub const SCHEMA: &str = "picklock/result/1";

/// What a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "picklock result")]
pub struct RunResult {
    /// The format: `picklock/result/1`.
    pub schema: String,
    /// The scenario's name.
    pub scenario: String,
    /// The recipe under test.
    pub lock: String,
    /// Whether the recipe keeps a validity: `tracked` or `none`.
    pub validity: String,
    /// The world it ran in: `virtual`, `embedded` or `redis`.
    pub world: String,
    /// The server it ran against.
    pub server: ServerFacts,
    /// True where nothing was staged, and faults struck at random.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub searched: bool,
    /// What every drawn number of picklock's own follows from.
    pub seed: u64,
    /// The worst verdict of all invariants.
    pub verdict: Outcome,
    /// False where the run was interrupted; what is missing is then inconclusive.
    pub complete: bool,
    /// Every invariant that was checked.
    pub invariants: Vec<Invariant>,
    /// What deserves a reader's attention, such as a TTL shorter than the work.
    pub remarks: Vec<String>,
    /// Figures.
    pub stats: Stats,
    /// The command line that runs the same again.
    pub replay: String,
}

/// The server of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFacts {
    /// The program, such as `redis`.
    pub software: String,
    /// Its version, such as `7.0.15`.
    pub version: String,
    /// How picklock came to it, such as `private server /usr/bin/redis-server, found on PATH`.
    pub origin: String,
    /// What it can do that matters to locks, such as `DELEX`, found by trying; nothing where nobody tried.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capabilities: BTreeMap<String, Capable>,
}

/// Whether a server can do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Capable {
    /// It did it.
    Yes,
    /// It does not know of it.
    No,
    /// It knows of it, and did not do it: not for this user, or not now.
    Refused,
    /// It gave no answer.
    Unknown,
}

impl Capable {
    /// Its name in files, as in `yes`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

impl ServerFacts {
    /// What it can do and what not, in words: `RESP3, SET IFEQ; not: DELEX`.
    pub fn capability_list(&self) -> String {
        let answers = [
            (Capable::Yes, ""),
            (Capable::No, "not: "),
            (Capable::Refused, "refused: "),
            (Capable::Unknown, "no answer: "),
        ];
        let of = |answer: Capable| -> Vec<&str> {
            let all = self.capabilities.iter().filter(|(_, can)| **can == answer);
            all.map(|(name, _)| name.as_str()).collect()
        };
        let parts = answers.map(|(answer, word)| (word, of(answer)));
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        let parts = parts.map(|(word, names)| format!("{word}{}", names.join(", ")));
        parts.collect::<Vec<_>>().join("; ")
    }
}

/// One invariant of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Invariant {
    /// Its name.
    pub name: String,
    /// Its level.
    pub level: Level,
    /// What was found.
    pub verdict: Outcome,
    /// True where it is inconclusive because nothing happened in the run that could have shown it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vacuous: bool,
    /// Why it is inconclusive or not applicable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What shows the violation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
}

/// The figures of a run. Durations are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// How many clients there were.
    pub clients: u32,
    /// From the first event to the last.
    pub duration_ns: u64,
    /// What became of the acquisitions.
    pub acquisitions: Tally,
    /// Clients that got what they were after, where the workload has such a thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winners: Option<u32>,
    /// Commands that clients sent to the servers of the lock, by name, as the history has them.
    pub commands: BTreeMap<String, u64>,
    /// Commands that the server counted over the same time, where it is ours alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_commands: Option<BTreeMap<String, u64>>,
    /// How many commands clients sent for the lock, for each acquisition that got it. What they did to the
    /// protected resource does not count; nothing where nobody got the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands_per_acquisition: Option<f64>,
    /// How often those that got the lock were bypassed; nothing where nobody got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bypass: Option<BypassFigures>,
    /// Latency of each kind of operation.
    pub latencies: Vec<LatencyFigures>,
}

/// How operations ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Begun.
    pub invoked: u64,
    /// Ended with yes.
    pub ok: u64,
    /// Ended with surely not.
    pub failed: u64,
    /// Ended with no answer, or not at all.
    pub unknown: u64,
}

/// How often an acquisition was bypassed by others that began later and got the lock before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BypassFigures {
    /// Ninety-nine in a hundred were bypassed no more often.
    pub p99: u64,
    /// The most.
    pub max: u64,
}

/// The latency distribution of one kind of operation, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyFigures {
    /// Which operations, such as `acquire`.
    pub operation: String,
    /// How many.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// Nine in ten are no longer.
    pub p90_ns: u64,
    /// Ninety-nine in a hundred are no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The arithmetic mean.
    pub mean_ns: f64,
}

impl RunResult {
    /// The worst verdict at this level; not applicable where nothing was checked.
    pub fn level(&self, level: Level) -> Outcome {
        worst(self.invariants.iter().filter(|found| found.level == level).map(|it| it.verdict))
    }
}

impl From<Finding> for Invariant {
    fn from(finding: Finding) -> Self {
        let verdict = finding.verdict.outcome();
        let is_vacuous = matches!(finding.verdict, Verdict::Vacuous(_));
        let (reason, witness) = match finding.verdict {
            Verdict::Held => (None, None),
            Verdict::Violated(witness) => (None, Some(witness)),
            Verdict::Inconclusive(reason) | Verdict::NotApplicable(reason) => (Some(reason), None),
            Verdict::Vacuous(vacuous) => (Some(vacuous.to_string()), None),
        };
        let (name, level) = (finding.name.to_owned(), finding.level);
        Self { name, level, verdict, vacuous: is_vacuous, reason, witness }
    }
}

/// The JSON schema of [`RunResult`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(RunResult).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_can_do_is_told_by_its_answers() {
        let all = [
            ("DELEX", Capable::No),
            ("RESP3", Capable::Yes),
            ("Lua scripts", Capable::Refused),
            ("SET IFEQ", Capable::Yes),
        ];
        let capabilities = all.map(|(name, can)| (name.to_owned(), can)).into();
        let facts = ServerFacts { capabilities, ..ServerFacts::default() };
        assert_eq!(facts.capability_list(), "RESP3, SET IFEQ; not: DELEX; refused: Lua scripts");
        assert!(ServerFacts::default().capability_list().is_empty());
        // What nobody has tried is not there; neither is it in files from before.
        let text = serde_json::to_string(&ServerFacts::default()).unwrap();
        assert!(!text.contains("capabilities"), "{text}");
        assert_eq!(serde_json::from_str::<ServerFacts>(&text).unwrap(), ServerFacts::default());
    }
}
