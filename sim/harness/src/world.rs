//! The contract of the worlds: a scenario goes in, a run comes out.
//!
//! Invariant: runs are composed against this contract alone. A [`Run`] has the history, and what a history cannot say.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use history::History;
use history::verdict::{Finding, Level, Outcome, Witness, worst};
use scenarios::judge::{Circumstances, beside_history};
use scenarios::recipe::BuildError;
use scenarios::result::{LatencyFigures, ServerFacts};
use scenarios::scenario::Scenario;
use scenarios::sweep::Facts;

use crate::threads::ThreadsError;

/// Where a scenario runs.
pub trait World {
    /// Its name in files and on the command line.
    fn name(&self) -> &'static str;

    /// Checks that this scenario can run here, without starting anything.
    ///
    /// # Errors
    /// [`RunError::Build`], or [`RunError::Impossible`].
    fn check(&self, scenario: &Scenario) -> Result<(), RunError>;

    /// Runs the scenario to its end, or until it is interrupted.
    ///
    /// # Errors
    /// [`RunError`] if there is nothing to judge.
    fn run(&mut self, request: &RunRequest) -> Result<Run, RunError>;

    /// Takes back the memory of a run, for the next one.
    fn recycle(&mut self, run: Run) {
        drop(run);
    }
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// Whether a report is written, which needs the server's capabilities and logs.
    pub reported: bool,
    /// How many clients have finished.
    pub done: Arc<AtomicU32>,
    /// Where its choices come from, in virtual time.
    pub choices: ChoicePlan,
}

/// Where the choices of a schedule come from. What clients draw for themselves follows from the seed in any case.
#[derive(Clone, Debug, Default)]
pub enum ChoicePlan {
    /// From the seed.
    #[default]
    Drawn,
    /// From the seed. They are recorded.
    Recorded,
    /// From this list, and benign beyond its end. They are recorded.
    Listed(Arc<[u32]>),
}

impl RunRequest {
    /// This scenario with this seed, without a report.
    pub fn new(scenario: Arc<Scenario>, seed: u64) -> Self {
        Self { scenario, seed, reported: false, done: Arc::default(), choices: ChoicePlan::Drawn }
    }
}

/// A run.
#[derive(Debug, Default)]
pub struct Run {
    /// The history.
    pub history: History,
    /// What the history of a run in virtual time does not say.
    pub facts: Facts,
    /// Its choices, if they were recorded.
    pub choices: Vec<u32>,
    /// Why it did not come to its end, if it did not.
    pub cut_short: Option<CutShort>,
    /// The witness that tasks waited or ran for ever, if they did. After the heal, only a lock can be the reason.
    pub stuck: Option<Witness>,
    /// How somebody else used private servers, if so. Then every verdict is inconclusive.
    pub disturbed: Option<String>,
    /// What a reader should know.
    pub remarks: Vec<String>,
    /// The server of the lock.
    pub server: ServerFacts,
    /// Whether the server was started for this run alone.
    pub is_private: bool,
    /// The commands that a private server carried out meanwhile, by upper-case name.
    pub server_commands: Option<BTreeMap<String, u64>>,
    /// The logs of servers, each with the name of its file.
    pub logs: Vec<(String, Vec<u8>)>,
}

impl Run {
    /// The findings of its checkers.
    pub fn findings(&self) -> Vec<Finding> {
        let findings = checkers::judge(&self.history, self.cut_short.is_none());
        beside_history(findings, self.stuck.clone(), self.disturbed.as_deref())
    }

    /// The worst outcome at each level, in the order of [`Level::ALL`].
    pub fn levels(findings: &[Finding]) -> [Outcome; 4] {
        Level::ALL.map(|level| {
            let of_level = findings.iter().filter(|it| it.level == level);
            worst(of_level.map(|it| it.verdict.outcome()))
        })
    }

    /// What the judge needs beside the history.
    pub fn circumstances(
        &self,
        scenario: &Scenario,
        replay: String,
        latencies: Vec<LatencyFigures>,
    ) -> Circumstances {
        let mut remarks = scenario.remarks();
        remarks.extend(self.remarks.iter().cloned());
        remarks.extend(self.cut_short.as_ref().and_then(CutShort::trouble));
        Circumstances {
            server: self.server.clone(),
            complete: self.cut_short.is_none(),
            stuck: self.stuck.clone(),
            disturbed: self.disturbed.clone(),
            remarks,
            searched: scenario.swarm.searched,
            replay,
            server_commands: self.server_commands.clone(),
            latencies,
        }
    }
}

/// Why a run did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutShort {
    /// Somebody interrupted it.
    Interrupted,
    /// The server stopped answering.
    ServerGone(String),
    /// The server refused commands for reasons of its own.
    ServerRefused(String),
    /// So many times there was no file descriptor for a connection.
    OutOfFiles(u64),
    /// It was ended as a livelock: see [`Run::stuck`].
    Livelock,
}

impl CutShort {
    /// What to say about it; nothing if the user knows.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Interrupted | Self::Livelock => None,
            Self::ServerGone(why) => {
                Some(format!("the server stopped answering before the end: {why}"))
            }
            Self::ServerRefused(why) => {
                Some(format!("the server refused commands of clients {why}"))
            }
            Self::OutOfFiles(times) => Some(format!(
                "{times} times there was no file descriptor for a connection (Too many open files), so nothing can be \
                 concluded: raise the limit (ulimit -n), or use fewer clients"
            )),
        }
    }
}

/// Why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The recipe cannot work with these parameters.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// This world cannot do what the scenario needs.
    #[error("{why}")]
    Impossible {
        /// What it is.
        why: String,
        /// What to do about it.
        help: &'static str,
    },
    /// Somebody interrupted it before there was anything to report.
    #[error("interrupted before the run began")]
    Interrupted,
    /// The server or this machine is unusable.
    #[error(transparent)]
    Unavailable(Box<dyn Error + Send + Sync>),
    /// A bug of picklock's.
    #[error("{0}")]
    Bug(String),
}

impl From<ThreadsError> for RunError {
    fn from(error: ThreadsError) -> Self {
        Self::Unavailable(Box::new(error))
    }
}
