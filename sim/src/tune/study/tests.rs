//! The model against itself: counting against asking, both against formulas, and threads against one thread.

use super::*;
use crate::tune::law::Law;

const MS: Duration = Duration::from_millis(1);

fn law(text: &str) -> Law {
    Law::new(&text.parse().expect("a distribution"))
}

fn study(hold: &str, pause: Option<(f64, &str)>, grid: &[(u32, Option<u32>)]) -> Study {
    let conditions = Conditions {
        hold: law(hold),
        round_trip: law("2ms"),
        pause: pause.map(|(per_s, text)| (per_s / 1e9, law(text))),
        drift_ppm: 0,
        write_ns: 1_000_000,
    };
    let traffic = Traffic {
        clients: 100,
        every_ns: 10_000_000_000,
        locks: 10,
        poll_ns: 50_000_000,
        waiting: 0.0,
    };
    let grid = grid.iter().map(|(ttl, renew)| (*ttl * MS, renew.map(|it| it * MS))).collect();
    let keepings = Keeping::ALL.to_vec();
    Study { conditions, traffic, grid, keepings, holds: 24_000, seed: 7, threads: 2 }
}

fn found(study: &Study) -> Vec<Point> {
    study.run(&Watched::default()).expect("settings that can be")
}

/// Counted and asked are the same share, each within the other's interval, wherever both see it.
fn agree(study: &Study) {
    let leases = study.settings();
    for setting in leases {
        let lease = Lease::new(&study.conditions, setting).expect("a setting");
        let (mut counted, mut rare) = (Counted::default(), Rare::default());
        let traffic = study.traffic;
        counted.add(&lease, &traffic, 30_000, &mut Dice::new(3, 1));
        rare.add(&lease, &traffic, 8_000, &mut Dice::new(3, 2));
        let hits = if setting.tracked { counted.lost } else { counted.outlived };
        let seen = wilson(hits, counted.holds);
        let asked = rare.wrong.interval();
        assert!(hits >= 100, "{setting:?}: {hits} are too few to be compared");
        assert!(
            seen.low <= asked.high && asked.low <= seen.high,
            "{setting:?}: {seen:?} {asked:?}"
        );
        if !setting.tracked {
            let (seen, asked) = (counted.overlap.interval(), rare.overlap.interval());
            let apart = seen.high < asked.low || asked.high < seen.low;
            assert!(seen.low > 0.0 && !apart, "{setting:?}: overlaps {seen:?} {asked:?}");
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
    // Slow messages by themselves, too.
    let mut slow = study(long, None, &[(300, Some(100)), (300, Some(250))]);
    slow.conditions.round_trip = law("lognormal:5ms,p99=150ms");
    agree(&slow);
}

#[test]
fn formulas_lie_within_what_is_simulated() {
    let pauses = Some((0.5, "lognormal:200ms,p99=3s"));
    for (hold, pause) in
        [("lognormal:50ms,p99=1s", pauses), ("uniform:0s..2s", None), ("100ms", pauses)]
    {
        let grid = [(400, None), (700, None), (1_900, None)];
        for point in found(&study(hold, pause, &grid)) {
            let formula = point.closed_form.expect("there is a formula");
            let Share { per_hold, low, high, .. } = point.wrong;
            // What the sums over quantiles leave out is below a hundredth.
            let (low, high) = (low * 0.99 - 1e-9, high * 1.01 + 1e-9);
            assert!(
                (low..=high).contains(&formula),
                "{hold}, {:?}, {:?}: {formula} is not in {low}..{high} around {per_hold}",
                point.ttl,
                point.keeping
            );
        }
    }
}

#[test]
fn what_comes_once_in_a_year_is_seen() {
    // Forty times the median pause, and once in ten million holds a pause at all.
    let study = study("1ms", Some((1e-4, "lognormal:100ms,p99=1s")), &[(20_000, None)]);
    let points = found(&study);
    let none = &points[0];
    let formula = none.closed_form.expect("there is a formula");
    assert!(formula < 1e-14, "{formula}");
    assert!(matches!(none.wrong.how, How::Asked { .. }));
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
    let of = |keeping: Keeping, renews: bool| {
        let is = |it: &&Point| it.keeping == keeping && it.renew.is_some() == renews;
        points.iter().find(is).expect("it is in the grid")
    };
    let unrenewed = of(Keeping::None, false).wrong;
    // Nineteen pauses in one hold.
    assert_eq!(unrenewed.how, How::Bound);
    assert!(0.0 < unrenewed.high && unrenewed.high < 1e-40, "{unrenewed:?}");
    assert_eq!(of(Keeping::None, true).wrong.how, How::Bound);
    assert_eq!(of(Keeping::Tracked, true).belief.how, How::Construction);
    assert_eq!(of(Keeping::Fenced, true).effect.how, How::Construction);
}

#[test]
fn nobody_overlaps_who_is_alone() {
    let mut study = study("100ms", Some((0.1, "lognormal:100ms,p99=1s")), &[(2_000, None)]);
    study.traffic.clients = 1;
    for point in found(&study) {
        assert_eq!((point.effect.how, point.effect.high), (How::Construction, 0.0));
    }
}

#[test]
fn what_was_measured_says_nothing_beyond_its_longest() {
    use scenarios::distribution::{Bucket, Distribution, Histogram};
    let bucket = |ms, count| Bucket { value: Span(ms * MS), count };
    let counts = [bucket(1, 9_990), bucket(20, 10)];
    let pauses = Law::new(&Distribution::Histogram(Histogram::new(counts).expect("it counts")));
    let mut study = study("100ms", None, &[(2_000, Some(666))]);
    study.conditions.pause = Some((1e-9, pauses));
    let none = found(&study).remove(0).wrong;
    assert_eq!((none.per_hold, none.low), (0.0, 0.0));
    // A tenth of the holds have a pause, and of ten thousand pauses none was so long.
    assert!((none.high / (0.095 * 3.0e-4) - 1.0).abs() < 0.1, "{none:?}");
}

#[test]
fn a_crash_leaves_the_rest_of_an_interval() {
    let points = found(&study("10s", None, &[(3_000, Some(1_000)), (20_000, None)]));
    let mean_ns = |place: usize| float(span_ns(points[place].takeover.mean.0));
    // And half a poll, and a round trip.
    let formula = closed::orphaned_renewed_ns(3_000_000_000, 1_000_000_000) + 25e6 + 2e6;
    assert!((mean_ns(0) / formula - 1.0).abs() < 0.01, "{} {formula}", mean_ns(0));
    // Without renewal: the TTL less what has passed of the hold, which is anything up to all.
    let formula = 20e9 - 5e9 + 25e6;
    assert!((mean_ns(1) / formula - 1.0).abs() < 0.01, "{} {formula}", mean_ns(1));
    let p99_ns = float(span_ns(points[0].takeover.p99.0));
    assert!(p99_ns > 2.97e9 && p99_ns < 3.06e9, "{p99_ns}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let pauses = Some((0.5, "lognormal:200ms,p99=3s"));
    let one = Study {
        threads: 1,
        ..study("lognormal:50ms,p99=1s", pauses, &[(500, None), (1_000, Some(333))])
    };
    let many = Study { threads: 5, ..one.clone() };
    assert_eq!(found(&one), found(&many));
    let other = Study { seed: 8, ..one.clone() };
    assert_ne!(found(&one), found(&other));
}
