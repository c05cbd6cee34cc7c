//! SIGINT, SIGTERM and SIGHUP: the run is cut short, and a partial report is written.
//!
//! Invariant: after the first signal picklock ends by itself, in bounded time, and never in the middle of a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::failure::Failure;

/// Turns true with the first signal. Must be called on a tokio runtime.
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

/// The same, for work that looks at a flag.
pub(super) fn flag() -> std::io::Result<Arc<AtomicBool>> {
    let (mut signals, flag) = (watch()?, Arc::new(AtomicBool::new(false)));
    let theirs = Arc::clone(&flag);
    tokio::spawn(async move {
        if signals.wait_for(|interrupted| *interrupted).await.is_ok() {
            theirs.store(true, Ordering::Relaxed);
        }
    });
    Ok(flag)
}

/// Waits for the work of a thread, which the first signal asks to stop; whether one came.
pub(super) async fn finish<T>(
    mut work: JoinHandle<T>,
    mut signals: watch::Receiver<bool>,
    stop: &AtomicBool,
) -> Result<(T, bool), Failure> {
    let (ended, interrupted) = tokio::select! {
        biased;
        ended = &mut work => (ended, false),
        Ok(_) = signals.wait_for(|interrupted| *interrupted) => {
            stop.store(true, Ordering::Relaxed);
            // It looks at this after each part of the work, and then returns what it has.
            (work.await, true)
        }
    };
    ended.map(|found| (found, interrupted)).map_err(Failure::internal)
}
