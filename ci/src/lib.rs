//! The rules of the house that neither rustc nor clippy knows, as checks over a tree of files.
//!
//! Invariant: a check reads only the files and the metadata it is given, so its tests need no
//! repository. Deliberately absent: a full parser of Rust; masking comments and literals is enough.

pub mod rust;
pub mod tidy;
