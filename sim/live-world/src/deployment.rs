//! The servers of a run: how many, in which topology, and which of them each node of lock code leads to.
//!
//! A deployment owns [endpoints](super::endpoint), one for each server and sentinel; an endpoint owns its server's
//! process, if picklock has started one.
//!
//! Invariant: `Node(0)` is the service. Of a primary with replicas it is whichever server is the primary at that
//! moment, of a cluster the owner of the run's slot; of independent servers `Node(i)` is server i. Whatever was
//! started ends with the deployment.

mod cluster;
mod lifecycle;
mod replication;
mod sentinels;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use harness::injector::ForeignValue;
use history::fault::{Fault, Staged};
use picklock::env::{CallError, Node};
use picklock::reply::Reply;
use scenarios::result::ServerFacts;
use scenarios::scenario::Scenario;
use scenarios::topology::{AppendOnly, Topology};
use tokio::task::JoinSet;

use self::replication::ReplicationLinks;
pub(crate) use self::sentinels::SERVICE;
use super::endpoint::{Choice, CommandCounts, Endpoint, EndpointError, KeySpace, Settings};
use super::server::{Password, ServerBinary, ServerSpec};
use super::supervisor::{LOG_FILE, Supervisor};
use fault_proxy::{ProxyError, Upstream};

/// The servers of a run. Dropping it ends what was started for it, in the background.
pub(crate) struct Deployment {
    endpoints: Vec<Endpoint>,
    topology: Topology,
    state: Mutex<DeploymentState>,
    /// The sentinels, once they watch the primary.
    sentinels: OnceLock<Vec<Endpoint>>,
    /// How further servers are started; none if the run's servers were not.
    launcher: Option<Launcher>,
}

/// How servers are started.
#[derive(Clone)]
struct Launcher {
    binary: ServerBinary,
    supervisor: Supervisor,
    settings: Settings,
    /// One password for all servers, because they follow and watch each other.
    password: Password,
}

/// The state of the servers.
#[derive(Debug, Default)]
struct DeploymentState {
    /// Which server `Node(0)` leads to.
    primary: usize,
    /// The number of the last election of sentinels that was awaited.
    epoch: u64,
    /// Sentinels have elected a primary that no fault asked for.
    unawaited_election: bool,
    /// The old primary that goes on beside the new one.
    lingering: Option<usize>,
    /// Which servers have ended.
    down: Vec<bool>,
    /// Which servers are stalled.
    stalled: Vec<bool>,
    /// Which servers are known to use their page, so that their clocks and disks can be made to fail.
    paged: Vec<bool>,
    /// A server has ended, and its counts with it.
    counts_reset: bool,
    replication: ReplicationLinks,
}

/// Why there are no servers to run against, or why they do not do what the run needs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeploymentError {
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error("server {server} cannot {what}: {source}")]
    Refuses { server: usize, what: &'static str, source: CallError },
    /// They did not do something together in time.
    #[error("{0}")]
    Late(String),
}

impl Deployment {
    /// Starts or finds the servers of this scenario, and tries each out. Belongs to the tokio runtime it is
    /// called on. After an error, what had been started is ended.
    pub(crate) async fn open(
        choice: Choice,
        keys: KeySpace,
        settings: &Settings,
        scenario: &Scenario,
    ) -> Result<Self, DeploymentError> {
        let topology = scenario.topology();
        let servers = topology.servers();
        let mut launcher = None;
        let endpoints = match choice {
            Choice::Started(binary) => {
                let supervisor = Supervisor::spawn(settings.supervisor.as_deref());
                let supervisor = supervisor.map_err(EndpointError::from)?;
                let settings = settings.clone();
                let with = launcher.insert(Launcher {
                    binary,
                    supervisor,
                    settings,
                    password: Password::draw(),
                });
                start(with, &keys, scenario).await?
            }
            // A server that others use is only one: the world has refused scenarios with several.
            Choice::Url(_) => vec![Endpoint::open(choice, keys, settings).await?],
            Choice::Embedded => {
                // One password for all servers, because clients log in to all in the same way.
                let password = Password::draw();
                let mut endpoints = Vec::new();
                for _ in 0..servers {
                    let (keys, password) = (keys.clone(), password.clone());
                    let endpoint = Endpoint::open_embedded(keys, settings, password, None).await?;
                    endpoints.push(endpoint);
                }
                endpoints
            }
        };
        let down = vec![false; endpoints.len()];
        let (paged, stalled) = (down.clone(), down.clone());
        let state = DeploymentState { paged, down, stalled, ..DeploymentState::default() };
        let (state, sentinels) = (Mutex::new(state), OnceLock::new());
        let deployment = Self { endpoints, topology, state, sentinels, launcher };
        deployment.verify_pages().await;
        Ok(deployment)
    }

    /// Facts about the servers; the first of several stands for all.
    pub(crate) fn server(&self) -> ServerFacts {
        let mut facts = self.first().server().clone();
        let servers = self.endpoints.len();
        if servers > 1 {
            facts.origin = format!("{servers} of them: {}", facts.origin);
        }
        facts
    }

    /// The first server, which stands for all in what they share: login, keys, and whether picklock started them.
    pub(crate) fn first(&self) -> &Endpoint {
        &self.endpoints[0]
    }

    /// The nodes that lock code can connect to.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> + use<> {
        (0..self.topology.nodes()).map(|node| Node(u16::try_from(node).unwrap_or(u16::MAX)))
    }

    /// Where the proxy's links to a node lead at this moment.
    pub(crate) fn upstream(&self, node: Node) -> Upstream {
        self.endpoints[self.server_of(node)].upstream()
    }

    /// Whether lock code asks the nodes for the owner of its slot.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.topology, Topology::Cluster { .. })
    }

    /// Every server: where the proxy's links to it lead, and how others name it.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (Upstream, SocketAddr)> {
        self.endpoints.iter().map(|it| (it.upstream(), it.addr()))
    }

    /// How often the servers behind the nodes have carried out each command, as
    /// [`Endpoint::command_stats`] has it; none if one of them has ended meanwhile.
    pub(crate) async fn command_stats(&self) -> Result<Option<CommandCounts>, CallError> {
        let mut all = CommandCounts::default();
        for node in self.nodes() {
            let counted = self.endpoints[self.server_of(node)].command_stats().await?;
            // Sentinels send commands, too.
            let theirs = self.state().counts_reset || self.has_sentinels();
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
        let mut all = self.replication_connections();
        for endpoint in &self.endpoints {
            all += endpoint.own_commands().await.get("auth").copied().unwrap_or(0);
        }
        all
    }

    /// Deletes what is left of the run on every node; true if each could be searched for unknown keys.
    pub(crate) async fn remove_keys(&self, known: &[Vec<u8>]) -> Result<bool, CallError> {
        let mut searched = true;
        for node in self.nodes() {
            searched &= self.endpoints[self.server_of(node)].remove_keys(known).await?.searched;
        }
        Ok(searched)
    }

    /// The logs of the servers that were started, each with a name.
    pub(crate) async fn logs(&self) -> Vec<(String, Vec<u8>)> {
        let servers =
            self.endpoints.iter().enumerate().map(|(nth, it)| (format!("server-{nth}"), it));
        let sentinels = self.sentinels.get().into_iter().flatten().enumerate();
        let sentinels = sentinels.map(|(nth, it)| (format!("sentinel-{nth}"), it));
        let mut logs = Vec::new();
        for (name, endpoint) in servers.chain(sentinels) {
            let Some(process) = endpoint.process().await else { continue };
            // A log that cannot be read is no reason to fail a run.
            if let Ok(log) = std::fs::read(process.dir().join(LOG_FILE)) {
                logs.push((format!("{name}.log"), log));
            }
        }
        logs
    }

    /// Ends what was started, and waits until nothing of it is left.
    pub(crate) async fn close(self) {
        let Self { endpoints, sentinels, launcher, .. } = self;
        // Only the last handle of a supervisor waits for its end.
        drop(launcher);
        let sentinels = sentinels.into_inner().unwrap_or_default();
        // Sentinels first, or they would start a failover.
        Endpoint::close_all(sentinels.into_iter().chain(endpoints)).await;
    }

    /// The server that a node leads to at this moment.
    pub(crate) fn server_of(&self, node: Node) -> usize {
        match self.topology {
            Topology::Replicated { .. } | Topology::Cluster { .. } => self.state().primary,
            Topology::Standalone | Topology::Independent { .. } => usize::from(node.0),
        }
    }

    /// Writes a key that expires at once.
    async fn write_probe(&self, server: usize) -> Result<(), CallError> {
        let probe = String::from_utf8_lossy(&self.first().keys().key("probe")).into_owned();
        self.command(server, &["SET", &probe, "x", "PX", "10"]).await.map(drop)
    }

    /// Deletes the lock's key, as an eviction does.
    pub(crate) async fn evict(&self, server: usize) -> Result<(), CallError> {
        self.command(server, &["DEL", &self.lock_key()]).await.map(drop)
    }

    /// Stores something else under the lock's key if the key is free; true if it was.
    pub(crate) async fn occupy(&self, server: usize, with: ForeignValue) -> bool {
        let key = self.lock_key();
        matches!(self.command(server, &with.put(&key)).await, Ok(Reply::Int(1)))
    }

    /// Deletes what [`occupy`](Self::occupy) has stored, if it is still there.
    pub(crate) async fn clear(&self, server: usize, with: ForeignValue) -> Result<(), CallError> {
        self.command(server, &with.remove(&self.lock_key())).await.map(drop)
    }

    /// Deletes every key of a server; refused on a server that others may use.
    pub(crate) async fn flush(&self, server: usize) -> Result<(), CallError> {
        if !self.first().is_private() {
            return Err(CallError::NotSent("others may use this server".into()));
        }
        self.command(server, &["FLUSHALL"]).await.map(drop)
    }

    fn lock_key(&self) -> String {
        String::from_utf8_lossy(&self.first().keys().key("lock")).into_owned()
    }

    /// Sends a command on the server's control connection.
    pub(crate) async fn command(&self, server: usize, words: &[&str]) -> Result<Reply, CallError> {
        self.endpoints[server].ask(words).await
    }

    fn state(&self) -> MutexGuard<'_, DeploymentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Launcher {
    async fn start(&self, spec: ServerSpec, keys: KeySpace) -> Result<Endpoint, EndpointError> {
        let Self { binary, supervisor, settings, .. } = self;
        Endpoint::start_unverified(binary, spec, supervisor, keys, settings).await
    }
}

/// Starts the servers of a scenario, all at once.
async fn start(
    with: &Launcher,
    keys: &KeySpace,
    scenario: &Scenario,
) -> Result<Vec<Endpoint>, DeploymentError> {
    let mut starting = JoinSet::new();
    for server in 0..scenario.topology().servers() {
        let (launcher, spec, keys) = (with.clone(), spec(with, scenario), keys.clone());
        starting.spawn(async move { (server, launcher.start(spec, keys).await) });
    }
    let mut started = BTreeMap::new();
    while let Some(ended) = starting.join_next().await {
        // A panic in a task of ours is passed on.
        let (server, endpoint) =
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        started.insert(server, endpoint?);
    }
    let mut endpoints: Vec<Endpoint> = started.into_values().collect();
    let mut writable = endpoints.len();
    if matches!(scenario.topology(), Topology::Cluster { .. }) {
        cluster::form(&endpoints, keys).await?;
        // None of the others has the slot of the run's keys.
        writable = 1;
    }
    for endpoint in &mut endpoints[..writable] {
        endpoint.verify(&with.settings).await?;
    }
    Ok(endpoints)
}

/// How each server of a scenario is started.
fn spec(with: &Launcher, scenario: &Scenario) -> ServerSpec {
    let mut args: Vec<&str> = match scenario.server.append_only {
        AppendOnly::Off => Vec::new(),
        AppendOnly::Always => vec!["--appendonly", "yes", "--appendfsync", "always"],
        AppendOnly::Everysec => vec!["--appendonly", "yes", "--appendfsync", "everysec"],
        AppendOnly::Unsynced => vec!["--appendonly", "yes", "--appendfsync", "no"],
    };
    if matches!(scenario.topology(), Topology::Replicated { .. }) {
        // By default the primary waits five seconds for more replicas before it sends its data.
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
