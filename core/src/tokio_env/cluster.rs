//! A Redis Cluster: its nodes, and which of them owns a slot.
//!
//! Invariant: what is known of owners is only where to begin. A node that owns a slot no more says so
//! and carries nothing out, and where an owner cannot be reached the nodes are asked anew.
//! Deliberately absent: reading from replicas.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use redis::{ConnectionInfo, IntoConnectionInfo, RedisError};
use tokio::sync::watch;
use tokio::time::timeout;

use super::TokioOptions;
use super::host::{Addr, Host};
use super::wire::Wire;
use crate::command::Command;
use crate::env::CallError;
use crate::reply::Reply;
use crate::sync::lock;

/// Who is asked and does not answer costs this fraction of the time for a connection.
const SHARE: u32 = 4;

/// A Redis Cluster. Cloning gives another handle to the same connections: one a node, shared by all
/// locks. [`TokioEnv::for_key`](super::TokioEnv::for_key) is the environment of a lock there.
#[derive(Clone)]
pub struct Cluster {
    pub(super) nodes: Arc<Nodes>,
}

pub(super) struct Nodes {
    /// Where the nodes are asked for that nobody has named yet.
    seeds: Vec<Addr>,
    /// How nodes are spoken to.
    like: ConnectionInfo,
    pub(super) options: TokioOptions,
    hosts: Mutex<BTreeMap<Addr, Arc<Host>>>,
    owners: watch::Sender<Owners>,
    /// Who is asked first; see [`Sentinels`](super::sentinel::Sentinels).
    first: AtomicUsize,
}

/// Which node owns which slots, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners {
    /// By the last slot of a range: its first slot, and whose it is.
    ranges: BTreeMap<u16, (u16, Addr)>,
    /// What has moved since.
    moved: BTreeMap<u16, Addr>,
}

impl Owners {
    pub(super) fn of(&self, slot: u16) -> Option<&Addr> {
        self.moved.get(&slot).or_else(|| {
            let (_, (first, owner)) = self.ranges.range(slot..).next()?;
            (*first <= slot).then_some(owner)
        })
    }

    /// Reads the answer to CLUSTER SLOTS of the node at `asked`; none where it is not one.
    fn read(reply: &Reply, asked: &Addr) -> Option<Self> {
        let Reply::Array(rows) = reply else { return None };
        let mut ranges = BTreeMap::new();
        for row in rows {
            let Reply::Array(row) = row else { return None };
            let [first, last, Reply::Array(owner), ..] = &row[..] else { return None };
            let [host, port, ..] = &owner[..] else { return None };
            let slot = |reply: &Reply| u16::try_from(reply.as_int()?).ok();
            // A node that does not know its own address is where we have reached it.
            let host = host.as_bytes().and_then(|host| std::str::from_utf8(host).ok());
            let host = host.filter(|host| !matches!(*host, "" | "?")).unwrap_or(&asked.host);
            ranges.insert(slot(last)?, (slot(first)?, Addr::new(host, slot(port)?)));
        }
        Some(Self { ranges, moved: BTreeMap::new() })
    }
}

impl Cluster {
    /// The cluster that these nodes belong to; one of them that answers is enough, and the first
    /// says how nodes are spoken to (user, password, TLS). Nothing is sent yet.
    ///
    /// # Errors
    /// What redis-rs finds wrong with a URL, and where none is given.
    pub fn open<T: IntoConnectionInfo>(
        nodes: impl IntoIterator<Item = T>,
    ) -> Result<Self, RedisError> {
        Self::with_options(nodes, TokioOptions::default())
    }

    /// The same, with connections made in this way.
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
        let nodes = Nodes {
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

impl Nodes {
    /// Who owns what, for whoever wants to know when that changes.
    pub(super) fn owners(&self) -> watch::Receiver<Owners> {
        self.owners.subscribe()
    }

    /// This slot has moved, says its owner so far.
    pub(super) fn moved(&self, slot: u16, to: &Addr) {
        self.owners.send_if_modified(|owners| {
            let news = owners.of(slot) != Some(to);
            if news {
                owners.moved.insert(slot, to.clone());
            }
            news
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
    pub(super) async fn owner(&self, slot: u16) -> Result<(Addr, Wire), CallError> {
        let known = || self.owners.borrow().of(slot).cloned();
        if let Some(addr) = known()
            && let Some(wire) = self.host(&addr)?.usable_wire().await
        {
            return Ok((addr, wire));
        }
        let asked = self.ask().await;
        // Though nobody else answers, the owner may.
        let Some(addr) = known() else {
            asked?;
            return Err(CallError::NotSent(
                format!("no node of the cluster has slot {slot}").into(),
            ));
        };
        let wire = self.host(&addr)?.wire(self.options).await?;
        Ok((addr, wire))
    }

    /// Asks a node who owns what.
    async fn ask(&self) -> Result<(), CallError> {
        let mut nodes: Vec<Addr> = lock(&self.hosts).keys().cloned().collect();
        let seeds = self.seeds.iter().filter(|seed| !nodes.contains(seed));
        let seeds: Vec<Addr> = seeds.cloned().collect();
        nodes.extend(seeds);
        let span = self.options.connect_timeout / SHARE;
        let mut last = CallError::NotSent("no node of the cluster is known".into());
        for _ in &nodes {
            let place = self.first.load(Ordering::Relaxed) % nodes.len();
            self.first.store(place + 1, Ordering::Relaxed);
            let addr = &nodes[place];
            let question = async {
                let wire = self.host(addr)?.wire(self.options).await?;
                wire.call(&Command::new("CLUSTER").arg("SLOTS")).await
            };
            let silent =
                |_| CallError::NotSent(format!("no word of {addr} within {span:?}").into());
            match timeout(span, question).await.map_err(silent).unwrap_or_else(Err) {
                Ok(reply) => {
                    if let Some(owners) = Owners::read(&reply, addr) {
                        self.first.store(place, Ordering::Relaxed);
                        self.owners.send_if_modified(|known| {
                            let news = *known != owners;
                            *known = owners;
                            news
                        });
                        return Ok(());
                    }
                    last = CallError::NotSent(format!("{addr} names no slots").into());
                }
                Err(CallError::Indeterminate(reason)) => last = CallError::NotSent(reason),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(first: i64, last: i64, host: Reply, port: i64) -> Reply {
        let owner = Reply::Array(vec![host, Reply::Int(port), Reply::bulk(b"id")]);
        Reply::Array(vec![Reply::Int(first), Reply::Int(last), owner])
    }

    #[test]
    fn a_slot_is_in_a_range_at_both_its_ends_and_not_beyond() {
        let asked = Addr::new("seed", 1);
        let rows = vec![
            row(10, 19, Reply::bulk(b"a"), 1),
            row(30, 30, Reply::Nil, 2),
            row(31, 40, Reply::bulk(b""), 3),
        ];
        let mut owners = Owners::read(&Reply::Array(rows), &asked).unwrap();
        let of = |owners: &Owners, slot| owners.of(slot).map(ToString::to_string);
        let found = [9, 10, 19, 20, 29, 30, 31, 40, 41].map(|slot| of(&owners, slot));
        let [a, two, three] = ["a:1", "seed:2", "seed:3"].map(|addr| Some(addr.to_owned()));
        let (from, to) = (a.clone(), three.clone());
        assert_eq!(found, [None, from, a, None, None, two, three, to, None]);
        owners.moved.insert(10, Addr::new("b", 9));
        assert_eq!(of(&owners, 10).as_deref(), Some("b:9"));
        assert_eq!(of(&owners, 11).as_deref(), Some("a:1"));
    }

    #[test]
    fn what_is_no_list_of_slots_is_not_taken_for_one() {
        let asked = Addr::new("seed", 1);
        assert_eq!(Owners::read(&Reply::Array(vec![]), &asked), Some(Owners::default()));
        for strange in [
            Reply::Ok,
            Reply::Array(vec![Reply::Int(1)]),
            Reply::Array(vec![Reply::Array(vec![Reply::Int(0), Reply::Int(1)])]),
            Reply::Array(vec![row(0, 70_000, Reply::Nil, 1)]),
            Reply::Array(vec![row(0, 1, Reply::Nil, -1)]),
        ] {
            assert_eq!(Owners::read(&strange, &asked), None, "{strange:?}");
        }
    }

    #[test]
    fn a_cluster_has_a_node() {
        assert!(Cluster::open([] as [&str; 0]).is_err());
        assert!(Cluster::open(["nonsense"]).is_err());
        assert!(Cluster::open(["redis://127.0.0.1:7000"]).is_ok());
    }
}
