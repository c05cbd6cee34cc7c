//! The first line of a history: what kind of run it was.
//!
//! Invariant: everything a checker needs besides the events stands here, so that a history can be
//! judged again from its file alone.

use serde::{Deserialize, Serialize};

/// The version of the format.
pub const FORMAT: &str = "picklock/history/1";

/// What kind of run a history is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The format: `picklock/history/1`.
    pub format: String,
    /// The scenario's name.
    pub scenario: String,
    /// The recipe's name.
    pub lock: String,
    /// Whether the recipe keeps a validity: then belief ends with it.
    pub tracked: bool,
    /// Whether the recipe locks at all; false for the one that does not.
    pub locks: bool,
    /// The world's name.
    pub world: String,
    /// What every drawn number of picklock's own follows from.
    pub seed: u64,
    /// How many clients; they are numbered from 1, and 0 is the run itself.
    pub clients: u32,
    /// The key the lock is kept under.
    pub lock_key: String,
    /// How long the key lives, in nanoseconds.
    pub ttl_ns: u64,
    /// How far a server's clock may differ from the one events are stamped with over one TTL, in
    /// nanoseconds, the grain of its expiry included: a hold counts as certain only so much less.
    pub margin_ns: u64,
    /// How many prizes the pool held in the beginning, where there is a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prizes: Option<i64>,
}
