//! What picklock tries, and what it claims of it.

mod call;
pub mod catalog;
pub mod history;
pub mod nearest;
pub mod recipe;
pub mod record;
pub mod result;
pub mod scenario;
pub mod span;
pub mod verdict;
