//! The chart's geometry: what hides what, what is in the corner, and that texts stand free.

use std::time::Duration;

use ttl_model::tuning::{EstimateMethod, Point, Protection, TargetStatus, Tuning};

use super::captions::{Callout, Captions, RING};
use super::label_layout::Rect;
use super::legend::said;
use super::plot::Plot;
use super::series::{FailureMode, RenewalRule, all};
use super::*;
use crate::chart::{font, svg};
use crate::tuning::testing::{point, tuning};

fn grid(of: impl Fn(u64) -> (f64, f64), renew: Option<u64>) -> Vec<Point> {
    let ttls = [1_000, 2_000, 5_000, 10_000, 20_000, 60_000, 600_000];
    let at = |ttl: u64| {
        let (overlaps, lost) = of(ttl);
        point(ttl, renew.map(|part| ttl / part), overlaps, lost)
    };
    ttls.into_iter().map(at).collect()
}

/// Steep and flat lines, alone and close together, with an advised setting or none.
fn tunings() -> Vec<Tuning> {
    let fall = |steep: i32, at_1s: f64| {
        move |ttl: u64| {
            let rate = at_1s / (ttl as f64 / 1e3).powi(steep);
            (rate / 3.0, rate)
        }
    };
    let mut tunings = Vec::new();
    for (steep, at_1s) in [(1, 3.0), (3, 90.0), (3, 1e5), (7, 1e9), (2, 1e-9), (0, 0.5), (0, 50.0)]
    {
        for renewed in [None, Some(0.999), Some(0.01)] {
            let mut points = grid(fall(steep, at_1s), None);
            if let Some(part) = renewed {
                points.extend(grid(fall(steep, at_1s * part), Some(3)));
            }
            for chosen in [0, 2, points.len() - 1] {
                tunings.push(tuning(points.clone(), chosen));
            }
        }
    }
    tunings
}

#[test]
fn texts_touch_no_line_no_mark_and_no_other_text() {
    font::register().unwrap();
    let (mut seen, mut missing) = (0, 0);
    for tuning in tunings() {
        let plot = Plot::of(&tuning).unwrap();
        let captions = Captions::of(&tuning, &plot).unwrap();
        let callouts = || captions.callouts.iter().map(|it| it.text.rect);
        let texts: Vec<Rect> = callouts()
            .chain(captions.ttls.iter().map(|it| it.text.rect))
            .chain(captions.met.iter().map(|it| it.rect))
            .collect();
        let lines: Vec<_> = plot.room().lines;
        for (number, text) in texts.iter().enumerate() {
            assert!(!lines.iter().any(|it| text.is_crossed(*it)), "{text:?} of {texts:?}");
            let leaders = captions.callouts.iter().map(|it| it.leader);
            let mut leaders = leaders.chain(captions.ttls.iter().filter_map(|it| it.leader));
            assert!(!leaders.any(|it| text.is_crossed(it)), "{text:?}");
            let marks = plot.lines.iter().flat_map(|it| &it.marks);
            for mark in marks {
                assert!(!text.touches(&Rect::around(mark.at, MARK_RADIUS)), "{text:?}");
            }
            for Callout { at, .. } in &captions.callouts {
                assert!(!text.touches(&Rect::around(*at, RING * 0.7)), "{text:?} in the ring");
            }
            assert!(!texts[..number].iter().any(|it| it.touches(text)), "{text:?}");
            assert!(LEFT <= text.left && text.right <= RIGHT && text.bottom <= BOTTOM);
            seen += 1;
        }
        for it in captions.callouts.iter().filter(|it| it.at.1 < plot.wanted.1) {
            assert!(!it.text.rect.touches(&plot.met()), "{:?} in {:?}", it.text, plot.met());
        }
        missing += u32::from(captions.callouts.is_empty());
    }
    assert!(seen > 200 && missing == 0, "{seen} texts, {missing} charts that advise nothing");
}

#[test]
fn a_mark_is_in_the_corner_where_its_target_is_met() {
    for tuning in tunings() {
        let plot = Plot::of(&tuning).unwrap();
        let met = plot.met().grown(1e-9);
        for mark in plot.lines.iter().flat_map(|it| &it.marks) {
            for it in &mark.says {
                let inside = met.holds(&Rect::around(mark.at, 0.0));
                let meets =
                    it.times <= 1.0 && it.point.takeover.p99_high <= tuning.targets.takeover;
                assert_eq!(inside, meets, "{it:?} at {:?}, corner {met:?}", mark.at);
            }
        }
    }
}

#[test]
fn what_may_be_at_most_is_drawn_and_not_the_best_guess() {
    let mut worse = point(5_000, None, 0.5, 0.5);
    worse.wrong.per_day_high = 50.0;
    worse.wrong.per_day = 0.0;
    let of = tuning(vec![worse, point(9_000, None, 0.5, 0.4)], 1);
    let plot = Plot::of(&of).unwrap();
    let (wrong, at) = plot.worst(&of.points[0]).unwrap();
    assert!(wrong == FailureMode::Lost && at.1 < plot.wanted.1, "{at:?}");
}

#[test]
fn lines_that_would_hide_one_another_are_one_with_both_names() {
    let rate = |by: f64| move |ttl: u64| (by * 1e3 / ttl as f64, 100.0 * by * 1e3 / ttl as f64);
    let both = |by: f64| {
        let points = [grid(rate(7.0), None), grid(rate(7.0 * by), Some(3))].concat();
        let of = tuning(points, 3);
        let plot = Plot::of(&of).unwrap();
        plot.lines.iter().map(|it| said(it).join("; ")).collect::<Vec<_>>()
    };
    assert_eq!(both(1.01), ["overlaps; renewed or not", "lost holds; renewed or not"]);
    let apart = both(1.5);
    assert_eq!(apart.len(), 4);
    assert_eq!(apart[3], "lost holds; renewed every 1/3 of the TTL");
}

#[test]
fn lines_on_both_sides_of_what_is_wanted_stay_two() {
    let near = |overlaps| move |_: u64| (overlaps, 900.0);
    let lines = |overlaps: f64| {
        let of = tuning([grid(near(0.999), None), grid(near(overlaps), Some(3))].concat(), 0);
        Plot::of(&of).unwrap().lines.len()
    };
    assert_eq!((lines(1.0), lines(1.001)), (2, 3));
}

#[test]
fn what_is_rarer_than_the_scale_is_named_and_not_joined() {
    let of = tuning(grid(|ttl| (1e-20, 9e9 / (ttl as f64).powi(3)), None), 3);
    let plot = Plot::of(&of).unwrap();
    let (overlaps, lost) = (&plot.lines[0], &plot.lines[1]);
    assert!(overlaps.is_below() && overlaps.strokes().next().is_none());
    assert!(!lost.is_below() && lost.marks.iter().any(|it| it.below));
    // A line ends at marks, in the scale or below it, and at most once below.
    let ends: Vec<_> = lost.strokes().collect();
    let is_mark = |at| lost.marks.iter().any(|it| it.at == at);
    assert!(ends.iter().all(|it| is_mark(it.0) && is_mark(it.1)), "{ends:?}");
    assert_eq!(ends.iter().filter(|it| it.1.1 > plot.floor).count(), 1, "{ends:?}");
    let rows: Vec<f64> = plot.lines.iter().map(|it| it.marks[it.marks.len() - 1].at.1).collect();
    assert!(plot.floor < rows[0] && rows[0] + 2.0 * MARK_RADIUS < rows[1] && rows[1] < BOTTOM);
    let svg = svg(&Frontier(&of)).unwrap();
    assert_eq!(svg.matches("rarer than the scale at every TTL").count(), 1);
    // Where all is in the scale there is no lane.
    let of = tuning(grid(|_| (0.5, 0.5), None), 0);
    assert_eq!(Plot::of(&of).unwrap().floor, BOTTOM);
}

#[test]
fn only_what_concerns_the_lock_is_drawn() {
    let locks = |keeping| {
        let mut points = grid(|ttl| (1e4 / ttl as f64, 1e5 / ttl as f64), None);
        let mut others = points.clone();
        others.iter_mut().for_each(|it| it.keeping = Protection::None);
        points.iter_mut().for_each(|it| {
            it.keeping = keeping;
            if keeping == Protection::Fenced {
                it.effect.how = EstimateMethod::Construction;
            }
        });
        others.extend(points);
        let of = tuning(others, 7);
        let lines: Vec<FailureMode> = all(&of).iter().map(|it| it.wrong).collect();
        assert!(all(&of).iter().flat_map(|it| &it.points).all(|it| it.point.keeping == keeping));
        (lines, svg(&Frontier(&of)).unwrap())
    };
    assert_eq!(locks(Protection::Tracked).0, [FailureMode::Overlaps, FailureMode::Lost]);
    let (lines, svg) = locks(Protection::Fenced);
    assert_eq!(lines, [FailureMode::Lost]);
    assert!(svg.contains("overlaps cannot be"));
    // Who keeps no validity loses nothing; here both locks are of that kind.
    let of = tuning(
        grid(|_| (0.5, 0.5), None)
            .into_iter()
            .map(|it| Point { keeping: Protection::None, ..it })
            .collect(),
        0,
    );
    assert_eq!(all(&of).iter().map(|it| it.wrong).collect::<Vec<_>>(), [FailureMode::Overlaps]);
}

#[test]
fn the_advised_setting_is_drawn_whatever_its_renewal() {
    let mut points = grid(|_| (0.5, 0.5), Some(3));
    points.extend(grid(|_| (0.5, 0.5), Some(2)));
    points.push(point(5_000, Some(4_000), 0.5, 0.5));
    for chosen in 0..points.len() {
        let of = tuning(points.clone(), chosen);
        assert!(Plot::of(&of).unwrap().worst(&of.points[chosen]).is_some(), "{chosen}");
    }
    let kinds = |chosen| all(&tuning(points.clone(), chosen))[0].renewal.name();
    assert_eq!(kinds(0), "renewed every 1/3 of the TTL");
    assert_eq!(kinds(8), "renewed every 1/2 of the TTL");
    assert_eq!(kinds(14), "renewed every 4/5 of the TTL");
    // One interval for all TTLs is no part of them.
    let of =
        tuning(vec![point(5_000, Some(1_000), 0.5, 0.5), point(9_000, Some(1_000), 0.5, 0.5)], 0);
    assert_eq!(all(&of)[0].renewal, RenewalRule::Every(Duration::from_secs(1)));
    assert_eq!(all(&of)[0].renewal.name(), "renewed every 1 s");
}

#[test]
fn it_says_what_is_advised_and_why_the_next_is_not() {
    font::register().unwrap();
    let heads = |of: &Tuning| {
        let plot = Plot::of(of).unwrap();
        let captions = Captions::of(of, &plot).unwrap();
        let texts =
            captions.callouts.iter().flat_map(|it| it.text.lines.iter().map(|it| it.0.clone()));
        texts.collect::<Vec<String>>().join("\n")
    };
    let fall = |ttl: u64| (1e-9, 16e6 / (ttl as f64 * ttl as f64));
    let of = tuning(grid(fall, None), 2);
    let said = "take TTL 5 s, not renewed\nlost holds: at most 230 a year\nTTL 2 s is too short\n\
                lost holds: too many";
    assert_eq!(heads(&of), said);
    let said = heads(&tuning(grid(|_| (0.5, 0.4), Some(4)), 2));
    assert!(
        said.contains("take TTL 5 s, renewed every 1.25 s\noverlaps: at most 180 a year"),
        "{said}"
    );
    assert!(said.contains("TTL 2 s would do, too\nbut renews more often"), "{said}");
    let slow = tuning(grid(|ttl| (3e4 / ttl as f64, 1e-9), None), 2);
    assert_eq!(slow.advice.answer, TargetStatus::TooSlow);
    let said = heads(&slow);
    assert!(said.contains("closest: TTL 5 s, not renewed\noverlaps: too many"), "{said}");
    assert!(
        said.contains(
            "rare enough from TTL 1 min on\nbut a crash blocks for 1 min, the target is 10 s"
        ),
        "{said}"
    );
}

#[test]
fn what_a_setting_misses_is_said_in_full() {
    font::register().unwrap();
    let mut of = tuning(grid(|_| (1e6, 1e6), None), 0);
    let misses = ["overlaps: up to 1,700,000 a day", "lost holds: up to 1,300,000 a day"];
    of.points[0].misses = misses.map(str::to_owned).into();
    let captions = Captions::of(&of, &Plot::of(&of).unwrap()).unwrap();
    let lines: Vec<&str> = captions.callouts[0].text.lines.iter().map(|it| &*it.0).collect();
    assert_eq!(lines[1..].join(" "), misses.join("; "));
}

#[test]
fn times_are_told_as_people_say_them() {
    let ticks = |ttls: &[u64]| {
        let of = tuning(ttls.iter().map(|it| point(*it, None, 0.5, 0.4)).collect(), 0);
        let mut ticks = Plot::of(&of).unwrap().across;
        assert!(!ticks.is_empty() && ticks.iter().all(|it| (LEFT..=RIGHT).contains(&it.at)));
        ticks.sort_by(|a, b| a.at.total_cmp(&b.at));
        ticks.into_iter().map(|it| it.label).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        ticks(&[1_000, 5_000, 600_000]),
        "1 s, 2 s, 5 s, 10 s, 20 s, 1 min, 2 min, 5 min, 10 min"
    );
    assert!(ticks(&[1, 600_000]).starts_with("1 ms, 10 ms, 100 ms, 1 s, 10 s, 1 min"));
    assert!(ticks(&[100_000_000_000, 900_000_000_000]).contains(" h"));
}

#[test]
fn odd_tunings_are_drawn_too() {
    let one = || vec![point(5_000, None, 0.5, 0.5)];
    let mut none_wanted = tuning(one(), 0);
    none_wanted.targets.overlaps_per_day = 0.0;
    let mut far = tuning(one(), 0);
    far.targets.takeover.0 = Duration::from_secs(900_000_000);
    let mut near = tuning(one(), 0);
    near.targets.takeover.0 = Duration::ZERO;
    let mut nothing = tuning(one(), 0);
    nothing.points.clear();
    let mut silent = tuning(one(), 0);
    silent.advice.point = None;
    for (of, drawn) in
        [(none_wanted, true), (far, true), (near, true), (nothing, false), (silent, true)]
    {
        assert_eq!(Plot::of(&of).is_some(), drawn);
        assert!(svg(&Frontier(&of)).unwrap().ends_with("</svg>\n"));
    }
    let never = point(5_000, None, 0.0, 0.0);
    assert!(Plot::of(&tuning(vec![never], 0)).unwrap().lines.iter().all(super::PlotLine::is_below));
}
