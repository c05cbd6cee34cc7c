//! Who else wants the lock: how many ask, how soon one of them comes in, and how long they wait.
//!
//! Others ask at random, on the whole so often that every client takes a lock once in its interval, and who
//! waits tries again once in a poll.
//!
//! Invariant: who waits is never taken for fewer than wait on the average, so an overlap is never taken for
//! less likely than it is. Deliberately absent: bursts, and clients that give up.

use super::law::float;

/// How much the locks are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// How many clients there are.
    pub clients: u32,
    /// How often each takes a lock.
    pub every_ns: u64,
    /// Over how many locks they are spread.
    pub locks: u32,
    /// How long who waits sleeps between two tries.
    pub poll_ns: u64,
    /// How many wait for a lock when somebody takes it.
    pub waiting: f64,
}

impl Traffic {
    /// How many locks are taken in a nanosecond, all in all.
    pub fn holds_per_ns(&self) -> f64 {
        f64::from(self.clients) / float(self.every_ns.max(1))
    }

    /// How many ask for one lock in a nanosecond, beside its holder.
    pub fn others_per_ns(&self) -> f64 {
        let others = f64::from(self.clients.saturating_sub(1)) / f64::from(self.clients.max(1));
        self.holds_per_ns() / f64::from(self.locks.max(1)) * others
    }

    /// How likely it is that another takes the lock over within `overrun_ns` of the end of a lease that has
    /// lasted for `lease_ns`: one that has come to wait meanwhile and tries again, or one that comes then.
    pub(super) fn takes_over(&self, lease_ns: u64, overrun_ns: u64) -> f64 {
        let tried = (float(overrun_ns) / float(self.poll_ns.max(1))).min(1.0);
        let others_per_ns = self.others_per_ns();
        if others_per_ns == 0.0 {
            return 0.0;
        }
        let waiting = self.waiting + others_per_ns * float(lease_ns);
        let expected = waiting * tried + others_per_ns * float(overrun_ns);
        -(-expected).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(clients: u32) -> Traffic {
        Traffic { clients, every_ns: 1_000_000_000, locks: 10, poll_ns: 50_000_000, waiting: 0.0 }
    }

    #[test]
    fn nobody_takes_over_from_the_only_client() {
        assert_eq!(traffic(1).takes_over(1_000_000_000, u64::MAX), 0.0);
        assert_eq!(traffic(100).takes_over(1_000_000_000, 0), 0.0);
    }

    #[test]
    fn one_that_has_waited_comes_in_within_a_poll() {
        // Ten a second for each lock, so in ten seconds somebody waits.
        let all = traffic(101);
        assert!(all.takes_over(10_000_000_000, 50_000_000) > 0.999_999);
        let half = all.takes_over(100_000_000, 25_000_000);
        // One is expected to wait, and to try in half a poll with a half; a quarter comes beside.
        let expected = 1.0 - (-(0.5_f64 + 0.25)).exp();
        assert!((half - expected).abs() < 1e-9, "{half} and not {expected}");
        assert!(Traffic { waiting: 1.0, ..all }.takes_over(100_000_000, 25_000_000) > half);
    }
}
