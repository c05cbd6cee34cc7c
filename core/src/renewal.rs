//! When a hold is renewed: pure arithmetic, no clock.
//!
//! Invariant: holds that began together are renewed at times spread evenly over a fifth of an interval, and stay
//! spread after a delay that has hit them all; no renewal is due later than an interval after the last. A
//! failed one is retried after growing pauses, each of which leaves time for another try. Callers pass the
//! random bits in.

use std::time::Duration;

use crate::options::Renewal;
use crate::time::{Instant, span_ns};

/// The first pause after a failure is this fraction of an interval.
const RETRY_PART: u32 = 8;
const RETRY_MIN: Duration = Duration::from_millis(1);

impl Renewal {
    /// The time from the send of the acquisition to the first renewal: chosen by these random bits in the last
    /// fifth of the interval, its end included. So a hold shorter than four fifths is never renewed.
    pub fn first(&self, random: u64) -> Duration {
        let fifth = self.every / 5;
        self.every - fifth + part(fifth, random)
    }

    /// When the renewal after one that was due at `due` and sent at `sent` is due: a whole number of intervals
    /// after `due`, and so at the latest an interval after `sent`.
    pub fn next(&self, due: Instant, sent: Instant) -> Instant {
        let every_ns = span_ns(self.every).max(1);
        let late_ns = span_ns(sent.since(due));
        due.after(Duration::from_nanos((late_ns - late_ns % every_ns).saturating_add(every_ns)))
    }

    /// The pause after `failures` failed renewals in a row, with `left` of the validity left. It is at most an
    /// eighth of the interval after the first failure, doubled with each further one, and at most half of `left`,
    /// so that there is time for another try; a random part of at least half of that is taken. None once `left`
    /// is below an eighth of the interval, when another try would only add load.
    pub fn retry_pause(&self, failures: u32, left: Duration, random: u64) -> Option<Duration> {
        let least = (self.every / RETRY_PART).max(RETRY_MIN);
        if left < least {
            return None;
        }
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let longest = least.saturating_mul(doubled).min(left / 2);
        Some(longest / 2 + part(longest / 2, random))
    }
}

/// The part of a span that random bits choose: more than zero, and at most all of it.
fn part(span: Duration, random: u64) -> Duration {
    let part_ns = (u128::from(span_ns(span)) * (u128::from(random) + 1)).div_ceil(1 << 64);
    Duration::from_nanos(u64::try_from(part_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const EVERY: Renewal = Renewal { every: Duration::from_millis(800), max_hold: None };

    #[test]
    fn the_first_renewal_is_anywhere_in_the_last_fifth_of_the_first_interval() {
        assert_eq!(EVERY.first(0), 640 * MS + Duration::from_nanos(1));
        assert_eq!(EVERY.first(u64::MAX / 2), 720 * MS);
        assert_eq!(EVERY.first(u64::MAX), 800 * MS);
    }

    #[test]
    fn a_renewal_that_was_late_moves_none_of_those_behind_it() {
        let at = |ms| Instant::from_ns(0).after(ms * MS);
        assert_eq!(EVERY.next(at(300), at(300)), at(1_100));
        assert_eq!(EVERY.next(at(300), at(1_099)), at(1_100));
        // Two fell due while the process stood still.
        assert_eq!(EVERY.next(at(300), at(1_100)), at(1_900));
    }

    #[test]
    fn what_fails_is_tried_again_at_growing_distances_while_there_is_time_for_another() {
        let again = |failures, left: u32| EVERY.retry_pause(failures, left * MS, u64::MAX);
        assert_eq!(
            [1, 2, 3, 4].map(|it| again(it, 9_000)),
            [100, 200, 400, 800].map(|it| Some(it * MS))
        );
        assert_eq!(again(4, 600), Some(300 * MS));
        assert_eq!(again(1, 100), Some(50 * MS));
        assert_eq!(again(1, 99), None);
        let last = EVERY.retry_pause(u32::MAX, Duration::MAX, u64::MAX);
        assert_eq!(last, Some(u32::MAX * (100 * MS)));
        assert!(EVERY.retry_pause(1, 9_000 * MS, 0).is_some_and(|it| it.as_millis() == 50));
        let quick = Renewal { every: MS, max_hold: None };
        assert_eq!(quick.retry_pause(1, 10 * MS, u64::MAX), Some(MS));
    }

    proptest! {
        #[test]
        fn every_try_is_before_the_end_and_leaves_half_of_what_is_left(
            every_ns in 1_u64..1 << 45,
            left_ns in 0_u64..1 << 45,
            failures in 1_u32..200,
            random in any::<u64>(),
        ) {
            let renewal = Renewal { every: Duration::from_nanos(every_ns), max_hold: None };
            prop_assert!(renewal.first(random) <= renewal.every);
            prop_assert!(renewal.first(random) >= renewal.every / 5 * 4);
            let left = Duration::from_nanos(left_ns);
            if let Some(pause) = renewal.retry_pause(failures, left, random) {
                prop_assert!(!pause.is_zero() && pause <= left / 2);
            }
        }

        #[test]
        fn the_next_renewal_keeps_its_place_and_is_never_late(
            every_ns in 1_u64..1 << 40,
            due_ns in 0_u64..1 << 50,
            late_ns in 0_u64..1 << 50,
        ) {
            let renewal = Renewal { every: Duration::from_nanos(every_ns), max_hold: None };
            let sent_ns = due_ns + late_ns;
            let next_ns = renewal.next(Instant::from_ns(due_ns), Instant::from_ns(sent_ns)).as_ns();
            prop_assert!(next_ns > sent_ns && next_ns <= sent_ns + every_ns);
            prop_assert!((next_ns - due_ns).is_multiple_of(every_ns));
        }
    }
}
