//! Work that ends when its time is up.
//!
//! Invariant: what has been done by then, or by a signal, is not lost.

#![expect(clippy::disallowed_methods, reason = "a budget is the user's time")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use harness::sweep::BatchProgress;

use super::failure::Failure;
use super::signal;
use super::world::runtime;

/// Has the work stop after this time, or at a signal; what came of it, and whether it was a signal.
pub(super) fn within<T: Send + 'static>(
    span: Duration,
    work: impl FnOnce(&BatchProgress) -> T + Send + 'static,
) -> Result<(T, bool), Failure> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let signals = signal::watch().map_err(Failure::unavailable)?;
        let batch = Arc::new(BatchProgress::default());
        let (theirs, timed) = (Arc::clone(&batch), Arc::clone(&batch));
        let work = tokio::task::spawn_blocking(move || work(&theirs));
        let timer = tokio::spawn(async move {
            tokio::time::sleep(span).await;
            timed.stop.store(true, Ordering::Relaxed);
        });
        let ended = signal::finish(work, signals, &batch.stop).await;
        timer.abort();
        ended
    });
    runtime.shutdown_timeout(Duration::ZERO);
    outcome
}
