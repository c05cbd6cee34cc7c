//! The link `latest` to the run that was written last.
//!
//! Invariant: whoever follows the link finds a run, at every moment: a new link is renamed over the
//! old one. What is not a link is somebody's file and is left alone.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::WriteError;

const NAME: &str = "latest";

/// What became of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Latest {
    /// This link leads to the run now.
    Set(PathBuf),
    /// Something that is no link has this name, so it was left alone.
    Taken(PathBuf),
    /// This system has no such links.
    Unsupported,
}

/// Makes `latest` beside the run lead to it.
pub(super) fn set(run: &Path) -> Result<Latest, WriteError> {
    let (Some(parent), Some(target)) = (run.parent(), run.file_name()) else {
        return Ok(Latest::Unsupported);
    };
    let link = parent.join(NAME);
    match link.symlink_metadata() {
        Ok(found) if !found.file_type().is_symlink() => return Ok(Latest::Taken(link)),
        // The rename below decides what else there is to say.
        Ok(_) | Err(_) => {}
    }
    match replace(parent, Path::new(target), &link) {
        Ok(true) => Ok(Latest::Set(link)),
        Ok(false) => Ok(Latest::Unsupported),
        Err(source) => Err(WriteError::Link { path: link, source }),
    }
}

/// Sets the link; false where there are none.
#[cfg(unix)]
fn replace(parent: &Path, target: &Path, link: &Path) -> io::Result<bool> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".latest-");
    let new = builder.make_in(parent, |path| std::os::unix::fs::symlink(target, path))?;
    new.persist(link).map_err(|error| error.error)?;
    Ok(true)
}

#[cfg(not(unix))]
fn replace(_: &Path, _: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}
