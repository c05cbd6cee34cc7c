//! Replicas that follow the primary, through links of the proxy that are as late as the scenario says.
//!
//! Invariant: replicas have all that was written before the run, and from then on what their link has let through;
//! what is under way when either end dies is lost with it, every time. Deliberately absent: redis-server's own way
//! to find out who is primary; a replica is told.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::Duration;

use picklock::env::{CallError, Node};
use picklock::reply::Reply;
use scenarios::scenario::Scenario;
use scenarios::topology::Topology;
use tokio::time::Instant;

use super::Fleet;
use fault_proxy::{ClientId, Cut, Latency, Link, Plan, Protocol, Proxy, ProxyError};

/// How long a replica may take until it has what its primary has.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(15);
/// How long is waited at a time until its primary has heard of it, in milliseconds.
const HEARD_WITHIN_MS: &str = "100";
/// How often is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The ways from replicas to their primary, by the replica's number; none where nobody follows.
#[derive(Clone, Debug, Default)]
pub(super) struct Feeds {
    links: Vec<Link>,
    lags: Vec<Latency>,
    /// Whether the lags count yet.
    late: bool,
}

/// Why a replica does not follow.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// It has no way to its primary.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// It, or its primary, does not do what it is told.
    #[error("server {server} does not follow its primary: {source}")]
    Refuses {
        /// Which.
        server: usize,
        /// What it says.
        source: CallError,
    },
    /// It does not have the primary's data.
    #[error("server {server} does not have what its primary has after {FOLLOWS_WITHIN:?}")]
    Behind {
        /// Which.
        server: usize,
    },
}

impl Fleet {
    /// Replicas begin to follow. What is written is there at once until they are to [lag](Self::lag).
    ///
    /// # Errors
    /// [`FollowError`], where one does not.
    pub(crate) async fn follow(
        &self,
        proxy: &Proxy,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<(), FollowError> {
        if !matches!(self.topology, Topology::Replicated { .. }) {
            return Ok(());
        }
        let mut feeds = Feeds::default();
        for server in 0..self.topology.servers() {
            let node = Node(u16::try_from(server).unwrap_or(u16::MAX));
            let plan = Plan { protocol: Protocol::Opaque, seed, ..Plan::default() };
            // Numbers that no client has.
            let whose = ClientId(u32::MAX - server);
            feeds.links.push(proxy.listen(whose, node, self.upstream(Node(0)), plan)?);
            feeds.lags.push(Latency::from(&scenario.topology.lag(server)));
        }
        self.state().feeds = feeds;
        self.gather().await
    }

    /// Every server that is up follows the primary.
    ///
    /// # Errors
    /// [`FollowError`], where one does not.
    pub(crate) async fn gather(&self) -> Result<(), FollowError> {
        let Feeds { links, lags, .. } = self.state().feeds.clone();
        let (primary, upstream) = (self.meant(None), self.upstream(Node(0)));
        if !self.is_up(primary) {
            return Ok(());
        }
        let mut following = 0;
        for (server, link) in links.iter().enumerate() {
            if server == primary || !self.is_up(server) {
                continue;
            }
            let refuses = |source| FollowError::Refuses { server, source };
            link.set_upstream(upstream.clone());
            // What there is so far is there at once.
            link.set_latency(Latency::None, Latency::None);
            link.reset_connections();
            let port = link.addr().port().to_string();
            // Who follows the same primary once more looks for it only once a second; whoever begins, at once.
            for to in [["NO", "ONE"], ["127.0.0.1", &port]] {
                let follow = ["REPLICAOF", to[0], to[1]];
                self.command(server, &follow).await.map_err(refuses)?;
            }
            let end = Instant::now() + FOLLOWS_WITHIN;
            while !self.follows(server).await.map_err(refuses)? {
                if Instant::now() >= end {
                    return Err(FollowError::Behind { server });
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            following += 1;
            // Up to its first word the primary counts on none, however much it has been sent.
            self.write_probe(primary).await.map_err(refuses)?;
            while !self.is_heard(primary, following).await.map_err(refuses)? {
                if Instant::now() >= end {
                    return Err(FollowError::Behind { server });
                }
            }
            if self.state().feeds.late {
                link.set_latency(lags[server].clone(), lags[server].clone());
            }
        }
        Ok(())
    }

    /// How many connections replicas have made to primaries.
    pub(super) fn feed_connections(&self) -> u64 {
        self.state().feeds.links.iter().map(|link| link.counters().connections).sum()
    }

    /// From now on replicas are as late as the scenario says.
    pub(crate) fn lag(&self) {
        let mut state = self.state();
        state.feeds.late = true;
        for (link, lag) in state.feeds.links.iter().zip(&state.feeds.lags) {
            link.set_latency(lag.clone(), lag.clone());
        }
    }

    /// A replica takes the primary's place: the one that is named, or the one that has heard most; whether there is
    /// one.
    ///
    /// # Errors
    /// [`FollowError`] where it refuses.
    pub(crate) async fn promote(&self, to: Option<usize>) -> Result<bool, FollowError> {
        let Some(heir) = self.heir(to).await else { return Ok(false) };
        let refuses = |source| FollowError::Refuses { server: heir, source };
        self.command(heir, &["REPLICAOF", "NO", "ONE"]).await.map_err(refuses)?;
        self.state().primary = heir;
        Ok(true)
    }

    /// Whether the server that is to be the next primary has the lock's key: then a failover takes it from
    /// nobody. To be asked once nothing more comes to it.
    pub(crate) async fn heir_knows(&self, to: Option<usize>) -> bool {
        let key = String::from_utf8_lossy(&self.keys().key("lock")).into_owned();
        let Some(heir) = self.heir(to).await else { return false };
        matches!(self.command(heir, &["EXISTS", &key]).await, Ok(Reply::Int(1)))
    }

    /// Who takes the primary's place: the one that is named, or the one that has heard most.
    async fn heir(&self, to: Option<usize>) -> Option<usize> {
        let heirs = self.heirs();
        match to.filter(|to| heirs.contains(to)) {
            Some(named) => Some(named),
            None => self.most_advanced(&heirs).await,
        }
    }

    /// Whether anybody could take the primary's place.
    pub(crate) fn has_heir(&self) -> bool {
        !self.heirs().is_empty()
    }

    /// Nothing more comes to the replicas of this server, or to this replica, until it is
    /// [over](Self::sever).
    pub(super) fn hold_feeds(&self, server: usize) {
        self.feeds_of(server).iter().for_each(|link| link.cut(Cut::Both));
    }

    /// What was under way is lost.
    pub(super) fn sever(&self, server: usize) {
        for link in self.feeds_of(server) {
            link.reset_connections();
            link.cut(Cut::None);
        }
    }

    fn feeds_of(&self, server: usize) -> Vec<Link> {
        let state = self.state();
        let is_primary = server == state.primary;
        let links = state.feeds.links.iter().enumerate();
        links.filter(|(it, _)| is_primary || *it == server).map(|(_, link)| link.clone()).collect()
    }

    fn heirs(&self) -> Vec<usize> {
        if !matches!(self.topology, Topology::Replicated { .. }) {
            return Vec::new();
        }
        let state = self.state();
        let others = (0..self.targets.len()).filter(|it| *it != state.primary);
        others.filter(|it| !state.down[*it]).collect()
    }

    /// Of these servers the one that has heard most, the first of equals.
    async fn most_advanced(&self, heirs: &[usize]) -> Option<usize> {
        let mut best = None;
        for heir in heirs {
            let heard = self.told(*heir, "slave_repl_offset:").await.ok().flatten();
            let heard: u64 = heard.and_then(|it| it.parse().ok()).unwrap_or(0);
            if best.is_none_or(|(most, _)| heard > most) {
                best = Some((heard, *heir));
            }
        }
        best.map(|(_, heir)| heir)
    }

    /// Whether a replica has what its primary had when it began to follow.
    async fn follows(&self, server: usize) -> Result<bool, CallError> {
        Ok(self.told(server, "master_link_status:").await?.is_some_and(|it| it == "up"))
    }

    /// Whether so many replicas have acknowledged what was written last, before long.
    async fn is_heard(&self, primary: usize, replicas: i64) -> Result<bool, CallError> {
        let reply =
            self.command(primary, &["WAIT", &replicas.to_string(), HEARD_WITHIN_MS]).await?;
        Ok(matches!(reply, Reply::Int(heard) if heard >= replicas))
    }

    /// What a server tells of its replication behind this name.
    async fn told(&self, server: usize, name: &str) -> Result<Option<String>, CallError> {
        let reply = self.command(server, &["INFO", "replication"]).await?;
        let text = match &reply {
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        Ok(text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned))
    }
}
