//! Which setting is advised, and why not the others.

use std::time::Duration;

use crate::tuning::{Delay, EstimateMethod, Share, Skips};
use scenarios::span::Span;

use super::*;

fn seconds(seconds: u64) -> Span {
    Span(Duration::from_secs(seconds))
}

fn share(per_day: f64, per_day_high: f64) -> Share {
    Share { per_hold: 0.0, low: 0.0, high: 0.0, per_day, per_day_high, how: EstimateMethod::Bound }
}

fn cost(renew: Option<u64>) -> f64 {
    renew.map_or(0.0, |every| 10.0 / Duration::from_secs(every).as_secs_f64())
}

fn point(keeping: Protection, ttl: u64, renew: Option<u64>, overlaps: f64, lost: f64) -> Point {
    Point {
        wrong: share(lost, lost),
        effect: share(overlaps, overlaps),
        takeover: Delay { mean: seconds(ttl), p99: seconds(ttl), p99_high: seconds(ttl) },
        renewals_per_second: cost(renew),
        renewals_per_second_high: cost(renew),
        ..Point::unknown(seconds(ttl), renew.map(seconds), keeping)
    }
}

fn targets() -> Targets {
    Targets {
        overlaps: "1/day".to_owned(),
        overlaps_per_day: 1.0,
        lost: "2/day".to_owned(),
        lost_per_day: 2.0,
        takeover: seconds(10),
        missed: None,
    }
}

fn advised(mut points: Vec<Point>, keeping: Protection) -> (Advice, Vec<Point>) {
    judge(&mut points, &targets());
    (advise(&points, &targets(), keeping), points)
}

#[test]
fn both_sides_of_every_target() {
    let met = point(Protection::Tracked, 10, None, 1.0, 2.0);
    let mut points = vec![
        met.clone(),
        Point { effect: share(0.0, 1.001), ..met.clone() },
        Point { wrong: share(0.0, 2.001), ..met.clone() },
        Point { takeover: Delay { p99_high: seconds(11), ..Delay::default() }, ..met.clone() },
        // Who keeps no validity loses nothing by it.
        Point { keeping: Protection::None, wrong: share(9.0, 9.0), ..met },
    ];
    judge(&mut points, &targets());
    let missed: Vec<usize> = points.iter().map(|it| it.misses.len()).collect();
    assert_eq!(missed, [0, 1, 1, 1, 0]);
}

#[test]
fn a_rate_that_is_missed_does_not_look_like_one_that_is_met() {
    let points = |overlaps| vec![point(Protection::Tracked, 5, None, overlaps, 2.001)];
    let mut near = points(1.001);
    judge(&mut near, &targets());
    assert_eq!(near[0].misses, ["overlaps: just over 1 a day", "lost holds: just over 2 a day"]);
    let mut rare = points(1e-12);
    judge(&mut rare, &Targets { overlaps_per_day: 1e-15, ..targets() });
    let said = "overlaps: rarer than 1 in a million years, but more often than the target";
    assert_eq!(rare[0].misses[0], said);
}

#[test]
fn the_takeover_is_of_a_client_that_waits_and_just_beyond_its_target_is_said() {
    let late = Duration::from_nanos(10_000_000_001);
    let point = Point {
        takeover: Delay { p99_high: Span(late), ..Delay::default() },
        ..point(Protection::Tracked, 10, None, 0.0, 0.0)
    };
    let (advice, points) = advised(vec![point.clone()], Protection::Tracked);
    assert_eq!(points[0].misses, ["takeover: just over 10 s"]);
    assert!(advice.because[0].contains("takeover (just over 10 s)"), "{advice:?}");
    let said = |point: &Point| figures(point, &targets()).join("\n");
    assert!(said(&point).contains("after a crash a waiting client has the lock within"));
    let skips = Some(Skips { share: 0.5, missed: 0.1, missed_p99: 0 });
    let skips = Point { skips, ..point };
    assert!(said(&skips).contains("after a crash the next run begins within"));
}

#[test]
fn the_cheapest_is_taken_and_what_is_shorter_is_said_to_be_too_short() {
    let of = |ttl, renew, lost| point(Protection::Tracked, ttl, renew, 0.0, lost);
    let grid = vec![of(1, None, 50.0), of(5, None, 1.0), of(9, None, 0.1), of(4, Some(1), 0.0)];
    let (advice, _) = advised(grid, Protection::Tracked);
    assert_eq!((advice.answer, advice.point), (TargetStatus::Met, Some(1)));
    assert_eq!(advice.says, "take a TTL of 5 s, without renewal");
    let said = advice.because.join("\n");
    let short = "a shorter TTL without renewal is not enough: a TTL of 1 s, without renewal, misses \
                 the target for lost holds (up to 50 a day)";
    assert!(said.contains(short) && said.contains("cost: no renewals"), "{said}");
    // What is renewed may be shorter, and is not called too short.
    let sooner = "a shorter TTL with renewal also meets the targets: a TTL of 4 s, renewed every 1 s needs 10.0";
    assert!(said.contains(sooner), "{said}");
    assert!(advice.objective.contains("fewest renewals"), "{advice:?}");
}

#[test]
fn what_is_too_short_by_its_upper_bound_alone_is_said_to_be_perhaps_enough() {
    let of = |lost, most| Point {
        wrong: share(lost, most),
        ..point(Protection::Tracked, 1, None, 0.0, 0.0)
    };
    for (lost, says) in [(1.9, true), (2.1, false)] {
        let grid = vec![of(lost, 3.0), point(Protection::Tracked, 5, None, 0.0, 1.0)];
        let said = advised(grid, Protection::Tracked).0.because.join("\n");
        assert!(said.contains("is not enough: a TTL of 1 s"), "{said}");
        assert_eq!(said.contains("may show that it is enough"), says, "{said}");
    }
}

#[test]
fn renewal_is_advised_only_where_it_is_needed() {
    let of = |ttl, renew, lost| point(Protection::Tracked, ttl, renew, 0.0, lost);
    let (advice, _) = advised(
        vec![of(9, None, 3.0), of(9, Some(3), 1.0), of(9, Some(1), 1.0)],
        Protection::Tracked,
    );
    assert_eq!(advice.point, Some(1));
    let said = advice.because.join("\n");
    assert!(said.contains("renewal is needed: a TTL of 9 s, without renewal"), "{said}");
    assert!(!said.contains("shorter"), "{said}");
}

#[test]
fn what_is_shorter_and_would_do_is_said_to_cost_more() {
    let of = |ttl, renew, lost| point(Protection::Tracked, ttl, renew, 0.0, lost);
    let grid = vec![of(9, None, 3.0), of(3, Some(1), 1.0), of(9, Some(3), 1.0)];
    let (advice, _) = advised(grid, Protection::Tracked);
    assert_eq!(advice.point, Some(2));
    let said = advice.because.join("\n");
    let shorter = "a TTL of 3 s, renewed every 1 s needs 10.0 renewals per second";
    assert!(said.contains(&format!("also meets the targets but costs more: {shorter}")), "{said}");
}

#[test]
fn a_figure_with_an_interval_says_what_it_is_at_most() {
    let of = |middle: f64, high: f64| {
        let point = point(Protection::Tracked, 9, Some(3), 0.0, 0.0);
        renewals(&Point { renewals_per_second: middle, renewals_per_second_high: high, ..point })
    };
    assert_eq!(of(0.12, 0.12), "0.120 renewals per second");
    assert_eq!(of(0.0, 0.12), "less than 0.001 renewals per second, at most 0.120");
    assert_eq!(of(0.0, 0.0001), "less than 0.001 renewals per second");
    assert_eq!(of(123.44, 125.0), "123.4 renewals per second, at most 125.0");
}

#[test]
fn of_those_that_skip_the_fewest_missed_runs_are_advised_and_then_the_shortest() {
    let of = |ttl, missed_p99, takeover| Point {
        skips: Some(Skips { share: 0.5, missed: 0.1, missed_p99 }),
        takeover: Delay { p99_high: seconds(takeover), ..Delay::default() },
        ..point(Protection::Tracked, ttl, None, 0.0, 0.0)
    };
    let (advice, _) = advised(vec![of(50, 0, 5), of(60, 1, 3), of(45, 0, 6)], Protection::Tracked);
    assert_eq!(advice.point, Some(2));
    let mut points = vec![of(60, 1, 3), of(45, 0, 6)];
    judge(&mut points, &Targets { missed: Some(0), ..targets() });
    assert_eq!(points[0].misses, ["missed runs: up to 1 after a crash"]);
    assert!(points[1].meets());
    let said = advice.because.join("\n");
    assert!(said.contains("50.0 % of all runs find the lock taken"), "{said}");
    assert!(said.contains("misses 0.10 runs on average, at most 0 in 99 % of cases"), "{said}");
}

#[test]
fn what_was_not_simulated_to_the_end_is_neither_advised_nor_called_missed() {
    let unfinished = Point { unfinished: true, ..point(Protection::None, 5, None, 0.0, 0.0) };
    let (advice, points) = advised(vec![unfinished.clone()], Protection::None);
    assert_eq!((advice.answer, advice.point), (TargetStatus::Unknown, None));
    assert!(points[0].misses[0].starts_with("unfinished"), "{points:?}");
    let found = point(Protection::None, 9, None, 0.0, 0.0);
    let (advice, _) = advised(vec![unfinished, found], Protection::None);
    assert_eq!((advice.answer, advice.point), (TargetStatus::Met, Some(1)));
}

#[test]
fn what_cannot_be_is_said_and_a_fence_is_advised() {
    let fenced = point(Protection::Fenced, 5, None, 0.0, 1.0);
    let (advice, _) =
        advised(vec![point(Protection::None, 5, None, 3.0, 3.0), fenced.clone()], Protection::None);
    assert_eq!((advice.answer, advice.point), (TargetStatus::TooManyOverlaps, Some(0)));
    let said = advice.because.join("\n");
    assert!(
        said.contains("use fencing") && said.contains("a TTL of 5 s, without renewal then meets"),
        "{said}"
    );

    let slow = vec![
        point(Protection::None, 5, None, 3.0, 3.0),
        point(Protection::None, 20, None, 0.5, 0.5),
    ];
    assert_eq!(advised(slow, Protection::None).0.answer, TargetStatus::TooSlow);
    let lossy = Point { wrong: share(5.0, 5.0), ..fenced };
    let (advice, _) = advised(vec![lossy], Protection::Fenced);
    assert!(advice.because.join("\n").contains("shorter holds"), "{advice:?}");
}

#[test]
fn the_advice_follows_from_the_targets_that_are_missed() {
    let of = |ttl, lost| point(Protection::Tracked, ttl, None, 0.0, lost);
    let fenced = point(Protection::Fenced, 5, None, 0.0, 0.0);
    for (grid, says) in [
        (vec![of(20, 0.0)], "give shorter ones with --ttl, or loosen --takeover"),
        (vec![of(5, 3.0)], "give others with --ttl and --renew"),
        (vec![of(5, 3.0), of(20, 0.0)], "but then a crashed holder blocks"),
    ] {
        let grid = [grid, vec![fenced.clone()]].concat();
        let (advice, _) = advised(grid, Protection::Tracked);
        let said = advice.because.join("\n");
        assert_eq!((advice.answer, advice.because.len()), (TargetStatus::TooSlow, 2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn the_nearest_is_what_is_least_too_often_within_the_time() {
    let of = |ttl, overlaps| point(Protection::None, ttl, None, overlaps, 0.0);
    let (advice, _) = advised(vec![of(1, 290.0), of(5, 30.0), of(60, 0.5)], Protection::None);
    assert_eq!((advice.answer, advice.point), (TargetStatus::TooSlow, Some(1)));
    // The worse of two counts, and of equals the sooner.
    let of = |ttl, overlaps, lost| point(Protection::Tracked, ttl, None, overlaps, lost);
    let late = of(60, 0.5, 0.5);
    let (advice, _) = advised(vec![of(1, 3.0, 90.0), of(2, 9.0, 4.0), late], Protection::Tracked);
    assert_eq!(advice.point, Some(2), "one miss is less than two");
    let grid = vec![of(1, 0.5, 90.0), of(2, 40.0, 1.0), of(3, 40.0, 1.0), of(60, 0.5, 0.5)];
    assert_eq!(advised(grid, Protection::Tracked).0.point, Some(1));
}

#[test]
fn what_cannot_be_said_is_said_of_a_setting_whose_guess_is_good() {
    let of = |guess, most| Point {
        effect: share(guess, most),
        ..point(Protection::None, 5, None, 0.0, 0.0)
    };
    let (advice, _) = advised(vec![of(2.0, 3.0), of(0.0, 4.0)], Protection::None);
    assert_eq!((advice.answer, advice.point), (TargetStatus::Unknown, Some(1)));
}

#[test]
fn a_best_guess_is_not_enough() {
    let point = Point { effect: share(0.0, 4.0), ..point(Protection::None, 5, None, 0.0, 0.0) };
    let (advice, _) = advised(vec![point], Protection::None);
    assert_eq!(advice.answer, TargetStatus::Unknown);
    assert!(advice.because.join("\n").contains("measure for longer"));
}
