//! Sentinels that watch a primary and its replicas, and carry out failovers by themselves.
//!
//! Invariant: once they are started, each knows the replicas and the other sentinels, so that the next thing they do is
//! a failover and not discovery. They alone decide which server is primary.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::Duration;

use picklock::env::CallError;
use picklock::reply::Reply;
use tokio::time::{Instant, sleep};

use super::{Deployment, DeploymentError};
use crate::endpoint::Endpoint;
use crate::server::ServerSpec;
use fault_proxy::Upstream;

/// The name of the service, by which clients ask sentinels for its primary.
pub(crate) const SERVICE: &str = "picklock";
/// After how long without an answer a sentinel considers a server dead, while an election is awaited.
const DOWN_AFTER_MS: u32 = 500;
/// The same at other times: long, so that a busy machine causes no election.
const DOWN_AFTER_CALM_MS: u32 = 60_000;
/// The failover timeout. For this long, sentinels do not reconfigure replicas that seem to follow another primary. Ours
/// do seem so, because they follow their primary through a link of the proxy.
const FAILOVER_TIMEOUT_MS: u32 = 120_000;
/// How long they may take to find each other.
const KNOWN_WITHIN: Duration = Duration::from_secs(20);
/// How long they may take to elect a new primary.
const ELECTED_WITHIN: Duration = Duration::from_secs(30);
/// How often they are asked.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Which server the sentinels have elected as the primary, and the epoch of the election.
struct Election {
    primary: usize,
    epoch: u64,
}

impl Deployment {
    /// Starts this many sentinels, which watch the primary.
    pub(crate) async fn start_sentinels(&self, sentinels: u32) -> Result<(), DeploymentError> {
        let Some(launcher) = self.launcher.as_ref().filter(|_| sentinels > 0) else {
            return Ok(());
        };
        let primary = self.endpoints[self.server_or_primary(None)].addr().port();
        let quorum = sentinels / 2 + 1;
        let password = &launcher.password;
        let config = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {primary} {quorum}\n\
             sentinel auth-pass {SERVICE} {}\n\
             sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_CALM_MS}\n\
             sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}\n",
            password.reveal()
        );
        let spec = ServerSpec {
            args: vec![String::from("--sentinel")],
            config,
            password: Some(password.clone()),
            ..ServerSpec::new(&launcher.binary.path)
        };
        let mut watching = Vec::new();
        for _ in 0..sentinels {
            let started = launcher.start(spec.clone(), self.first().keys().clone()).await;
            watching.push(started?);
        }
        let watching = self.sentinels.get_or_init(|| watching);
        let end = Instant::now() + KNOWN_WITHIN;
        for sentinel in watching {
            while !self.knows_others(sentinel, watching.len() - 1).await {
                if Instant::now() >= end {
                    return Err(DeploymentError::Late(format!(
                        "the sentinels have not found each other and the replicas after {KNOWN_WITHIN:?}; run again, \
                         on a machine that is less busy"
                    )));
                }
                sleep(ASK_EVERY).await;
            }
        }
        Ok(())
    }

    /// Where the proxy's links to each sentinel lead.
    pub(crate) fn sentinel_upstreams(&self) -> impl Iterator<Item = Upstream> {
        self.sentinels.get().into_iter().flatten().map(Endpoint::upstream)
    }

    /// Whether sentinels decide which server is primary.
    pub(crate) fn has_sentinels(&self) -> bool {
        self.sentinels.get().is_some()
    }

    /// Waits until the sentinels have elected another primary than this.
    pub(crate) async fn await_election(&self, old: usize) -> Result<(), DeploymentError> {
        self.take_for_dead_after(DOWN_AFTER_MS).await;
        let elected = self.another_primary(old).await;
        self.take_for_dead_after(DOWN_AFTER_CALM_MS).await;
        let Election { primary, epoch } = elected.ok_or_else(|| {
            DeploymentError::Late(format!(
                "the sentinels have elected no new primary after {ELECTED_WITHIN:?}"
            ))
        })?;
        let mut state = self.state();
        (state.primary, state.epoch) = (primary, epoch);
        Ok(())
    }

    async fn another_primary(&self, old: usize) -> Option<Election> {
        let end = Instant::now() + ELECTED_WITHIN;
        while Instant::now() < end {
            let last = self.last_election().await.filter(|it| it.primary != old);
            if last.is_some() {
                return last;
            }
            sleep(ASK_EVERY).await;
        }
        None
    }

    /// From now on sentinels consider a server dead after this long without an answer.
    async fn take_for_dead_after(&self, ms: u32) {
        let ms = ms.to_string();
        for sentinel in self.sentinels.get().into_iter().flatten() {
            // A sentinel that cannot be reached votes as before; the others may be enough.
            let set = ["SENTINEL", "SET", SERVICE, "down-after-milliseconds", &ms];
            let _ = sentinel.ask(&set).await;
        }
    }

    /// Remembers whether the sentinels have elected a primary since the last election that was awaited.
    pub(crate) async fn note_unawaited_election(&self) {
        let last = self.last_election().await;
        let mut state = self.state();
        state.unawaited_election |= last.is_some_and(|it| it.epoch > state.epoch);
    }

    /// Whether the sentinels have been seen to elect a primary that no fault asked for.
    pub(crate) fn had_unawaited_election(&self) -> bool {
        self.state().unawaited_election
    }

    /// The last election that a sentinel knows of.
    async fn last_election(&self) -> Option<Election> {
        let mut last: Option<Election> = None;
        for sentinel in self.sentinels.get().into_iter().flatten() {
            let Ok(reply) = sentinel.ask(&["SENTINEL", "MASTER", SERVICE]).await else { continue };
            let (Some(port), Some(epoch)) = (field(&reply, "port"), field(&reply, "config-epoch"))
            else {
                continue;
            };
            let is_named = |it: &Endpoint| u64::from(it.addr().port()) == port;
            let Some(primary) = self.endpoints.iter().position(is_named) else { continue };
            if last.as_ref().is_none_or(|last| epoch > last.epoch) {
                last = Some(Election { primary, epoch });
            }
        }
        last
    }

    /// Whether a sentinel knows every replica, and this many other sentinels.
    async fn knows_others(&self, sentinel: &Endpoint, others: usize) -> bool {
        let many = |reply: Result<Reply, CallError>| match reply {
            Ok(Reply::Array(list)) => list.len(),
            _ => 0,
        };
        let replicas = many(sentinel.ask(&["SENTINEL", "REPLICAS", SERVICE]).await);
        let sentinels = many(sentinel.ask(&["SENTINEL", "SENTINELS", SERVICE]).await);
        replicas + 1 >= self.endpoints.len() && sentinels >= others
    }
}

/// A field of a reply with alternating names and values, if it is a number.
fn field(reply: &Reply, name: &str) -> Option<u64> {
    let Reply::Array(list) = reply else { return None };
    let mut pairs = list.chunks_exact(2);
    let value = pairs.find_map(|pair| match pair {
        [Reply::Bulk(it), Reply::Bulk(value)] if **it == *name.as_bytes() => Some(value),
        _ => None,
    })?;
    std::str::from_utf8(value).ok()?.parse().ok()
}
