//! A run that is compared with others, as it was stored.
//!
//! Invariant: what it found, how it was run and how long its operations took are of one run.

use scenarios::result::RunResult;

use crate::latency::Latencies;
use crate::manifest::Manifest;

/// A run that is compared with others.
#[derive(Clone, Debug)]
pub struct ComparedRun {
    /// Where it is stored, as its user named it.
    pub directory: String,
    /// What it found.
    pub result: RunResult,
    /// How it was run.
    pub manifest: Manifest,
    /// How long its operations took.
    pub latencies: Latencies,
}

impl ComparedRun {
    /// Its number and its recipe, as lines of a chart are called.
    pub(crate) fn name(&self, number: usize) -> String {
        format!("{number}: {}", self.result.lock)
    }
}
