//! Files that a user named, to be read whole.
//!
//! Invariant: only regular files are read. A device has no end, and a pipe makes whoever opens it wait.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;

/// Opens a regular file, or one to which links lead.
pub(super) fn open(path: &Path) -> io::Result<File> {
    // Without this flag opening a pipe waits for who writes to it. Regular files do not heed it.
    let flag = OFlag::O_NONBLOCK.bits();
    let file = File::options().read(true).custom_flags(flag).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file: copy it into one")),
    }
}

/// The bytes of a regular file.
pub(super) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map(|_| bytes)
}

/// The text of a regular file.
pub(super) fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text).map(|_| text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_regular_files_are_read_and_links_are_followed() {
        let room = tempfile::tempdir().unwrap();
        let at = |name: &str| room.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        assert_eq!(text(&at("file")).unwrap(), "text");
        assert_eq!(bytes(&at("link")).unwrap(), b"text");
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        for name in ["pipe", "zero", "."] {
            let refused = text(&at(name)).unwrap_err();
            assert_eq!(refused.to_string(), "it is no regular file: copy it into one", "{name}");
        }
        assert_eq!(text(&at("missing")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
