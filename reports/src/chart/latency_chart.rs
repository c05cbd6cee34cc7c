//! The painting itself: title, grid, lines, marks and labels.
//!
//! Invariant: labels overlap neither each other nor the lines.

use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::HPos;
use plotters::style::{RGBColor, WHITE};

use super::axis::{Percentiles, Times};
use super::caption::Caption;
use super::error::ChartError;
use super::font::Type;
use super::layout::{
    BOTTOM, LABEL_HEIGHT, LEFT, LINE_WIDTH, MARGIN, MARK_RADIUS, NAME, NOTE, SCALE, SIZE, SUBTITLE,
    TITLE, TOP,
};
use super::palette::{AXIS, FAINT_INK, GRID, INK, MOST_LINES, Marker, line};
use super::pen::Pen;
use super::{curve, labels};
use crate::format::{count, duration, plain};
use crate::latency::{Latencies, LatencyHistogram, Operation};

/// Where the parts of the chart stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChartFrame {
    pub(super) size: (u32, u32),
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Whether it has a title of its own; on a page it stands under one.
    titled: bool,
    legend: Legend,
    below: &'static str,
}

/// Where the names of the lines stand.
#[derive(Clone, Copy, Debug)]
enum Legend {
    /// Behind the end of each line, from here on.
    Beside { x: f64, width: f64 },
    /// Below the plot, in two columns.
    Below { y: f64, columns: [f64; 2], width: f64 },
}

/// For a file, and for a page on a screen.
pub(super) const WIDE: ChartFrame = ChartFrame {
    size: SIZE,
    left: LEFT,
    right: 742.0,
    top: TOP,
    bottom: BOTTOM,
    titled: true,
    legend: Legend::Beside { x: 772.0, width: 152.0 },
    below: "percentile of operations; each line ends at its slowest one",
};
/// For a page on a telephone: nothing of it lies outside a width of 400, and its letters stay legible.
pub(super) const NARROW: ChartFrame = ChartFrame {
    size: (400, 580),
    left: 62.0,
    right: 382.0,
    top: 34.0,
    bottom: 330.0,
    titled: false,
    legend: Legend::Below { y: 412.0, columns: [26.0, 216.0], width: 160.0 },
    below: "percentile of operations",
};

const LONG_TITLE: Type = Type::bold(15.0);
const EMPTY: Type = Type::regular(16.0);

/// A line of the chart.
struct LatencyLine<'a> {
    name: String,
    distribution: &'a LatencyHistogram,
    points: Vec<(f64, f64)>,
    colour: RGBColor,
    mark: Marker,
}

/// Paints the chart.
pub(super) fn paint<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    latencies: &Latencies,
    caption: &Caption,
    frame: &ChartFrame,
) -> Result<(), ChartError> {
    let ChartFrame { left, right, top, bottom, .. } = *frame;
    pen.fill(WHITE)?;
    if frame.titled {
        titles(pen, latencies, caption)?;
    }
    let chosen = chosen(latencies);
    let counts = chosen.iter().map(|(_, distribution)| distribution.count());
    let Some(samples) = counts.max() else {
        let middle = (f64::from(frame.size.0) / 2.0, (top + bottom) / 2.0);
        return pen.text(middle, "No operation was completed.", EMPTY, FAINT_INK, HPos::Center);
    };
    let shortest = chosen.iter().map(|(_, it)| it.min_ns()).min().unwrap_or_default();
    let longest = chosen.iter().map(|(_, it)| it.max_ns()).max().unwrap_or_default();
    let percentiles = Percentiles::up_to(samples);
    let times = Times::covering(shortest, longest);
    scales(pen, percentiles, times, frame)?;

    let drawn = chosen.into_iter().enumerate().map(|(number, (operation, distribution))| {
        let place = |(x, y)| (left + x * (right - left), bottom - y * (bottom - top));
        let points = curve::points(distribution, percentiles, times);
        let (colour, mark) = line(number);
        let name = plain(&operation.to_string()).into_owned();
        let points = points.into_iter().map(place).collect();
        LatencyLine { name, distribution, points, colour, mark }
    });
    lines(pen, &drawn.collect::<Vec<_>>(), frame)
}

/// The operations that are drawn: what becomes of the lock, then the most frequent commands.
fn chosen(latencies: &Latencies) -> Vec<(&Operation, &LatencyHistogram)> {
    let main = [Operation::Acquire, Operation::Hold, Operation::Release, Operation::Handoff];
    let (mut chosen, mut commands) = (Vec::new(), Vec::new());
    for (operation, distribution) in latencies.iter() {
        if main.contains(operation) {
            chosen.push((operation, distribution));
        } else if matches!(operation, Operation::Command(_)) {
            commands.push((operation, distribution));
        }
    }
    commands.sort_by_key(|(_, distribution)| std::cmp::Reverse(distribution.count()));
    chosen.extend(commands);
    chosen.truncate(MOST_LINES);
    chosen
}

fn titles<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    latencies: &Latencies,
    caption: &Caption,
) -> Result<(), ChartError> {
    let width = f64::from(SIZE.0) - 2.0 * MARGIN;
    let title = caption.title();
    let face = if TITLE.width(&title)? <= width { TITLE } else { LONG_TITLE };
    pen.text((MARGIN, 44.0), &face.fit(&title, width)?, face, INK, HPos::Left)?;
    let subtitle = SUBTITLE.fit(&caption.subtitle(latencies), width)?;
    pen.text((MARGIN, 68.0), &subtitle, SUBTITLE, FAINT_INK, HPos::Left)
}

fn scales<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    percentiles: Percentiles,
    times: Times,
    frame: &ChartFrame,
) -> Result<(), ChartError> {
    let ChartFrame { left, right, top, bottom, .. } = *frame;
    for tick in times.ticks() {
        let y = bottom - tick.at * (bottom - top);
        pen.line(&[(left, y), (right, y)], GRID, 1.0)?;
        pen.text((left - 10.0, y + 4.3), &tick.label, SCALE, FAINT_INK, HPos::Right)?;
    }
    for tick in percentiles.ticks(right - left) {
        let x = left + tick.at * (right - left);
        pen.line(&[(x, top), (x, bottom)], GRID, 1.0)?;
        pen.line(&[(x, bottom), (x, bottom + 5.0)], AXIS, 1.0)?;
        pen.text((x, bottom + 21.0), &tick.label, SCALE, FAINT_INK, HPos::Center)?;
    }
    pen.line(&[(left, bottom), (right, bottom)], AXIS, 1.0)?;
    let unit = if times.is_logarithmic() { "latency, logarithmic scale" } else { "latency" };
    pen.text((MARGIN.min(left / 2.0), top - 16.0), unit, SCALE, INK, HPos::Left)?;
    pen.text((left, bottom + 48.0), frame.below, SCALE, INK, HPos::Left)
}

fn lines<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    lines: &[LatencyLine<'_>],
    frame: &ChartFrame,
) -> Result<(), ChartError> {
    let ChartFrame { left, right, top, bottom, .. } = *frame;
    let ends: Vec<(f64, f64)> =
        lines.iter().map(|line| line.points.last().copied().unwrap_or((left, bottom))).collect();
    let hidden = hidden(&ends);
    let (places, width) = match frame.legend {
        Legend::Beside { x, width } => {
            let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
            let places = labels::spread(&wanted, LABEL_HEIGHT, (top, bottom));
            for ((line, &end), &y) in lines.iter().zip(&ends).zip(&places) {
                pen.dashes((end, (right, end.1)), line.colour, 0.75)?;
                pen.dashes(((right, end.1), (x - 9.0, y)), line.colour, 0.75)?;
            }
            (places.into_iter().map(|y| (x, y)).collect(), width)
        }
        Legend::Below { y, columns, width } => {
            let place = |number: usize| {
                let row = u32::try_from(number / columns.len()).unwrap_or(u32::MAX);
                (columns[number % columns.len()], y + f64::from(row) * LABEL_HEIGHT)
            };
            ((0..lines.len()).map(place).collect::<Vec<_>>(), width)
        }
    };
    // What was listed first is what a reader came for, so it is painted last.
    for (line, hidden) in lines.iter().zip(&hidden).rev().filter(|(line, _)| line.points.len() > 1)
    {
        pen.line(&line.points, line.colour, LINE_WIDTH + hidden * 2.5)?;
    }
    for ((line, &end), hidden) in lines.iter().zip(&ends).zip(&hidden).rev() {
        let radius = MARK_RADIUS + hidden * 4.0;
        pen.shape(&line.mark.corners(end, radius + 1.5), WHITE)?;
        pen.shape(&line.mark.corners(end, radius), line.colour)?;
    }
    for (line, &place) in lines.iter().zip(&places) {
        label(pen, line, place, width)?;
    }
    Ok(())
}

/// Under how many of the lines before it each line ends, such as a command under the operation that
/// consists of it. It is drawn so much wider, and shows at both sides.
fn hidden(ends: &[(f64, f64)]) -> Vec<f64> {
    let near = |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0).hypot(a.1 - b.1) < 2.0;
    let counts = ends.iter().enumerate().map(|(number, end)| {
        ends[..number].iter().filter(|other| near(other, end)).map(|_| 1.0).sum()
    });
    counts.collect()
}

fn label<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    line: &LatencyLine<'_>,
    (x, y): (f64, f64),
    width: f64,
) -> Result<(), ChartError> {
    let it = line.distribution;
    pen.shape(&line.mark.corners((x, y), MARK_RADIUS), line.colour)?;
    let x = x + 13.0;
    pen.text((x, y - 1.0), &NAME.fit(&line.name, width)?, NAME, INK, HPos::Left)?;
    let operations = count(it.count());
    let note = format!("{operations} ×, max {}", duration(it.max_ns()));
    pen.text((x, y + 14.5), &NOTE.fit(&note, width)?, NOTE, FAINT_INK, HPos::Left)
}
