//! The servers of a run: one or several, how they stand to each other, and which of them lock code is led to.
//!
//! Invariant: `Node(0)` is the service. Of a primary with replicas it is whichever server is the primary at that
//! moment; of independent servers `Node(i)` is server i. Whatever was started ends with the fleet. Deliberately
//! absent: when a server ends, which the nemesis says, and what clients are told of it.

mod ends;
mod replication;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use picklock::command::Command;
use picklock::env::{CallError, Node};
use picklock::reply::{Reply, ServerError};
use scenarios::fault::{Fault, Staged};
use scenarios::scenario::Scenario;
use scenarios::topology::{AppendOnly, Topology};
use tokio::task::JoinSet;

use self::replication::Feeds;
pub use self::replication::FollowError;
use super::proxy::Upstream;
use super::server::{ServerBinary, ServerSpec};
use super::supervisor::Supervisor;
use super::target::{Choice, KeySpace, ServerInfo, Settings, Target, TargetError};

/// The servers of a run. Dropping it ends what was started for it, in the background.
pub struct Fleet {
    targets: Vec<Target>,
    topology: Topology,
    info: ServerInfo,
    state: Mutex<State>,
}

/// How the servers are.
#[derive(Debug, Default)]
struct State {
    /// Whom `Node(0)` leads to.
    primary: usize,
    /// Which have ended.
    down: Vec<bool>,
    /// Which have shown that their time and their disks are in our hands.
    paged: Vec<bool>,
    /// What a server has counted is no longer what the run has done.
    recounted: bool,
    feeds: Feeds,
}

impl Fleet {
    /// Starts or finds the servers of this scenario, and tries each out. Belongs to the tokio runtime it is
    /// called on.
    ///
    /// # Errors
    /// [`TargetError`], which says what to do. What had been started is ended.
    pub async fn open(
        choice: Choice,
        keys: KeySpace,
        settings: &Settings,
        scenario: &Scenario,
    ) -> Result<Self, TargetError> {
        let topology = scenario.topology();
        let servers = topology.servers();
        let targets = match choice {
            Choice::Started(binary) => start(&binary, &keys, settings, scenario).await?,
            Choice::Url(url) if servers > 1 => {
                return Err(TargetError::OnlyOne { place: url.to_string(), topology });
            }
            Choice::Url(_) | Choice::Embedded => {
                let mut targets = Vec::new();
                for _ in 0..servers {
                    targets.push(Target::open(choice.clone(), keys.clone(), settings).await?);
                }
                targets
            }
        };
        let mut info = targets[0].server().clone();
        if servers > 1 {
            info.how = format!("{servers} of them: {}", info.how);
        }
        let down = vec![false; targets.len()];
        let state = State { paged: down.clone(), down, ..State::default() };
        let fleet = Self { targets, topology, info, state: Mutex::new(state) };
        fleet.try_pages().await;
        Ok(fleet)
    }

    /// What they are; of several the first stands for all.
    pub fn server(&self) -> &ServerInfo {
        &self.info
    }

    /// The first of them.
    pub fn first(&self) -> &Target {
        &self.targets[0]
    }

    /// True where nobody else can be using the servers.
    pub fn is_private(&self) -> bool {
        self.targets[0].is_private()
    }

    /// Where the run's keys lie.
    pub fn keys(&self) -> &KeySpace {
        self.targets[0].keys()
    }

    /// The nodes that lock code can connect to.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.topology.nodes()).map(|node| Node(u16::try_from(node).unwrap_or(u16::MAX)))
    }

    /// Where the proxy's links to a node lead at this moment.
    pub fn upstream(&self, node: Node) -> Upstream {
        self.targets[self.server_of(node)].upstream()
    }

    /// A client that connects to a link of the proxy at `link`, as [`Target::client`] makes it.
    pub fn client(&self, link: SocketAddr) -> redis::Client {
        self.targets[0].client(link)
    }

    /// How often the servers behind the nodes have carried out each command, as
    /// [`Target::command_stats`] has it; none where one of them has ended meanwhile.
    ///
    /// # Errors
    /// [`CallError`] where there is no answer.
    pub async fn command_stats(&self) -> Result<Option<BTreeMap<String, u64>>, CallError> {
        let mut all = BTreeMap::new();
        for node in self.nodes() {
            let counted = self.targets[self.server_of(node)].command_stats().await?;
            let Some(counted) = counted.filter(|_| !self.state().recounted) else {
                return Ok(None);
            };
            for (name, count) in counted {
                *all.entry(name).or_default() += count;
            }
        }
        Ok(Some(all))
    }

    /// Deletes what is left of the run, behind every node.
    ///
    /// # Errors
    /// [`CallError`] where a server does not answer, or lets nothing be deleted.
    pub async fn remove_keys(&self, known: &[Vec<u8>]) -> Result<(), CallError> {
        for node in self.nodes() {
            self.targets[self.server_of(node)].remove_keys(known).await?;
        }
        Ok(())
    }

    /// What it means that clients were refused these commands, the first of them in these words.
    pub fn refused(&self, commands: &[String], said: &ServerError) -> TargetError {
        self.targets[0].refused(commands, said)
    }

    /// Ends what was started, and waits until nothing of it is left.
    pub async fn close(self) {
        Target::close_all(self.targets).await;
    }

    /// The server that a node leads to at this moment.
    fn server_of(&self, node: Node) -> usize {
        match self.topology {
            Topology::Replicated { .. } => self.state().primary,
            Topology::Standalone | Topology::Independent { .. } => usize::from(node.0),
        }
    }

    async fn command(&self, server: usize, words: &[&str]) -> Result<Reply, CallError> {
        let (name, arguments) = words.split_first().expect("a command has a name");
        let command = arguments.iter().fold(Command::new(name), |it, word| it.arg(*word));
        self.targets[server].command(&command).await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the servers of a scenario, all at once and under one supervisor.
async fn start(
    binary: &ServerBinary,
    keys: &KeySpace,
    settings: &Settings,
    scenario: &Scenario,
) -> Result<Vec<Target>, TargetError> {
    let supervisor = Supervisor::spawn(settings.supervisor.as_deref())?;
    let mut starting = JoinSet::new();
    for server in 0..scenario.topology().servers() {
        let (binary, spec) = (binary.clone(), spec(binary, scenario));
        let (supervisor, keys, settings) = (supervisor.clone(), keys.clone(), settings.clone());
        starting.spawn(async move {
            let target = Target::start(&binary, spec, &supervisor, keys, &settings).await;
            (server, target)
        });
    }
    drop(supervisor);
    let mut started = BTreeMap::new();
    while let Some(ended) = starting.join_next().await {
        // A panic in there is ours, and goes on here.
        let (server, target) =
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        started.insert(server, target?);
    }
    Ok(started.into_values().collect())
}

/// How each server of a scenario is started.
fn spec(binary: &ServerBinary, scenario: &Scenario) -> ServerSpec {
    let mut args: Vec<&str> = match scenario.server.append_only {
        AppendOnly::Off => Vec::new(),
        AppendOnly::Always => vec!["--appendonly", "yes", "--appendfsync", "always"],
        AppendOnly::Everysec => vec!["--appendonly", "yes", "--appendfsync", "everysec"],
        AppendOnly::Unsynced => vec!["--appendonly", "yes", "--appendfsync", "no"],
    };
    if matches!(scenario.topology(), Topology::Replicated { .. }) {
        // Else a replica that begins to follow waits five seconds for others to come.
        args.extend(["--repl-diskless-sync-delay", "0"]);
    }
    let paged = |it: &Staged| it.kind == Fault::PowerLoss || it.is_of_server_clock();
    ServerSpec {
        args: args.into_iter().map(str::to_owned).collect(),
        paged: scenario.faults.iter().any(paged),
        ..ServerSpec::new(&binary.path)
    }
}
