//! How long a client may rely on a lock: pure arithmetic, no clock.
//!
//! Invariant: validity is counted from when the request was *sent*, never from the reply: the TTL may have
//! begun at any moment between the two, and the earliest is the safe one.

use std::time::Duration;

use crate::time::{Instant, span_ns};

/// How far the client's clock and the server's may run apart over one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Difference in rate, in parts per million of the TTL.
    pub ppm: u32,
    /// A fixed allowance, for the millisecond resolution of expiry.
    pub fixed: Duration,
}

impl Drift {
    /// No allowance: for a simulation in which clocks are exact.
    pub const NONE: Self = Self { ppm: 0, fixed: Duration::ZERO };

    /// The allowance over `ttl`, rounded up to a nanosecond.
    pub fn over(self, ttl: Duration) -> Duration {
        let rate_ns = (u128::from(span_ns(ttl)) * u128::from(self.ppm)).div_ceil(1_000_000);
        let rate = Duration::from_nanos(u64::try_from(rate_ns).unwrap_or(u64::MAX));
        rate.saturating_add(self.fixed)
    }
}

impl Default for Drift {
    /// One per cent and two milliseconds, the allowance of the Redlock description.
    fn default() -> Self {
        Self { ppm: 10_000, fixed: Duration::from_millis(2) }
    }
}

/// The end of validity of a lease of `ttl` whose request was sent at `sent`: the first instant at
/// which the client must no longer rely on it. Never before `sent`.
pub fn valid_until(sent: Instant, ttl: Duration, drift: Drift) -> Instant {
    sent.after(ttl.saturating_sub(drift.over(ttl)))
}

/// As [`valid_until`], for a lease granted `waited` (by the server's clock) after the request whose send counts
/// as `from`: over that time, too, the two clocks may have run apart.
pub fn valid_after(from: Instant, waited: Duration, ttl: Duration, drift: Drift) -> Instant {
    from.after(ttl.saturating_sub(drift.over(ttl.saturating_add(waited))))
}

/// The earliest instant from which a lease may count. It was granted `waited` (by the server's clock) after the
/// server received a request sent at `sent`. Never after `now`, whatever the server's clock has done: the
/// lease was granted before its message arrived.
pub fn handed_over(sent: Instant, waited: Duration, now: Instant) -> Instant {
    sent.after(waited).min(now)
}

/// True while a lease that is valid until `until` may be relied on.
pub fn is_valid(now: Instant, until: Instant) -> bool {
    now < until
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn validity_counts_from_the_send() {
        let sent = Instant::from_ns(1_000);
        let drift = Drift { ppm: 0, fixed: 2 * MS };
        assert_eq!(valid_until(sent, 10 * MS, drift), sent.after(8 * MS));
    }

    #[test]
    fn both_sides_of_the_end() {
        let until = Instant::from_ns(100);
        assert!(is_valid(Instant::from_ns(99), until));
        assert!(!is_valid(until, until));
    }

    #[test]
    fn an_allowance_beyond_the_ttl_leaves_nothing() {
        let sent = Instant::from_ns(7);
        assert_eq!(valid_until(sent, MS, Drift { ppm: 0, fixed: 2 * MS }), sent);
        assert_eq!(valid_until(sent, MS, Drift { ppm: 2_000_000, fixed: Duration::ZERO }), sent);
    }

    #[test]
    fn the_rate_rounds_against_the_client() {
        let drift = Drift { ppm: 1, fixed: Duration::ZERO };
        assert_eq!(drift.over(Duration::from_nanos(1)), Duration::from_nanos(1));
        assert_eq!(drift.over(Duration::from_millis(1)), Duration::from_nanos(1));
        assert_eq!(drift.over(Duration::from_nanos(1_000_001)), Duration::from_nanos(2));
    }

    #[test]
    fn a_handover_counts_from_the_request_and_never_from_the_future() {
        let (asked, now) = (Instant::from_ns(100), Instant::from_ns(1_000));
        let ns = Duration::from_nanos;
        assert_eq!(handed_over(asked, ns(899), now), Instant::from_ns(999));
        assert_eq!(handed_over(asked, ns(901), now), now);
        assert_eq!(handed_over(asked, Duration::ZERO, now), asked);
    }

    #[test]
    fn waiting_costs_drift_as_well() {
        let drift = Drift { ppm: 100_000, fixed: MS };
        let from = Instant::from_ns(0);
        assert_eq!(valid_after(from, Duration::ZERO, 100 * MS, drift), from.after(89 * MS));
        assert_eq!(valid_after(from, 100 * MS, 100 * MS, drift), from.after(79 * MS));
        assert_eq!(valid_after(from, 10_000 * MS, 100 * MS, drift), from);
    }

    proptest! {
        /// Whatever the server's rate within the allowance, what was handed over ends before it does.
        #[test]
        fn a_handovers_validity_ends_before_its_lease(
            sent_ns in 0_u64..1 << 50,
            under_way_ns in 0_u64..1 << 40,
            waited_ns in 0_u64..1 << 45,
            ttl_ms in 1_u64..1 << 30,
            allowed_ppm in 0_u32..500_000,
            off_ppm in 0_u32..500_000,
            fast in any::<bool>(),
        ) {
            prop_assume!(off_ppm <= allowed_ppm);
            let ttl = Duration::from_millis(ttl_ms);
            let rate = if fast { 1_000_000 + u128::from(off_ppm) } else { 1_000_000 - u128::from(off_ppm) };
            // What the server's clock takes for so long lasts so long by the client's.
            let lasts = |server_ns: u64| u128::from(server_ns) * 1_000_000 / rate;
            let handed_ns = u128::from(sent_ns + under_way_ns) + lasts(waited_ns);
            let lease_end = handed_ns + lasts(span_ns(ttl));
            let drift = Drift { ppm: allowed_ppm, fixed: Duration::ZERO };
            let now = Instant::from_ns(u64::try_from(handed_ns).unwrap());
            let from = handed_over(Instant::from_ns(sent_ns), Duration::from_nanos(waited_ns), now);
            let until = valid_after(from, Duration::from_nanos(waited_ns), ttl, drift);
            prop_assert!(u128::from(until.as_ns()) <= lease_end);
        }

        /// Whatever the server's rate within the allowance, validity ends before the lease does.
        #[test]
        fn validity_ends_before_the_lease(
            sent_ns in 0_u64..1 << 50,
            ttl_ms in 1_u64..1 << 32,
            applied_after_ns in 0_u64..1 << 40,
            allowed_ppm in 0_u32..500_000,
            server_fast_ppm in 0_u32..500_000,
        ) {
            prop_assume!(server_fast_ppm <= allowed_ppm);
            let ttl = Duration::from_millis(ttl_ms);
            let sent = Instant::from_ns(sent_ns);
            let until = valid_until(sent, ttl, Drift { ppm: allowed_ppm, fixed: Duration::ZERO });
            // A server whose clock runs fast by p ppm counts down ttl in ttl / (1 + p).
            let real_ns = u128::from(span_ns(ttl)) * 1_000_000 / u128::from(1_000_000 + server_fast_ppm);
            let lease_end = u128::from(sent_ns + applied_after_ns) + real_ns;
            prop_assert!(u128::from(until.as_ns()) <= lease_end);
            prop_assert!(until >= sent);
        }
    }
}
