//! Ctrl-C and SIGTERM: the run is cut short, and its partial report is written.
//!
//! Invariant: after the first signal picklock ends by itself, within bounds; it never dies in the
//! middle of writing a file.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Turns true with the first SIGINT, SIGTERM or SIGHUP. Belongs to the tokio runtime it is called on.
///
/// # Errors
/// Where the system does not let signals be received.
pub(super) fn watch() -> std::io::Result<watch::Receiver<bool>> {
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    let mut hup = signal(SignalKind::hangup())?;
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            biased;
            _ = int.recv() => {}
            _ = term.recv() => {}
            _ = hup.recv() => {}
        }
        sender.send_replace(true);
        // Kept, so that whoever looks later still sees it.
        sender.closed().await;
    });
    Ok(receiver)
}
