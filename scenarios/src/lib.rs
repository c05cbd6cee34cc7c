//! What picklock tries, and what it claims of it.

pub use durations::{distribution, span};

mod call;
pub mod catalog;
pub mod format;
pub mod judge;
pub mod matrix;
pub mod recipe;
pub mod record;
pub mod result;
pub mod scenario;
pub mod soak;
pub mod sweep;
pub mod topology;
pub mod trial;
pub mod workload;
