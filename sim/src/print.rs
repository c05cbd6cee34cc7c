//! What is said on stdout and stderr.
//!
//! Invariant: nobody has to listen. A reader that has gone away is no failure, a message that cannot
//! be written is lost, and neither ends a run; only results that could not be delivered although
//! somebody waits for them (a full disk behind a redirection) are a failure.

use std::io::{ErrorKind, Write};

use super::failure::Failure;

/// Prints results on stdout.
pub(super) fn results(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        // Whoever closed the pipe has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::unavailable_text(
            format!("the results cannot be written to stdout: {error}"),
            "make room where stdout is redirected to, or redirect it elsewhere",
        )),
    }
}

/// Prints a line on stderr.
pub(super) fn note(line: &str) {
    raw(&format!("{line}\n"));
}

/// Prints text on stderr as it is.
pub(super) fn raw(text: &str) {
    // Nobody is left to be told that nobody listens.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
