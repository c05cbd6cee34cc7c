//! A file of JSON that a long command saves again and again, so that it can be gone on with.
//!
//! Invariant: it is replaced as a whole, and only if it is still what this process has read or saved. What another
//! process has found is never written over.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use reports::file;
use serde::Serialize;

use super::failure::Failure;
use super::input;
use super::output::json_text;

/// Such a file, and what it had when this process looked last.
pub(super) struct SavedFile {
    path: PathBuf,
    /// The option that names its directory.
    option: &'static str,
    /// None before anything is there.
    text: Option<String>,
}

impl SavedFile {
    /// The file at this path in the directory that `option` names. `text` is what it has, if it is to be gone on with.
    /// The directory is made.
    pub(super) fn new(
        path: PathBuf,
        option: &'static str,
        text: Option<String>,
    ) -> Result<Self, Failure> {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.map_err(|error| Failure::unwritable(&path, &error, option))?;
        file::check(&path).map_err(|error| Failure::unwritable(&path, &error, option))?;
        Ok(Self { path, option, text })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Saves this, unless another process has written to the file.
    pub(super) fn save(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = json_text(value)?;
        let Self { path, option, .. } = self;
        // Whoever saves in this directory waits, so that nobody writes between the look and the replacement. Not every
        // file system can lock a directory; there the look alone has to do.
        let directory = path.parent().and_then(|it| File::open(it).ok());
        let _locked = directory.map(|it| Flock::lock(it, FlockArg::LockExclusive));
        let there = match input::text(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            there => Some(there.map_err(|error| Failure::full(path, &error, option))?),
        };
        if there.is_some() && there != self.text {
            return Err(Failure::unavailable_text(
                format!("{} has been written by another picklock meanwhile", path.display()),
                format!(
                    "what this one has found since is lost: give each a directory of its own with {option}"
                ),
            ));
        }
        file::write(path, &text).map_err(|error| Failure::full(path, &error, option))?;
        self.text = Some(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_has_written_is_left_as_it_is() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("made/by-both.json");
        let open = |text: Option<&str>| {
            SavedFile::new(path.clone(), "--shards", text.map(str::to_owned)).unwrap()
        };
        let [mut one, mut other] = [open(None), open(None)];
        one.save(&1).unwrap();
        // Both have found nothing there, and the other one comes too late.
        assert!(other.save(&2).unwrap_err().first_line().contains("by another picklock"));
        let mut other = open(Some("1\n"));
        other.save(&1).unwrap();
        one.save(&3).unwrap();
        other.save(&2).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "3\n");
        // Removed, it is written anew.
        fs::remove_file(&path).unwrap();
        other.save(&2).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
    }
}
