//! `report.html`: a run on one page that needs nothing beside it.
//!
//! Invariant: no script, and nothing is fetched; every text is escaped, the chart alone is set in as it
//! is, for it was drawn here.

mod document;
mod figures;
mod page;
mod sweep;
mod verdicts;

pub use document::document;
pub use page::{Chart, page};
pub use sweep::{SweptPage, sweep_page};
