//! Pages: a run, runs compared, a sweep, a matrix, a soak. Each needs nothing beside it.
//!
//! Invariant: no script, and nothing is fetched; every text is escaped, pictures alone are set in as they
//! are, for they were drawn here.

mod compare;
mod document;
mod figures;
mod matrix;
mod page;
mod picture;
mod soak;
mod sweep;
mod verdicts;

pub use compare::compare_page;
pub use document::document;
pub use matrix::{MatrixSection, matrix_page};
pub use page::{RunPictures, page};
pub use picture::Picture;
pub use soak::soak_page;
pub use sweep::{SweptPage, sweep_page};
pub use verdicts::FailingRun;
