//! Sentinels that watch a primary and its replicas, and see to failovers by themselves.
//!
//! Invariant: they are handed out when each knows the replicas and the other sentinels, so that what they do next is
//! a failover and not an introduction. Deliberately absent: telling them anything; who is primary is theirs to say.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::fmt::Write as _;
use std::time::Duration;

use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::Reply;
use tokio::time::{Instant, sleep};

use super::Fleet;
use crate::endpoint::{Endpoint, TargetError};
use crate::server::ServerSpec;
use fault_proxy::Upstream;

/// What the sentinels call the service.
pub(crate) const SERVICE: &str = "picklock";
/// How long a server is silent until a sentinel takes it for dead.
const DOWN_AFTER_MS: u32 = 500;
/// Until then sentinels leave alone whom they have not set up themselves: replicas that come to their primary by a
/// way that is late.
const HANDS_OFF_MS: u32 = 120_000;
/// How long they may take to know each other.
const KNOWN_WITHIN: Duration = Duration::from_secs(20);
/// How long they may take to find a new primary.
const ELECTED_WITHIN: Duration = Duration::from_secs(30);
/// How often they are asked.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Why nobody watches.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A sentinel does not start.
    #[error(transparent)]
    Start(Box<TargetError>),
    /// They do not know what they should.
    #[error("the sentinels do not know each other and the replicas after {KNOWN_WITHIN:?}")]
    Strangers,
    /// They find no new primary.
    #[error("the sentinels have found no new primary after {ELECTED_WITHIN:?}")]
    NoneElected,
}

impl Fleet {
    /// So many sentinels begin to watch, where there is a primary to be watched.
    ///
    /// # Errors
    /// [`WatchError`], where they do not.
    pub(crate) async fn watch(&self, sentinels: u32) -> Result<(), WatchError> {
        let Some(means) = self.means.as_ref().filter(|_| sentinels > 0) else { return Ok(()) };
        let primary = self.targets[self.meant(None)].server().addr.port();
        let quorum = sentinels / 2 + 1;
        let mut config = format!("sentinel monitor {SERVICE} 127.0.0.1 {primary} {quorum}\n");
        let password = &means.password;
        let _ = writeln!(config, "sentinel auth-pass {SERVICE} {}", password.reveal());
        let _ = writeln!(config, "sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}");
        let _ = writeln!(config, "sentinel failover-timeout {SERVICE} {HANDS_OFF_MS}");
        let spec = ServerSpec {
            args: vec![String::from("--sentinel")],
            config,
            password: Some(password.clone()),
            ..ServerSpec::new(&means.binary.path)
        };
        let mut watching = Vec::new();
        for _ in 0..sentinels {
            let (keys, settings) = (self.keys().clone(), &means.settings);
            let supervisor = &means.supervisor;
            let started =
                Endpoint::untried(&means.binary, spec.clone(), supervisor, keys, settings).await;
            watching.push(started.map_err(|error| WatchError::Start(Box::new(error)))?);
        }
        let watching = self.sentinels.get_or_init(|| watching);
        let end = Instant::now() + KNOWN_WITHIN;
        for sentinel in watching {
            while !self.is_introduced(sentinel, watching.len() - 1).await {
                if Instant::now() >= end {
                    return Err(WatchError::Strangers);
                }
                sleep(ASK_EVERY).await;
            }
        }
        Ok(())
    }

    /// Where the proxy's links to each sentinel lead.
    pub(crate) fn watchers(&self) -> impl Iterator<Item = Upstream> {
        self.sentinels.get().into_iter().flatten().map(Endpoint::upstream)
    }

    /// Whether sentinels say who is primary.
    pub(crate) fn is_watched(&self) -> bool {
        self.sentinels.get().is_some()
    }

    /// Waits until the sentinels have found another primary than this.
    ///
    /// # Errors
    /// [`WatchError::NoneElected`].
    pub(crate) async fn elected(&self, old: usize) -> Result<(), WatchError> {
        let end = Instant::now() + ELECTED_WITHIN;
        while Instant::now() < end {
            if let Some(named) = self.named().await.filter(|named| *named != old) {
                self.state().primary = named;
                return Ok(());
            }
            sleep(ASK_EVERY).await;
        }
        Err(WatchError::NoneElected)
    }

    /// Whom the first sentinel that answers names.
    async fn named(&self) -> Option<usize> {
        for sentinel in self.sentinels.get().into_iter().flatten() {
            let named = ask(sentinel, &["GET-MASTER-ADDR-BY-NAME", SERVICE]).await;
            if let Ok(Reply::Array(addr)) = named {
                let port = addr.get(1).and_then(Reply::as_int)?;
                let is_named = |it: &Endpoint| i64::from(it.server().addr.port()) == port;
                return self.targets.iter().position(is_named);
            }
        }
        None
    }

    /// Whether a sentinel knows every replica, and so many other sentinels.
    async fn is_introduced(&self, sentinel: &Endpoint, others: usize) -> bool {
        let many = |reply: Result<Reply, CallError>| match reply {
            Ok(Reply::Array(list)) => list.len(),
            _ => 0,
        };
        let replicas = many(ask(sentinel, &["REPLICAS", SERVICE]).await);
        let sentinels = many(ask(sentinel, &["SENTINELS", SERVICE]).await);
        replicas + 1 >= self.targets.len() && sentinels >= others
    }
}

async fn ask(sentinel: &Endpoint, words: &[&str]) -> Result<Reply, CallError> {
    let command = words.iter().fold(Command::new("SENTINEL"), |it, word| it.arg(*word));
    sentinel.command(&command).await
}
