//! Charts: how long operations took, by percentile and over time, and how something grows with something else.
//!
//! Invariant: the same figures give the same picture on every machine: the font is embedded, and one
//! painting serves SVG and PNG.

pub(crate) mod axis;
mod curve;
mod error;
pub(crate) mod font;
mod growth;
pub(crate) mod label_rows;
pub(crate) mod labels;
mod latency_chart;
pub(crate) mod layout;
mod over_time;
pub(crate) mod palette;
pub(crate) mod pen;
pub(crate) mod render;

pub use error::ChartError;
pub use growth::{Growth, Series};
pub use latency_chart::LatencyChart;
pub use over_time::LatencyOverTime;
pub use render::{Drawing, Hover, png, svg};
