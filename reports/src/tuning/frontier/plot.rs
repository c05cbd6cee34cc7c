//! Where everything on a tuning's chart stands.
//!
//! What is rarer than the scale shows stands in a lane below it, each line in a row of its own.
//!
//! Invariant: a mark stands in the corner of what is wanted exactly where its setting meets both targets
//! that it shows; lines that would hide one another are one, but never across the edge of that corner.

use std::time::Duration;

use scenarios::span::Span;
use ttl_model::format::time;
use ttl_model::tuning::{Point, Tuning};

use super::label_layout::{FreeSpace, Position, Rect};
use super::series::{FailureMode, LinePoint, RenewalRule, all};
use crate::chart::axis::Tick;
use crate::chart::layout::{BOTTOM, MARK_RADIUS};

pub(super) const LEFT: f64 = 128.0;
pub(super) const RIGHT: f64 = 676.0;
pub(super) const TOP: f64 = 118.0;

/// What is rarer than this part of what is wanted is only said to be.
const FLOOR: f64 = 1e-4;
/// How far apart the rows of the lane are.
const ROW: f64 = 17.0;
/// Marks nearer than this look like one.
const GRAIN: f64 = 3.0;
/// So far from the ends of the horizontal scale its first and last point stand.
const INDENT: f64 = 0.04;
/// At least this part of the horizontal scale lies before the limit: the corner has a name to hold, also where all
/// its settings take as long.
const CORNER: f64 = 0.25;
/// So far apart the times on the horizontal scale stand at least.
const APART: f64 = 54.0;

/// A logarithmic scale.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// The powers of ten at its ends, and where these are.
    powers: (f64, f64),
    ends: (f64, f64),
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let part = (value.max(1e-300).log10() - self.powers.0) / (self.powers.1 - self.powers.0);
        self.ends.0 + part.clamp(0.0, 1.0) * (self.ends.1 - self.ends.0)
    }
}

/// What is said by one mark.
#[derive(Clone, Debug)]
pub(super) struct PlotMark<'a> {
    pub(super) says: Vec<LinePoint<'a>>,
    pub(super) at: Position,
    /// Whether it is rarer than the scale shows.
    pub(super) below: bool,
}

/// Settings that differ in their TTL; where several lines would hide one another, it stands for all of them.
#[derive(Clone, Debug)]
pub(super) struct PlotLine<'a> {
    pub(super) shows: Vec<(FailureMode, RenewalRule)>,
    pub(super) marks: Vec<PlotMark<'a>>,
}

impl PlotLine<'_> {
    /// Whether all of it is rarer than the scale shows.
    pub(super) fn is_below(&self) -> bool {
        self.marks.iter().all(|it| it.below)
    }

    /// What joins its marks: from one in the scale to the next wherever that stands. Those below it are not joined.
    pub(super) fn strokes(&self) -> impl Iterator<Item = (Position, Position)> + '_ {
        let pairs = self.marks.windows(2).filter(|it| !(it[0].below && it[1].below));
        pairs.map(|it| (it[0].at, it[1].at))
    }
}

/// The whole.
#[derive(Clone, Debug)]
pub(super) struct Plot<'a> {
    pub(super) lines: Vec<PlotLine<'a>>,
    /// Where the scale ends and the lane begins, if there is one.
    pub(super) floor: f64,
    /// As often as wanted, and as long as wanted: the corner that is between these and the scales' ends.
    pub(super) wanted: Position,
    pub(super) across: Vec<Tick>,
    pub(super) up: Vec<Tick>,
}

impl<'a> Plot<'a> {
    /// The plot of a tuning; `None` where there is nothing to show.
    pub(super) fn of(tuning: &'a Tuning) -> Option<Self> {
        let series = all(tuning);
        let points = || series.iter().flat_map(|it| &it.points);
        let ns = |point: &Point| point.takeover.p99_high.0.as_nanos().max(1) as f64;
        let wanted_ns = (tuning.targets.takeover.0.as_nanos().max(1)) as f64;
        let low_ns = points().map(|it| ns(it.point)).reduce(f64::min)?;
        let high_ns = points().map(|it| ns(it.point)).reduce(f64::max)?;
        // A limit far beyond all points is not worth the room.
        let low = low_ns.min(wanted_ns.max(low_ns / 3.0)).log10();
        let high = high_ns.max(wanted_ns.min(high_ns * 3.0)).log10();
        let limit = wanted_ns.log10().clamp(low, high);
        let low = low.min(limit - (high - limit) * CORNER / (1.0 - CORNER));
        let indent = ((high - low) * INDENT).max(0.05);
        let x = Scale { powers: (low - indent, high + indent), ends: (LEFT, RIGHT) };

        let in_scale = || points().map(|it| it.times).filter(|it| *it >= FLOOR);
        let least = in_scale().fold(0.1, f64::min);
        let most = in_scale().fold(10.0, f64::max);
        let has_lane = points().any(|it| it.times < FLOOR);
        let lowest = if has_lane { FLOOR } else { least };
        let powers = (lowest.log10().floor(), most.min(1e12).log10().ceil());
        let mut lines = Vec::new();
        for it in &series {
            let y = Scale { powers, ends: (BOTTOM, TOP) };
            let mark = |point: &LinePoint<'a>| PlotMark {
                says: vec![*point],
                at: (x.at(ns(point.point)), y.at(point.times)),
                below: point.times < FLOOR,
            };
            let marks = it.points.iter().map(mark).collect();
            let line = PlotLine { shows: vec![(it.wrong, it.renewal)], marks };
            merge(&mut lines, line, tuning);
        }
        // How high the lane is follows from how many lines come into it, and the scale has what is left.
        let rows = lines.iter().filter(|it| it.marks.iter().any(|it| it.below)).count();
        let lane = if rows == 0 { 0.0 } else { ROW * (rows as f64 + 0.4) };
        let y = Scale { powers, ends: (BOTTOM - lane, TOP) };
        let mut row = BOTTOM - lane + 0.7 * ROW;
        for line in &mut lines {
            let comes = line.marks.iter().any(|it| it.below);
            for mark in &mut line.marks {
                mark.at.1 = if mark.below { row } else { y.at(mark.says[0].times) };
            }
            row += if comes { ROW } else { 0.0 };
        }
        Some(Self {
            lines,
            floor: BOTTOM - lane,
            wanted: (x.at(wanted_ns), y.at(1.0)),
            across: across(&x),
            up: up(&y),
        })
    }

    /// The part of the chart in which all that is wanted is met.
    pub(super) fn met(&self) -> Rect {
        Rect { left: LEFT, top: self.wanted.1, right: self.wanted.0, bottom: BOTTOM }
    }

    /// The room that lines, marks and limits leave.
    pub(super) fn room(&self) -> FreeSpace {
        let strokes = self.lines.iter().flat_map(|it| it.strokes());
        let limits = [
            ((LEFT, self.wanted.1), (RIGHT, self.wanted.1)),
            ((self.wanted.0, TOP), (self.wanted.0, BOTTOM)),
            ((LEFT, self.floor), (RIGHT, self.floor)),
        ];
        let marks = self.lines.iter().flat_map(|it| &it.marks);
        FreeSpace {
            within: Rect { left: LEFT + 2.0, top: TOP, right: RIGHT, bottom: BOTTOM - 2.0 },
            lines: strokes.chain(limits).collect(),
            marks: marks.map(|it| Rect::around(it.at, MARK_RADIUS + 2.0)).collect(),
            texts: Vec::new(),
        }
    }

    /// Where a setting stands that goes wrong in several ways: at the one that is farthest from what is wanted.
    pub(super) fn worst(&self, point: &Point) -> Option<(FailureMode, Position)> {
        let marks = self.lines.iter().flat_map(|it| &it.marks);
        let all = marks.flat_map(|mark| mark.says.iter().map(move |it| (it, mark.at)));
        let mut worst: Option<(&LinePoint<'_>, Position)> = None;
        for it in all.filter(|it| std::ptr::eq(it.0.point, point)) {
            if worst.is_none_or(|before| it.0.times > before.0.times) {
                worst = Some(it);
            }
        }
        worst.map(|(it, at)| (it.wrong, at))
    }
}

/// Adds a line, to one that it would hide or by itself.
fn merge<'a>(lines: &mut Vec<PlotLine<'a>>, line: PlotLine<'a>, tuning: &Tuning) {
    let meets = |it: &PlotMark<'_>| {
        it.says[0].times <= 1.0 && it.says[0].point.takeover.p99_high <= tuning.targets.takeover
    };
    let alike = |(a, b): (&PlotMark<'_>, &PlotMark<'_>)| {
        a.below == b.below
            && meets(a) == meets(b)
            && (a.at.0 - b.at.0).abs() < GRAIN
            && (a.below || (a.at.1 - b.at.1).abs() < GRAIN)
    };
    let same = |it: &&mut PlotLine<'a>| {
        it.marks.len() == line.marks.len() && it.marks.iter().zip(&line.marks).all(alike)
    };
    match lines.iter_mut().find(same) {
        None => lines.push(line),
        Some(into) => {
            into.shows.extend(line.shows);
            for (mark, more) in into.marks.iter_mut().zip(line.marks) {
                mark.says.extend(more.says);
            }
        }
    }
}

/// Round times, as people say them: the roundest first, then what has room between them.
fn across(x: &Scale) -> Vec<Tick> {
    const S: u64 = 1_000_000_000;
    const MINUTE: u64 = 60 * S;
    const DAY: u64 = 1_440 * MINUTE;
    const ROUNDEST: [u64; 5] = [S, 10 * S, MINUTE, 10 * MINUTE, 60 * MINUTE];
    const ROUND: [u64; 15] = [
        2 * S,
        5 * S,
        20 * S,
        30 * S,
        2 * MINUTE,
        5 * MINUTE,
        20 * MINUTE,
        30 * MINUTE,
        120 * MINUTE,
        300 * MINUTE,
        720 * MINUTE,
        DAY,
        10 * DAY,
        100 * DAY,
        1_000 * DAY,
    ];
    let power = |by: u64| (0_u32..9).map(move |it| by * 10_u64.pow(it));
    let fine = power(2).chain(power(5)).filter(|it| *it < S);
    let roundest = ROUNDEST.into_iter().chain(power(1).filter(|it| *it < S));
    let mut ticks: Vec<Tick> = Vec::new();
    for ns in roundest.chain(ROUND).chain(fine) {
        let at = x.at(ns as f64);
        let within = (x.powers.0..=x.powers.1).contains(&(ns as f64).log10());
        if within && ticks.iter().all(|it| (at - it.at).abs() >= APART) {
            let label = time(Span(Duration::from_nanos(ns)));
            ticks.push(Tick { at, label });
        }
    }
    ticks
}

/// Multiples of what is wanted.
fn up(y: &Scale) -> Vec<Tick> {
    #[expect(clippy::cast_possible_truncation, reason = "powers of ten are small numbers")]
    let (low, high) = (y.powers.0 as i32, y.powers.1 as i32);
    let step = ((high - low) / 8 + 1).max(1);
    let powers = (low..=high).filter(|it| it.rem_euclid(step) == 0);
    powers.map(|it| Tick { at: y.at(10_f64.powi(it)), label: multiple(it) }).collect()
}

/// How much more or less often than wanted.
fn multiple(power: i32) -> String {
    let size = power.unsigned_abs();
    let number = match size {
        0 => return "the target".to_owned(),
        1..=3 => crate::format::count(10_u64.pow(size)),
        4..=5 => format!("{} k", 10_u64.pow(size - 3)),
        6..=8 => format!("{} M", 10_u64.pow(size - 6)),
        _ => format!("10^{size}"),
    };
    format!("{number} × {}", if power > 0 { "more" } else { "rarer" })
}
