//! What a checker says of a history, and how verdicts add up.
//!
//! Invariant: `violated` always comes with a witness and `inconclusive` with a reason; nothing becomes
//! `held` by default.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fault::Fault;

/// The four levels at which a lock is judged. Each is reported separately.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Ownership: no command of another acquisition touches a hold.
    Key,
    /// Mutual exclusion: no two clients believe at the same time that they have the lock.
    Belief,
    /// The protected resource was not harmed.
    Effect,
    /// The work got done.
    Progress,
}

impl Level {
    /// Every level, in the order in which they are reported.
    pub const ALL: [Self; 4] = [Self::Key, Self::Belief, Self::Effect, Self::Progress];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Belief => "belief",
            Self::Effect => "effect",
            Self::Progress => "progress",
        }
    }
}

/// A verdict without its reason or witness.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Outcome {
    /// The invariant does not apply to this lock or run.
    #[serde(rename = "n/a")]
    NotApplicable,
    /// Checked, and nothing was found.
    #[serde(rename = "held")]
    Held,
    /// The run cannot tell: it was vacuous, cut short, or too much is unknown.
    #[serde(rename = "inconclusive")]
    Inconclusive,
    /// Certainly broken.
    #[serde(rename = "violated")]
    Violated,
}

impl Outcome {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotApplicable => "n/a",
            Self::Held => "held",
            Self::Inconclusive => "inconclusive",
            Self::Violated => "violated",
        }
    }
}

/// A verdict of a checker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Checked, and nothing was found.
    Held,
    /// Certainly broken, as this witness shows.
    Violated(Witness),
    /// The run cannot tell, for this reason.
    Inconclusive(String),
    /// The run was vacuous: also inconclusive, but among many schedules it does not count against the others.
    Vacuous(Vacuous),
    /// It does not apply, for this reason.
    NotApplicable(String),
}

impl Verdict {
    /// The verdict without its reason or witness.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Held => Outcome::Held,
            Self::Violated(_) => Outcome::Violated,
            Self::Inconclusive(_) | Self::Vacuous(_) => Outcome::Inconclusive,
            Self::NotApplicable(_) => Outcome::NotApplicable,
        }
    }
}

/// Why a run is vacuous: what would have tested the lock did not happen. (If something cannot be decided, the run is
/// inconclusive instead.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vacuous {
    /// No client ever got the lock.
    NobodyHeld,
    /// No two clients wanted the lock at the same time.
    NobodyContended,
    /// No command was sent that could have changed the lock's key.
    KeyUntouched,
    /// Fewer acquisitions began than were to be made.
    TooFew {
        /// How many were to be made.
        requested: u64,
        /// How many began.
        begun: u64,
    },
    /// A fault that the scenario stages never struck.
    NeverStruck(Fault),
    /// A fault that is staged in a hold never struck one, or did not cost a hold its key although the scenario says so.
    MetNoHold(Fault),
    /// A fault of a server struck a hold, as staged, and no other client got an answer before that hold was over.
    NobodyAsked(Fault),
    /// After such a fault another client got the lock, but read the resource only after the first one had written.
    WorkedLater(Fault),
}

impl Vacuous {
    /// What did not happen; the same text for every schedule of a scenario.
    pub fn what(self) -> String {
        match self {
            Self::NobodyHeld => "nobody ever got the lock".to_owned(),
            Self::NobodyContended => {
                "no two clients ever wanted the lock at the same time".to_owned()
            }
            Self::KeyUntouched => "no command touched the lock's key".to_owned(),
            Self::TooFew { .. } => "fewer acquisitions were begun than asked for".to_owned(),
            Self::NeverStruck(fault) => format!("the staged fault `{}` never struck", fault.name()),
            Self::MetNoHold(fault) => format!("the staged fault `{}` met no hold", fault.name()),
            Self::NobodyAsked(fault) => format!(
                "after the staged fault `{}` nobody had an answer before the hold that it met was over",
                fault.name()
            ),
            Self::WorkedLater(fault) => format!(
                "after the staged fault `{}` nobody looked at the resource before the first had written",
                fault.name()
            ),
        }
    }
}

impl fmt::Display for Vacuous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { requested, begun } => {
                write!(
                    f,
                    "vacuous: {requested} acquisitions were asked for, and only {begun} begun"
                )
            }
            other => write!(f, "vacuous: {}", other.what()),
        }
    }
}

/// The proof that an invariant was broken: which clients, which values, when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Witness {
    /// The violation in one sentence.
    pub summary: String,
    /// The clients concerned, from 1, in the order of the summary.
    pub clients: Vec<u32>,
    /// The acquisitions concerned, as numbered in the history.
    pub acquisitions: Vec<u32>,
    /// The commands that did the harm, or left a key that kept all others out, as numbered in the history. Several if the
    /// answers leave open which; none if no command of the lock is to blame.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accused: Vec<u32>,
    /// What happened, in a dozen lines at most; empty if the steps are no more than that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub story: Vec<WitnessStep>,
    /// All that these clients did, in order of time.
    pub steps: Vec<WitnessStep>,
    /// How many violations of this kind there were in all; this witness is the first.
    pub occurrences: u64,
}

impl Witness {
    /// What happened, as short as it can be told.
    pub fn short_story(&self) -> &[WitnessStep] {
        if self.story.is_empty() { &self.steps } else { &self.story }
    }
}

/// A line of a witness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WitnessStep {
    /// The time, in nanoseconds since the run began.
    pub at_ns: u64,
    /// The client; 0 is the run itself.
    pub client: u32,
    /// What happened.
    pub text: String,
}

/// The end of a line that stands for several steps.
const LEFT_OUT: &str = " left out";

impl WitnessStep {
    /// A line that stands for so many steps, the first of which was then.
    pub fn gap(at_ns: u64, left_out: usize) -> Self {
        let steps = if left_out == 1 { "step" } else { "steps" };
        Self { at_ns, client: 0, text: format!("{left_out} {steps}{LEFT_OUT}") }
    }

    /// Whether it stands for steps that are left out, and so has no client.
    pub fn is_gap(&self) -> bool {
        self.client == 0 && self.text.ends_with(LEFT_OUT)
    }
}

/// One invariant and what was found of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The invariant's name, such as `mutual-exclusion`.
    pub name: &'static str,
    /// Its level.
    pub level: Level,
    /// What was found.
    pub verdict: Verdict,
}

impl Finding {
    /// What was found of one invariant.
    pub fn new(name: &'static str, level: Level, verdict: Verdict) -> Self {
        Self { name, level, verdict }
    }

    /// The same if somebody else used the servers: inconclusive, for this reason.
    #[must_use]
    pub fn doubted(self, why: &str) -> Self {
        let verdict = match self.verdict {
            Verdict::NotApplicable(why) => Verdict::NotApplicable(why),
            _ => Verdict::Inconclusive(why.to_owned()),
        };
        Self { verdict, ..self }
    }
}

/// The worst of these: violated before inconclusive before held before n/a.
pub fn worst(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    outcomes.into_iter().max().unwrap_or(Outcome::NotApplicable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_is_told_as_short_as_it_can_be() {
        let step = |at_ns| WitnessStep { at_ns, client: 1, text: String::new() };
        let told = |story: Vec<WitnessStep>| {
            let witness = Witness { story, steps: vec![step(1), step(2)], ..Witness::default() };
            witness.short_story().iter().map(|it| it.at_ns).collect::<Vec<_>>()
        };
        assert_eq!((told(vec![step(3)]), told(Vec::new())), (vec![3], vec![1, 2]));
    }

    #[test]
    fn nothing_is_concluded_where_somebody_else_may_have_done_it() {
        let finding = |verdict| Finding { name: "ownership", level: Level::Key, verdict };
        let violated = finding(Verdict::Violated(Witness::default())).doubted("a stranger");
        assert_eq!(violated.verdict, Verdict::Inconclusive("a stranger".to_owned()));
        let silent = finding(Verdict::NotApplicable("no key".to_owned()));
        assert_eq!(silent.clone().doubted("a stranger"), silent);
    }

    #[test]
    fn verdicts_add_up_to_the_worst() {
        use Outcome::{Held, Inconclusive, NotApplicable, Violated};
        assert_eq!(worst([Held, Violated, Inconclusive]), Violated);
        assert_eq!(worst([Held, Inconclusive]), Inconclusive);
        assert_eq!(worst([NotApplicable, Held]), Held);
        assert_eq!(worst([]), NotApplicable);
    }

    #[test]
    fn what_is_shown_is_what_files_say() {
        let text = |value: serde_json::Value| value.as_str().map(str::to_owned);
        for level in Level::ALL {
            assert_eq!(text(serde_json::json!(level)).as_deref(), Some(level.name()));
        }
        use Outcome::{Held, Inconclusive, NotApplicable, Violated};
        for outcome in [Held, Inconclusive, NotApplicable, Violated] {
            assert_eq!(text(serde_json::json!(outcome)).as_deref(), Some(outcome.name()));
        }
    }

    #[test]
    fn a_run_says_how_many_were_missing_and_a_sweep_adds_up_the_same() {
        let few = |begun| Vacuous::TooFew { requested: 9, begun };
        assert_eq!(few(3).to_string(), "vacuous: 9 acquisitions were asked for, and only 3 begun");
        assert_eq!(few(3).what(), few(4).what());
        let never = Vacuous::NeverStruck(Fault::Pause);
        assert_eq!(never.to_string(), "vacuous: the staged fault `pause` never struck");
        assert_ne!(never.what(), Vacuous::NeverStruck(Fault::Crash).what());
    }
}
