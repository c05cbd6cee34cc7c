//! A small Redis Cluster: primaries that share the slots, without replicas.
//!
//! Invariant: once it is formed, every node reports it complete, and server 0 owns the slot of the run's keys, which
//! all lie in one.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::Duration;

use picklock::env::CallError;
use picklock::reply::Reply;
use tokio::time::{Instant, sleep};

use super::DeploymentError;
use crate::endpoint::{Endpoint, KeySpace};

/// All slots.
const SLOTS: usize = 16_384;
/// How long the nodes may take to find each other.
const COMPLETE_WITHIN: Duration = Duration::from_secs(20);
/// How often they are asked.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The arguments of servers of a cluster, besides those of all servers.
pub(super) const ARGUMENTS: [&str; 4] =
    ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"];

/// Makes a cluster of these servers.
pub(super) async fn form(endpoints: &[Endpoint], keys: &KeySpace) -> Result<(), DeploymentError> {
    let owner = slot(&endpoints[0], keys).await? * endpoints.len() / SLOTS;
    for (server, endpoint) in endpoints.iter().enumerate() {
        let refuses = |source| refused(server, source);
        // The range of the run's slot is server 0's.
        let range = (server + owner) % endpoints.len();
        let first = (range * SLOTS).div_ceil(endpoints.len());
        let last = ((range + 1) * SLOTS).div_ceil(endpoints.len()) - 1;
        let (first, last) = (first.to_string(), last.to_string());
        let epoch = (server + 1).to_string();
        endpoint.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await.map_err(refuses)?;
        // With equal epochs the nodes would first have to agree which of them owns which slots.
        endpoint.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await.map_err(refuses)?;
    }
    for (server, endpoint) in endpoints.iter().enumerate().skip(1) {
        let port = endpoint.addr().port().to_string();
        let met = endpoints[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &port]).await;
        met.map_err(|source| refused(server, source))?;
    }
    let end = Instant::now() + COMPLETE_WITHIN;
    for endpoint in endpoints {
        while !is_complete(endpoint, endpoints.len()).await {
            if Instant::now() >= end {
                return Err(DeploymentError::Late(format!(
                    "the cluster is not complete after {COMPLETE_WITHIN:?}; run again, on a machine that is less busy"
                )));
            }
            sleep(ASK_EVERY).await;
        }
    }
    Ok(())
}

/// The slot of the run's keys.
async fn slot(endpoint: &Endpoint, keys: &KeySpace) -> Result<usize, DeploymentError> {
    let key = String::from_utf8_lossy(&keys.key("lock")).into_owned();
    let slot = endpoint.ask(&["CLUSTER", "KEYSLOT", &key]).await;
    let slot = slot.map_err(|source| refused(0, source))?;
    Ok(slot.as_int().and_then(|slot| usize::try_from(slot).ok()).unwrap_or(0))
}

/// Whether a node reports a working cluster of so many nodes.
async fn is_complete(endpoint: &Endpoint, nodes: usize) -> bool {
    let Ok(Reply::Bulk(info)) = endpoint.ask(&["CLUSTER", "INFO"]).await else { return false };
    let info = String::from_utf8_lossy(&info).into_owned();
    let says = |line: String| info.lines().any(|it| it == line);
    says(String::from("cluster_state:ok")) && says(format!("cluster_known_nodes:{nodes}"))
}

fn refused(server: usize, source: CallError) -> DeploymentError {
    DeploymentError::Refuses { server, what: "join the cluster", source }
}
