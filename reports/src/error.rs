//! Why a run cannot be written down.
//!
//! Invariant: every message says which path, what is wrong, and what to do next.

use std::io;
use std::path::PathBuf;

/// Why a run cannot be written down: at which path, and what is wrong there.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The directory cannot be made or written.
    #[error("cannot make the run directory {}: {}; choose another place with --out", .0.display(), .1)]
    Create(PathBuf, #[source] io::Error),
    /// A file cannot be written.
    #[error("cannot write {}: {}; make room or choose another place with --out", .0.display(), .1)]
    Write(PathBuf, #[source] io::Error),
    /// A file that was asked for by its path cannot be written.
    #[error(
        "cannot write {}: {}; name a file in a directory that is there, can be written, and has room",
        .0.display(), .1
    )]
    File(PathBuf, #[source] io::Error),
    /// The link to the latest run cannot be set; the run itself is written.
    #[error(
        "cannot set the link {}: {}; the run itself is written, and a directory that allows links \
         can be chosen with --out",
        .0.display(), .1
    )]
    Link(PathBuf, #[source] io::Error),
}
