//! `manifest.json`: what was run, with what, and where, so that it can be run again.
//!
//! Invariant: everything that was drawn or chosen stands here as it was used, defaults included.

use std::collections::BTreeMap;

use scenarios::result::ServerFacts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format.
pub const FORMAT: &str = "picklock/manifest/1";

/// What was run, with what, and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The format: `picklock/manifest/1`.
    pub format: String,
    /// The version of picklock.
    pub picklock: String,
    /// The scenario's name.
    pub scenario: String,
    /// The scenario as it ran, every change from the command line included.
    pub scenario_as_run: Value,
    /// The recipe under test.
    pub lock: String,
    /// The world's name.
    pub world: String,
    /// The server it ran against.
    pub server: ServerFacts,
    /// What every drawn number of picklock's own follows from.
    pub seed: u64,
    /// Every option with its value.
    pub options: BTreeMap<String, Value>,
    /// The command line that runs the same again.
    pub replay: String,
    /// The machine.
    pub platform: Platform,
    /// When the run began, in UTC, such as `2026-11-21T06:15:00Z`.
    pub started_utc: String,
    /// The files of the run directory, in the order in which they were written.
    #[serde(default)]
    pub files: Vec<String>,
}

/// The machine, as the caller knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// The operating system, such as `linux`.
    pub os: String,
    /// The processor's architecture, such as `x86_64`.
    pub arch: String,
}
