//! Bounds of few holds against the probability itself, which is known from a formula that shares no code with them.

use std::time::Duration;

use super::*;
use crate::closed_form::unrenewed;
use crate::lease::{Conditions, Setting};
use crate::stat::Interval;
use crate::testing::{MS, conditions, law, traffic};
use crate::tuning::IfTaken;

const SEEDS: u64 = 100;
/// As many as for the fewest `--holds` that a study samples in full.
const HOLDS: u64 = 2_000;

/// What is found with each seed.
fn each(lease: &LeaseModel<'_>, of: fn(&ImportanceSampling) -> Mean) -> Vec<Interval> {
    // Whoever skips takes over as soon as a lease has ended.
    let traffic = Traffic { if_taken: IfTaken::Skip, ..traffic(100) };
    let asked = |seed| {
        let mut rare = ImportanceSampling::default();
        rare.add(lease, &traffic, HOLDS, &mut Random::new(seed, 1), &AtomicBool::new(false));
        of(&rare).interval()
    };
    (0..SEEDS).map(asked).collect()
}

/// How many intervals contain the probability, whose bounds are high enough with 95 in 100 seeds at least.
fn check_bounds(found: &[Interval], probability: f64, case: &str) -> usize {
    // Sums over quantiles are right to two in a thousand.
    let (low, high) = (probability * 0.998, probability * 1.002);
    let bounds = found.iter().filter(|it| it.high >= low);
    let enough = bounds.clone().count();
    assert!(enough * 100 >= found.len() * 95, "{case}: {enough} bounds of {probability:e} hold");
    // A bound that is much too high says nothing.
    let mean = found.iter().map(|it| it.high / probability).sum::<f64>() / float(SEEDS);
    assert!(mean < 1.5, "{case}: bounds of {probability:e} are {mean} times as high");
    bounds.filter(|it| it.low <= high).count()
}

/// Of all intervals 95 % contain the probability; of those of a single case a few less may do so by chance.
fn check_intervals(held: &[usize]) {
    let (all, cases) = (held.iter().sum::<usize>() as u64, held.len() as u64);
    assert!(all * 100 >= SEEDS * cases * 95, "{all} of {SEEDS} in each: {held:?}");
}

fn as_in_a_web_service() -> Conditions {
    let round_trip = law("lognormal:500us,p99=3ms");
    Conditions { round_trip, ..conditions("lognormal:5ms,p99=80ms", None) }
}

fn setting(ttl: Duration, tracked: bool) -> Setting {
    Setting { ttl, renew: None, tracked }
}

#[test]
fn bounds_of_lost_holds_are_high_enough() {
    let pauses = [None, Some((0.001, "lognormal:1s,p99=10s")), Some((0.5, "uniform:0s..100ms"))];
    let mut held = Vec::new();
    for pause in pauses {
        for ttl in [1_000 * MS, 5_000 * MS] {
            for tracked in [false, true] {
                let pause = pause.map(|(per_s, text)| (per_s / 1e9, law(text)));
                let conditions = Conditions { pause, ..as_in_a_web_service() };
                let lease = LeaseModel::new(&conditions, setting(ttl, tracked)).expect("a setting");
                let [ttl_ns, validity_ns] =
                    [lease.options.ttl(), lease.options.validity()].map(span_ns);
                let exact = unrenewed(&conditions, ttl_ns, validity_ns, tracked);
                let case = format!("{:?}, {:?}", conditions.pauses_per_ns(), lease.setting);
                let exact = exact.expect("a formula");
                held.push(check_bounds(&each(&lease, |it| it.wrong), exact, &case));
            }
        }
    }
    check_intervals(&held);
}

/// The probability of a late write without pauses: the work ends in time, at one of many moments, and what is then sent
/// takes longer than the lease.
fn late_write(lease: &LeaseModel<'_>) -> f64 {
    const TRIPS: u32 = 400;
    const STEPS: u64 = 4_000;
    let LeaseModel { conditions, options, .. } = lease;
    let [ttl_ns, validity_ns] = [options.ttl(), options.validity()].map(span_ns);
    let (work, trips) = (&conditions.hold.tail, &conditions.round_trip.tail);
    let with = |trip: u32| {
        let trip_ns = trips.with_share((f64::from(trip) + 0.5) / f64::from(TRIPS));
        let (room_ns, lease_ns) = (validity_ns - trip_ns, ttl_ns + trip_ns / 2);
        // Half of them in the last part of eight, where it matters.
        let ends = |from_ns: u64, to_ns: u64| -> f64 {
            let at = |step: u64| from_ns + (to_ns - from_ns) * step / STEPS;
            let late = |step: u64| {
                let done_ns = trip_ns + (at(step) + at(step + 1)) / 2 + conditions.write_ns;
                let share = work.at_least(at(step)) - work.at_least(at(step + 1));
                share * trips.at_least(2 * (lease_ns - done_ns))
            };
            (0..STEPS).map(late).sum()
        };
        ends(0, room_ns / 8 * 7) + ends(room_ns / 8 * 7, room_ns)
    };
    (0..TRIPS).map(with).sum::<f64>() / f64::from(TRIPS)
}

#[test]
fn bounds_of_overlaps_are_high_enough() {
    let mut held = Vec::new();
    for ttl in [1_000 * MS, 2_000 * MS, 5_000 * MS] {
        let conditions = as_in_a_web_service();
        let lease = LeaseModel::new(&conditions, setting(ttl, true)).expect("a setting");
        let found = each(&lease, |it| it.overlap);
        held.push(check_bounds(&found, late_write(&lease), &format!("{ttl:?}")));
    }
    check_intervals(&held);
}

/// How long so much running time takes with its pauses.
fn lasts(conditions: &Conditions, run_ns: u64, random: &mut Random) -> u64 {
    let Some((per_ns, lengths)) = &conditions.pause else { return run_ns };
    let (mut at_ns, mut lasts_ns) = (random.gap(*per_ns), run_ns);
    while at_ns < run_ns {
        lasts_ns += lengths.draw(random);
        at_ns += random.gap(*per_ns);
    }
    lasts_ns
}

/// How often somebody takes the lock before a write that is sent `write_ns` after the last check: counted hold by hold.
fn counted_overlaps(lease: &LeaseModel<'_>, traffic: &Traffic) -> f64 {
    const HOLDS: u32 = 100_000;
    let LeaseModel { conditions, options, .. } = lease;
    let [ttl_ns, validity_ns] = [options.ttl(), options.validity()].map(span_ns);
    let mut random = Random::new(9, 9);
    let mut one = || {
        let trip_ns = conditions.round_trip.draw(&mut random);
        let work_ns = conditions.hold.draw(&mut random);
        let way_ns = conditions.round_trip.draw(&mut random) / 2;
        let done_ns = trip_ns + lasts(conditions, work_ns, &mut random);
        let write_ns = lasts(conditions, conditions.write_ns, &mut random);
        let lease_ns = trip_ns / 2 + ttl_ns;
        let late_ns = (done_ns + write_ns + way_ns).saturating_sub(lease_ns);
        if done_ns < validity_ns { traffic.takes_over(lease_ns, late_ns) } else { 0.0 }
    };
    (0..HOLDS).map(|_| one()).sum::<f64>() / f64::from(HOLDS)
}

#[test]
fn a_write_that_takes_long_is_late_by_all_of_it() {
    let traffic = Traffic { every_ns: 1_000_000_000_000, ..traffic(2) };
    let found = |lease: &LeaseModel<'_>| {
        let mut rare = ImportanceSampling::default();
        rare.add(lease, &traffic, 20_000, &mut Random::new(2, 1), &AtomicBool::new(false));
        rare.overlap.middle()
    };
    let setting = setting(1_000 * MS, true);
    // 900 ms of work and 300 ms until the write, under a lease of a second: late by 202 ms, in every hold.
    let always = Conditions { write_ns: 300_000_000, ..conditions("900ms", None) };
    let share = found(&LeaseModel::new(&always, setting).expect("a setting"));
    let exact = traffic.takes_over(1_001_000_000, 202_000_000);
    assert!((share / exact - 1.0).abs() < 0.01, "{share} {exact}");
    let (few, many) = ((5.0, "uniform:0s..100ms"), (20.0, "10ms"));
    for (pauses, write_ms) in [(None, 200), (Some(few), 200), (Some(many), 100)] {
        let round_trip = law("lognormal:2ms,p99=20ms");
        let write_ns = write_ms * 1_000_000;
        let conditions =
            Conditions { round_trip, write_ns, ..conditions("uniform:500ms..1s", pauses) };
        let lease = LeaseModel::new(&conditions, setting).expect("a setting");
        let (share, counted) = (found(&lease), counted_overlaps(&lease, &traffic));
        assert!((share / counted - 1.0).abs() < 0.05, "{pauses:?}: {share} {counted}");
    }
}

#[test]
fn holds_that_were_drawn_as_they_come_are_those_that_got_the_lock() {
    // A round trip takes half of a second, or longer in one of two acquisitions, which the lock does not wait for.
    let mut conditions = as_in_a_web_service();
    conditions.round_trip = law("uniform:0s..1s");
    for (renew, share) in [(None, 0.25), (Some(300 * MS), 0.5)] {
        let setting = Setting { renew, ..setting(10_000 * MS, false) };
        let lease = LeaseModel::new(&conditions, setting).expect("a setting");
        let mut rare = ImportanceSampling::default();
        let (alone, go_on) = (traffic(1), AtomicBool::new(false));
        rare.add(&lease, &alone, 20_000, &mut Random::new(1, 1), &go_on);
        let found = float(rare.plain) / 20_000.0;
        assert!((found - share * lease.granted).abs() < 0.02, "{found} {}", lease.granted);
    }
}
