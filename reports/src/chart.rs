//! Charts: how long operations took by percentile, and how something grows with something else.
//!
//! Invariant: the same figures give the same picture on every machine: the font is embedded, and one
//! painting serves SVG and PNG. Deliberately absent: the course of the run over time, which is another
//! picture.

mod axis;
mod caption;
mod curve;
mod font;
mod growth;
mod labels;
mod layout;
mod paint;
mod palette;
mod pen;
mod picture;

pub use caption::Caption;
pub use growth::{Growth, Series};
pub use picture::{ChartError, png, svg};
