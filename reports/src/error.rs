//! Why a run cannot be written down.
//!
//! Invariant: every message says which path, what is wrong, and what to do next.

use std::io;
use std::path::PathBuf;

/// Why a run cannot be written down.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The directory cannot be made or written.
    #[error(
        "cannot make the run directory {}: {source}; choose another place with --out",
        path.display()
    )]
    Create {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(
        "cannot write {}: {source}; make room or choose another place with --out",
        path.display()
    )]
    Write {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A file that was asked for by its path cannot be written.
    #[error(
        "cannot write {}: {source}; name a file in a directory that is there and can be written",
        path.display()
    )]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// The link to the latest run cannot be set; the run itself is written.
    #[error(
        "cannot set the link {}: {source}; the run itself is written, and a directory that allows \
         links can be chosen with --out",
        path.display()
    )]
    Link {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
}
