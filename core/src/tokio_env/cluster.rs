//! A Redis Cluster: its nodes, and which of them owns a slot.
//!
//! Invariant: the known owners may be out of date, without harm. A node that no longer owns a slot answers so (with
//! MOVED, or with CLUSTERDOWN if it has left the cluster) and carries nothing out, and where an owner cannot be reached,
//! the nodes are asked again: those that the user gave, and all known owners. A node that is neither is forgotten, so
//! that addresses do not pile up.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use redis::{ConnectionInfo, IntoConnectionInfo, RedisError};
use tokio::sync::watch;
use tokio::time::timeout;

use super::addr::Addr;
use super::host::Host;
use super::server_conn::{ServerConn, TokioOptions};
use super::slot_owners::SlotOwners;
use crate::command::Command;
use crate::env::CallError;
use crate::sync::lock;

/// A node that does not answer takes at most this fraction of the connect timeout.
const SHARE: u32 = 4;

/// A Redis Cluster. Cloning gives another handle to the same connections: one a node, shared by all
/// locks. [`TokioEnv::for_key`](super::TokioEnv::for_key) is the environment of a lock there.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(super) nodes: Arc<ClusterNodes>,
}

pub(super) struct ClusterNodes {
    /// The addresses that the user gave.
    seeds: Vec<Addr>,
    /// The user, password and TLS for every node.
    like: ConnectionInfo,
    pub(super) options: TokioOptions,
    hosts: Mutex<BTreeMap<Addr, Arc<Host>>>,
    /// The owners of slots, with notice of changes.
    pub(super) owners: watch::Sender<SlotOwners>,
    /// The index of the node to ask first; see [`Sentinels`](super::sentinel::Sentinels).
    first: AtomicUsize,
}

impl Cluster {
    /// The cluster of these nodes. One of them that answers is enough; the first gives user, password and
    /// TLS for all. Nothing is sent yet.
    ///
    /// # Errors
    /// What redis-rs finds wrong with a URL, and if none is given.
    pub fn open<T: IntoConnectionInfo>(
        nodes: impl IntoIterator<Item = T>,
    ) -> Result<Self, RedisError> {
        Self::with_options(nodes, TokioOptions::default())
    }

    /// As [`open`](Self::open), with these options for connections.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_options<T: IntoConnectionInfo>(
        nodes: impl IntoIterator<Item = T>,
        options: TokioOptions,
    ) -> Result<Self, RedisError> {
        let infos = nodes.into_iter().map(IntoConnectionInfo::into_connection_info);
        let infos: Vec<ConnectionInfo> = infos.collect::<Result<_, _>>()?;
        let seeds: Vec<Addr> = infos.iter().filter_map(Addr::of).collect();
        let like = infos.into_iter().next().filter(|_| !seeds.is_empty()).ok_or_else(|| {
            RedisError::from((redis::ErrorKind::InvalidClientConfig, "no node of the cluster"))
        })?;
        let nodes = ClusterNodes {
            seeds,
            like,
            options,
            hosts: Mutex::default(),
            owners: watch::Sender::default(),
            first: AtomicUsize::new(0),
        };
        Ok(Self { nodes: Arc::new(nodes) })
    }
}

/// The nodes that the user gave.
impl fmt::Debug for ClusterNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seeds: Vec<String> = self.seeds.iter().map(Addr::to_string).collect();
        write!(f, "[{}]", seeds.join(", "))
    }
}

impl ClusterNodes {
    /// Notes that this slot has moved, as its former owner reports.
    pub(super) fn moved(&self, slot: u16, to: &Addr) {
        self.owners.send_if_modified(|owners| {
            let is_new = owners.of(slot) != Some(to);
            if is_new {
                owners.moved.insert(slot, to.clone());
            }
            is_new
        });
    }

    pub(super) fn host(&self, addr: &Addr) -> Result<Arc<Host>, CallError> {
        let mut hosts = lock(&self.hosts);
        if let Some(host) = hosts.get(addr) {
            return Ok(Arc::clone(host));
        }
        let host = Arc::new(Host::new(addr.client(&self.like)?));
        hosts.insert(addr.clone(), Arc::clone(&host));
        Ok(host)
    }

    /// The owner of this slot, with a connection that can be used.
    pub(super) async fn owner(&self, slot: u16) -> Result<(Addr, ServerConn), CallError> {
        let known = || self.owners.borrow().of(slot).cloned();
        if let Some(addr) = known()
            && let Some(conn) = self.host(&addr)?.usable_conn().await
        {
            return Ok((addr, conn));
        }
        let asked = self.ask(slot, None).await;
        // Where no node has answered, the known owner may still be reachable.
        let Some(addr) = known() else {
            asked?;
            return Err(CallError::NotSent(
                format!("no node of the cluster has slot {slot}").into(),
            ));
        };
        let conn = self.host(&addr)?.conn(self.options).await;
        if conn.is_err() {
            // The node that has named it may be behind: the next question goes to another.
            self.first.fetch_add(1, Ordering::Relaxed);
        }
        Ok((addr, conn?))
    }

    /// Another owner of this slot than this node, which says that it serves it no more; none if no other node names one.
    pub(super) async fn other_owner(&self, slot: u16, former: &Addr) -> Option<Addr> {
        let other = || self.owners.borrow().of(slot).filter(|owner| *owner != former).cloned();
        if other().is_none() {
            // If nobody answers, nothing has become known.
            let _ = self.ask(slot, Some(former)).await;
        }
        other()
    }

    /// Asks the nodes in turn, but not `former`, for the owners of slots, until one answers that knows the owner of this
    /// slot. A node that was taken out of the cluster knows none.
    async fn ask(&self, slot: u16, former: Option<&Addr>) -> Result<(), CallError> {
        let nodes = self.nodes_of(&self.owners.borrow());
        let span = self.options.connect_timeout / SHARE;
        let mut last = CallError::NotSent("no node of the cluster is known".into());
        for _ in &nodes {
            let place = self.first.load(Ordering::Relaxed) % nodes.len();
            self.first.store(place + 1, Ordering::Relaxed);
            let addr = &nodes[place];
            if Some(addr) == former {
                continue;
            }
            let question = async {
                let conn = self.host(addr)?.conn(self.options).await?;
                conn.call(&Command::new("CLUSTER").arg("SLOTS")).await
            };
            let silent =
                |_| CallError::NotSent(format!("no word of {addr} within {span:?}").into());
            match timeout(span, question).await.map_err(silent).unwrap_or_else(Err) {
                Ok(reply) => {
                    let owners = SlotOwners::read(&reply, addr);
                    if let Some(owners) = owners.filter(|owners| owners.of(slot).is_some()) {
                        self.first.store(place, Ordering::Relaxed);
                        let nodes = self.nodes_of(&owners);
                        lock(&self.hosts).retain(|addr, _| nodes.contains(addr));
                        self.owners.send_if_modified(|known| {
                            let is_new = *known != owners;
                            *known = owners;
                            is_new
                        });
                        return Ok(());
                    }
                    let unowned = format!("{addr} names no owner of slot {slot}");
                    last = CallError::NotSent(unowned.into());
                }
                Err(CallError::Indeterminate(reason)) => last = CallError::NotSent(reason),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The nodes that the user gave, and then the other owners.
    fn nodes_of(&self, owners: &SlotOwners) -> Vec<Addr> {
        let others = owners.nodes().into_iter().filter(|addr| !self.seeds.contains(addr));
        self.seeds.iter().chain(others).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_cluster_has_a_node() {
        assert!(Cluster::open([] as [&str; 0]).is_err());
        assert!(Cluster::open(["nonsense"]).is_err());
        assert!(Cluster::open(["redis://127.0.0.1:7000"]).is_ok());
    }

    #[test]
    fn a_node_that_owns_nothing_any_more_is_forgotten() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("redis://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut peer, mut request) = (listener.accept().unwrap().0, [0; 4096]);
            while let Ok(len @ 1..) = peer.read(&mut request) {
                let words = String::from_utf8_lossy(&request[..len]).into_owned();
                let greetings = "+OK\r\n".repeat(words.matches("SETINFO").count());
                let all = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:1\r\n";
                let slots = all.repeat(words.matches("SLOTS").count());
                peer.write_all((greetings + &slots).as_bytes()).unwrap();
            }
        });
        let nodes = Cluster::open([url]).unwrap().nodes;
        let former = Addr::new("127.0.0.1", 2);
        nodes.host(&former).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(nodes.ask(7, None)).unwrap();
        assert_eq!(nodes.owners.borrow().of(7), Some(&Addr::new("127.0.0.1", 1)));
        assert_eq!(lock(&nodes.hosts).keys().collect::<Vec<_>>(), [&nodes.seeds[0]]);
    }
}
