//! Times in pictures.
//!
//! Invariant: a time is a number of milliseconds, to the tenth.

use crate::format::count;

/// A time of the run in milliseconds, to the tenth.
pub(super) fn milliseconds(at_ns: u64) -> String {
    let tenths = at_ns.saturating_add(50_000) / 100_000;
    format!("{}.{}", count(tenths / 10), tenths % 10)
}
