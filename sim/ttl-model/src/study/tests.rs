//! The model against itself: counting against asking, both against formulas, and threads against one thread.

use scenarios::distribution::{Bucket, Distribution, Histogram};

use super::*;
use crate::closed_form::unrenewed;
use crate::law::Law;
use crate::stat::wilson_999;
use crate::testing::{MS, conditions, law, overlap, traffic};

fn study(hold: &str, pause: Option<(f64, &str)>, grid: &[(u32, Option<u32>)]) -> Study {
    let conditions = conditions(hold, pause);
    let traffic = Traffic { every_ns: 10_000_000_000, ..traffic(100) };
    let grid = grid.iter().map(|(ttl, renew)| (*ttl * MS, renew.map(|it| it * MS))).collect();
    let keepings = Protection::ALL.to_vec();
    Study { conditions, traffic, grid, keepings, holds: 24_000, seed: 7, threads: 2 }
}

fn found(study: &Study) -> Vec<Point> {
    study.run(&StudyProgress::default()).expect("settings that can be")
}

/// Monte Carlo and importance sampling agree, each within the other's interval, wherever both see failures.
fn agree(study: &Study) {
    let leases = study.settings();
    for setting in leases {
        let lease = LeaseModel::new(&study.conditions, setting).expect("a setting");
        let (mut counted, mut rare) = (MonteCarlo::default(), ImportanceSampling::default());
        let traffic = study.traffic;
        counted.add(&lease, &traffic, 30_000, &mut Random::new(3, 1), &AtomicBool::new(false));
        rare.add(&lease, &traffic, 8_000, &mut Random::new(3, 2), &AtomicBool::new(false));
        let hits = if setting.tracked { counted.lost } else { counted.outlived };
        let seen = wilson(hits, counted.holds);
        let asked = rare.wrong.interval();
        assert!(hits >= 100, "{setting:?}: {hits} are too few to be compared");
        assert!(overlap(seen, asked), "{setting:?}: {seen:?} {asked:?}");
        if !setting.tracked {
            let (seen, asked) = (counted.overlap.interval(), rare.overlap.interval());
            let agrees = seen.low > 0.0 && overlap(seen, asked);
            assert!(agrees, "{setting:?}: overlaps {seen:?} {asked:?}");
        }
    }
}

#[test]
fn asking_finds_what_counting_finds() {
    let pauses = Some((0.5, "lognormal:200ms,p99=3s"));
    agree(&study("lognormal:50ms,p99=1s", pauses, &[(500, None), (1_000, None), (2_000, None)]));
    let long = "lognormal:2s,p99=10s";
    agree(&study(long, pauses, &[(500, Some(166)), (1_000, Some(333)), (1_000, Some(800))]));
    // Work that is nearly always longer than its lease.
    agree(&study(long, pauses, &[(1_500, None)]));
    // The same where others come so seldom that it matters for how long.
    let mut quiet = study(long, pauses, &[(300, None), (1_500, None)]);
    quiet.traffic.every_ns = 100_000_000_000_000;
    agree(&quiet);
    // Where nearly half of the acquisitions are not answered in time, and are no holds.
    let mut late = study("lognormal:50ms,p99=1s", pauses, &[(1_000, None), (1_000, Some(800))]);
    late.conditions.round_trip = law("uniform:0s..600ms");
    agree(&late);
    // Slow messages by themselves, too.
    let mut slow = study(long, None, &[(300, Some(100)), (300, Some(250))]);
    slow.conditions.round_trip = law("lognormal:5ms,p99=150ms");
    agree(&slow);
}

/// The probability that a hold under this setting goes wrong, in closed form.
fn formula(conditions: &Conditions, setting: Setting) -> f64 {
    let lease = LeaseModel::new(conditions, setting).expect("a setting");
    let [ttl_ns, validity_ns] = [lease.options.ttl(), lease.options.validity()].map(span_ns);
    unrenewed(conditions, ttl_ns, validity_ns, setting.tracked).expect("there is a formula")
}

#[test]
fn formulas_lie_within_what_is_simulated() {
    const HOLDS: u64 = 200_000;
    let pauses = Some((0.5, "lognormal:200ms,p99=3s"));
    for (hold, pause) in
        [("lognormal:50ms,p99=1s", pauses), ("uniform:0s..2s", None), ("100ms", pauses)]
    {
        let study = study(hold, pause, &[(400, None), (700, None), (1_900, None)]);
        for setting in study.settings() {
            let lease = LeaseModel::new(&study.conditions, setting).expect("a setting");
            let (mut counted, mut rare) = (MonteCarlo::default(), ImportanceSampling::default());
            let (traffic, go_on) = (&study.traffic, AtomicBool::new(false));
            counted.add(&lease, traffic, HOLDS, &mut Random::new(7, 1), &go_on);
            rare.add(&lease, traffic, HOLDS, &mut Random::new(7, 2), &go_on);
            let hits = if setting.tracked { counted.lost } else { counted.outlived };
            // Of two dozen intervals at 95 % one misses, by chance alone.
            let asked = rare.wrong.interval_999();
            let formula = formula(&study.conditions, setting);
            for Interval { middle, low, high } in [wilson_999(hits, HOLDS), asked] {
                // What the sums over quantiles leave out is below two in a thousand.
                let (low, high) = (low * 0.998, high * 1.002);
                assert!(
                    (low..=high).contains(&formula),
                    "{hold}, {setting:?}: {formula} is not in {low}..{high} around {middle}"
                );
            }
        }
    }
}

#[test]
fn what_comes_once_in_a_year_is_seen() {
    // Forty times the median pause, and once in ten million holds a pause at all.
    let study = study("1ms", Some((1e-4, "lognormal:100ms,p99=1s")), &[(20_000, None)]);
    let points = found(&study);
    let none = &points[0];
    let setting = Setting { ttl: none.ttl.0, renew: None, tracked: false };
    let formula = formula(&study.conditions, setting);
    assert!(formula < 1e-14, "{formula}");
    assert!(matches!(none.wrong.how, EstimateMethod::Estimated { .. }));
    assert!(
        (none.wrong.per_hold / formula - 1.0).abs() < 0.05,
        "{} {formula}",
        none.wrong.per_hold
    );
}

#[test]
fn nothing_is_a_bare_zero() {
    let study =
        study("100ms", Some((0.1, "uniform:0s..100ms")), &[(2_000, None), (2_000, Some(666))]);
    let points = found(&study);
    let of = |keeping: Protection, renews: bool| {
        let is = |it: &&Point| it.keeping == keeping && it.renew.is_some() == renews;
        points.iter().find(is).expect("it is in the grid")
    };
    let unrenewed = of(Protection::None, false).wrong;
    // Nineteen pauses in one hold.
    assert_eq!(unrenewed.how, EstimateMethod::Bound);
    assert!(0.0 < unrenewed.high && unrenewed.high < 1e-40, "{unrenewed:?}");
    assert_eq!(of(Protection::None, true).wrong.how, EstimateMethod::Bound);
    assert_eq!(of(Protection::Tracked, true).belief.how, EstimateMethod::Construction);
    assert_eq!(of(Protection::Fenced, true).effect.how, EstimateMethod::Construction);
}

/// What was measured: so many milliseconds, so many times.
fn measured(values: &[(u64, u64)]) -> Law {
    let bucket = |(ms, count): &(u64, u64)| Bucket {
        value: Span(Duration::from_millis(*ms)),
        count: *count,
    };
    let histogram = Histogram::new(values.iter().map(bucket)).expect("it counts");
    Law::new(&Distribution::Histogram(histogram))
}

#[test]
fn work_may_last_longer_than_it_was_measured() {
    let mut study = study("1s", None, &[(5_000, None), (5_000, Some(1_666))]);
    study.conditions.hold = measured(&[(5, 10), (20, 9), (85, 1)]);
    // Longer than what is left of a lease once its validity has ended.
    study.conditions.write_ns = 300_000_000;
    for point in found(&study) {
        let Share { per_hold, high, .. } = point.wrong;
        // Twenty values say of the others that with a confidence of 95 % they are less than three in twenty.
        let most = if point.renew.is_none() { 0.14..0.16 } else { 0.0..1e-9 };
        assert!(most.contains(&high) && per_hold < 1e-9, "{:?}: {per_hold} {high}", point.renew);
        if point.keeping != Protection::Fenced {
            assert!(point.effect.high > 0.1 || point.renew.is_some(), "{:?}", point.effect);
        }
    }
}

#[test]
fn many_simulated_holds_make_no_few_measurements_more() {
    let mut study = study("1s", None, &[(5_000, None)]);
    study.conditions.hold = measured(&[(100, 10), (10_000, 10)]);
    let wrong = found(&study)[1].wrong;
    assert!(matches!(wrong.how, EstimateMethod::Counted { .. }), "{wrong:?}");
    // Wilson's interval of ten in twenty.
    assert!((wrong.per_hold - 0.5).abs() < 0.02 && (0.69..0.72).contains(&wrong.high), "{wrong:?}");
}

#[test]
fn round_trips_may_last_longer_than_they_were_measured() {
    let mut study = study("10s", None, &[(5_000, Some(1_666))]);
    study.conditions.round_trip = measured(&[(1, 990), (3, 10)]);
    for point in found(&study) {
        // Five or six renewals, of which three in a thousand may be too slow.
        assert!((0.01..0.03).contains(&point.wrong.high), "{:?}", point.wrong);
        let is_fenced = point.keeping == Protection::Fenced;
        assert!(is_fenced || point.effect.high > 1e-4, "{:?}", point.effect);
    }
}

#[test]
fn a_ttl_near_the_longest_pause_that_was_measured_is_no_safer_than_a_longer_one() {
    let mut study = study("10ms", None, &[(1_010, None), (1_100, None)]);
    study.conditions.pause = Some((1.0 / 1e9, measured(&[(1, 990), (1_000, 10)])));
    // So seldom that it matters for how long a lease is outlasted.
    study.traffic.every_ns = 100_000_000_000_000;
    study.keepings = vec![Protection::None];
    let points = found(&study);
    let [near, beyond] = [&points[0], &points[1]].map(|it| it.effect);
    // Beyond it takes two of them.
    assert!(near.per_hold > 10.0 * beyond.per_hold, "{near:?} {beyond:?}");
    // How much longer than a second a pause may be is as little known under either.
    assert!(near.high > 0.8 * beyond.high, "{} {}", near.high, beyond.high);
}

#[test]
fn nobody_overlaps_who_is_alone() {
    let mut study = study("100ms", Some((0.1, "lognormal:100ms,p99=1s")), &[(2_000, None)]);
    study.traffic.clients = 1;
    for point in found(&study) {
        assert_eq!((point.effect.how, point.effect.high), (EstimateMethod::Construction, 0.0));
    }
}

#[test]
fn who_finds_the_lock_taken_waits_for_polls() {
    let mut study = study("100ms", None, &[(5_000, None)]);
    // One acquisition a second.
    let (every_ns, poll_ns) = (200_000_000_000, 500_000_000);
    study.traffic = Traffic { clients: 200, locks: 1, every_ns, poll_ns, ..study.traffic };
    let wait = found(&study)[0].wait;
    // One in ten waits for a poll or two; the round trip takes 2 ms.
    let mean_ms = wait.mean.0.as_millis();
    assert!((52..70).contains(&mean_ms), "{mean_ms}");
    assert!((900 * MS..1_100 * MS).contains(&wait.p99.0), "{wait:?}");
}

/// Only what is certain of a setting may make a longer TTL look better than it was found to be.
fn no_longer_ttl_looks_worse(study: &Study) {
    let points = found(study);
    // A setting, with a part of the TTL for a rule, in thousandths.
    let rule = |it: &Point| it.renew.map(|every| every.0.as_nanos() * 1_000 / it.ttl.0.as_nanos());
    for (place, longer) in points.iter().enumerate() {
        let shorter = points[..place].iter().rfind(|it| {
            it.keeping == longer.keeping && rule(it) == rule(longer) && it.ttl < longer.ttl
        });
        let Some(shorter) = shorter else { continue };
        let (below, above) = (longer.wrong.high, shorter.wrong.high);
        assert!(below <= above, "{} {:?}: {below} {above}", longer.ttl, longer.renew);
        // Who is cut off under the shorter one does not write late there.
        let late = || {
            let (ttl, renew) = (shorter.ttl.0, shorter.renew.map(|it| it.0));
            let setting = Setting { ttl, renew, tracked: true };
            let lease = LeaseModel::new(&study.conditions, setting).expect("a setting");
            at_most(&lease, Deadline::Written)
        };
        let late = if longer.keeping.is_tracked() { late() } else { 0.0 };
        let (below, above) = (longer.effect.high, shorter.wrong.high + late);
        assert!(below <= above, "overlaps, {} {:?}: {below} {above}", longer.ttl, longer.renew);
    }
}

#[test]
fn no_ttl_looks_worse_than_a_shorter_one_by_less_information() {
    use crate::presets;
    let grid: Vec<(u32, Option<u32>)> = [1, 2, 5, 10, 20, 60, 120, 600, 1_800]
        .map(|s| s * 1_000)
        .into_iter()
        .flat_map(|ttl| [(ttl, None), (ttl, Some(ttl / 3))])
        .collect();
    for preset in presets::ALL {
        let rate: crate::Rate = preset.rate.parse().expect("a rate");
        for hold in ["20ms", "lognormal:20ms,p99=200ms", "uniform:0s..3s", "lognormal:5s,p99=20s"] {
            let mut study = study(hold, Some((rate.per_second(), preset.length)), &grid);
            study.conditions.round_trip = law("lognormal:500us,p99=3ms");
            study.holds = 1_000;
            no_longer_ttl_looks_worse(&study);
        }
    }
}

#[test]
fn what_nobody_has_seen_is_bounded_and_not_counted() {
    let mut study = study(
        "lognormal:20ms,p99=200ms",
        Some((1.0, "uniform:0s..100ms")),
        &[(60_000, None), (60_000, Some(20_000)), (120_000, None), (120_000, Some(40_000))],
    );
    study.conditions.round_trip = law("lognormal:500us,p99=3ms");
    for point in found(&study) {
        assert!(point.wrong.high < 1e-13, "{} {:?}: {:?}", point.ttl, point.renew, point.wrong);
        assert!(!matches!(point.wrong.how, EstimateMethod::Counted { .. }), "{:?}", point.wrong);
    }
}

#[test]
fn renewals_that_are_rarer_than_holds_are_what_the_formula_says() {
    let mut study = study(
        "lognormal:5ms,p99=80ms",
        Some((1.0, "lognormal:100us,p99=500us")),
        &[(1_000, Some(333))],
    );
    study.holds = 40_000;
    study.traffic = Traffic { clients: 500, every_ns: 1_000_000_000, locks: 100, ..study.traffic };
    let point = found(&study).remove(0);
    // The first comes anywhere in the last fifth of the first interval, those behind it an interval later each.
    let work = &study.conditions.hold.tail;
    let places =
        (0..200_u64).flat_map(|nth| (0..50).map(move |step| nth * 333 + 266 + step * 333 / 250));
    let in_a_hold: f64 = places.map(|ms| work.at_least(ms * 1_000_000) / 50.0).sum();
    let formula = in_a_hold * 500.0;
    assert!((0.1..0.4).contains(&formula), "{formula}");
    let (middle, high) = (point.renewals_per_second, point.renewals_per_second_high);
    assert!((middle / formula - 1.0).abs() < 0.15 && formula < high, "{middle} {high} {formula}");
}

#[test]
fn a_cron_job_on_three_replicas_runs_once_a_tick() {
    let grid =
        [(10_000, None), (45_000, None), (60_000, None), (150_000, None), (30_000, Some(10_000))];
    let mut study = study("30s", Some((0.01, "lognormal:100us,p99=1ms")), &grid);
    study.traffic = Traffic {
        clients: 3,
        every_ns: 60_000_000_000,
        locks: 1,
        if_taken: IfTaken::Skip,
        ..study.traffic
    };
    study.keepings = vec![Protection::Tracked];
    let points = found(&study);
    let of = |place: usize| points[place].skips.expect("they skip");
    // Of three that come for it one has it.
    assert!((of(1).share - 2.0 / 3.0).abs() < 1e-9, "{:?}", of(1));
    // A key that is there for longer than a minute costs one run, and one of two and a half minutes two.
    let missed: Vec<u64> = (0..5).map(|place| of(place).missed_p99).collect();
    assert_eq!(missed, [0, 0, 1, 2, 0]);
    assert_eq!((of(1).missed, of(2).missed), (0.0, 1.0));
    let p99 = |place: usize| points[place].takeover.p99_high.0;
    assert!(p99(1) < 61_000 * MS && p99(1) > 55_000 * MS, "{:?}", p99(1));
    assert!(p99(2) > 90_000 * MS, "{:?}", p99(2));
    assert!(points[0].wrong.per_hold > 0.999, "ten seconds are not enough for thirty");
    assert!(points[1].wrong.per_day_high < 1.0, "{:?}", points[1].wrong);
}

#[test]
fn what_was_looked_at_before_it_was_ended_is_told_and_nothing_else() {
    let grid = [(1_000, None), (2_000, None), (3_000, None)];
    let all = Study { threads: 1, ..study("50ms", Some((0.5, "lognormal:200ms,p99=3s")), &grid) };
    let whole = found(&all);
    let progress = StudyProgress::default();
    progress.stop.store(true, Ordering::Relaxed);
    let none = all.run(&progress).expect("settings that can be");
    assert_eq!(none.len(), whole.len());
    assert!(none.iter().all(|it| it.unfinished && it.wrong.high == 1.0));
    // What was looked at before stays.
    let lease = |it| LeaseModel::new(&all.conditions, it).expect("a setting");
    let leases: Vec<LeaseModel<'_>> = all.settings().into_iter().map(lease).collect();
    let progress = StudyProgress::default();
    let estimated = |places: &[usize]| all.estimate(places, &leases, &progress).expect("threads");
    assert!(estimated(&[0, 1]).iter().all(Option::is_some));
    progress.stop.store(true, Ordering::Relaxed);
    assert!(estimated(&[2]).iter().all(Option::is_none));
    assert!(progress.done.load(Ordering::Relaxed) < all.parts());
}

#[test]
fn where_no_crash_could_be_simulated_the_takeover_is_the_longest() {
    let mut study = study("0s", None, &[(1_000, None)]);
    study.conditions.round_trip = law("2ms");
    let takeover = found(&study)[0].takeover;
    // The TTL, a poll and two round trips.
    assert_eq!((takeover.mean.0, takeover.p99_high.0), (1_054 * MS, 1_054 * MS));
}
