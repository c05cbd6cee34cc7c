//! The watcher: a third process, so that servers end even if picklock and the supervisor are killed
//! at the same instant.
//!
//! Invariant: the only writing end of its standard input is the supervisor's, so it wakes up when
//! the supervisor has ended in any way at all. After an orderly end it finds nothing to do.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use nix::sys::signal::SigSet;

use super::directory;
use std::os::unix::process::CommandExt;

/// The hidden command under which the binary becomes the watcher; the directory follows.
pub(super) const COMMAND: &str = "__watch";

/// Watches over the servers of a directory.
#[derive(Debug)]
pub(super) struct Watcher {
    process: Child,
}

impl Watcher {
    /// Starts one for this directory.
    pub(super) fn start(root: &Path) -> io::Result<Self> {
        let process = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .arg(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to the supervisor's group must not end it.
            .process_group(0)
            .spawn()?;
        Ok(Self { process })
    }

    /// Waits until it has removed what is left.
    pub(super) fn end(mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Waits for the end of standard input and clears the directory away. The caller is the whole
/// program.
pub(super) fn main(root: Option<PathBuf>) -> ExitCode {
    let Some(root) = root else { return ExitCode::FAILURE };
    // Only SIGKILL may end it before the supervisor ends.
    if SigSet::all().thread_block().is_err() {
        return ExitCode::FAILURE;
    }
    // An error means the same as the end.
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    directory::clear(&root);
    ExitCode::SUCCESS
}
