//! A file that a user named by its path.
//!
//! Invariant: a regular file is replaced as a whole or not at all, and stays behind the links that lead
//! to it, with its owner and its permissions. Anything else that has the name (a device, a pipe, our own
//! stdout, a descriptor of ours) is written to and stays what it is.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::error::WriteError;

/// So many links in a row lead nowhere, as the kernel has it, too.
const LINKS_MOST: usize = 40;

/// Writes the text to what has this name.
///
/// # Errors
/// Where there is no such directory, or what is there does not take it.
pub fn write(path: &Path, text: &str) -> Result<(), WriteError> {
    let written = match stream(path) {
        Ok(Some(mut stream)) => match stream.write_all(text.as_bytes()) {
            // Whoever closed the pipe has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written,
        },
        Ok(None) => replace(path, text.as_bytes()),
        Err(error) => Err(error),
    };
    written.map_err(|source| failed(path, source))
}

/// Opens it to be written bit by bit: a regular file is emptied.
///
/// # Errors
/// What the system says.
pub fn open(path: &Path) -> io::Result<File> {
    stream(path)?.map_or_else(|| File::create(path), Ok)
}

/// Whether [`write()`] would find a place, so that nobody waits for what cannot be written. Nothing is
/// changed, and a pipe that nobody reads yet is not waited for.
///
/// # Errors
/// As those of [`write()`].
pub fn check(path: &Path) -> Result<(), WriteError> {
    try_out(path).map_err(|source| failed(path, source))
}

fn try_out(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() || own(&found)?.is_some() || is_descriptor(path) => {
            return Ok(());
        }
        _ => {}
    }
    let target = behind_links(path)?;
    match existing(&target)? {
        Some(_) => Ok(()),
        None => beside(parent(&target), &target).map(drop),
    }
}

fn failed(path: &Path, source: io::Error) -> WriteError {
    WriteError::File(path.to_owned(), source)
}

/// What is there, to be written to as it is; nothing where a regular file is or may be.
fn stream(path: &Path) -> io::Result<Option<File>> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    match own(&found)? {
        Some(own) => Ok(Some(own)),
        // As a log has it that others write to as well.
        None if is_descriptor(path) => File::options().append(true).open(path).map(Some),
        None if found.is_file() => Ok(None),
        None => File::options().write(true).open(path).map(Some),
    }
}

/// Our own stdout or stderr, where that is what was found. It may be a file, to which other results go as
/// well, so it is written to where it stands; and as a socket it could not be opened by its name at all.
fn own(found: &Metadata) -> io::Result<Option<File>> {
    for own in [io::stdout().as_fd(), io::stderr().as_fd()] {
        let own = File::from(own.try_clone_to_owned()?);
        let about = own.metadata()?;
        if (about.dev(), about.ino()) == (found.dev(), found.ino()) {
            return Ok(Some(own));
        }
    }
    Ok(None)
}

/// Writes beside and renames, so that a reader sees the old text or the new one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = behind_links(path)?;
    let existing = existing(&target)?;
    let renamed = beside(parent(&target), &target).and_then(|mut new| {
        // Its own way to write would name the temporary file in an error.
        new.as_file_mut().write_all(bytes)?;
        if let Some(existing) = &existing {
            keep(new.as_file(), &existing.metadata()?)?;
        }
        new.as_file().sync_all()?;
        new.persist(&target).map(drop).map_err(|error| error.error)
    });
    match (renamed, existing) {
        // The directory takes no other file, or this one is mounted by itself; it can be written all the
        // same.
        (Err(error), Some(mut there)) if is_of_the_directory(error.kind()) => {
            there.set_len(0)?;
            there.write_all(bytes)?;
            there.sync_all()
        }
        (renamed, _) => renamed,
    }
}

fn is_of_the_directory(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::ResourceBusy
    )
}

/// Gives the new file the owner and the permissions of the old one.
fn keep(new: &File, old: &Metadata) -> io::Result<()> {
    let of_new = new.metadata()?;
    if (of_new.uid(), of_new.gid()) != (old.uid(), old.gid()) {
        fchown(new, Some(old.uid()), Some(old.gid()))?;
    }
    new.set_permissions(old.permissions())
}

/// The file that is there already. One that its owner has made read-only is not to be written.
fn existing(target: &Path) -> io::Result<Option<File>> {
    match File::options().write(true).open(target) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// Where the links at this path lead, though nothing may be there yet.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    // The last is no link, or not there.
    let end = links(path).find(|it| fs::read_link(it).is_err());
    end.ok_or_else(|| io::Error::other("its links lead in a circle"))
}

/// Whether the path leads to a descriptor of this process, by its number: `/dev/fd/3`.
fn is_descriptor(path: &Path) -> bool {
    let Ok(ours) = fs::canonicalize("/proc/self/fd") else { return false };
    links(path).any(|it| fs::canonicalize(parent(&it)).is_ok_and(|directory| directory == ours))
}

/// The path, where the link there leads, and so on.
fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    let next = |it: &PathBuf| fs::read_link(it).ok().map(|target| parent(it).join(target));
    std::iter::successors(Some(path.to_owned()), next).take(LINKS_MOST)
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A temporary file in this directory, which is the final one's: renaming works only within a file
/// system.
pub(crate) fn beside(directory: &Path, name: &Path) -> io::Result<NamedTempFile> {
    let ending = name.extension().and_then(|it| it.to_str());
    let suffix = ending.map(|it| format!(".{it}")).unwrap_or_default();
    let mut builder = Builder::new();
    builder.prefix(".writing-").suffix(&suffix);
    // A temporary file is for its owner alone; a report is for whom the umask allows.
    builder.permissions(Permissions::from_mode(0o666));
    builder.tempfile_in(directory).map_err(|error| {
        // It names the temporary file, which nobody knows.
        let text = error.to_string();
        let why = text.split_once(" at path ").map_or(&*text, |(why, _)| why);
        io::Error::new(error.kind(), why)
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{FileTypeExt, symlink};

    use super::*;

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_regular_file_is_replaced_and_keeps_its_permissions() {
        let room = tempfile::tempdir().unwrap();
        let file = room.path().join("r.json");
        check(&file).unwrap();
        assert_eq!(names(room.path()), 0, "looking leaves nothing behind");
        write(&file, "first, and longer").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(&file).unwrap();
        check(&file).unwrap();
        write(&file, "second").unwrap();
        let after = fs::metadata(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "second");
        assert_eq!(after.mode(), before.mode());
        assert_ne!(after.ino(), before.ino(), "who reads the old one still reads it whole");
        assert_eq!(names(room.path()), 1);
    }

    #[test]
    fn a_link_stays_and_its_file_is_written() {
        let room = tempfile::tempdir().unwrap();
        let at = |name: &str| room.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        symlink("deep/link", at("link")).unwrap();
        symlink("../file", at("deep/link")).unwrap();
        // Nothing is there yet, and then something is.
        for text in ["first", "second"] {
            check(&at("link")).unwrap();
            write(&at("link"), text).unwrap();
            assert_eq!(fs::read_to_string(at("file")).unwrap(), text);
            assert!(at("link").is_symlink() && at("deep/link").is_symlink());
        }
        symlink("circle", at("circle")).unwrap();
        assert!(check(&at("circle")).is_err() && write(&at("circle"), "x").is_err());
    }

    #[test]
    fn a_device_is_written_to_and_stays_one() {
        let room = tempfile::tempdir().unwrap();
        for (device, takes) in [("/dev/null", true), ("/dev/full", false)] {
            let link = room.path().join(device.trim_start_matches("/dev/"));
            symlink(device, &link).unwrap();
            for path in [Path::new(device), &link] {
                check(path).unwrap();
                assert_eq!(write(path, "text").is_ok(), takes, "{path:?}");
                assert!(fs::metadata(path).unwrap().file_type().is_char_device(), "{path:?}");
            }
            assert!(link.is_symlink());
        }
    }

    #[test]
    fn a_descriptor_is_written_behind_what_its_file_has() {
        let room = tempfile::tempdir().unwrap();
        let (log, link) = (room.path().join("log"), room.path().join("link"));
        fs::write(&log, "earlier\n").unwrap();
        let opened = File::options().append(true).open(&log).unwrap();
        let number = opened.as_raw_fd();
        symlink(format!("/dev/fd/{number}"), &link).unwrap();
        let names = [format!("/proc/self/fd/{number}"), format!("/dev/fd/{number}")];
        for path in [Path::new(&names[0]), Path::new(&names[1]), &link] {
            check(path).unwrap();
            write(path, "text\n").unwrap();
        }
        assert_eq!(fs::read_to_string(&log).unwrap(), "earlier\ntext\ntext\ntext\n");
        assert_eq!(fs::metadata(&log).unwrap().ino(), opened.metadata().unwrap().ino());
    }

    #[test]
    fn what_cannot_be_written_is_said_before_and_after() {
        let room = tempfile::tempdir().unwrap();
        for path in [room.path().to_owned(), room.path().join("missing").join("r.json")] {
            let [before, after] = [check(&path).unwrap_err(), write(&path, "x").unwrap_err()];
            assert!(before.to_string().contains("name a file"), "{before}");
            assert!(after.to_string().contains("name a file"), "{after}");
        }
    }
}
