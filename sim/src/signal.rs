//! SIGINT, SIGTERM and SIGHUP: the run is cut short, and a partial report is written.
//!
//! Invariant: after the first signal picklock ends by itself, in bounded time, and never in the middle of a file.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Turns true with the first signal. Must be called on a tokio runtime.
///
/// # Errors
/// If no signal handler can be installed.
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
        // Kept alive, so that later receivers still see it.
        sender.closed().await;
    });
    Ok(receiver)
}
