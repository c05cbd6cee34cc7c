//! The clients of a live run: each with its own way through the proxy, connected before the start.
//!
//! Invariant: nobody starts before everybody is connected, so that the contention is that of the
//! lock and not of the connecting; connected is who has been answered, for a server that is full
//! accepts a connection before it turns it away. A crew that is dropped stops its clients.
//! Deliberately absent: what clients do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use harness::world::Gauge;
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Node};
use picklock::tokio_env::{Cluster, TokioEnv, TokioOptions};
use scenarios::fault::Staged;
use scenarios::history::Journal;
use scenarios::trial::Trial;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Barrier, Mutex, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::{NotRun, Order};
use crate::endpoint::own_client;
use crate::env::{LiveEnv, StillBusy};
use crate::fleet::{Fleet, SERVICE};
use crate::nemesis::{Cast, Errand, Nemesis};
use crate::server::Password;
use fault_proxy::{Addresses, ClientId, Latency, Link, Plan, Proxy, ProxyError, Upstream};

/// How many clients connect at once: a server's queue of connections is short.
const CONNECT_AT_ONCE: usize = 32;
/// The node of the links to sentinels, which no lock sends anything to.
const SENTINEL: Node = Node(u16::MAX);
/// How long a client waits for its first answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The clients of a run, and the run itself as client 0.
pub(super) struct Crew {
    run: LiveEnv,
    clients: Vec<LiveEnv>,
    /// Their ways to the servers of the lock, the run's own first.
    ways: Vec<Vec<Link>>,
    nemesis: Nemesis,
    /// The servers there are.
    nodes: Vec<Node>,
    /// How many of them are the lock's.
    locks: usize,
    /// The clients at work.
    playing: Mutex<JoinSet<()>>,
}

impl Crew {
    /// Opens a link for every client to each server: those of the lock and, where there is one, that of
    /// the protected resource. The run's own have no latency. Whatever is to be done to a server on the way
    /// is sent for.
    pub(super) fn hire(
        fleet: &Fleet,
        resource: Option<(SocketAddr, &Password)>,
        proxy: &Proxy,
        order: &Order<'_>,
        journal: &Journal,
    ) -> Result<(Self, UnboundedReceiver<Errand>), NotRun> {
        let Order { scenario, seed, .. } = *order;
        let network = &scenario.network;
        // One table for each distribution, whoever draws from it.
        let usual = Latency::from(&network.latency);
        let special: Vec<_> = network.link.iter().map(|it| Latency::from(&it.latency)).collect();
        let latency = |client: u32, node: Node| match network.entry(client, u32::from(node.0)) {
            _ if client == 0 => Latency::None,
            Some(entry) => special[entry].clone(),
            None => usual.clone(),
        };
        let link = |client: u32, node: Node, upstream: Upstream, addresses: Option<_>| {
            let (requests, replies) = (latency(client, node), latency(client, node));
            let plan = Plan { seed, requests, replies, addresses, ..Plan::default() };
            proxy.listen(ClientId(client), node, upstream, plan)
        };
        let env = |client: u32| {
            let mut beside = Vec::new();
            if let (Some(node), Some((addr, password))) = (scenario.resource(), resource) {
                let link = link(client, node, Upstream::Tcp(addr), None)?;
                beside.push(own_client(link.addr(), password));
            }
            if fleet.is_watched() || fleet.is_cluster() {
                let (inner, ways) = led(fleet, client, link)?;
                let env = LiveEnv::over(ClientId(client), seed, inner.beside(beside));
                return Ok::<_, NotRun>((env, ways));
            }
            let ways = fleet.nodes().map(|node| link(client, node, fleet.upstream(node), None));
            let ways = ways.collect::<Result<Vec<Link>, _>>()?;
            let mut clients: Vec<_> = ways.iter().map(|way| fleet.client(way.addr())).collect();
            clients.append(&mut beside);
            Ok((LiveEnv::new(ClientId(client), seed, clients), ways))
        };
        let hired: Result<Vec<_>, _> = (0..=scenario.clients).map(env).collect();
        let (envs, ways): (Vec<LiveEnv>, Vec<_>) = hired?.into_iter().unzip();
        let origin = envs[0].now();
        let (nemesis, errands) = Nemesis::new(proxy, journal.clone(), seed, origin);
        let mut envs = envs.into_iter().map(|env| env.since(origin).seen_by(nemesis.clone()));
        let run = envs.next().expect("the run itself is the first");
        let nodes = fleet.nodes().chain(scenario.resource()).collect();
        let (clients, locks) = (envs.collect(), fleet.nodes().count());
        let playing = Mutex::default();
        Ok((Self { run, clients, ways, nemesis, nodes, locks, playing }, errands))
    }

    /// How many connections there have been to the servers of the lock.
    pub(super) fn connections(&self) -> u64 {
        self.ways.iter().flatten().map(|way| way.counters().connections).sum()
    }

    /// The run itself, as a client without latency.
    pub(super) fn run_itself(&self) -> &LiveEnv {
        &self.run
    }

    /// Connects everybody.
    pub(super) async fn connect(&self) -> Result<(), NotRun> {
        let gate = Arc::new(Semaphore::new(CONNECT_AT_ONCE));
        let mut connecting = JoinSet::new();
        for env in std::iter::once(&self.run).chain(&self.clients) {
            let (env, gate, nodes) = (env.clone(), Arc::clone(&gate), self.nodes.clone());
            connecting.spawn(async move {
                let _place = gate.acquire().await;
                let client = env.client().0;
                // The environment keeps the connection; the handle is not needed.
                let greeted = tokio::time::timeout(ANSWER_WITHIN, greet_all(&env, &nodes)).await;
                greeted
                    .unwrap_or_else(|_| {
                        let why = format!("no answer within {ANSWER_WITHIN:?}");
                        Err(CallError::Indeterminate(why.into()))
                    })
                    .map_err(|source| NotRun::Connect { client, source })
            });
        }
        while let Some(connected) = connecting.join_next().await {
            connected.map_err(NotRun::Panicked)??;
        }
        Ok(())
    }

    /// Has the run itself find out which of its connections are broken.
    pub(super) async fn reconnect(&self) {
        for node in &self.nodes {
            let _ = tokio::time::timeout(ANSWER_WITHIN, greet(&self.run, *node)).await;
        }
    }

    /// Starts all clients at once, stages these faults, and waits for the last client. What is staged
    /// ends where nobody can go on otherwise, or after `patience`. Where the future is dropped, clients go
    /// on until they are [stopped](Self::stop).
    pub(super) async fn play(
        &self,
        trial: &Arc<Trial<LiveEnv>>,
        cues: &Arc<[Staged]>,
        patience: Duration,
        gauge: &Gauge,
    ) -> Result<(), JoinError> {
        let start = Arc::new(Barrier::new(self.clients.len()));
        let mut playing = self.playing.lock().await;
        let clients = std::iter::once(&self.run).chain(&self.clients).map(LiveEnv::unseen);
        self.nemesis.stage(cues, Cast::new(clients.collect(), self.ways.clone(), self.locks));
        for env in &self.clients {
            let (env, trial) = (env.clone(), Arc::clone(trial));
            let (start, gauge) = (Arc::clone(&start), gauge.clone());
            playing.spawn(async move {
                start.wait().await;
                let (client, process) = (env.client().0, Arc::clone(env.process()));
                process.unless_gone(trial.client(env, client)).await;
                process.finish();
                gauge.add();
            });
        }
        let healing = async {
            if !cues.is_empty() {
                let stalemate = self.nemesis.stalemate();
                let _ = tokio::time::timeout(patience, stalemate).await;
                self.nemesis.heal();
            }
            std::future::pending::<()>().await;
        };
        let ended = async {
            while let Some(played) = playing.join_next().await {
                played?;
            }
            Ok(())
        };
        let ended = tokio::select! {
            biased;
            ended = ended => ended,
            () = healing => Ok(()),
        };
        self.nemesis.heal();
        // Who looks at the servers afterwards finds them there.
        self.nemesis.settled().await;
        ended
    }

    /// Who strikes them.
    pub(super) fn nemesis(&self) -> &Nemesis {
        &self.nemesis
    }

    /// Stops the clients that are still at work, and waits until none of them is.
    pub(super) async fn stop(&self) {
        self.nemesis.heal();
        self.playing.lock().await.shutdown().await;
    }

    /// Waits until the server has dealt with everything that was sent to it: replies come in the
    /// order of the requests, so whoever has the last has them all.
    pub(super) async fn drain(&self, within: Duration) {
        let mut asking = JoinSet::new();
        for env in std::iter::once(&self.run).chain(&self.clients) {
            let (env, nodes) = (env.clone(), self.nodes.clone());
            asking.spawn(async move { greet_all(&env, &nodes).await.is_ok() });
        }
        // Where no answer comes, nothing that was sent can be waited for.
        let _ = tokio::time::timeout(within, asking.join_all()).await;
    }

    /// Waits until nobody has anything left to do in the background.
    pub(super) async fn idle(&self, within: Duration) -> Result<(), StillBusy> {
        let end = Instant::now() + within;
        for env in &self.clients {
            env.idle(end.saturating_duration_since(Instant::now())).await?;
        }
        Ok(())
    }
}

/// The environment of a client that is led to its server by the word of sentinels, or of the nodes of a cluster; and
/// its ways: to every server, and then to every sentinel. Whom these name it finds behind its own links.
fn led(
    fleet: &Fleet,
    client: u32,
    link: impl Fn(u32, Node, Upstream, Option<Arc<Addresses>>) -> Result<Link, ProxyError>,
) -> Result<(TokioEnv, Vec<Link>), ProxyError> {
    let addresses = Arc::new(Addresses::new());
    let mut ways = Vec::new();
    for (upstream, addr) in fleet.servers() {
        let way = link(client, Node(0), upstream, Some(Arc::clone(&addresses)))?;
        addresses.insert(addr, way.addr());
        ways.push(way);
    }
    let like = |link: &Link| fleet.client(link.addr()).get_connection_info().clone();
    if fleet.is_cluster() {
        let cluster = Cluster::open(ways.iter().map(like));
        let cluster = cluster.expect("there are nodes, and their addresses need no reading");
        return Ok((TokioEnv::for_key(&cluster, fleet.keys().key("lock")), ways));
    }
    let like = like(&ways[0]);
    let mut sentinels = Vec::new();
    for upstream in fleet.watchers() {
        let way = link(client, SENTINEL, upstream, Some(Arc::clone(&addresses)))?;
        sentinels.push(fleet.client(way.addr()));
        ways.push(way);
    }
    let options = TokioOptions::default();
    Ok((TokioEnv::from_sentinels(sentinels, SERVICE, like, options), ways))
}

/// Has a client say something to every server.
async fn greet_all(env: &LiveEnv, nodes: &[Node]) -> Result<(), CallError> {
    for node in nodes {
        greet(env, *node).await?;
    }
    Ok(())
}

/// Has a client say something and waits for the answer.
async fn greet(env: &LiveEnv, node: Node) -> Result<(), CallError> {
    let answer = env.connect(node).await?.call(Command::new("PING")).await;
    match answer {
        Ok(_) => Ok(()),
        // That is an answer too: the user may lock, and may not greet.
        Err(CallError::Refused(error)) if &*error.code == "NOPERM" => Ok(()),
        Err(error) => Err(error),
    }
}
