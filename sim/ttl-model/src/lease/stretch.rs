//! Pauses of a long hold, in stretches: a hold of days has a million, and nearly all are alike.
//!
//! A pause that is short beside the renewal interval delays a renewal and ends no hold. So only long ones are walked. How
//! likely a pause was to end the hold is computed at one moment of each stretch, for all pauses of it.
//!
//! Invariant: the expected probabilities are those of walking each pause by itself. Holds of few pauses, leases that are not
//! renewed, and processes that are paused for much of their time are not taken in stretches.

use std::f64::consts::TAU;

use super::batch::FastRoundTrips;
use super::{HoldObserver, HoldStart, LeaseModel, SimulatedHold};
use crate::law::{Law, Random, float, whole};
use picklock::Renewal;

/// The least pauses of a hold, on average, for stretches.
const MANY: f64 = 1_000.0;
/// The least stretches of a hold.
const STRETCHES: u64 = 32;
/// The most time paused per time worked.
const MOST_PAUSED: f64 = 0.1;
/// Quantiles for the moments of short pauses.
const QUANTILES: u32 = 1 << 10;

/// Pauses that end no hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortPauses {
    /// The share of longer ones.
    longer: f64,
    /// Mean and variance of the time paused, per nanosecond of work.
    paused: f64,
    variance: f64,
}

impl ShortPauses {
    pub(super) fn of(pause: Option<&(f64, Law)>, fast: Option<&FastRoundTrips>) -> Option<Self> {
        let ((per_ns, lengths), fast) = (pause?, fast?);
        let longer = lengths.tail.at_least(fast.than_ns);
        let each = per_ns * (1.0 - longer) / f64::from(QUANTILES);
        let (mut paused, mut variance) = (0.0, 0.0);
        for part in 0..QUANTILES {
            let share = longer + (1.0 - longer) * (f64::from(part) + 0.5) / f64::from(QUANTILES);
            let ns = float(lengths.tail.with_share(share));
            paused += each * ns;
            variance += each * ns * ns;
        }
        (paused <= MOST_PAUSED).then_some(Self { longer, paused, variance })
    }

    /// How long so much work takes with its short pauses, which are many.
    fn draw(&self, work_ns: u64, random: &mut Random) -> u64 {
        let normal = (-2.0 * random.unit().ln()).sqrt() * (TAU * random.unit()).cos();
        let work = float(work_ns);
        work_ns + whole(work * self.paused + (work * self.variance).sqrt() * normal)
    }
}

impl LeaseModel<'_> {
    /// Walks a hold of many pauses in stretches, and returns when it is done; `None` for another, of which nothing is walked.
    pub(super) fn walk_in_stretches<W: HoldObserver>(
        &self,
        it: &mut SimulatedHold,
        start: HoldStart,
        spans: (u64, Option<Renewal>),
        watch: &mut W,
        random: &mut Random,
    ) -> Option<u64> {
        let short = self.short.filter(|_| W::STOPS && start.pauses)?;
        let (per_ns, lengths) = self.conditions.pause.as_ref()?;
        let (mut now_ns, mut left_ns) = (start.round_trip_ns, start.work_ns);
        if per_ns * float(left_ns) < MANY {
            return None;
        }
        let most_ns = left_ns / STRETCHES + 1;
        while left_ns > 0 && !it.over {
            let gap_ns = random.gap(per_ns * short.longer);
            let work_ns = gap_ns.min(most_ns).min(left_ns);
            let to_ns = now_ns + short.draw(work_ns, random);
            let later_ns = left_ns - work_ns;
            let end_ns = to_ns + later_ns + whole(float(later_ns) * short.paused);
            let at_ns = now_ns + whole(float(to_ns - now_ns) * random.unit());
            self.run(it, (now_ns, at_ns, end_ns), spans, watch, random);
            if !it.over {
                let stands_for = per_ns * float(work_ns);
                self.pause(it, stands_for, (at_ns, left_ns), watch, random);
                self.run(it, (at_ns, to_ns, end_ns), spans, watch, random);
            }
            (now_ns, left_ns) = (to_ns, later_ns);
            if gap_ns == work_ns && left_ns > 0 {
                let until_ns = self.relied_until(it, left_ns);
                now_ns =
                    now_ns.saturating_add(lengths.tail.with_share(short.longer * random.unit()));
                it.over |= now_ns >= until_ns;
            }
            it.over |= now_ns >= it.valid_end_ns;
        }
        Some(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::Traffic;
    use crate::importance_sampling::ImportanceSampling;
    use crate::lease::{Conditions, Setting};
    use crate::stat::Mean;
    use crate::testing::{MS, conditions, overlap, traffic};

    /// This work with five pauses a second.
    fn paused(hold: &str) -> Conditions {
        conditions(hold, Some((5.0, "lognormal:5ms,p99=40ms")))
    }

    /// What is walked pause by pause and what is taken in stretches say the same.
    fn agree(hold: &str, (ttl_ms, every_ms): (u32, u32), tracked: bool) {
        let conditions = paused(hold);
        let setting = Setting { ttl: ttl_ms * MS, renew: Some(every_ms * MS), tracked };
        let stretched = LeaseModel::new(&conditions, setting).expect("a setting");
        assert!(stretched.short.is_some(), "{setting:?}");
        let walked = LeaseModel { short: None, ..stretched.clone() };
        let traffic = Traffic { every_ns: 100_000_000_000_000, ..traffic(10) };
        let found = |lease: &LeaseModel<'_>, holds: u64| {
            let mut rare = ImportanceSampling::default();
            rare.add(lease, &traffic, holds, &mut Random::new(3, 1), &AtomicBool::new(false));
            [rare.wrong, rare.overlap, rare.renewals].map(|it| it.interval())
        };
        for (one, other) in found(&stretched, 2_000).into_iter().zip(found(&walked, 200)) {
            assert!(one.low > 0.0 && overlap(one, other), "{setting:?}: {one:?} {other:?}");
        }
    }

    #[test]
    fn what_is_taken_in_stretches_is_what_is_walked() {
        for tracked in [true, false] {
            agree("uniform:200s..400s", (300, 100), tracked);
            // Most of them go wrong.
            agree("uniform:200s..400s", (200, 66), tracked);
        }
    }

    /// Counts what it is asked, and for how many pauses.
    #[derive(Default)]
    struct Asked {
        times: u64,
        pauses: f64,
    }

    impl HoldObserver for Asked {
        const STOPS: bool = true;
        fn pause(&mut self, _: &SimulatedHold, count: f64, _: u64, _: u64, _: &mut Random) {
            self.times += 1;
            self.pauses += count;
        }
        fn message(&mut self, _: &SimulatedHold, _: u64, _: u64, _: u64) {}
    }

    #[test]
    fn how_long_a_hold_takes_is_distributed_alike() {
        let conditions = paused("1s");
        let setting = Setting { ttl: 20_000 * MS, renew: Some(6_000 * MS), tracked: true };
        let stretched = LeaseModel::new(&conditions, setting).expect("a setting");
        let walked = LeaseModel { short: None, ..stretched.clone() };
        let lasts = |lease: &LeaseModel<'_>| {
            let mut random = Random::new(4, 1);
            let (mut lasts, mut squares) = (Mean::default(), Mean::default());
            for _ in 0..1_000 {
                let start = HoldStart::new(2_000_000, 200_000_000_000);
                let end = lease.walk(start, &mut Asked::default(), &mut random);
                let beyond_s = float(end.done_ns - start.work_ns) / 1e9;
                lasts.add(beyond_s);
                squares.add(beyond_s * beyond_s);
            }
            (lasts.interval(), squares.middle() - lasts.middle().powi(2))
        };
        let (one, other) = (lasts(&stretched), lasts(&walked));
        assert!(overlap(one.0, other.0), "{one:?} {other:?}");
        assert!((one.1 / other.1 - 1.0).abs() < 0.2, "{one:?} {other:?}");
    }

    #[test]
    fn a_hold_of_weeks_takes_no_more_steps_than_it_has_long_pauses() {
        let conditions = paused("1s");
        let asked = |ttl_ms: u32, work_ns: u64| {
            let setting = Setting { ttl: ttl_ms * MS, renew: Some(ttl_ms * MS / 3), tracked: true };
            let lease = LeaseModel::new(&conditions, setting).expect("a setting");
            let mut asked = Asked::default();
            let start = HoldStart::new(2_000_000, work_ns);
            let end = lease.walk(start, &mut asked, &mut Random::new(1, 1));
            assert!(!end.state.over && end.done_ns > work_ns, "{end:?}");
            asked
        };
        let weeks_ns = 20 * 86_400_000_000_000;
        let of_weeks = asked(20_000, weeks_ns);
        assert!((32..40).contains(&of_weeks.times), "{}", of_weeks.times);
        assert!((of_weeks.pauses / (20.0 * 86_400.0 * 5.0) - 1.0).abs() < 1e-6);
        // One of few pauses is walked pause by pause.
        let of_minutes = asked(20_000, 199_000_000_000);
        assert!((800..1_200).contains(&of_minutes.times), "{}", of_minutes.times);
    }
}
