//! The servers of a scenario: how many there are, who follows whom, what they are, and what each keeps
//! on its disk.
//!
//! Invariant: `Node(0)` of lock code is the service. Of a primary with replicas it is whichever server
//! is the primary at that moment, as a client of Sentinel is led; of independent servers `Node(i)` is
//! server i. Deliberately absent: sentinels and the gossip of a cluster in the virtual
//! world.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::recipe::Servers;
use crate::span::Span;

/// So many replicas a primary has where nothing is said.
const REPLICAS: u32 = 1;
/// So many independent servers there are where nothing is said.
const NODES: u32 = 5;
/// So many nodes a cluster has where nothing is said.
const CLUSTER: u32 = 3;
/// So far a replica is behind where a recipe asks for it, and nothing is said.
const LAG: Span = Span(Duration::from_millis(1));

/// The servers, as a file says it: `[topology]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct TopologyPart {
    /// How they stand to each other; where nothing is said, as the recipe is made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<TopologyKind>,
    /// How many replicas follow the primary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// How long a write takes from the primary to a replica, and its acknowledgement back; drawn for
    /// every piece of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<Distribution>,
    /// Servers that lag differently when they are replicas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replica: Vec<ReplicaPart>,
    /// How many sentinels watch the primary, lead clients to it and see to failovers, in the worlds that have real
    /// servers. In the virtual world a failover takes as long as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentinels: Option<u32>,
    /// How many independent servers there are, or nodes of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
}

/// What differs of one server while it is a replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct ReplicaPart {
    /// Which; they are numbered from 0, and server 0 is the primary to begin with.
    pub server: u32,
    /// How long a write takes to it, and its acknowledgement back.
    pub lag: Distribution,
}

/// How servers stand to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyKind {
    /// One server.
    #[default]
    Standalone,
    /// A primary, and replicas that follow it.
    Replicated,
    /// Servers that know nothing of each other.
    Independent,
    /// The nodes of a Redis Cluster. What a lock needs lies in one slot, which is server 0's.
    Cluster,
}

/// The servers, told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Standalone,
    /// A primary, server 0 to begin with, and replicas.
    Replicated {
        /// How many replicas.
        replicas: u32,
    },
    /// Servers that know nothing of each other.
    Independent {
        /// How many.
        nodes: u32,
    },
    /// A Redis Cluster. All that a lock has to do with it is the owner of its slot, server 0.
    Cluster {
        /// How many nodes.
        nodes: u32,
    },
}

/// What each server is, and keeps on its disk: `[server]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct ServerPart {
    /// What a modelled server is; where nothing is said, what the recipe asks for. A server that is not
    /// modelled is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub software: Option<Software>,
    /// Whether it keeps an append-only file, and when it syncs it.
    pub append_only: AppendOnly,
}

/// Which server is modelled. They differ in the commands that compare and set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Software {
    /// Redis 7.0, which has none.
    #[default]
    #[serde(rename = "redis-7.0")]
    Redis70,
    /// Redis 8.4: SET with IFEQ, DELEX.
    #[serde(rename = "redis-8.4")]
    Redis84,
    /// Valkey 9: SET with IFEQ, DELIFEQ.
    #[serde(rename = "valkey-9")]
    Valkey9,
}

impl Software {
    /// What a model of it has besides what Redis 7.0 has, to be put behind that version.
    pub const fn besides(self) -> &'static str {
        match self {
            Self::Redis70 => "",
            Self::Redis84 => " with DELEX and SET IFEQ, as in Redis 8.4",
            Self::Valkey9 => " with DELIFEQ and SET IFEQ, as in Valkey 9",
        }
    }
}

/// Whether a server keeps an append-only file, and when it syncs it (`appendfsync`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppendOnly {
    /// It keeps none: a restart begins empty.
    #[default]
    Off,
    /// Synced before every answer.
    Always,
    /// Synced once a second.
    Everysec,
    /// Written, and never synced while a run lasts (`appendfsync no`).
    Unsynced,
}

impl TopologyPart {
    /// How they stand to each other for a recipe that is made for these.
    pub fn kind(&self, made_for: Servers) -> TopologyKind {
        self.kind.unwrap_or(match made_for {
            Servers::One => TopologyKind::Standalone,
            Servers::Several => TopologyKind::Independent,
            Servers::Followed => TopologyKind::Replicated,
        })
    }

    /// How far a server is behind while it is a replica. Where a file has replicas and says nothing of it,
    /// writes are there at once.
    pub fn lag(&self, server: u32) -> Distribution {
        let own = self.replica.iter().rev().find(|it| it.server == server).map(|it| &it.lag);
        let unsaid = || self.kind.map_or(Distribution::Constant(LAG), |_| Distribution::default());
        own.or(self.lag.as_ref()).cloned().unwrap_or_else(unsaid)
    }

    /// The servers, told apart, for a recipe that is made for these.
    pub fn topology(&self, made_for: Servers) -> Topology {
        match self.kind(made_for) {
            TopologyKind::Standalone => Topology::Standalone,
            TopologyKind::Replicated => {
                Topology::Replicated { replicas: self.replicas.unwrap_or(REPLICAS) }
            }
            TopologyKind::Independent => {
                Topology::Independent { nodes: self.nodes.unwrap_or(NODES) }
            }
            TopologyKind::Cluster => Topology::Cluster { nodes: self.nodes.unwrap_or(CLUSTER) },
        }
    }
}

impl TopologyKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Replicated => "replicated",
            Self::Independent => "independent",
            Self::Cluster => "cluster",
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standalone => f.write_str("one"),
            Self::Replicated { replicas: 1 } => f.write_str("a primary and a replica"),
            Self::Replicated { replicas } => write!(f, "a primary and {replicas} replicas"),
            Self::Independent { nodes } => write!(f, "{nodes} independent servers"),
            Self::Cluster { nodes } => write!(f, "{nodes} nodes of a cluster"),
        }
    }
}

impl Topology {
    /// How many servers there are.
    pub const fn servers(self) -> u32 {
        match self {
            Self::Standalone => 1,
            Self::Replicated { replicas, .. } => 1 + replicas,
            Self::Independent { nodes } | Self::Cluster { nodes } => nodes,
        }
    }

    /// How many nodes lock code can connect to.
    pub const fn nodes(self) -> u32 {
        match self {
            Self::Standalone | Self::Replicated { .. } | Self::Cluster { .. } => 1,
            Self::Independent { nodes } => nodes,
        }
    }
}
