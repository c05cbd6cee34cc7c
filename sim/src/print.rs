//! Printing on stdout and stderr.
//!
//! Invariant: a closed pipe is no failure, and a message that cannot be written is lost: neither ends a run. Only
//! results that cannot be written for another reason (a full disk) are a failure.

use std::io::{ErrorKind, Write};

use super::failure::Failure;

/// Prints results on stdout.
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

/// Prints a line on stderr.
pub(super) fn note(line: &str) {
    raw(&format!("{line}\n"));
}

/// Prints text on stderr as it is.
pub(super) fn raw(text: &str) {
    // There is nowhere to report a failure of stderr.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
