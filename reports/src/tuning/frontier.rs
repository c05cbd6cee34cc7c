//! The frontier of a tuning: how long a crashed holder blocks the others, against how often it goes wrong.
//!
//! Invariant: what is drawn is what may be at most, and not the best guess; a point whose share is below the
//! scale stands on its edge. Deliberately absent: a curve through the points.

use std::path::Path;

use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::HPos;
use plotters::style::{RGBColor, WHITE};
use scenarios::tuning::{Keeping, Point, Tuning};

use super::{YEAR_DAYS, often, time};
use crate::chart::axis::Times;
use crate::chart::labels;
use crate::chart::layout::{
    BOTTOM, LABEL_HEIGHT, LEFT, LINE_WIDTH, MARGIN, MARK_RADIUS, NAME, NOTE, SCALE, SIZE, SUBTITLE,
    TITLE, TOP,
};
use crate::chart::palette::{AXIS, FAINT_INK, GRID, INK, Mark, line};
use crate::chart::pen::Pen;
use crate::chart::picture::{ChartError, Painting, png_of, svg_of};
use crate::format::plain;

const RIGHT: f64 = 680.0;
const LABELS: f64 = 708.0;
const LABEL_WIDTH: f64 = 960.0 - LABELS - 32.0;
/// Where all that is wanted is met.
const MET: RGBColor = RGBColor(0xe3, 0xf3, 0xe6);
/// In a year: what is rarer stands on the edge of the scale.
const RAREST: f64 = 1e-6;

/// The chart of a tuning.
#[derive(Clone, Copy, Debug)]
pub struct Frontier<'a>(pub &'a Tuning);

/// What goes wrong, of the points of one kind.
struct Series<'a> {
    name: &'static str,
    note: &'static str,
    points: Vec<(&'a Point, f64)>,
}

impl Frontier<'_> {
    /// The chart as an SVG document.
    ///
    /// # Errors
    /// Where plotters fails, which would be a defect.
    pub fn svg(&self) -> Result<String, ChartError> {
        svg_of(self)
    }

    /// Writes the chart as a PNG to this path, whose name must end in `.png`.
    ///
    /// # Errors
    /// Where the file cannot be written in full.
    pub fn png(&self, path: &Path) -> Result<(), ChartError> {
        png_of(self, path)
    }

    fn series(&self) -> Vec<Series<'_>> {
        let of = |keeping, renews, wrong: fn(&Point) -> f64| -> Vec<(&Point, f64)> {
            let is = |it: &&Point| it.keeping == keeping && it.renew.is_some() == renews;
            let mut points: Vec<(&Point, f64)> =
                self.0.points.iter().filter(is).map(|it| (it, wrong(it) * YEAR_DAYS)).collect();
            points.sort_by_key(|it| {
                (
                    it.0.renew
                        .map(|every| every.0.as_nanos() * 1_000 / it.0.ttl.0.as_nanos().max(1)),
                    it.0.ttl,
                )
            });
            // One line is of one share of the TTL, the shortest.
            let share = |it: &Point| {
                it.renew.map(|every| every.0.as_nanos() * 1_000 / it.ttl.0.as_nanos().max(1))
            };
            let first = points.first().and_then(|it| share(it.0));
            points.retain(|it| share(it.0) == first);
            points
        };
        let overlaps: fn(&Point) -> f64 = |it| it.effect.per_day_high;
        let lost: fn(&Point) -> f64 = |it| it.wrong.per_day_high;
        let (none, tracked) = (Keeping::None, Keeping::Tracked);
        let all = [
            Series {
                name: "overlaps",
                note: "no validity, not renewed",
                points: of(none, false, overlaps),
            },
            Series {
                name: "overlaps",
                note: "no validity, renewed",
                points: of(none, true, overlaps),
            },
            Series {
                name: "overlaps",
                note: "validity kept, not renewed",
                points: of(tracked, false, overlaps),
            },
            Series {
                name: "overlaps",
                note: "validity kept, renewed",
                points: of(tracked, true, overlaps),
            },
            Series {
                name: "holds cut off",
                note: "validity kept, not renewed",
                points: of(tracked, false, lost),
            },
            Series {
                name: "holds cut off",
                note: "validity kept, renewed",
                points: of(tracked, true, lost),
            },
        ];
        all.into_iter().filter(|it| !it.points.is_empty()).collect()
    }
}

/// The vertical scale: times in a year, by powers of ten.
#[derive(Clone, Copy)]
struct Years {
    low: f64,
    high: f64,
}

impl Years {
    fn covering(rates: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (0.1_f64, 10.0_f64);
        for rate in rates {
            (low, high) = (low.min(rate), high.max(rate));
        }
        let power = |rate: f64| rate.max(RAREST).log10();
        Self { low: power(low).floor(), high: power(high).ceil() }
    }

    fn y(self, rate: f64) -> f64 {
        let part = (rate.max(1e-300).log10() - self.low) / (self.high - self.low);
        BOTTOM - part.clamp(0.0, 1.0) * (BOTTOM - TOP)
    }

    fn powers(self) -> impl Iterator<Item = i32> {
        #[expect(clippy::cast_possible_truncation, reason = "powers of ten are small numbers")]
        let (low, high) = (self.low as i32, self.high as i32);
        let step = ((high - low) / 8 + 1).max(1);
        (low..=high).filter(move |it| it.rem_euclid(step) == 0)
    }
}

/// A rate at a tick.
fn tick(power: i32) -> String {
    match power {
        0 => "1 a year".to_owned(),
        1..=5 => crate::format::count(10_u64.pow(power.unsigned_abs())),
        6..=8 => format!("{} M", 10_u64.pow(power.unsigned_abs() - 6)),
        -6..=-1 => format!("1 in {} y", short(10_u64.pow(power.unsigned_abs()))),
        _ => format!("10^{power}"),
    }
}

fn short(years: u64) -> String {
    match years {
        1_000_000 => "1 M".to_owned(),
        10_000.. => format!("{} k", years / 1_000),
        _ => crate::format::count(years),
    }
}

impl Painting for Frontier<'_> {
    fn title(&self) -> String {
        "What TTL to set: how often it goes wrong, and how long a crash blocks".to_owned()
    }

    fn paint<DB: DrawingBackend>(&self, pen: &Pen<'_, DB>) -> Result<(), ChartError> {
        pen.fill(WHITE)?;
        let width = f64::from(SIZE.0) - 2.0 * MARGIN;
        pen.text((MARGIN, 44.0), &TITLE.fit(&self.title(), width)?, TITLE, INK, HPos::Left)?;
        let says = format!("{} lock: {}", self.0.keeping.name(), self.0.advice.says);
        let subtitle = SUBTITLE.fit(&plain(&says), width)?;
        pen.text((MARGIN, 68.0), &subtitle, SUBTITLE, FAINT_INK, HPos::Left)?;
        let series = self.series();
        let all = || series.iter().flat_map(|it| &it.points);
        let ns = |point: &Point| u64::try_from(point.takeover.p99.0.as_nanos()).unwrap_or(u64::MAX);
        let Some(least_ns) = all().map(|it| ns(it.0)).min() else { return Ok(()) };
        let most_ns = all().map(|it| ns(it.0)).max().unwrap_or(least_ns);
        let wanted_ns = u64::try_from(self.0.targets.takeover.0.as_nanos()).unwrap_or(u64::MAX);
        let times = Times::covering(least_ns, most_ns);
        let wanted = self.0.targets.overlaps_per_day * YEAR_DAYS;
        let years = Years::covering(all().map(|it| it.1).chain([wanted]));
        let x = |ns: u64| LEFT + times.at(ns) * (RIGHT - LEFT);

        let (edge, level) = (x(wanted_ns), years.y(wanted));
        pen.shape(&[(LEFT, level), (edge, level), (edge, BOTTOM), (LEFT, BOTTOM)], MET)?;
        for power in years.powers() {
            let y = years.y(10_f64.powi(power));
            pen.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0)?;
            pen.text((LEFT - 8.0, y + 4.3), &tick(power), SCALE, FAINT_INK, HPos::Right)?;
        }
        let mut last = f64::MIN;
        for mark in times.ticks() {
            let at = LEFT + mark.at * (RIGHT - LEFT);
            pen.line(&[(at, TOP), (at, BOTTOM)], GRID, 1.0)?;
            pen.line(&[(at, BOTTOM), (at, BOTTOM + 5.0)], AXIS, 1.0)?;
            if at - last > 46.0 {
                pen.text((at, BOTTOM + 21.0), &mark.label, SCALE, FAINT_INK, HPos::Center)?;
                last = at;
            }
        }
        pen.line(&[(LEFT, BOTTOM), (RIGHT, BOTTOM)], AXIS, 1.0)?;
        pen.dashes(((LEFT, level), (RIGHT, level)), FAINT_INK, 1.0)?;
        if edge < RIGHT {
            pen.dashes(((edge, TOP), (edge, BOTTOM)), FAINT_INK, 1.0)?;
        }
        let above = "at most so many, of all clients, logarithmic scale; wanted: the green corner";
        pen.text((MARGIN, TOP - 16.0), above, SCALE, INK, HPos::Left)?;
        let below = "after a crash, 99 of 100 times another has the lock within";
        pen.text((LEFT, BOTTOM + 48.0), below, SCALE, INK, HPos::Left)?;
        self.lines(pen, &series, |point, rate| (x(ns(point)), years.y(rate)))
    }
}

impl Frontier<'_> {
    fn lines<DB: DrawingBackend>(
        &self,
        pen: &Pen<'_, DB>,
        series: &[Series<'_>],
        place: impl Fn(&Point, f64) -> (f64, f64),
    ) -> Result<(), ChartError> {
        let drawn: Vec<Vec<(f64, f64)>> = series
            .iter()
            .map(|it| it.points.iter().map(|(point, rate)| place(point, *rate)).collect())
            .collect();
        let ends: Vec<(f64, f64)> = drawn.iter().map(|it| it[it.len() - 1]).collect();
        let wanted: Vec<f64> = ends.iter().map(|it| it.1).collect();
        let places = labels::spread(&wanted, LABEL_HEIGHT, (TOP, BOTTOM));
        for (number, points) in drawn.iter().enumerate().rev() {
            let (colour, mark): (RGBColor, Mark) = line(number);
            pen.dashes((ends[number], (LABELS - 9.0, places[number])), colour, 0.75)?;
            if points.len() > 1 {
                pen.line(points, colour, LINE_WIDTH)?;
            }
            for point in points {
                pen.shape(&mark.corners(*point, MARK_RADIUS + 1.5), WHITE)?;
                pen.shape(&mark.corners(*point, MARK_RADIUS), colour)?;
            }
            let (at, left) = (places[number], LABELS + 13.0);
            let it = &series[number];
            pen.shape(&mark.corners((LABELS, at), MARK_RADIUS), colour)?;
            pen.text((left, at - 1.0), &NAME.fit(it.name, LABEL_WIDTH)?, NAME, INK, HPos::Left)?;
            let note = NOTE.fit(it.note, LABEL_WIDTH)?;
            pen.text((left, at + 14.5), &note, NOTE, FAINT_INK, HPos::Left)?;
        }
        self.advised(pen, series, &drawn)
    }

    /// The advised point, ringed, with its TTL.
    fn advised<DB: DrawingBackend>(
        &self,
        pen: &Pen<'_, DB>,
        series: &[Series<'_>],
        drawn: &[Vec<(f64, f64)>],
    ) -> Result<(), ChartError> {
        let chosen = self.0.advice.point.and_then(|place| self.0.points.get(place));
        let Some(chosen) = chosen else { return Ok(()) };
        for (it, places) in series.iter().zip(drawn) {
            for ((point, rate), at) in it.points.iter().zip(places) {
                if !std::ptr::eq(*point, chosen) {
                    continue;
                }
                let ring: Vec<(f64, f64)> = (0..=32)
                    .map(|step| f64::from(step) / 32.0 * std::f64::consts::TAU)
                    .map(|turn| (at.0 + 10.0 * turn.cos(), at.1 + 10.0 * turn.sin()))
                    .collect();
                pen.line(&ring, INK, 1.5)?;
                let says = format!("TTL {}: {}", time(point.ttl), often(rate / YEAR_DAYS));
                let (side, pos) = if at.0 > (LEFT + RIGHT) / 2.0 {
                    (-15.0, HPos::Right)
                } else {
                    (15.0, HPos::Left)
                };
                let down = if at.1 > BOTTOM - 20.0 { -12.0 } else { 4.3 };
                pen.text((at.0 + side, at.1 + down), &says, NOTE, INK, pos)?;
            }
        }
        Ok(())
    }
}
