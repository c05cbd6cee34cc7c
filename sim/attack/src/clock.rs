//! The clocks of an attack, which are the machine's.

#![expect(clippy::disallowed_methods, reason = "workers run in real time")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use picklock::time::WallTime;

use crate::plan::HOUR_NS;

const HOUR: Duration = Duration::from_nanos(HOUR_NS.unsigned_abs());

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
    let wall = Duration::from_nanos(wall.as_unix_ns());
    let is_ahead = wall > wall_now + HOUR / 2;
    let ago = (if is_ahead { wall_now + HOUR } else { wall_now }).saturating_sub(wall);
    now.checked_sub(ago).unwrap_or(now)
}

/// Returns after this time.
pub(crate) async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_clock_is_an_hour_ahead_did_it_just_now_too() {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let ago = |wall: Duration| {
            let wall_ns = u64::try_from(wall.as_nanos()).unwrap();
            now().duration_since(instant(WallTime::from_unix_ns(wall_ns)))
        };
        let minute = Duration::from_secs(60);
        for wall in [wall, wall + HOUR] {
            assert!(ago(wall) < minute);
            assert!((minute..2 * minute).contains(&ago(wall - minute)));
        }
    }
}
