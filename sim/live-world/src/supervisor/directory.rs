//! The directory of a run's servers: readable by its owner alone, locked while its supervisor lives,
//! and removed with every process in it.
//!
//! Invariant: a process is killed only if its standard output or error is a server's log or a pipe in this directory,
//! or if it has the variable of programs that were started there. That is true of what was started there and its
//! children. Pids are not remembered: they may belong to other processes by now. A directory is swept only if it is
//! this user's and its supervisor is dead.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use super::protocol::{ANSWERS_VARIABLE, DIRECTORY_PREFIX, LOG_FILE, PIPES};

/// The file whose lock says that a supervisor lives.
const LOCK_FILE: &str = "lock";
/// How long to try to remove a directory; a process that was sent SIGKILL may take a while.
const CLEAR_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The directory, and the lock that says that it is in use.
pub(super) struct ServersDirectory {
    pub(super) path: PathBuf,
    _lock: Flock<File>,
}

impl ServersDirectory {
    /// Makes one in the directory for temporary files, readable by its owner alone.
    pub(super) fn make() -> io::Result<Self> {
        let path = tempfile::Builder::new()
            .prefix(DIRECTORY_PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?
            .keep()
            .canonicalize()?;
        // Under another name until it is locked, so that a lock file that can be locked always means
        // that its supervisor is dead.
        let new = path.join("lock.new");
        let file = private().create_new(true).open(&new)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        fs::rename(&new, path.join(LOCK_FILE))?;
        Ok(Self { path, _lock: lock })
    }

    /// The directory of a server, made if it is new.
    pub(super) fn server(&self, id: u32) -> io::Result<PathBuf> {
        let dir = self.path.join(format!("server-{id}"));
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        Ok(dir)
    }
}

/// Writes a file that nobody else may read.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    private().create(true).truncate(true).open(path)?.write_all(bytes)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Ends every process of a directory of servers and removes it. What cannot be removed in time is
/// left to the next [`sweep`].
pub(super) fn clear(root: &Path) {
    let end = Instant::now() + CLEAR_WITHIN;
    loop {
        for pid in processes(root) {
            // It may have ended meanwhile.
            let _ = kill(pid, Signal::SIGKILL);
        }
        let _ = fs::remove_dir_all(root);
        // Checked once more after the removal: a server that is started from now on finds no directory and ends
        // by itself.
        let is_clear = !root.exists() && processes(root).is_empty();
        if is_clear || Instant::now() >= end {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Removes what dead supervisors of this user have left in the temporary directory.
pub(super) fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let is_named = entry.file_name().to_string_lossy().starts_with(DIRECTORY_PREFIX);
        let Ok(path) = entry.path().canonicalize() else { continue };
        // A symbolic link is none of ours.
        let is_ours =
            entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw());
        if is_named && is_ours && is_dead(&path) {
            clear(&path);
        }
    }
}

/// Whether this directory belonged to a supervisor that is dead now.
fn is_dead(root: &Path) -> bool {
    let lock = root.join(LOCK_FILE);
    if !fs::symlink_metadata(&lock).is_ok_and(|it| it.is_file()) {
        return false;
    }
    let Ok(file) = File::open(&lock) else { return false };
    Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok()
}

/// The processes whose standard output or error is the log of a server or a pipe in this directory, and what these
/// have started.
fn processes(root: &Path) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let variable = [ANSWERS_VARIABLE.as_bytes(), b"=", root.as_os_str().as_bytes(), b"/"].concat();
    let of_root = |pid: &i32| {
        let proc = Path::new("/proc").join(pid.to_string());
        let writes_here = [1, 2].into_iter().any(|fd| {
            let file = fs::read_link(proc.join(format!("fd/{fd}"))).unwrap_or_default();
            // A file that has been removed is shown as `server.log (deleted)`.
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            file.starts_with(root)
                && [LOG_FILE, PIPES[1], PIPES[2]].iter().any(|it| name.starts_with(it))
        });
        // What a program has started may write elsewhere; it still inherits the variable that names its pipe.
        writes_here || {
            let variables = fs::read(proc.join("environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|it| it.starts_with(&variable))
        }
    };
    let numbers = entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
    numbers.filter(of_root).map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A process whose standard output is this file.
    fn writing_to(path: &Path) -> std::process::Child {
        let file = private().create(true).open(path).unwrap();
        Command::new("sleep").arg("600").stdout(file).stdin(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn a_directory_is_read_by_its_owner_alone() {
        let directory = ServersDirectory::make().unwrap();
        let server = directory.server(0).unwrap();
        write_private(&server.join("redis.conf"), b"requirepass x").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&directory.path), mode(&server)), (0o700, 0o700));
        assert_eq!(mode(&server.join("redis.conf")), 0o600);
        clear(&directory.path);
        assert!(!directory.path.exists());
    }

    #[test]
    fn only_processes_that_write_a_log_of_the_directory_are_ended() {
        let directory = ServersDirectory::make().unwrap();
        let server = directory.server(0).unwrap();
        let mut ours = writing_to(&server.join(LOG_FILE));
        // A process that only works in the directory, and a server of another directory.
        let mut reader = Command::new("sleep").arg("600").current_dir(&server).spawn().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let mut other = writing_to(&elsewhere.path().join(LOG_FILE));
        // The child is reaped meanwhile, as a supervisor or init would.
        let reaped = std::thread::spawn(move || ours.wait().unwrap());
        clear(&directory.path);
        assert!(!reaped.join().unwrap().success());
        assert!(reader.try_wait().unwrap().is_none() && other.try_wait().unwrap().is_none());
        for child in [&mut reader, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_directory_is_dead_only_once_its_supervisor_is() {
        let directory = ServersDirectory::make().unwrap();
        let path = directory.path.clone();
        assert!(!is_dead(&path), "it is held");
        drop(directory);
        assert!(is_dead(&path));
        clear(&path);
        let foreign = tempfile::Builder::new().prefix(DIRECTORY_PREFIX).tempdir().unwrap();
        assert!(!is_dead(foreign.path()), "no supervisor has ever held it");
        std::os::unix::fs::symlink("/etc/hostname", foreign.path().join(LOCK_FILE)).unwrap();
        assert!(!is_dead(foreign.path()), "a link is no lock of ours");
    }
}
