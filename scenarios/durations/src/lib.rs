//! Durations as people write them, and distributions from which they are drawn.

pub mod distribution;
pub mod span;
