//! The run directory: where a run's files go, so that none is ever half there.
//!
//! Invariant: a file bears its final name only when it is whole and on the disk. Whatever fails, no
//! temporary file and no empty directory of ours stays behind. The link `latest` leads to a run at every
//! moment. Deliberately absent: deleting files that are whole, and a clock; the caller
//! says when the run began.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::file::beside;

pub use crate::error::WriteError;

/// How many runs of one scenario with one seed may begin within one second.
const MOST_COLLISIONS: u32 = 1000;

/// What became of the link to the run that was written last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Latest {
    /// This link leads to the run now.
    Set(PathBuf),
    /// Something that is no link to a run beside it has this name. It is somebody's, and was left alone.
    Taken(PathBuf),
}

/// The directory of one run. Dropped while it is still empty, it is removed.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// Directories above it that were made for it, from the innermost out.
    made_above: Vec<PathBuf>,
}

impl RunDirectory {
    /// Makes `<out>/<scenario>/<stamp>-<seed>/`, with a suffix `-2`, `-3` where that exists, and
    /// tries whether it can be written, so that a run of minutes does not end in vain.
    ///
    /// What in `scenario` and `utc_stamp` could lead elsewhere becomes a dash.
    ///
    /// # Errors
    /// Where no directory can be made or written there.
    pub fn create(
        out: &Path,
        scenario: &str,
        utc_stamp: &str,
        seed: u64,
    ) -> Result<Self, WriteError> {
        let parent = out.join(file_name(scenario));
        let made_above = missing_above(&parent);
        let name = format!("{}-{seed}", file_name(utc_stamp));
        let refused = |path: &Path, source| {
            made_above.iter().for_each(|dir| remove_if_empty(dir));
            Err(WriteError::Create(path.to_owned(), source))
        };
        if let Err(source) = fs::create_dir_all(&parent) {
            return refused(&parent, source);
        }
        for attempt in 1..=MOST_COLLISIONS {
            let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
            let path = parent.join(format!("{name}{suffix}"));
            match fs::create_dir(&path) {
                Ok(()) => {
                    let directory = Self { path, made_above };
                    directory.try_out()?;
                    return Ok(directory);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return refused(&path, source),
            }
        }
        refused(&parent.join(name), io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file: what `fill` writes stands under `name` when this returns, or nothing does.
    ///
    /// # Errors
    /// Where `fill` fails, or the disk does.
    pub fn write(
        &self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        self.write_at(name, |file| {
            let mut buffer = BufWriter::new(file.as_file_mut());
            fill(&mut buffer)?;
            buffer.flush()
        })
    }

    /// The same for what must be given a path to write to, whose ending is that of `name`.
    ///
    /// # Errors
    /// Where `fill` fails, or the disk does.
    pub fn write_by_path(
        &self,
        name: &str,
        fill: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        self.write_at(name, |file| fill(file.path()))
    }

    fn write_at(
        &self,
        name: &str,
        fill: impl FnOnce(&mut NamedTempFile) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        let path = self.path.join(name);
        let write = || {
            let mut file = beside(&self.path, Path::new(name))?;
            fill(&mut file)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)
        };
        write().map(drop).map_err(|source| WriteError::Write(path, source))
    }

    fn try_out(&self) -> Result<(), WriteError> {
        let write = || {
            let mut file = beside(&self.path, Path::new("trial"))?;
            file.write_all(b"picklock")?;
            file.as_file().sync_all()
        };
        write().map_err(|source| WriteError::Create(self.path.clone(), source))
    }

    /// Says that the run is written: its names are made to last, and `latest` beside it leads to it.
    ///
    /// # Errors
    /// Where the link cannot be set.
    pub fn finish(self) -> Result<Latest, WriteError> {
        // Not every file system can do this for a directory; the files themselves are safe.
        let _ = File::open(&self.path).and_then(|dir| dir.sync_all());
        let in_parent = "a run's directory was made in another";
        let (parent, name) = self.path.parent().zip(self.path.file_name()).expect(in_parent);
        let link = parent.join("latest");
        if link.symlink_metadata().is_ok() && !is_latest(&link) {
            return Ok(Latest::Taken(link));
        }
        // Renamed over the old link, which leads to a run until then.
        let new = Builder::new().prefix(".latest-").make_in(parent, |path| symlink(name, path));
        match new.and_then(|new| new.persist(&link).map_err(|error| error.error)) {
            Ok(()) => Ok(Latest::Set(link)),
            Err(source) => Err(WriteError::Link(link, source)),
        }
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // Fails where there is a file in it, and then it shall stay.
        remove_if_empty(&self.path);
        for dir in &self.made_above {
            remove_if_empty(dir);
        }
    }
}

/// Whether it is a link as [`RunDirectory::finish`] makes it: to a name beside it, of a directory that may be gone.
fn is_latest(link: &Path) -> bool {
    let is_beside = |target: PathBuf| {
        let mut names = target.components();
        matches!((names.next(), names.next()), (Some(Component::Normal(_)), None))
    };
    fs::read_link(link).is_ok_and(is_beside) && link.metadata().map_or(true, |it| it.is_dir())
}

fn remove_if_empty(dir: &Path) {
    let _ = fs::remove_dir(dir);
}

/// The directories that have to be made for this one, from the innermost out.
fn missing_above(dir: &Path) -> Vec<PathBuf> {
    let missing = dir.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.exists());
    missing.map(Path::to_owned).collect()
}

/// The text as the name of one file, which leads nowhere else and is not hidden.
fn file_name(text: &str) -> String {
    let fit = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = text.chars().map(|c| if fit(c) { c } else { '-' }).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("-{rest}"),
        None if name.is_empty() => "unnamed".to_owned(),
        None => name,
    }
}

#[cfg(test)]
mod tests;
