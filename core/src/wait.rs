//! How to wait between two attempts to acquire.
//!
//! Invariant: a pause is never zero, so no setting makes waiting a busy loop.

use std::time::Duration;

use crate::time::span_ns;

/// The shortest pause.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Polling: try, pause, try again. The pause is `base` plus a random part of `jitter`, so that clients that
/// began together do not stay in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The shortest pause; less than a millisecond counts as one.
    pub base: Duration,
    /// The longest addition to it.
    pub jitter: Duration,
    /// How many attempts to make after the first; `None`: until the deadline. With
    /// [`notify`](crate::options::OptionsBuilder::notify) the one right after subscribing is one of them.
    pub max_retries: Option<u32>,
}

impl Poll {
    /// The pause that these random bits choose: from `base` to `base + jitter`, both included.
    pub(crate) fn pause(&self, random: u64) -> Duration {
        let range = u128::from(span_ns(self.jitter)) + 1;
        // The upper half of the product is the random fraction of the range.
        let part_ns = (u128::from(random) * range) >> 64;
        let part = Duration::from_nanos(u64::try_from(part_ns).unwrap_or(u64::MAX));
        self.base.saturating_add(part).max(PAUSE_MIN)
    }
}

impl Default for Poll {
    /// Every 50 to 100 milliseconds until the deadline.
    fn default() -> Self {
        let step = Duration::from_millis(50);
        Self { base: step, jitter: step, max_retries: None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn jitter_reaches_both_its_bounds() {
        let poll = Poll { base: 10 * MS, jitter: 5 * MS, max_retries: None };
        assert_eq!(poll.pause(0), 10 * MS);
        assert_eq!(poll.pause(u64::MAX), 15 * MS);
        let steady = Poll { jitter: Duration::ZERO, ..poll };
        assert_eq!(steady.pause(u64::MAX), 10 * MS);
    }

    #[test]
    fn a_zero_pause_is_none() {
        let poll = Poll { base: Duration::ZERO, jitter: Duration::ZERO, max_retries: None };
        assert_eq!(poll.pause(0), MS);
    }

    proptest! {
        #[test]
        fn a_pause_is_between_base_and_base_plus_jitter(
            base_ns in 1_000_000_u64..1 << 40,
            jitter_ns in any::<u64>(),
            random in any::<u64>(),
        ) {
            let base = Duration::from_nanos(base_ns);
            let jitter = Duration::from_nanos(jitter_ns);
            let pause = Poll { base, jitter, max_retries: None }.pause(random);
            prop_assert!(base <= pause && pause <= base + jitter);
        }
    }
}
