//! What picklock tries, and what it claims of it.

pub mod history;
pub mod result;
pub mod verdict;
