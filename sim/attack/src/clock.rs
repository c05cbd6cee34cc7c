//! The clocks of an attack, which are the machine's.

#![expect(clippy::disallowed_methods, reason = "workers run in real time")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use picklock::time::WallTime;

/// The present moment.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Converts a wall time to the process's own monotonic clock; both clocks are this machine's.
pub(crate) fn instant(wall: WallTime) -> Instant {
    // The thread may be interrupted between the reads, so the closest of ten readings counts.
    let looks = (0..10).map(|_| (Instant::now(), SystemTime::now(), Instant::now()));
    let look = looks.min_by_key(|(before, _, after)| *after - *before);
    let (now, wall_now, _) = look.expect("ten looks");
    let wall_now = wall_now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago = wall_now.saturating_sub(Duration::from_nanos(wall.as_unix_ns()));
    now.checked_sub(ago).unwrap_or(now)
}

/// Returns after this time.
pub(crate) async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
