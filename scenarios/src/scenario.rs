//! A scenario: topology, recipe, workload, network and expectations, as data.
//!
//! Invariant: a [`Scenario`] that exists can be run: everything in it has been checked, after every
//! override.

mod error;
mod faults;
mod limits;
mod network;
mod parse;
mod promise;
mod search;
mod size;
mod variant;

use std::collections::BTreeMap;

use history::fault::{Staged, Swarm};
use history::verdict::{Level, Outcome};
use picklock::env::Node;
use serde::{Deserialize, Serialize};

use crate::recipe::{self, About, Validity};
use crate::span::Span;
use crate::topology::{AppendOnly, ServerPart, Software, Topology, TopologyKind, TopologyPart};

pub use error::ScenarioError;
pub use limits::RecipeLimits;
pub use network::{Clients, ClientsError, LinkPart, NetworkPart};
pub use parse::{COMMANDS_MOST, Overrides, ScenarioFile, check_span_of_ttl};
pub use search::SearchPart;
pub use size::TASKS_MOST;
pub use variant::Variant;

/// A scenario, checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a scenario")]
pub struct Scenario {
    /// Its name: the stem of its file.
    #[serde(default)]
    pub name: String,
    /// The story in a line.
    pub title: String,
    /// The story.
    pub story: String,
    /// Where the story comes from.
    pub source: String,
    /// Which of the articles' properties it puts to the test.
    #[serde(default)]
    pub properties: Vec<String>,
    /// How many clients contend.
    pub clients: u32,
    /// The longest a free, wanted lock may stay untaken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_within: Option<Span>,
    /// The longest a waiting client may sleep on while the lock is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_within: Option<Span>,
    /// The most commands for each successful acquisition, on average, retries and release included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands_within: Option<f64>,
    /// Whether a write that arrives after its hold counts against a lock without fencing tokens. Otherwise such a lock may
    /// assume that no write comes late.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale_writes: bool,
    /// Why it has no searched form, if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsearched: Option<String>,
    /// The lock under test.
    pub lock: LockPart,
    /// What clients do under the lock.
    pub workload: WorkloadPart,
    /// The network between clients and servers.
    #[serde(default)]
    pub network: NetworkPart,
    /// How many servers there are, and which replicate which.
    #[serde(default)]
    pub topology: TopologyPart,
    /// What each server is, and keeps on its disk.
    #[serde(default)]
    pub server: ServerPart,
    /// The faults that are staged.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Staged>,
    /// The faults that a sweep may draw.
    #[serde(default)]
    pub swarm: Swarm,
    /// Limits of each recipe, in virtual time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, RecipeLimits>,
    /// What some recipes meet instead. The variant of this scenario's own recipe is already applied.
    #[serde(default, rename = "variant", skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// Its searched form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchPart>,
    /// What a run is expected to show.
    #[serde(default)]
    pub expect: Vec<Expectation>,
}

/// The lock under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct LockPart {
    /// The recipe's name.
    pub recipe: String,
    /// How long the key lives.
    pub ttl: Span,
    /// Attempts after the first one.
    pub retries: u32,
    /// The pause before each retry.
    pub pause: Span,
    /// The maximum added to each pause at random.
    #[serde(default)]
    pub jitter: Span,
    /// How long a client of the library waits before it gives up and asks again with the same handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub give_up: Option<Span>,
    /// How long each caller waits for its answer, however many retries are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    /// The longest that a watchdog renews a hold. It then ends with its TTL, even if the work is not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hold: Option<Span>,
}

/// What clients do under the lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", expecting = "a table with one workload")]
pub enum WorkloadPart {
    /// Each client takes one prize from a pool.
    BonusPool(BonusPoolPart),
    /// Each client reads a number and writes it back one higher, on a server that no fault strikes.
    Register(RegisterPart),
}

/// The prize pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct BonusPoolPart {
    /// How many prizes there are.
    pub prizes: u32,
    /// How long a client works between reading the pool and taking a prize.
    pub hold: Span,
}

/// The register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct RegisterPart {
    /// How long a client works between reading the register and writing it.
    pub hold: Span,
    /// Updates in that time, each with an equal share of it. The client checks its lock before each write.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub steps: u32,
    /// Whether it renews its lock by hand before each update but the first, if the recipe can. It checks its lock before a
    /// write only if the renewal failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extends: bool,
    /// Acquisitions of each task of a client, one after the other.
    #[serde(default = "once")]
    pub rounds: u32,
    /// Whether it makes a new handle to the lock for each acquisition, and drops it once the lock is granted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
    /// Tasks of each client, which contend with each other and share one handle to the lock.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub tasks: u32,
    /// Further tasks of each client that take another lock of the same recipe meanwhile, as often and for as long.
    #[serde(default, skip_serializing_if = "is_none")]
    pub beside: u32,
    /// The pause between two acquisitions.
    #[serde(default)]
    pub think: Span,
    /// Whether the register keeps the highest fencing token it has seen, and refuses lower ones.
    #[serde(default)]
    pub fenced: bool,
    /// Whether the lock stops the work as soon as it is lost, if the recipe can. The client itself then does not check its
    /// lock before it writes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    /// Whether the work is given to the lock, which stops it when the lock is lost and releases afterwards, if the recipe
    /// takes work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protects: bool,
    /// How much validity a client must have left to write, if the recipe tells. Otherwise the lock only has to be valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<Span>,
    /// What clients drop half-way, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop: Option<DropPart>,
}

/// What clients drop half-way, as code does that has a time limit around it or ends with an error. A client drops its
/// first acquisition, and then every `every`th.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct DropPart {
    /// One acquisition in so many is dropped.
    #[serde(default = "once")]
    pub every: u32,
    /// An acquisition that has not ended after this time is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Span>,
    /// Whether the guard is dropped after the work, without a release.
    #[serde(default)]
    pub guard: bool,
    /// Whether the releases of all other acquisitions are dropped as soon as they have begun.
    #[serde(default)]
    pub release: bool,
    /// Whether the client's process ends after the drop, once its lock has nothing left to do in the background. The next
    /// acquisition runs in a new process.
    #[serde(default)]
    pub ends: bool,
}

impl DropPart {
    /// Whether the acquisition of this round, counted from 0, is dropped.
    pub(crate) const fn strikes(self, round: u32) -> bool {
        round.is_multiple_of(self.every)
    }
}

const fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_once(count: &u32) -> bool {
    *count == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_none(count: &u32) -> bool {
    *count == 0
}

impl WorkloadPart {
    /// How long a client works under the lock.
    pub const fn hold(&self) -> Span {
        match self {
            Self::BonusPool(pool) => pool.hold,
            Self::Register(register) => register.hold,
        }
    }

    /// Sets how long a client works under the lock.
    pub(crate) fn set_hold(&mut self, hold: Span) {
        match self {
            Self::BonusPool(pool) => pool.hold = hold,
            Self::Register(register) => register.hold = hold,
        }
    }

    /// How many tasks each client has, which share its handle to the lock.
    pub const fn tasks(&self) -> u32 {
        match self {
            Self::BonusPool(_) => 1,
            Self::Register(register) => register.tasks,
        }
    }

    /// How many further tasks of each client take another lock.
    pub const fn beside(&self) -> u32 {
        match self {
            Self::BonusPool(_) => 0,
            Self::Register(register) => register.beside,
        }
    }

    /// In how many updates a client does its work.
    pub const fn steps(&self) -> u32 {
        match self {
            Self::BonusPool(_) => 1,
            Self::Register(register) => register.steps,
        }
    }

    /// How many acquisitions each task of a client makes.
    pub const fn rounds(&self) -> u32 {
        match self {
            Self::BonusPool(_) => 1,
            Self::Register(register) => register.rounds,
        }
    }

    /// Whether what the lock protects refuses old fencing tokens.
    const fn is_fenced(&self) -> bool {
        matches!(self, Self::Register(RegisterPart { fenced: true, .. }))
    }

    /// Whether what the lock protects has a server of its own.
    const fn has_own_server(&self) -> bool {
        match self {
            Self::BonusPool(_) => false,
            Self::Register(_) => true,
        }
    }
}

/// The expected verdicts of some recipes. `n/a` where nothing can be claimed, and for a flawed recipe also where what it
/// shows is another scenario's story.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Expectation {
    /// The recipes it is about; `*` for all.
    pub locks: Vec<String>,
    /// At the level of commands.
    pub key: Outcome,
    /// At the level of beliefs.
    pub belief: Outcome,
    /// At the level of the protected resource.
    pub effect: Outcome,
    /// In the end.
    pub progress: Outcome,
    /// Why.
    pub why: String,
}

impl Expectation {
    /// Whether it is about this recipe.
    pub fn names(&self, lock: &str) -> bool {
        self.locks.iter().any(|name| name == lock || name == "*")
    }
}

/// So many commands, in thousandths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it has been checked to be between 0 and a billion"
)]
pub fn commands_milli(commands: f64) -> u64 {
    (commands * 1_000.0).round() as u64
}

impl Scenario {
    /// Its recipe.
    pub fn about_lock(&self) -> &'static About {
        recipe::about(&self.lock.recipe).expect("a scenario's recipe has been checked")
    }

    /// What a run with this recipe is expected to show; the last entry that names it decides.
    pub fn expectation(&self, lock: &str) -> Option<&Expectation> {
        self.expect.iter().rev().find(|it| it.names(lock))
    }

    /// The expected verdict of this recipe at this level; `n/a` if nothing is expected.
    pub fn expected(&self, lock: &str, level: Level) -> Outcome {
        self.expectation(lock).map_or(Outcome::NotApplicable, |it| match level {
            Level::Key => it.key,
            Level::Belief => it.belief,
            Level::Effect => it.effect,
            Level::Progress => it.progress,
        })
    }

    /// Whether its recipe may assume that a write which was decided in time also arrives in time.
    pub(crate) fn timely_writes(&self) -> bool {
        let about = self.about_lock();
        let tracked = about.flaw.is_none() && about.validity == Validity::Tracked;
        tracked && !self.stale_writes && !self.workload.is_fenced()
    }

    /// Its servers.
    pub fn topology(&self) -> Topology {
        self.topology.topology(self.about_lock().servers)
    }

    /// Whether its servers are one, independent, replicated or a cluster.
    pub fn kind(&self) -> TopologyKind {
        self.topology.kind(self.about_lock().servers)
    }

    /// The software that the model imitates.
    pub fn software(&self) -> Software {
        let of_recipe =
            if self.about_lock().native { Software::Redis84 } else { Software::Redis70 };
        self.server.software.unwrap_or(of_recipe)
    }

    /// The node of the protected resource, if it has a server of its own: the one after the lock's.
    pub fn resource(&self) -> Option<Node> {
        let node = u16::try_from(self.topology().nodes()).unwrap_or(u16::MAX);
        self.workload.has_own_server().then_some(Node(node))
    }

    /// How many acquisitions its clients make, all together.
    pub fn acquisitions(&self) -> u64 {
        u64::from(self.clients)
            * u64::from(self.workload.tasks())
            * u64::from(self.workload.rounds())
    }

    /// What only the virtual world can do, if the scenario needs it.
    pub fn only_virtual(&self) -> Option<&'static str> {
        self.swarm.searched.then_some("searches for faults ([swarm])")
    }

    /// What the embedded model cannot do to its server, if the scenario needs it. Real servers, and those of the virtual
    /// world, can be ended and replicated, and have disks and clocks of their own.
    pub fn only_servers(&self) -> Option<&'static str> {
        match () {
            () if self.faults.iter().any(|it| it.kind.ends_server()) => {
                Some("kills a server ([[fault]])")
            }
            () if self.faults.iter().any(Staged::is_of_server_clock) => {
                Some("sets a server's clock wrong ([[fault]])")
            }
            () if matches!(self.topology(), Topology::Replicated { .. }) => {
                Some("runs on a primary with replicas ([topology], or the lock is made for them)")
            }
            () if matches!(self.topology(), Topology::Cluster { .. }) => {
                Some("runs on a cluster ([topology])")
            }
            () if self.server.append_only != AppendOnly::Off => {
                Some("runs on a server with an append-only file ([server])")
            }
            () => None,
        }
    }

    /// How long a client works under the lock.
    pub fn hold(&self) -> Span {
        self.workload.hold()
    }

    /// What a reader should know before any run.
    pub fn remarks(&self) -> Vec<String> {
        let (ttl, hold) = (self.lock.ttl, self.hold());
        let mut remarks = Vec::new();
        if self.about_lock().locks && ttl < hold {
            remarks.push(format!(
                "the TTL of {ttl} is shorter than the work of {hold} under the lock: a hold that is \
                 not renewed ends before its work does"
            ));
        }
        remarks
    }
}

#[cfg(test)]
mod tests;
