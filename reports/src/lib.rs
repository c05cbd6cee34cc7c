//! What a run looks like: terminal summary, charts, HTML and the files of the run directory.
//!
//! Invariant: the same result and history give the same bytes; no clock is read and no chance drawn.

pub mod chart;
pub mod compared;
pub mod directory;
mod error;
pub mod file;
mod format;
pub mod hlog;
pub mod html;
mod incident;
pub mod invariant_table;
mod junit;
pub mod latency;
pub mod manifest;
mod markdown;
pub mod matrix;
pub mod soak;
pub mod terminal;
pub mod tuning;
pub mod write;

pub use directory::{RunDirectory, WriteError};
pub use format::{in_markdown, plain, plain_lines};

#[cfg(test)]
mod support;
