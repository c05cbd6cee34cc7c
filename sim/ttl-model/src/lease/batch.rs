//! Renewals between two pauses, in batches: a hold of hours has thousands, and nearly all are alike.
//!
//! Invariant: the outcome is distributed as if each renewal had been walked by itself; a slow round trip still is, and
//! so is everything after a pause. Settings whose round trips are often as long as their interval are not batched.

use super::{HoldObserver, LeaseModel, SimulatedHold};
use crate::law::{Law, Random, float, whole};

/// The least renewals in a batch.
const MANY: u64 = 8;
/// The largest share of slow round trips for batches.
const MOST_SLOW: f64 = 0.05;

/// A round trip that delays no renewal.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastRoundTrips {
    pub(super) than_ns: u64,
    /// The share of slower round trips.
    pub(super) slower: f64,
}

impl FastRoundTrips {
    pub(super) fn of(
        round_trip: &Law,
        (validity_ns, every_ns, timeout_ns): (u64, u64, u64),
    ) -> Option<Self> {
        // Half of the slack leaves enough for clock drift.
        let room_ns = validity_ns.checked_sub(every_ns)?.min(every_ns) / 2;
        let than_ns = room_ns.min(timeout_ns);
        let slower = round_trip.tail.at_least(than_ns);
        (slower <= MOST_SLOW).then_some(Self { than_ns, slower })
    }

    #[inline]
    fn draw(&self, round_trip: &Law, random: &mut Random) -> u64 {
        loop {
            let trip_ns = round_trip.draw(random);
            if trip_ns < self.than_ns {
                return trip_ns;
            }
        }
    }
}

impl LeaseModel<'_> {
    /// Undisturbed renewals until `to_ns`, all at once: each is sent when due and answered soon after, so only the
    /// last one matters. The batch ends before the first slow one, which is walked by itself.
    #[inline]
    pub(super) fn renew_in_batch<W: HoldObserver>(
        &self,
        it: &mut SimulatedHold,
        (now_ns, to_ns, end_ns): (u64, u64, u64),
        (validity_ns, every_ns): (u64, u64),
        watch: &mut W,
        random: &mut Random,
    ) {
        let Some(fast) = &self.fast else { return };
        let fit = (to_ns.saturating_sub(it.due_ns)).saturating_sub(fast.than_ns) / every_ns;
        // An overdue renewal is not sent when it is due.
        if fit < MANY || it.slow || it.due_ns < now_ns {
            return;
        }
        let before_slow = match fast.slower > 0.0 {
            true => whole(random.unit().ln() / (-fast.slower).ln_1p()),
            false => u64::MAX,
        };
        // Nothing has been drawn for renewals after those that fit.
        it.slow = before_slow < fit;
        let count = before_slow.min(fit);
        if count == 0 {
            return;
        }
        let after = |it: &SimulatedHold, sent_ns: u64, random: &mut Random| {
            let trip_ns = fast.draw(&self.conditions.round_trip, random);
            SimulatedHold {
                lease_end_ns: sent_ns + trip_ns / 2 + self.ttl_ns,
                valid_end_ns: match self.setting.tracked {
                    true => it.valid_end_ns.max(sent_ns + validity_ns),
                    false => it.valid_end_ns,
                },
                due_ns: sent_ns + every_ns,
                place_ns: sent_ns + every_ns,
                arrived_ns: sent_ns + trip_ns / 2,
                answered_ns: sent_ns + trip_ns,
                ..*it
            }
        };
        // A uniformly chosen one is evaluated for all.
        let asked = whole(random.unit() * float(count)).min(count - 1);
        let then = match asked.checked_sub(1) {
            Some(last) => after(it, it.due_ns + last * every_ns, random),
            None => *it,
        };
        self.ask(&then, count, (then.due_ns, end_ns), watch);
        let last_ns = it.due_ns + (count - 1) * every_ns;
        *it = after(it, last_ns, random);
        it.renewals = it.renewals.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::Traffic;
    use crate::importance_sampling::ImportanceSampling;
    use crate::lease::{Conditions, HoldStart, NoObserver, Setting};
    use crate::monte_carlo::MonteCarlo;
    use crate::stat::wilson;
    use crate::testing::{self, MS, law, overlap, traffic};

    fn conditions(hold: &str, round_trip: &str, per_s: f64) -> Conditions {
        let pause = Some((per_s, "lognormal:300ms,p99=3s"));
        let round_trip = law(round_trip);
        Conditions { round_trip, drift_ppm: 100, ..testing::conditions(hold, pause) }
    }

    /// What is walked renewal by renewal and what is taken together say the same, counted and asked.
    fn agree(conditions: &Conditions, ttl_ms: u32, every_ms: u32, tracked: bool) {
        let setting = Setting { ttl: ttl_ms * MS, renew: Some(every_ms * MS), tracked };
        let together = LeaseModel::new(conditions, setting).expect("a setting");
        assert!(together.fast.is_some(), "{setting:?}");
        let walked = LeaseModel { fast: None, ..together.clone() };
        let traffic = Traffic { every_ns: 100_000_000_000, ..traffic(10) };
        let found = |lease: &LeaseModel<'_>, seed: u64| {
            let (mut counted, mut rare) = (MonteCarlo::default(), ImportanceSampling::default());
            counted.add(lease, &traffic, 3_000, &mut Random::new(seed, 1), &AtomicBool::new(false));
            rare.add(lease, &traffic, 1_000, &mut Random::new(seed, 2), &AtomicBool::new(false));
            let hits = if tracked { counted.lost } else { counted.outlived };
            assert!(hits > 50, "{setting:?}: {hits} are too few to be compared");
            let asked = [rare.wrong, rare.overlap, rare.renewals].map(|it| it.interval());
            (
                wilson(hits, counted.holds),
                counted.renewals.interval(),
                counted.kept.interval(),
                asked,
            )
        };
        let (one, other) = (found(&together, 5), found(&walked, 6));
        assert!(overlap(one.0, other.0), "{setting:?}: wrong {one:?} {other:?}");
        assert!(overlap(one.1, other.1), "{setting:?}: renewals {one:?} {other:?}");
        assert!(overlap(one.2, other.2), "{setting:?}: kept {one:?} {other:?}");
        for (one, other) in one.3.into_iter().zip(other.3) {
            assert!(overlap(one, other), "{setting:?}: asked {one:?} {other:?}");
        }
    }

    #[test]
    fn what_is_taken_together_is_what_is_walked() {
        let paused = conditions("lognormal:20s,p99=60s", "lognormal:2ms,p99=20ms", 0.05);
        agree(&paused, 1_500, 150, true);
        agree(&paused, 1_500, 150, false);
        // What goes wrong by slow round trips, too, several in a row.
        let slow = conditions("lognormal:20s,p99=60s", "lognormal:10ms,p99=100ms", 0.005);
        agree(&slow, 700, 250, true);
        agree(&slow, 700, 250, false);
    }

    /// Counts what it is asked.
    #[derive(Default)]
    struct Asked {
        times: u64,
        renewals: u64,
    }

    impl HoldObserver for Asked {
        const STOPS: bool = false;
        fn pause(&mut self, _: &SimulatedHold, _: f64, _: u64, _: u64, _: &mut Random) {}
        fn message(&mut self, _: &SimulatedHold, stands_for: u64, _: u64, _: u64) {
            self.times += 1;
            self.renewals += stands_for;
        }
    }

    #[test]
    fn a_hold_of_hours_takes_no_more_steps_than_it_has_pauses() {
        let hours = Conditions { pause: None, ..conditions("2h", "1ms", 0.0) };
        let setting = Setting { ttl: 1_000 * MS, renew: Some(333 * MS), tracked: true };
        let lease = LeaseModel::new(&hours, setting).expect("a setting");
        let work_ns = 7_200_000_000_000;
        let start = HoldStart::new(1_000_000, work_ns);
        let (mut asked, mut random) = (Asked::default(), Random::new(1, 1));
        let end = lease.walk(start, &mut asked, &mut random);
        let renewals = u64::from(end.state.renewals);
        assert!(renewals.abs_diff(work_ns / 333_000_000) <= 6, "{renewals}");
        assert!(
            asked.times < 10 && asked.renewals + 6 > renewals,
            "{} {}",
            asked.times,
            asked.renewals
        );
        assert!(
            !end.state.over
                && lease.walk(start, &mut NoObserver, &mut random).done_ns == end.done_ns
        );
    }
}
