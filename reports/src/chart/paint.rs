//! The painting itself: title, grid, lines, marks and labels.
//!
//! Invariant: labels overlap neither each other nor the lines. Deliberately absent: knowledge of the
//! backend; what differs between backends is in the pen.

use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::HPos;
use plotters::style::{RGBColor, WHITE};

use super::axis::{Percentiles, Times};
use super::caption::Caption;
use super::font::Type;
use super::layout::{
    BOTTOM, LABEL_HEIGHT, LEFT, LINE_WIDTH, MARGIN, MARK_RADIUS, NAME, NOTE, SCALE, SIZE, SUBTITLE,
    TITLE, TOP,
};
use super::palette::{AXIS, FAINT_INK, GRID, INK, MOST_LINES, Mark, line};
use super::pen::Pen;
use super::picture::ChartError;
use super::{curve, labels};
use crate::format::{count, duration, plain};
use crate::latency::{Distribution, Latencies, Operation};

const RIGHT: f64 = 742.0;
const LABELS: f64 = 772.0;
const LABEL_WIDTH: f64 = 960.0 - LABELS - 36.0;

const LONG_TITLE: Type = Type::bold(15.0);
const EMPTY: Type = Type::regular(16.0);

/// A line of the chart.
struct Line<'a> {
    name: String,
    distribution: &'a Distribution,
    points: Vec<(f64, f64)>,
    colour: RGBColor,
    mark: Mark,
}

/// Paints the chart.
pub(super) fn paint<DB: DrawingBackend>(
    pen: &Pen<'_, DB>,
    latencies: &Latencies,
    caption: &Caption,
) -> Result<(), ChartError> {
    pen.fill(WHITE)?;
    titles(pen, latencies, caption)?;
    let chosen = chosen(latencies);
    let counts = chosen.iter().map(|(_, distribution)| distribution.count());
    let Some(samples) = counts.max() else {
        let middle = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
        let text = "No operation was carried out to its end: there is nothing to draw.";
        return pen.text((f64::from(SIZE.0) / 2.0, middle.1), text, EMPTY, FAINT_INK, HPos::Center);
    };
    let shortest = chosen.iter().map(|(_, it)| it.min_ns()).min().unwrap_or_default();
    let longest = chosen.iter().map(|(_, it)| it.max_ns()).max().unwrap_or_default();
    let percentiles = Percentiles::up_to(samples);
    let times = Times::covering(shortest, longest);
    scales(pen, percentiles, times)?;

    let drawn = chosen.into_iter().enumerate().map(|(number, (operation, distribution))| {
        let place = |(x, y)| (LEFT + x * (RIGHT - LEFT), BOTTOM - y * (BOTTOM - TOP));
        let points = curve::points(distribution, percentiles, times);
        let (colour, mark) = line(number);
        let name = plain(&operation.to_string()).into_owned();
        let points = points.into_iter().map(place).collect();
        Line { name, distribution, points, colour, mark }
    });
    lines(pen, &drawn.collect::<Vec<_>>())
}

/// The operations that are drawn: acquisition and release, then the most frequent commands.
fn chosen(latencies: &Latencies) -> Vec<(&Operation, &Distribution)> {
    let main = [Operation::Acquire, Operation::Release];
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
) -> Result<(), ChartError> {
    for tick in times.ticks() {
        let y = BOTTOM - tick.at * (BOTTOM - TOP);
        pen.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0)?;
        pen.text((LEFT - 10.0, y + 4.3), &tick.label, SCALE, FAINT_INK, HPos::Right)?;
    }
    for tick in percentiles.ticks(RIGHT - LEFT) {
        let x = LEFT + tick.at * (RIGHT - LEFT);
        pen.line(&[(x, TOP), (x, BOTTOM)], GRID, 1.0)?;
        pen.line(&[(x, BOTTOM), (x, BOTTOM + 5.0)], AXIS, 1.0)?;
        pen.text((x, BOTTOM + 21.0), &tick.label, SCALE, FAINT_INK, HPos::Center)?;
    }
    pen.line(&[(LEFT, BOTTOM), (RIGHT, BOTTOM)], AXIS, 1.0)?;
    let unit = if times.is_logarithmic() { "latency, logarithmic scale" } else { "latency" };
    pen.text((MARGIN, TOP - 16.0), unit, SCALE, INK, HPos::Left)?;
    let below = "percentile of operations; each line ends at its slowest one";
    pen.text((LEFT, BOTTOM + 48.0), below, SCALE, INK, HPos::Left)
}

fn lines<DB: DrawingBackend>(pen: &Pen<'_, DB>, lines: &[Line<'_>]) -> Result<(), ChartError> {
    let ends: Vec<(f64, f64)> =
        lines.iter().map(|line| line.points.last().copied().unwrap_or((LEFT, BOTTOM))).collect();
    let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
    let places = labels::spread(&wanted, LABEL_HEIGHT, (TOP, BOTTOM));
    let hidden = hidden(&ends);
    for ((line, &end), &y) in lines.iter().zip(&ends).zip(&places) {
        pen.dashes((end, (RIGHT, end.1)), line.colour, 0.75)?;
        pen.dashes(((RIGHT, end.1), (LABELS - 9.0, y)), line.colour, 0.75)?;
    }
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
    for (line, &y) in lines.iter().zip(&places) {
        label(pen, line, y)?;
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

fn label<DB: DrawingBackend>(pen: &Pen<'_, DB>, line: &Line<'_>, y: f64) -> Result<(), ChartError> {
    let it = line.distribution;
    pen.shape(&line.mark.corners((LABELS, y), MARK_RADIUS), line.colour)?;
    let x = LABELS + 13.0;
    pen.text((x, y - 1.0), &NAME.fit(&line.name, LABEL_WIDTH)?, NAME, INK, HPos::Left)?;
    let operations = count(it.count());
    let note = format!("{operations} ×, max {}", duration(it.max_ns()));
    pen.text((x, y + 14.5), &NOTE.fit(&note, LABEL_WIDTH)?, NOTE, FAINT_INK, HPos::Left)
}
