//! What a tuning's chart has lines of: what goes wrong with the lock that was asked for, by how it is
//! renewed.
//!
//! Invariant: the advised point is on a line, whatever else is left out.

use std::time::Duration;

use ttl_model::tuning::{Advice, EstimateMethod, Point, Protection, Share, Tuning};

use ttl_model::format::time;

/// What is rarer than this part of what is wanted is as rare as never.
const LEAST: f64 = 1e-300;

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureMode {
    /// Two rely on the lock at the same time.
    Overlaps,
    /// Work that is cut off.
    Lost,
}

impl FailureMode {
    pub(super) const ALL: [Self; 2] = [Self::Overlaps, Self::Lost];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Overlaps => "overlaps",
            Self::Lost => "lost holds",
        }
    }

    /// How often, and how it was found.
    pub(super) fn share(self, point: &Point) -> &Share {
        match self {
            Self::Overlaps => &point.effect,
            Self::Lost => &point.wrong,
        }
    }

    /// How often at most, as a multiple of what is wanted.
    fn times(self, point: &Point, tuning: &Tuning) -> f64 {
        let wanted = match self {
            Self::Overlaps => tuning.targets.overlaps_per_day,
            Self::Lost => tuning.targets.lost_per_day,
        };
        (self.share(point).per_day_high / wanted.max(LEAST)).max(LEAST)
    }
}

/// By what the points of a line are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RenewalRule {
    /// They are not renewed.
    Never,
    /// They are renewed after this part of the TTL, in thousandths.
    Part(u128),
    /// They are renewed so often whatever the TTL is.
    Every(Duration),
}

impl RenewalRule {
    pub(super) fn name(self) -> String {
        match self {
            Self::Never => "not renewed".to_owned(),
            Self::Every(span) => format!("renewed every {}", time(scenarios::span::Span(span))),
            Self::Part(thousandths) => {
                let near = |(over, under): &(u128, u128)| {
                    (over * 1_000).abs_diff(thousandths * under) <= *under
                };
                let parts = (2..=12).flat_map(|under| (1..under).map(move |over| (over, under)));
                match parts.into_iter().find(near) {
                    Some((over, under)) => format!("renewed every {over}/{under} of the TTL"),
                    None => format!("renewed every {:.1} % of the TTL", thousandths as f64 / 10.0),
                }
            }
        }
    }

    fn holds(self, point: &Point) -> bool {
        match self {
            Self::Never => point.renew.is_none(),
            Self::Part(_) => part(point) == Some(self),
            Self::Every(span) => point.renew.is_some_and(|every| every.0 == span),
        }
    }
}

fn part(point: &Point) -> Option<RenewalRule> {
    let ttl_ns = point.ttl.0.as_nanos().max(1);
    point.renew.map(|every| RenewalRule::Part(every.0.as_nanos() * 1_000 / ttl_ns))
}

/// A setting on a line, and the way in which it goes wrong there.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinePoint<'a> {
    pub(super) wrong: FailureMode,
    pub(super) point: &'a Point,
    /// How often it goes wrong at most, as a multiple of what is wanted.
    pub(super) times: f64,
}

/// A line.
#[derive(Clone, Debug)]
pub(super) struct FrontierLine<'a> {
    pub(super) wrong: FailureMode,
    pub(super) renewal: RenewalRule,
    /// From the shortest takeover to the longest.
    pub(super) points: Vec<LinePoint<'a>>,
}

/// The point that is advised, or the nearest where none meets the targets.
pub(super) fn chosen(tuning: &Tuning) -> Option<&Point> {
    let Advice { point, .. } = tuning.advice;
    tuning.points.get(point?)
}

/// The finished points of the lock that was asked for.
fn of_lock(tuning: &Tuning) -> impl Iterator<Item = &Point> {
    tuning.points.iter().filter(|it| it.keeping == tuning.keeping && !it.unfinished)
}

/// All lines there are.
pub(super) fn all(tuning: &Tuning) -> Vec<FrontierLine<'_>> {
    let never = of_lock(tuning).any(|it| it.renew.is_none()).then_some(RenewalRule::Never);
    let renewals = never.into_iter().chain(renewed(tuning));
    let mut all = Vec::new();
    for renewal in renewals {
        for wrong in FailureMode::ALL {
            // Who keeps no validity is never cut off.
            if wrong == FailureMode::Lost && tuning.keeping == Protection::None {
                continue;
            }
            let points = of_lock(tuning).filter(|it| renewal.holds(it));
            let mut points: Vec<LinePoint<'_>> = points
                .map(|point| LinePoint { wrong, point, times: wrong.times(point, tuning) })
                .collect();
            points.sort_by_key(|it| (it.point.takeover.p99_high, it.point.ttl));
            let impossible =
                |it: &LinePoint<'_>| wrong.share(it.point).how == EstimateMethod::Construction;
            if !points.iter().all(impossible) {
                all.push(FrontierLine { wrong, renewal, points });
            }
        }
    }
    all
}

/// The one kind of renewal that is shown: that of the chosen point, or else the one with the most points.
fn renewed(tuning: &Tuning) -> Option<RenewalRule> {
    let of_lock = || of_lock(tuning).filter(|it| it.renew.is_some());
    let points = |it: RenewalRule| of_lock().filter(|point| it.holds(point)).count();
    // An interval is a part of the TTL, or the same for all; what more points agree in is what was meant.
    let kind = |point: &Point| {
        let every = point.renew.map(|it| RenewalRule::Every(it.0))?;
        part(point).map(|part| if points(every) > points(part) { every } else { part })
    };
    let chosen = chosen(tuning).filter(|it| it.keeping == tuning.keeping).and_then(kind);
    let mut most: Option<(usize, RenewalRule)> = None;
    for it in of_lock().filter_map(kind) {
        let count = points(it);
        if most.is_none_or(|(before, _)| count > before) {
            most = Some((count, it));
        }
    }
    chosen.or(most.map(|it| it.1))
}
