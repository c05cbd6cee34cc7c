//! Printing on stdout and stderr.
//!
//! Invariant: a closed pipe is no failure, and a message that cannot be written is lost: neither ends a run. Only
//! results that cannot be written for another reason (a full disk) are a failure.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use reports::plain_lines;

use super::failure::Failure;

pub(super) fn results(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        // The reader closed the pipe: it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::unavailable_text(
            format!("cannot write the results to stdout: {error}"),
            "free space where stdout is redirected to, or redirect it elsewhere",
        )),
    }
}

/// Prints a message on stderr. It may quote names and texts of others, so it is escaped.
pub(super) fn note(text: &str) {
    raw(&format!("{}\n", plain_lines(text)));
}

/// Says that a named pipe is waited for: opening it blocks until somebody writes. A shell's own pipe has a writer.
pub(super) fn note_pipe(path: &Path) {
    let is_pipe = |path: &Path| path.metadata().is_ok_and(|it| it.file_type().is_fifo());
    if !path.starts_with("/dev") && !path.starts_with("/proc") && is_pipe(path) {
        note(&format!("note: {} is a pipe: waiting for what writes to it", path.display()));
    }
}

/// Prints text on stderr as it is.
pub(super) fn raw(text: &str) {
    // There is nowhere to report a failure of stderr.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
