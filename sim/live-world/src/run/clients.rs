//! The clients of a live run: each with its own links through the proxy, connected before the start.
//!
//! Invariant: no client starts before all are connected, so that they contend for the lock and not for connections.
//! A client is connected once it has been answered: a server that is full accepts a connection before it refuses it.
//! Dropping this stops the clients.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use harness::world::{RunError, RunRequest};
use history::fault::Staged;
use history::{Journal, What};
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Node};
use picklock::tokio_env::{Cluster, TokioEnv, TokioOptions};
use scenarios::record::Observed;
use scenarios::trial::Trial;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Barrier, Mutex, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::patience::Patience;
use super::unavailable;
use crate::deployment::{Deployment, SERVICE};
use crate::endpoint::private_client;
use crate::env::LiveEnv;
use crate::nemesis::{ClientControl, ClientLinks, LiveNemesis, ServerOp};
use crate::server::Password;
use fault_proxy::{Addresses, ClientId, Latency, Link, Plan, Proxy, ProxyError, Upstream};

/// How many clients connect at once: a server's queue of connections is short.
const CONNECT_AT_ONCE: usize = 32;
/// The node of the links to sentinels, to which no lock sends anything.
const SENTINEL: Node = Node(u16::MAX);
/// How often to look whether anybody gets the lock.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a client waits for its first answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The clients of a run, and the run itself as client 0.
pub(super) struct RunClients {
    /// The run itself, as a client without latency.
    pub(super) run: LiveEnv,
    clients: Vec<LiveEnv>,
    /// Their links to the servers of the lock, the run's own first.
    links: Vec<Vec<Link>>,
    /// What strikes them.
    pub(super) nemesis: LiveNemesis,
    /// The lock's nodes, and then the resource's.
    nodes: Vec<Node>,
    lock_nodes: usize,
    /// The clients at work.
    working: Mutex<JoinSet<()>>,
}

/// Clients that did not end, because nobody gets the lock.
pub(super) struct Starved {
    /// Who was still at work.
    pub(super) clients: Vec<u32>,
    /// For how long nobody had got the lock.
    pub(super) within: Duration,
}

impl RunClients {
    /// Opens a link for every client to each server: those of the lock and, if there is one, that of
    /// the protected resource. The run's own have no latency. Also gives the server operations that the
    /// nemesis will request.
    pub(super) fn open(
        deployment: &Deployment,
        resource: Option<(SocketAddr, &Password)>,
        proxy: &Proxy,
        request: &RunRequest,
        journal: &Journal,
    ) -> Result<(Self, UnboundedReceiver<ServerOp>), ProxyError> {
        let (scenario, seed) = (&*request.scenario, request.seed);
        let network = &scenario.network;
        // One table for each distribution, shared by all links that draw from it.
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
                beside.push(private_client(link.addr(), password));
            }
            if deployment.has_sentinels() || deployment.is_cluster() {
                let (anew, links) = discovering(deployment, client, link)?;
                let anew = Arc::new(move || anew().beside(beside.clone()));
                let env = LiveEnv::over(ClientId(client), seed, anew);
                return Ok::<_, ProxyError>((env, links));
            }
            let links =
                deployment.nodes().map(|it| link(client, it, deployment.upstream(it), None));
            let links = links.collect::<Result<Vec<Link>, _>>()?;
            let mut to: Vec<_> =
                links.iter().map(|it| deployment.first().client(it.addr())).collect();
            to.append(&mut beside);
            Ok((LiveEnv::new(ClientId(client), seed, to), links))
        };
        let opened: Result<Vec<_>, _> = (0..=scenario.clients).map(env).collect();
        let (envs, links): (Vec<LiveEnv>, Vec<_>) = opened?.into_iter().unzip();
        let origin = envs[0].now();
        let clock = envs[0].clone().since(origin);
        let (nemesis, requested) =
            LiveNemesis::new(scenario.clients, proxy, journal.clone(), seed, move || {
                clock.run_ns()
            });
        let mut envs = envs.into_iter().map(|env| env.since(origin).observed_by(nemesis.clone()));
        let run = envs.next().expect("the run itself is the first");
        let nodes = deployment.nodes().chain(scenario.resource()).collect();
        let (clients, lock_nodes) = (envs.collect(), deployment.nodes().count());
        let working = Mutex::default();
        Ok((Self { run, clients, links, nemesis, nodes, lock_nodes, working }, requested))
    }

    /// How many connections there have been to the servers of the lock.
    pub(super) fn connections(&self) -> u64 {
        self.links.iter().flatten().map(|link| link.counters().connections).sum()
    }

    /// Connects everybody.
    pub(super) async fn connect(&self) -> Result<(), RunError> {
        let gate = Arc::new(Semaphore::new(CONNECT_AT_ONCE));
        let mut connecting = JoinSet::new();
        for env in std::iter::once(&self.run).chain(&self.clients) {
            let (env, gate, nodes) = (env.clone(), Arc::clone(&gate), self.nodes.clone());
            connecting.spawn(async move {
                let _permit = gate.acquire().await;
                let client = env.client().0;
                // The environment keeps the connection; the handle is not needed.
                let answered = tokio::time::timeout(ANSWER_WITHIN, ping_all(&env, &nodes)).await;
                answered
                    .unwrap_or_else(|_| {
                        let why = format!("no answer within {ANSWER_WITHIN:?}");
                        Err(CallError::Indeterminate(why.into()))
                    })
                    .map_err(|error| {
                        unavailable(format!(
                            "client {client} cannot connect to the server: {error}; check that the server is running \
                             and allows enough connections (CONFIG GET maxclients)"
                        ))
                    })
            });
        }
        while let Some(connected) = connecting.join_next().await {
            connected.map_err(panicked)??;
        }
        Ok(())
    }

    /// Uses every connection of the run itself once, which shows which are broken.
    pub(super) async fn reconnect(&self) {
        for node in &self.nodes {
            let _ = tokio::time::timeout(ANSWER_WITHIN, ping(&self.run, *node)).await;
        }
    }

    /// Starts all clients at once with the faults staged, and waits for the last client. Everything is healed once no
    /// client can go on otherwise, or `patience` has run out. Clients that want the lock are waited for until it has
    /// run out once more: then it gives those that are still at work, and for how long nobody had got the lock. If the
    /// future is dropped, clients go on until they are [stopped](Self::stop).
    pub(super) async fn work(
        &self,
        trial: &Arc<Trial<LiveEnv>>,
        request: &RunRequest,
        patience: Patience,
    ) -> Result<Option<Starved>, JoinError> {
        let mut working = self.working.lock().await;
        let cues: Arc<[Staged]> = request.scenario.faults.clone().into();
        // These handles have no nemesis: otherwise it and they would keep each other alive.
        let controls = std::iter::once(&self.run).chain(&self.clients).map(LiveEnv::unobserved);
        let controls = controls.map(|it| Arc::new(it) as Arc<dyn ClientControl>).collect();
        self.nemesis.stage(&cues, controls, ClientLinks::new(self.links.clone(), self.lock_nodes));
        self.start(trial, request, &mut working);
        let at_work = || self.clients.iter().filter(|it| !it.process.is_finished());
        let healing = async {
            let mut grants = Grants::of(trial.journal());
            let mut late = false;
            if !cues.is_empty() {
                late = tokio::select! {
                    biased;
                    () = self.nemesis.stalemate() => false,
                    _ = grants.cease_for(|| patience.until_healed(at_work().count())) => true,
                };
                // If nothing was left to heal, no client's chances have become better.
                if self.nemesis.heal() {
                    grants.count_from_now();
                } else {
                    late = false;
                }
            }
            let until = || patience.until_stopped(at_work().count(), late);
            let within = grants.cease_for(until).await;
            Starved { clients: at_work().map(|it| it.client().0).collect(), within }
        };
        let ended = async {
            while let Some(ended) = working.join_next().await {
                ended?;
            }
            Ok(None)
        };
        let ended = tokio::select! {
            biased;
            ended = ended => ended,
            starved = healing => Ok(Some(starved)),
        };
        self.nemesis.heal();
        // The servers must run when they are queried afterwards.
        self.nemesis.servers_settled().await;
        ended
    }

    /// Starts all clients at once.
    fn start(&self, trial: &Arc<Trial<LiveEnv>>, request: &RunRequest, working: &mut JoinSet<()>) {
        let start = Arc::new(Barrier::new(self.clients.len()));
        for env in &self.clients {
            let (env, trial) = (env.clone(), Arc::clone(trial));
            let (start, done) = (Arc::clone(&start), Arc::clone(&request.done));
            working.spawn(async move {
                start.wait().await;
                let (client, process) = (env.client().0, Arc::clone(&env.process));
                loop {
                    let work = Arc::clone(&trial).client(env.clone(), client);
                    let is_gone = process.unless_gone(work).await.is_none();
                    if !is_gone || !process.is_revived().await {
                        break;
                    }
                }
                process.finish();
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    }

    /// Stops the clients that are still at work, and waits until none of them is.
    pub(super) async fn stop(&self) {
        self.nemesis.heal();
        self.working.lock().await.shutdown().await;
    }

    /// Waits until the server has carried out everything that was sent to it: replies come in the
    /// order of the requests, so a client that has the last reply has them all.
    pub(super) async fn drain(&self, within: Duration) {
        let mut asking = JoinSet::new();
        for env in std::iter::once(&self.run).chain(&self.clients) {
            let (env, nodes) = (env.clone(), self.nodes.clone());
            asking.spawn(async move { ping_all(&env, &nodes).await.is_ok() });
        }
        // If no answer comes, waiting longer is of no use.
        let _ = tokio::time::timeout(within, asking.join_all()).await;
    }

    /// Waits until no client has a task left in the background.
    pub(super) async fn idle(&self, within: Duration) {
        let end = Instant::now() + within;
        for env in &self.clients {
            if !env.idle(end.saturating_duration_since(Instant::now())).await {
                return;
            }
        }
    }
}

/// Whether anybody gets the lock.
struct Grants<'a> {
    journal: &'a Journal,
    /// How many events have been looked at.
    seen: usize,
    /// When somebody last got it.
    since: Instant,
}

impl<'a> Grants<'a> {
    fn of(journal: &'a Journal) -> Self {
        Self { journal, seen: 0, since: Instant::now() }
    }

    /// Counts from now, as if somebody had just got the lock.
    fn count_from_now(&mut self) {
        self.since = Instant::now();
    }

    /// Returns once nobody has got the lock for `span`; gives how long that was.
    async fn cease_for(&mut self, span: impl Fn() -> Duration) -> Duration {
        loop {
            let got = self.journal.look(|history| {
                let new = &history.events[self.seen..];
                self.seen = history.events.len();
                new.iter().any(|it| matches!(it.what, What::Acquired))
            });
            if got {
                self.count_from_now();
            }
            let without = self.since.elapsed();
            if without >= span() {
                return without;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Makes a client's environment, which has no connections yet.
type MakeEnv = Box<dyn Fn() -> TokioEnv + Send + Sync>;

/// The maker of the environment of a client that asks sentinels, or the nodes of a cluster, for its server; and the
/// client's links: to every server, and then to every sentinel. Addresses in answers are replaced by its own links'.
fn discovering(
    deployment: &Deployment,
    client: u32,
    link: impl Fn(u32, Node, Upstream, Option<Arc<Addresses>>) -> Result<Link, ProxyError>,
) -> Result<(MakeEnv, Vec<Link>), ProxyError> {
    let addresses = Arc::new(Addresses::default());
    let mut links = Vec::new();
    for (upstream, addr) in deployment.servers() {
        let link = link(client, Node(0), upstream, Some(Arc::clone(&addresses)))?;
        addresses.insert(addr, link.addr());
        links.push(link);
    }
    let like = |link: &Link| deployment.first().client(link.addr()).get_connection_info().clone();
    if deployment.is_cluster() {
        let cluster = Cluster::open(links.iter().map(like));
        let cluster = cluster.expect("there are nodes, and their addresses need no parsing");
        let key = deployment.first().keys().key("lock");
        return Ok((Box::new(move || TokioEnv::for_key(&cluster, &key)), links));
    }
    let like = like(&links[0]);
    let mut sentinels = Vec::new();
    for upstream in deployment.sentinel_upstreams() {
        let link = link(client, SENTINEL, upstream, Some(Arc::clone(&addresses)))?;
        sentinels.push(deployment.first().client(link.addr()));
        links.push(link);
    }
    let anew = move || {
        let options = TokioOptions::default();
        TokioEnv::from_sentinels(sentinels.clone(), SERVICE, like.clone(), options)
    };
    Ok((Box::new(anew), links))
}

/// A client's task has ended in a panic.
pub(super) fn panicked(error: JoinError) -> RunError {
    RunError::Bug(format!("a client has panicked: {error}"))
}

/// Pings every server.
async fn ping_all(env: &LiveEnv, nodes: &[Node]) -> Result<(), CallError> {
    for node in nodes {
        ping(env, *node).await?;
    }
    Ok(())
}

/// Pings a server and waits for the answer.
async fn ping(env: &LiveEnv, node: Node) -> Result<(), CallError> {
    let answer = env.connect(node).await?.call(Command::new("PING")).await;
    match answer {
        Ok(_) => Ok(()),
        // That is an answer, too: the user may be allowed to lock, but not to run PING.
        Err(CallError::Refused(error)) if &*error.code == "NOPERM" => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use history::Head;

    use super::*;

    const SPAN: Duration = Duration::from_secs(30);

    /// When it comes back, if somebody gets the lock at each of these seconds.
    async fn comes_back(got_at_s: &[u64]) -> Duration {
        let (journal, begun) = (Journal::new(Head::default()), Instant::now());
        let got = async {
            for at_s in got_at_s {
                tokio::time::sleep_until(begun + Duration::from_secs(*at_s)).await;
                journal.write(|| 0, 1, 1, 0, |_| What::Acquired);
            }
        };
        let mut grants = Grants::of(&journal);
        tokio::join!(grants.cease_for(|| SPAN), got);
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_waited_for_as_long_as_anybody_gets_the_lock() {
        let within = |took: Duration, from_s| {
            let from = Duration::from_secs(from_s);
            from <= took && took <= from + 2 * LOOK_EVERY
        };
        assert!(within(comes_back(&[]).await, 30));
        assert!(within(comes_back(&[20, 45]).await, 75), "counted from the last");
    }
}
