//! A node's clocks: monotonic and wall, each its own function of the world's time.
//!
//! Invariant: the monotonic clock never jumps and never stops, whatever happens to its node. A wake-up computed from
//! it is rounded up, so that a sleeper never wakes too early. No node can read the world's time itself.

/// One million: rates are in parts of it.
const MILLION: u64 = 1_000_000;

/// A node's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// A moment of the world, and what the monotonic clock showed then.
    since_ns: u64,
    showed_ns: u64,
    /// Local nanoseconds in a million of the world's: a million and the drift.
    rate: u64,
    /// What the wall clock shows when the monotonic one shows 0.
    wall_zero_ns: u64,
}

impl Clock {
    /// Clocks that run exactly, the wall clock from `wall_zero_ns` on.
    pub const fn exact(wall_zero_ns: u64) -> Self {
        Self { since_ns: 0, showed_ns: 0, rate: MILLION, wall_zero_ns }
    }

    /// From `now_ns` on both clocks run faster by so many parts per million, or slower.
    pub fn set_drift(&mut self, now_ns: u64, ppm: i32) {
        self.showed_ns = self.local(now_ns);
        self.since_ns = now_ns;
        // A monotonic clock neither stops nor runs backwards.
        self.rate = MILLION.saturating_add_signed(i64::from(ppm)).max(1);
    }

    /// The wall clock jumps by so much. The monotonic one does not.
    pub fn step_wall(&mut self, by_ns: i64) {
        self.wall_zero_ns = self.wall_zero_ns.saturating_add_signed(by_ns);
    }

    /// What the monotonic clock shows.
    pub fn local(&self, now_ns: u64) -> u64 {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        if self.rate == MILLION {
            return self.showed_ns + passed_ns;
        }
        self.showed_ns.saturating_add(scaled(passed_ns, self.rate, 0, MILLION))
    }

    /// What the wall clock shows, in nanoseconds since the epoch.
    pub fn wall(&self, now_ns: u64) -> u64 {
        self.wall_zero_ns.saturating_add(self.local(now_ns))
    }

    /// The first moment of the world, from now on, at which the wall clock shows at least this, as
    /// the clocks run now.
    pub fn moment_of_wall(&self, wall_ns: u64) -> u64 {
        self.moment(wall_ns.saturating_sub(self.wall_zero_ns))
    }

    /// The first moment of the world at which the monotonic clock shows at least this, as the clock
    /// runs now; for the past, the moment the rate was last set at the earliest.
    pub fn moment(&self, local_ns: u64) -> u64 {
        let ahead_ns = local_ns.saturating_sub(self.showed_ns);
        if self.rate == MILLION {
            return self.since_ns.saturating_add(ahead_ns);
        }
        self.since_ns.saturating_add(scaled(ahead_ns, MILLION, self.rate - 1, self.rate))
    }
}

/// So many nanoseconds times `by`, and `plus`, over `over`.
fn scaled(ns: u64, by: u64, plus: u64, over: u64) -> u64 {
    // 64 bits are enough for a schedule of hours, and faster.
    match ns.checked_mul(by).and_then(|product| product.checked_add(plus)) {
        Some(product) => product / over,
        None => {
            let product = u128::from(ns) * u128::from(by) + u128::from(plus);
            u64::try_from(product / u128::from(over)).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn drift_is_a_rate_and_a_step_is_not() {
        let mut clock = Clock::exact(1_000);
        clock.set_drift(0, 100);
        assert_eq!(clock.local(10_000_000), 10_001_000);
        clock.set_drift(10_000_000, -100);
        assert_eq!(clock.local(20_000_000), 20_000_000);
        clock.step_wall(-500);
        assert_eq!(clock.wall(20_000_000), 20_000_500);
        assert_eq!(clock.local(20_000_000), 20_000_000, "a step moves the wall clock alone");
    }

    proptest! {
        /// A sleeper that wakes at the computed moment finds its clock at the deadline or just
        /// after, and a nanosecond earlier it would have been too early.
        #[test]
        fn wake_ups_are_rounded_up(
            set_ns in 0..1_u64 << 40,
            ppm in -500_000..500_000_i32,
            ahead_ns in 1..1_u64 << 40,
        ) {
            let mut clock = Clock::exact(0);
            clock.set_drift(set_ns, ppm);
            let deadline_ns = clock.local(set_ns) + ahead_ns;
            let moment_ns = clock.moment(deadline_ns);
            prop_assert!(clock.local(moment_ns) >= deadline_ns);
            prop_assert!(clock.local(moment_ns - 1) < deadline_ns);
        }
    }
}
