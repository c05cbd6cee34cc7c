//! Who else wants the lock: how often others ask, how soon one of them takes it, and how long they wait.
//!
//! Clients that wait ask at random times (one acquisition per client and interval) and retry once per poll. Clients
//! that skip all ask at the same tick, once per interval, like replicas of a cron job; one that finds the lock taken
//! skips that run.
//!
//! Invariant: the probability of an overlap is never underestimated: the number of waiting clients is at least its
//! mean, and among clients that skip one always asks right after a lease has ended. Not modelled: bursts, clients
//! that give up, clock offsets between clients of one tick.

use std::time::Duration;

use crate::tuning::IfTaken;

use super::law::float;
use super::lease::Conditions;

/// The usual TTLs, in seconds.
const TTLS_S: [u64; 12] = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1_800];
/// For clients that skip also these fractions of their interval.
const PARTS_OF_EVERY: [(u32, u32); 3] = [(1, 2), (3, 4), (9, 10)];

/// The demand for the locks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Number of clients.
    pub clients: u32,
    /// Interval between two acquisitions of a client.
    pub every_ns: u64,
    /// Number of locks.
    pub locks: u32,
    /// Pause of a waiting client between two tries.
    pub poll_ns: u64,
    /// What a client does if the lock is taken.
    pub if_taken: IfTaken,
    /// Mean number of waiting clients at an acquisition.
    pub waiting: f64,
}

impl Traffic {
    /// The TTLs to study where nobody names any; for clients that skip also some that end before the next run.
    pub fn usual_ttls(&self) -> Vec<Duration> {
        let mut ttls: Vec<Duration> = TTLS_S.iter().map(|it| Duration::from_secs(*it)).collect();
        if self.if_taken == IfTaken::Skip {
            let every = Duration::from_nanos(self.every_ns);
            ttls.extend(PARTS_OF_EVERY.map(|(over, under)| every * over / under));
            ttls.sort_unstable();
            ttls.dedup();
        }
        ttls
    }

    /// Requests per nanosecond for all locks; without skipping, equal to acquisitions.
    pub fn asks_per_ns(&self) -> f64 {
        f64::from(self.clients) / float(self.every_ns.max(1))
    }

    /// The share of time for which each lock is kept: during holds and, if holders check it, until the write.
    pub fn load(&self, conditions: &Conditions, tracked: bool) -> f64 {
        let write_ns = if tracked { conditions.write_ns } else { 0 };
        let kept_ns = conditions.mean_hold_ns() + float(write_ns) * (1.0 + conditions.paused());
        self.asks_per_ns() / f64::from(self.locks.max(1)) * kept_ns
    }

    /// Requests per nanosecond for one lock, besides its holder.
    pub(crate) fn others_per_ns(&self) -> f64 {
        let others = f64::from(self.clients.saturating_sub(1)) / f64::from(self.clients.max(1));
        self.asks_per_ns() / f64::from(self.locks.max(1)) * others
    }

    /// Acquisitions per nanosecond and their upper bound, given the mean ticks and time for which a lock is kept.
    pub(super) fn runs_per_ns(&self, ticks: f64, kept_ns: f64) -> (f64, f64) {
        let asks = self.asks_per_ns();
        match self.if_taken {
            IfTaken::Wait => (asks, asks),
            IfTaken::Skip => {
                // So many locks are requested at each tick.
                let locks = f64::from(self.locks.min(self.clients).max(1));
                let runs = (locks / float(self.every_ns.max(1)) / ticks.max(1.0)).min(asks);
                // If clocks differ, a free lock may be taken again before the next tick.
                (runs, (locks / kept_ns.max(1.0)).clamp(runs, asks))
            }
        }
    }

    /// Ticks while a lock is kept.
    pub(super) fn ticks(&self, kept_ns: u64) -> u64 {
        kept_ns / self.every_ns.max(1)
    }

    /// The probability that another client takes the lock within `overrun_ns` of the end of a lease of `lease_ns`: one
    /// that waits and retries, or a new one.
    pub(super) fn takes_over(&self, lease_ns: u64, overrun_ns: u64) -> f64 {
        if self.if_taken == IfTaken::Skip {
            let late = overrun_ns > 0 && self.others_per_ns() > 0.0;
            return f64::from(u8::from(late));
        }
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
    use crate::testing::{conditions, traffic};

    #[test]
    fn nobody_takes_over_from_the_only_client() {
        assert_eq!(traffic(1).takes_over(1_000_000_000, u64::MAX), 0.0);
        assert_eq!(traffic(100).takes_over(1_000_000_000, 0), 0.0);
    }

    #[test]
    fn a_lock_is_kept_until_the_write_of_whoever_checks_it() {
        // Five a second for each lock.
        let all = Traffic { every_ns: 1_000_000_000, locks: 100, ..traffic(500) };
        let found = Conditions { write_ns: 300_000_000, ..conditions("1ms", None) };
        let trip = found.round_trip.mean_ns() / 1e9;
        for (tracked, kept_s) in [(true, 0.301 + trip), (false, 0.001 + trip)] {
            let load = all.load(&found, tracked);
            assert!((load - 5.0 * kept_s).abs() < 1e-3, "{tracked}: {load}");
        }
        // A pause of a second every two seconds.
        let paused = Conditions { pause: conditions("1ms", Some((0.5, "1s"))).pause, ..found };
        let load = all.load(&paused, true);
        assert!((load - 5.0 * (0.301 * 1.5 + trip)).abs() < 1e-3, "{load}");
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

    #[test]
    fn who_skips_runs_once_at_a_tick_however_many_ask() {
        let minute_ns = 60_000_000_000;
        let all = Traffic { every_ns: minute_ns, locks: 1, if_taken: IfTaken::Skip, ..traffic(3) };
        let per_minute = |(runs, most): (f64, f64)| (runs * 60e9, most * 60e9);
        let (runs, most) = per_minute(all.runs_per_ns(1.0, 30e9));
        assert!((runs - 1.0).abs() < 1e-9 && (most - 2.0).abs() < 1e-9, "{runs} {most}");
        // What lasts for a minute and a half leaves every other tick out; what lasts for a second could run three
        // times, if the clocks were apart.
        assert!((per_minute(all.runs_per_ns(2.0, 90e9)).0 - 0.5).abs() < 1e-9);
        assert!((per_minute(all.runs_per_ns(1.0, 1e9)).1 - 3.0).abs() < 1e-9);
        assert_eq!((all.ticks(minute_ns - 1), all.ticks(minute_ns)), (0, 1));
        assert_eq!((all.takes_over(1, 0), all.takes_over(1, 1)), (0.0, 1.0));
        assert_eq!(Traffic { clients: 1, ..all }.takes_over(1, 1), 0.0);
        let waits = Traffic { if_taken: IfTaken::Wait, ..all };
        assert_eq!(per_minute(waits.runs_per_ns(9.0, 1e9)), (3.0, 3.0));
    }
}
