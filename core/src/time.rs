//! Points in time, in integer nanoseconds.
//!
//! Invariant: an [`Instant`] is compared only with instants of the same process's clock; a [`WallTime`] is never
//! used for validity. Only an [`Env`](crate::env::Env) can read a clock, so that lock code sees the clock of
//! its own process and no other.

use std::time::Duration;

/// A point on one node's monotonic clock, in nanoseconds since an arbitrary origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    ns: u64,
}

impl Instant {
    /// The instant `ns` nanoseconds after the clock's origin.
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_ns(self) -> u64 {
        self.ns
    }

    /// The instant `span` later; the far end of the clock if that overflows.
    pub fn after(self, span: Duration) -> Self {
        Self::from_ns(self.ns.saturating_add(span_ns(span)))
    }

    /// The instant `span` earlier; the clock's origin if there is none.
    pub fn before(self, span: Duration) -> Self {
        Self::from_ns(self.ns.saturating_sub(span_ns(span)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }
}

/// A point on one node's wall clock, in nanoseconds since 1970-01-01T00:00:00Z. It may jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime {
    unix_ns: u64,
}

impl WallTime {
    /// The time `unix_ns` nanoseconds after the epoch.
    pub const fn from_unix_ns(unix_ns: u64) -> Self {
        Self { unix_ns }
    }

    /// Nanoseconds since the epoch.
    pub const fn as_unix_ns(self) -> u64 {
        self.unix_ns
    }

    /// Whole milliseconds since the epoch, as Redis counts them.
    pub const fn as_unix_ms(self) -> u64 {
        self.unix_ns / 1_000_000
    }
}

/// A span in nanoseconds, `u64::MAX` if it is longer than 584 years.
pub fn span_ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A span in whole milliseconds, rounded down, as Redis takes it.
pub fn span_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_saturate_at_both_ends() {
        let start = Instant::from_ns(5);
        assert_eq!(start.before(Duration::from_nanos(6)), Instant::from_ns(0));
        assert_eq!(start.after(Duration::MAX), Instant::from_ns(u64::MAX));
        assert_eq!(start.since(Instant::from_ns(6)), Duration::ZERO);
        assert_eq!(Instant::from_ns(6).since(start), Duration::from_nanos(1));
    }

    #[test]
    fn milliseconds_round_down_as_redis_would_refuse_fractions() {
        assert_eq!(span_ms(Duration::from_micros(1_999)), 1);
        assert_eq!(WallTime::from_unix_ns(1_999_999).as_unix_ms(), 1);
    }
}
