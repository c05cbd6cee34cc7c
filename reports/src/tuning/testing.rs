//! A tuning to test with.
//!
//! Invariant: one overlap a day and one lost hold a day are wanted, and a takeover within ten seconds.

use std::time::Duration;

use scenarios::span::Span;
use ttl_model::tuning::{
    Advice, Delay, EstimateMethod, IfTaken, Input, Point, Protection, SCHEMA, Share, TargetStatus,
    Targets, Tuning,
};

pub(super) fn ms(ms: u64) -> Span {
    Span(Duration::from_millis(ms))
}

fn at_most(per_day_high: f64) -> Share {
    let how = EstimateMethod::Estimated { holds: 1_000 };
    Share { per_hold: 0.0, low: 0.0, high: 0.0, per_day: 0.0, per_day_high, how }
}

/// A setting with so many overlaps and lost holds a day at most.
pub(super) fn point(ttl_ms: u64, renew_ms: Option<u64>, overlaps: f64, lost: f64) -> Point {
    let mut misses = Vec::new();
    for (name, missed) in
        [("overlaps", overlaps > 1.0), ("lost holds", lost > 1.0), ("takeover", ttl_ms > 10_000)]
    {
        misses.extend(missed.then(|| format!("{name}: too many")));
    }
    let renewals = renew_ms.map_or(0.0, |every| 1_000.0 / every as f64);
    Point {
        wrong: at_most(lost),
        effect: at_most(overlaps),
        takeover: Delay { mean: ms(ttl_ms), p99: ms(ttl_ms), p99_high: ms(ttl_ms) },
        renewals_per_second: renewals,
        renewals_per_second_high: renewals,
        misses,
        ..Point::unknown(ms(ttl_ms), renew_ms.map(ms), Protection::Tracked)
    }
}

/// A tuning of these points, of which that at this place is advised, or the nearest.
pub(super) fn tuning(points: Vec<Point>, chosen: usize) -> Tuning {
    let answer = if points[chosen].meets() { TargetStatus::Met } else { TargetStatus::TooSlow };
    let input = |name: &str, source: &str| Input {
        name: name.to_owned(),
        value: "5ms".to_owned(),
        source: source.to_owned(),
    };
    Tuning {
        schema: SCHEMA.to_owned(),
        inputs: vec![
            input("work under the lock", "given"),
            input("pauses", "A Long Title of a Source, https://example.org/pauses: rate assumed"),
        ],
        targets: Targets {
            overlaps: "1/day".to_owned(),
            overlaps_per_day: 1.0,
            lost: "1/day".to_owned(),
            lost_per_day: 1.0,
            takeover: ms(10_000),
            missed: None,
        },
        keeping: points[chosen].keeping,
        if_taken: IfTaken::Wait,
        seed: 1,
        holds_per_day: 1e6,
        orphans_per_day: 1.0,
        simulated: 1_000,
        advice: Advice {
            answer,
            point: Some(chosen),
            says: "take this one".to_owned(),
            objective: "by lot".to_owned(),
            because: vec!["a reason".to_owned()],
        },
        points,
        cut_short: None,
        confirmation: None,
        replay: "picklock tune".to_owned(),
    }
}
