//! The latency chart: how long operations took by percentile, a line per kind of operation.
//!
//! Invariant: the same distributions give the same picture on every machine: the font is embedded,
//! and one painting serves SVG and PNG. Deliberately absent: the course of the run over time, which
//! is another picture.

mod axis;
mod caption;
mod curve;
mod font;
mod labels;
mod paint;
mod palette;
mod pen;
mod picture;

pub use caption::Caption;
pub use picture::{ChartError, png, svg};
