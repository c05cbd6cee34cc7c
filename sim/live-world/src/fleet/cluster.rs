//! A small Redis Cluster: primaries that share the slots, with no replica.
//!
//! Invariant: it is handed out when every node calls it whole, and server 0 owns the slot of the run's keys, which
//! all lie in one. Deliberately absent: moving slots, and failovers.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::Duration;

use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::Reply;
use tokio::time::{Instant, sleep};

use crate::endpoint::{Endpoint, KeySpace};

/// All slots.
const SLOTS: usize = 16_384;
/// How long the nodes may take to know each other.
const WHOLE_WITHIN: Duration = Duration::from_secs(20);
/// How often they are asked.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Why servers do not become a cluster.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// One does not do what it is told.
    #[error("server {server} does not join the cluster: {source}")]
    Refuses {
        /// Which.
        server: usize,
        /// What it says.
        source: CallError,
    },
    /// They do not know each other.
    #[error("the nodes of the cluster do not know each other after {WHOLE_WITHIN:?}")]
    Strangers,
}

/// What servers of a cluster are started with, besides what all are.
pub(super) const ARGUMENTS: [&str; 4] =
    ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"];

/// Makes a cluster of these servers.
pub(super) async fn form(targets: &[Endpoint], keys: &KeySpace) -> Result<(), FormError> {
    let owner = slot(&targets[0], keys).await? * targets.len() / SLOTS;
    for (server, target) in targets.iter().enumerate() {
        let refuses = |source| FormError::Refuses { server, source };
        // The range of the run's slot is server 0's.
        let range = (server + owner) % targets.len();
        let first = (range * SLOTS).div_ceil(targets.len());
        let last = ((range + 1) * SLOTS).div_ceil(targets.len()) - 1;
        let (first, last) = (first.to_string(), last.to_string());
        let epoch = (server + 1).to_string();
        tell(target, &["ADDSLOTSRANGE", &first, &last]).await.map_err(refuses)?;
        // Else all begin as equals, and need a while to find out who is who.
        tell(target, &["SET-CONFIG-EPOCH", &epoch]).await.map_err(refuses)?;
    }
    for (server, target) in targets.iter().enumerate().skip(1) {
        let port = target.server().addr.port().to_string();
        let met = tell(&targets[0], &["MEET", "127.0.0.1", &port]).await;
        met.map_err(|source| FormError::Refuses { server, source })?;
    }
    let end = Instant::now() + WHOLE_WITHIN;
    for target in targets {
        while !is_whole(target, targets.len()).await {
            if Instant::now() >= end {
                return Err(FormError::Strangers);
            }
            sleep(ASK_EVERY).await;
        }
    }
    Ok(())
}

/// The slot of the run's keys.
async fn slot(target: &Endpoint, keys: &KeySpace) -> Result<usize, FormError> {
    let key = String::from_utf8_lossy(&keys.key("lock")).into_owned();
    let told = tell(target, &["KEYSLOT", &key]).await;
    let told = told.map_err(|source| FormError::Refuses { server: 0, source })?;
    Ok(told.as_int().and_then(|slot| usize::try_from(slot).ok()).unwrap_or(0))
}

/// Whether a node calls the cluster of so many nodes whole.
async fn is_whole(target: &Endpoint, nodes: usize) -> bool {
    let Ok(Reply::Bulk(info)) = tell(target, &["INFO"]).await else { return false };
    let info = String::from_utf8_lossy(&info).into_owned();
    let says = |line: String| info.lines().any(|it| it == line);
    says(String::from("cluster_state:ok")) && says(format!("cluster_known_nodes:{nodes}"))
}

async fn tell(target: &Endpoint, words: &[&str]) -> Result<Reply, CallError> {
    let command = words.iter().fold(Command::new("CLUSTER"), |it, word| it.arg(*word));
    target.command(&command).await
}
