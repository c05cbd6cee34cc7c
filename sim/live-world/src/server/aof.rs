//! What a loss of power leaves of a server's append-only file.
//!
//! Invariant: what a killed process has written survives in the page cache, so the file is cut to what was certainly
//! on the disk, and no further. Its base and its manifest are synced when they are made, and stay.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::page::Page;

/// The directory of the parts of the file, and how the name of the growing part ends.
const DIRECTORY: &str = "appendonlydir";
const GROWS: &str = ".incr.aof";
/// The only file before version 7.
const ALONE: &str = "appendonly.aof";

/// Where a file was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CutAt {
    /// How many bytes were on the disk.
    pub(crate) kept: u64,
    /// How many had been written.
    pub(crate) written: u64,
}

/// Cuts the append-only file of a server that has been killed to what was on the disk; none if it has no such file.
pub(super) fn lose_unsynced(dir: &Path, page: &Page) -> io::Result<Option<CutAt>> {
    let Some(file) = growing(dir)? else { return Ok(None) };
    let about = file.metadata()?;
    let written = about.len();
    let kept = page.synced(about.ino())?.min(written);
    file.set_len(kept)?;
    Ok(Some(CutAt { kept, written }))
}

/// Whether all that has been written so far is on the disk.
pub(super) fn is_synced(dir: &Path, page: &Page) -> io::Result<bool> {
    let Some(file) = growing(dir)? else { return Ok(true) };
    let about = file.metadata()?;
    Ok(about.len() > 0 && page.synced(about.ino())? == about.len())
}

/// The part of a server's file that grows.
fn growing(dir: &Path) -> io::Result<Option<File>> {
    let mut last: Option<(u64, PathBuf)> = None;
    match fs::read_dir(dir.join(DIRECTORY)) {
        Ok(entries) => {
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let Some(stem) = name.strip_suffix(GROWS) else { continue };
                let number = stem.rsplit('.').next().and_then(|it| it.parse().ok()).unwrap_or(0);
                if last.as_ref().is_none_or(|(highest, _)| *highest <= number) {
                    last = Some((number, path));
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            last = Some((0, dir.join(ALONE))).filter(|(_, path)| path.exists());
        }
        Err(error) => return Err(error),
    }
    last.map(|(_, path)| OpenOptions::new().read(true).write(true).open(path)).transpose()
}
