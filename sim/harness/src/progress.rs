//! How far many runs in a row have come, and how to end them early.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// Shared between those who run and those who watch.
#[derive(Debug, Default)]
pub struct BatchProgress {
    /// How many schedules of a sweep, or pairs of a matrix, have been run.
    pub done: AtomicU64,
    /// Once true, no further schedule is begun.
    pub stop: AtomicBool,
}
