//! Replicas that follow the primary through links of the proxy, with the lag of the scenario.
//!
//! Invariant: replicas have everything that was written before the run, and from then on what has come through their
//! link. What is on its way when either end dies is lost, every time.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::Duration;

use picklock::env::{CallError, Node};
use picklock::reply::Reply;
use scenarios::scenario::Scenario;
use scenarios::topology::Topology;
use tokio::time::Instant;

use super::{Deployment, DeploymentError};
use fault_proxy::{ClientId, Cut, Latency, Link, Plan, Protocol, Proxy, Upstream};

/// How long a replica may take until it has what its primary has.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(15);
/// How long one WAIT waits for acknowledgements, in milliseconds.
const WAIT_MS: &str = "100";
/// How long writes are paused at most while a replica catches up, in milliseconds.
const PAUSE_MS: &str = "20000";
/// How often to check whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The links from replicas to their primary, by the replica's number; none without replicas.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplicationLinks {
    links: Vec<Link>,
    lags: Vec<Latency>,
    /// Whether they lag yet.
    lagging: bool,
}

impl Deployment {
    /// Replicas begin to follow, without any lag until [`start_lag`](Self::start_lag).
    pub(crate) async fn start_replication(
        &self,
        proxy: &Proxy,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<(), DeploymentError> {
        if !matches!(self.topology, Topology::Replicated { .. }) {
            return Ok(());
        }
        let mut replication = ReplicationLinks::default();
        for server in 0..self.topology.servers() {
            let node = Node(u16::try_from(server).unwrap_or(u16::MAX));
            let plan = Plan { protocol: Protocol::Opaque, seed, ..Plan::default() };
            // Client numbers that no client has.
            let whose = ClientId(u32::MAX - server);
            replication.links.push(proxy.listen(whose, node, self.upstream(Node(0)), plan)?);
            replication.lags.push(Latency::from(&scenario.topology.lag(server)));
        }
        self.state().replication = replication;
        self.attach_replicas().await
    }

    /// Every server that is up follows the primary.
    pub(crate) async fn attach_replicas(&self) -> Result<(), DeploymentError> {
        let attached = self.attach_others(None).await;
        let cut_off = |error: &DeploymentError| match error {
            DeploymentError::Refuses { source, .. } => source.is_indeterminate(),
            _ => false,
        };
        // If sentinels have just made a server a replica, they have closed its connections, and ours with them.
        match attached {
            Err(error) if self.has_sentinels() && cut_off(&error) => self.attach_others(None).await,
            attached => attached,
        }
    }

    /// The same, but `follows` is a server that follows it already: clients may be connected to that one, and it must
    /// not take writes in between.
    pub(crate) async fn attach_others(
        &self,
        follows: Option<usize>,
    ) -> Result<(), DeploymentError> {
        let ReplicationLinks { links, lags, .. } = self.state().replication.clone();
        let (primary, upstream) = (self.server_or_primary(None), self.upstream(Node(0)));
        if !self.is_up(primary) {
            return Ok(());
        }
        let mut following = 0;
        for (server, link) in links.iter().enumerate() {
            let lingers = self.state().lingering == Some(server);
            if server == primary || lingers || !self.serves(server) {
                continue;
            }
            let refuses = |source| refused(server, source);
            if follows != Some(server) {
                self.follow(server, link, &upstream).await.map_err(refuses)?;
            }
            let end = Instant::now() + FOLLOWS_WITHIN;
            while !self.follows(server).await.map_err(refuses)? {
                if Instant::now() >= end {
                    return Err(behind(server));
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            following += 1;
            // The primary does not count a replica before its first acknowledgement, however much it has been sent.
            self.write_probe(primary).await.map_err(refuses)?;
            while !self.is_acknowledged(primary, following).await.map_err(refuses)? {
                if Instant::now() >= end {
                    return Err(behind(server));
                }
            }
            if self.state().replication.lagging {
                link.set_latency(lags[server].clone(), lags[server].clone());
            }
        }
        Ok(())
    }

    /// Has a server follow this primary through its link, without lag, so that earlier writes arrive at once.
    async fn follow(
        &self,
        server: usize,
        link: &Link,
        primary: &Upstream,
    ) -> Result<(), CallError> {
        link.set_upstream(primary.clone());
        link.set_latency(Latency::None, Latency::None);
        link.reset_connections();
        let port = link.addr().port().to_string();
        // A replica that is told to follow the same primary again retries once a second; a new one connects at once.
        for to in [["NO", "ONE"], ["127.0.0.1", &port]] {
            self.command(server, &["REPLICAOF", to[0], to[1]]).await?;
        }
        Ok(())
    }

    /// How many connections replicas have made to primaries.
    pub(super) fn replication_connections(&self) -> u64 {
        self.state().replication.links.iter().map(|link| link.counters().connections).sum()
    }

    /// From now on replicas lag as the scenario says.
    pub(crate) fn start_lag(&self) {
        let mut state = self.state();
        state.replication.lagging = true;
        for (link, lag) in state.replication.links.iter().zip(&state.replication.lags) {
            link.set_latency(lag.clone(), lag.clone());
        }
    }

    /// A replica takes the primary's place, if there is one: the one that is named, or the one that has received most.
    pub(crate) async fn promote(&self, to: Option<usize>) -> Result<(), DeploymentError> {
        let Some(candidate) = self.candidate(to).await else { return Ok(()) };
        let promoted = self.command(candidate, &["REPLICAOF", "NO", "ONE"]).await;
        promoted.map_err(|source| refused(candidate, source))?;
        self.state().primary = candidate;
        Ok(())
    }

    /// A replica takes the primary's place, as with [`promote`](Self::promote), with all that the primary has written.
    /// The old primary follows it from then on, and keeps its connections except those of subscribers.
    pub(crate) async fn switch_over(&self, to: Option<usize>) -> Result<(), DeploymentError> {
        let old = self.server_or_primary(None);
        let refuses = |source| refused(old, source);
        let Some(candidate) = self.candidate(to).await else { return Ok(()) };
        // Nobody may write to it while the other catches up, until it refuses writes itself.
        let pause = ["CLIENT", "PAUSE", PAUSE_MS, "WRITE"];
        self.command(old, &pause).await.map_err(refuses)?;
        let switched = async {
            let end = Instant::now() + FOLLOWS_WITHIN;
            while self.offset(candidate).await.map_err(refuses)?
                < self.offset(old).await.map_err(refuses)?
            {
                if Instant::now() >= end {
                    return Err(behind(candidate));
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            self.promote(Some(candidate)).await?;
            let link = self.state().replication.links[old].clone();
            self.follow(old, &link, &self.upstream(Node(0))).await.map_err(refuses)
        };
        let switched = switched.await;
        for last in [&["CLIENT", "UNPAUSE"][..], &["CLIENT", "KILL", "TYPE", "pubsub"]] {
            self.command(old, last).await.map_err(refuses)?;
        }
        switched
    }

    /// A replica takes the primary's place, as with [`promote`](Self::promote), while the old primary goes on. The
    /// links of its replicas have been [cut](Self::cut_replication): what was on its way on them is lost.
    pub(crate) async fn split(&self, to: Option<usize>) -> Result<(), DeploymentError> {
        let old = self.server_or_primary(None);
        let links = self.replication_links_of(old);
        let promoted = self.promote(to).await;
        self.state().lingering = Some(old);
        for link in links {
            link.set_upstream(self.upstream(Node(0)));
            link.reset_connections();
            link.cut(Cut::None);
        }
        promoted?;
        self.attach_replicas().await
    }

    /// The old primary that went on beside the new one becomes its replica, and loses writes that the new one lacks.
    pub(crate) async fn step_down(&self) -> Result<(), DeploymentError> {
        if self.state().lingering.take().is_none() {
            return Ok(());
        }
        self.attach_replicas().await
    }

    /// Whether the old primary goes on beside the new one.
    pub(crate) fn is_split(&self) -> bool {
        self.state().lingering.is_some()
    }

    /// Whether the server that is to be the next primary has the lock's key, so that a failover takes it from no
    /// client. Only meaningful once nothing more reaches that server.
    pub(crate) async fn candidate_has_key(&self, to: Option<usize>) -> bool {
        let Some(candidate) = self.candidate(to).await else { return false };
        matches!(self.command(candidate, &["EXISTS", &self.lock_key()]).await, Ok(Reply::Int(1)))
    }

    /// Which replica takes the primary's place: the one that is named, or the one that has received most.
    async fn candidate(&self, to: Option<usize>) -> Option<usize> {
        let candidates = self.candidates();
        match to.filter(|to| candidates.contains(to)) {
            Some(named) => Some(named),
            None => self.most_advanced(&candidates).await,
        }
    }

    /// Whether any server could take the primary's place.
    pub(crate) fn has_candidate(&self) -> bool {
        !self.candidates().is_empty()
    }

    /// Cuts the replication links of this server: nothing more reaches its replicas, or it if it is one, until they are
    /// [reset](Self::reset_replication).
    pub(crate) fn cut_replication(&self, server: usize) {
        self.replication_links_of(server).iter().for_each(|link| link.cut(Cut::Both));
    }

    /// Resets the replication links of this server: what was on its way is lost.
    pub(super) fn reset_replication(&self, server: usize) {
        for link in self.replication_links_of(server) {
            link.reset_connections();
            link.cut(Cut::None);
        }
    }

    fn replication_links_of(&self, server: usize) -> Vec<Link> {
        let state = self.state();
        let is_primary = server == state.primary;
        let links = state.replication.links.iter().enumerate();
        links.filter(|(it, _)| is_primary || *it == server).map(|(_, link)| link.clone()).collect()
    }

    fn candidates(&self) -> Vec<usize> {
        if !matches!(self.topology, Topology::Replicated { .. }) {
            return Vec::new();
        }
        let state = self.state();
        let others = (0..self.endpoints.len()).filter(|it| *it != state.primary);
        let lingers = |it: &usize| state.lingering == Some(*it);
        others.filter(|it| !state.down[*it] && !state.stalled[*it] && !lingers(it)).collect()
    }

    /// The server that has received most; the first one if several have received as much.
    async fn most_advanced(&self, candidates: &[usize]) -> Option<usize> {
        let mut best = None;
        for candidate in candidates {
            let offset = self.info_field(*candidate, "slave_repl_offset:").await.ok().flatten();
            let offset: u64 = offset.and_then(|it| it.parse().ok()).unwrap_or(0);
            if best.is_none_or(|(most, _)| offset > most) {
                best = Some((offset, *candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// Whether a replica has what its primary had when it began to follow.
    async fn follows(&self, server: usize) -> Result<bool, CallError> {
        Ok(self.info_field(server, "master_link_status:").await?.is_some_and(|it| it == "up"))
    }

    /// Whether at least `replicas` replicas acknowledge the last write in time.
    async fn is_acknowledged(&self, primary: usize, replicas: i64) -> Result<bool, CallError> {
        let reply = self.command(primary, &["WAIT", &replicas.to_string(), WAIT_MS]).await?;
        Ok(matches!(reply, Reply::Int(acknowledged) if acknowledged >= replicas))
    }

    /// How much of the replication stream a server has written or received.
    async fn offset(&self, server: usize) -> Result<u64, CallError> {
        let offset = self.info_field(server, "master_repl_offset:").await?;
        Ok(offset.and_then(|it| it.trim().parse().ok()).unwrap_or(0))
    }

    /// A field of a server's INFO replication, by its name and colon.
    async fn info_field(&self, server: usize, name: &str) -> Result<Option<String>, CallError> {
        let reply = self.command(server, &["INFO", "replication"]).await?;
        let text = match &reply {
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        Ok(text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned))
    }
}

fn refused(server: usize, source: CallError) -> DeploymentError {
    DeploymentError::Refuses { server, what: "follow its primary", source }
}

fn behind(server: usize) -> DeploymentError {
    let why = format!("has not caught up with its primary after {FOLLOWS_WITHIN:?}");
    DeploymentError::Late(format!("server {server} {why}"))
}
