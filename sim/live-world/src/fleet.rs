//! The servers of a run: one or several, how they stand to each other, and which of them lock code is led to.
//!
//! Invariant: `Node(0)` is the service. Of a primary with replicas it is whichever server is the primary at that
//! moment, of a cluster the owner of the run's slot; of independent servers `Node(i)` is server i. Whatever was started ends with the fleet. Deliberately
//! absent: when a server ends, which the nemesis says, and what clients are told of it.

mod cluster;
mod ends;
mod replication;
mod sentinels;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use picklock::command::Command;
use picklock::env::{CallError, Node};
use picklock::reply::{Reply, ServerError};
use scenarios::fault::{Fault, Staged};
use scenarios::scenario::Scenario;
use scenarios::topology::{AppendOnly, Topology};
use tokio::task::JoinSet;

pub use self::cluster::FormError;
use self::replication::Feeds;
pub use self::replication::FollowError;
pub(crate) use self::sentinels::SERVICE;
pub use self::sentinels::WatchError;
use super::endpoint::{
    Choice, CommandStats, Endpoint, KeySpace, ServerInfo, Settings, TargetError,
};
use super::server::{Password, ServerBinary, ServerSpec};
use super::supervisor::{LOG_FILE, Supervisor};
use fault_proxy::Upstream;

/// The servers of a run. Dropping it ends what was started for it, in the background.
pub struct Fleet {
    targets: Vec<Endpoint>,
    topology: Topology,
    info: ServerInfo,
    state: Mutex<State>,
    /// Who watches the primary, once they do.
    sentinels: OnceLock<Vec<Endpoint>>,
    /// By what more servers can be started, where those there are were started for the run.
    means: Option<Means>,
}

/// By what servers are started.
struct Means {
    binary: ServerBinary,
    supervisor: Supervisor,
    settings: Settings,
    /// One for all of them, for they follow and watch each other.
    password: Password,
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
        let mut means = None;
        let targets = match choice {
            Choice::Started(binary) => {
                let supervisor = Supervisor::spawn(settings.supervisor.as_deref())?;
                let settings = settings.clone();
                let with = means.insert(Means {
                    binary,
                    supervisor,
                    settings,
                    password: Password::draw(),
                });
                start(with, &keys, scenario).await?
            }
            Choice::Url(url) if servers > 1 => {
                return Err(TargetError::OnlyOne { place: url.to_string(), topology });
            }
            Choice::Url(_) | Choice::Embedded => {
                let mut targets = Vec::new();
                for _ in 0..servers {
                    targets.push(Endpoint::open(choice.clone(), keys.clone(), settings).await?);
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
        let (state, sentinels) = (Mutex::new(state), OnceLock::new());
        let fleet = Self { targets, topology, info, state, sentinels, means };
        fleet.try_pages().await;
        Ok(fleet)
    }

    /// What they are; of several the first stands for all.
    pub fn server(&self) -> &ServerInfo {
        &self.info
    }

    /// The first of them.
    pub fn first(&self) -> &Endpoint {
        &self.targets[0]
    }

    /// True where nobody else can be using the servers.
    pub fn is_private(&self) -> bool {
        self.targets[0].is_private()
    }

    /// Whether they are within this process.
    pub(crate) fn is_embedded(&self) -> bool {
        self.targets[0].is_embedded()
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

    /// Whether lock code finds the owner of its slot by the word of the nodes.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.topology, Topology::Cluster { .. })
    }

    /// Every server: where the proxy's links to it lead, and how others name it.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (Upstream, SocketAddr)> {
        self.targets.iter().map(|it| (it.upstream(), it.server().addr))
    }

    /// A client that connects to a link of the proxy at `link`, as [`Endpoint::client`] makes it.
    pub fn client(&self, link: SocketAddr) -> redis::Client {
        self.targets[0].client(link)
    }

    /// How often the servers behind the nodes have carried out each command, as
    /// [`Endpoint::command_stats`] has it; none where one of them has ended meanwhile.
    ///
    /// # Errors
    /// [`CallError`] where there is no answer.
    pub async fn command_stats(&self) -> Result<Option<CommandStats>, CallError> {
        let mut all = CommandStats::default();
        for node in self.nodes() {
            let counted = self.targets[self.server_of(node)].command_stats().await?;
            // Sentinels ask, too.
            let theirs = self.state().recounted || self.is_watched();
            let Some(counted) = counted.filter(|_| !theirs) else {
                return Ok(None);
            };
            all.logins += counted.logins;
            for (name, count) in counted.calls {
                *all.calls.entry(name).or_default() += count;
            }
        }
        Ok(Some(all))
    }

    /// How many connections we have made to the servers behind the nodes, not counting those of clients.
    pub(crate) async fn connections(&self) -> u64 {
        let mut all = self.feed_connections();
        for target in &self.targets {
            all += target.own_commands().await.get("auth").copied().unwrap_or(0);
        }
        all
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

    /// What the servers that were started have written into their logs, each with a name for it.
    pub async fn logs(&self) -> Vec<(String, Vec<u8>)> {
        let servers =
            self.targets.iter().enumerate().map(|(nth, it)| (format!("server-{nth}"), it));
        let sentinels = self.sentinels.get().into_iter().flatten().enumerate();
        let sentinels = sentinels.map(|(nth, it)| (format!("sentinel-{nth}"), it));
        let mut logs = Vec::new();
        for (name, target) in servers.chain(sentinels) {
            let Some(process) = target.process().await else { continue };
            // One that cannot be read is not worth a run's end.
            if let Ok(log) = std::fs::read(process.dir().join(LOG_FILE)) {
                logs.push((format!("{name}.log"), log));
            }
        }
        logs
    }

    /// Ends what was started, and waits until nothing of it is left.
    pub async fn close(self) {
        let Self { targets, sentinels, means, .. } = self;
        // The last handle of a supervisor waits for its end.
        drop(means);
        let sentinels = sentinels.into_inner().unwrap_or_default();
        // Sentinels first, or they would see to a failover.
        Endpoint::close_all(sentinels.into_iter().chain(targets)).await;
    }

    /// The server that a node leads to at this moment.
    fn server_of(&self, node: Node) -> usize {
        match self.topology {
            Topology::Replicated { .. } | Topology::Cluster { .. } => self.state().primary,
            Topology::Standalone | Topology::Independent { .. } => usize::from(node.0),
        }
    }

    /// Writes something that is gone at once.
    async fn write_probe(&self, server: usize) -> Result<(), CallError> {
        let probe = String::from_utf8_lossy(&self.keys().key("probe")).into_owned();
        self.command(server, &["SET", &probe, "x", "PX", "10"]).await.map(drop)
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

/// Starts the servers of a scenario, all at once.
async fn start(
    with: &Means,
    keys: &KeySpace,
    scenario: &Scenario,
) -> Result<Vec<Endpoint>, TargetError> {
    let mut starting = JoinSet::new();
    for server in 0..scenario.topology().servers() {
        let (binary, spec) = (with.binary.clone(), spec(with, scenario));
        let (supervisor, settings) = (with.supervisor.clone(), with.settings.clone());
        let keys = keys.clone();
        starting.spawn(async move {
            let started = Endpoint::untried(&binary, spec, &supervisor, keys, &settings).await;
            (server, started)
        });
    }
    let mut started = BTreeMap::new();
    while let Some(ended) = starting.join_next().await {
        // A panic in there is ours, and goes on here.
        let (server, target) =
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        started.insert(server, target?);
    }
    let mut targets: Vec<Endpoint> = started.into_values().collect();
    if matches!(scenario.topology(), Topology::Cluster { .. }) {
        cluster::form(&targets, keys).await?;
        // Of the others none has a slot for the run's keys.
        targets[0].prove(&with.settings).await?;
        return Ok(targets);
    }
    for target in &mut targets {
        target.prove(&with.settings).await?;
    }
    Ok(targets)
}

/// How each server of a scenario is started.
fn spec(with: &Means, scenario: &Scenario) -> ServerSpec {
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
    if matches!(scenario.topology(), Topology::Cluster { .. }) {
        args.extend(cluster::ARGUMENTS);
    }
    let paged = |it: &Staged| it.kind == Fault::PowerLoss || it.is_of_server_clock();
    ServerSpec {
        args: args.into_iter().map(str::to_owned).collect(),
        paged: scenario.faults.iter().any(paged),
        password: Some(with.password.clone()),
        ..ServerSpec::new(&with.binary.path)
    }
}
