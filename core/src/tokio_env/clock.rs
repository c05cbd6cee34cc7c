//! The monotonic clock of this process.
//!
//! Invariant: it has one origin for every environment of the process, so that their instants compare, and is never
//! zero, which stands for never.

use std::sync::OnceLock;

use crate::time::{Instant, span_ns};

#[expect(clippy::disallowed_methods, reason = "this is the environment that reads the clock")]
pub(super) fn monotonic() -> Instant {
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    let since = ORIGIN.get_or_init(std::time::Instant::now).elapsed();
    Instant::from_ns(span_ns(since).saturating_add(1))
}
