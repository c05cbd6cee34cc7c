//! Shapes that pictures of incidents are made of: symbols of marks, arrowheads, hatchings.
//!
//! Invariant: shapes that mean different things differ without their colours.

use plotters::style::{RGBColor, WHITE};

use super::layout::MarkKind;
use crate::chart::ChartError;
use crate::chart::palette::{AXIS, HARM};
use crate::chart::pen::Pen;

/// How far apart the lines of a hatching stand.
const HATCHING: f64 = 7.0;

/// The symbol of a mark between the edges of its lane.
pub(super) fn symbol(
    pen: &Pen<'_>,
    kind: MarkKind,
    (x, (upper, lower)): (f64, (f64, f64)),
    ink: RGBColor,
) -> Result<(), ChartError> {
    let square = |y: f64, half: f64| rectangle((x - half, x + half), (y - half, y + half));
    match kind {
        MarkKind::Reads => {
            pen.shape(&circle((x, upper), 4.5), ink)?;
            pen.shape(&circle((x, upper), 2.8), WHITE)
        }
        MarkKind::Writes => {
            pen.shape(&square(lower, 5.0), WHITE)?;
            pen.shape(&square(lower, 4.0), ink)
        }
        MarkKind::Ends => pen.line(&[(x, upper - 3.0), (x, lower + 3.0)], ink, 2.0),
        MarkKind::Event => {
            pen.shape(&[(x - 4.5, lower + 4.0), (x + 4.5, lower + 4.0), (x, lower - 4.0)], ink)
        }
        MarkKind::Fault => {
            let y = f64::midpoint(upper, lower);
            let bolt = [
                (x + 3.0, y - 9.0),
                (x - 5.0, y + 1.5),
                (x - 0.5, y + 1.5),
                (x - 3.0, y + 9.0),
                (x + 5.0, y - 1.5),
                (x + 0.5, y - 1.5),
            ];
            pen.shape(&bolt, HARM)
        }
    }
}

/// The corners of a rectangle.
pub(super) fn rectangle((left, right): (f64, f64), (top, bottom): (f64, f64)) -> [(f64, f64); 4] {
    [(left, top), (right, top), (right, bottom), (left, bottom)]
}

/// Two short strokes where something ends.
pub(super) fn cross(pen: &Pen<'_>, (x, y): (f64, f64), ink: RGBColor) -> Result<(), ChartError> {
    for side in [-4.5, 4.5] {
        pen.line(&[(x - 4.5, y - side), (x + 4.5, y + side)], ink, 2.2)?;
    }
    Ok(())
}

/// Where an axis passes over much more time than its width shows.
pub(super) fn axis_break(pen: &Pen<'_>, (x, y): (f64, f64)) -> Result<(), ChartError> {
    pen.shape(&rectangle((x - 3.5, x + 3.5), (y - 3.0, y + 3.0)), WHITE)?;
    for side in [-3.5, 3.5] {
        pen.line(&[(x + side - 2.5, y + 6.0), (x + side + 2.5, y - 6.0)], AXIS, 1.4)?;
    }
    Ok(())
}

/// Slanted lines within a rectangle; `slope` is 1 or -1.
pub(super) fn hatch(
    pen: &Pen<'_>,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
    slope: f64,
) -> Result<(), ChartError> {
    let high = bottom - top;
    let mut x = left - high + HATCHING / 2.0;
    while x < right {
        // From the lower edge at x up to the upper edge, cut to the rectangle.
        let (from, to) = (x.max(left), (x + high).min(right));
        if from < to {
            let y = |at: f64| if slope > 0.0 { bottom - (at - x) } else { top + (at - x) };
            pen.line(&[(from, y(from)), (to, y(to))], AXIS, 1.0)?;
        }
        x += HATCHING;
    }
    Ok(())
}

/// The tip of an arrow at the end of a line.
pub(super) fn arrowhead(
    pen: &Pen<'_>,
    from: (f64, f64),
    to: (f64, f64),
    ink: RGBColor,
) -> Result<(), ChartError> {
    let length = (to.0 - from.0).hypot(to.1 - from.1).max(1.0);
    let (dx, dy) = ((to.0 - from.0) / length, (to.1 - from.1) / length);
    let (x, y) = (to.0 - dx * 8.0, to.1 - dy * 8.0);
    pen.shape(&[to, (x - dy * 3.5, y + dx * 3.5), (x + dy * 3.5, y - dx * 3.5)], ink)
}

/// An outline of dashes.
pub(super) fn dashed(
    pen: &Pen<'_>,
    outline: &[(f64, f64)],
    ink: RGBColor,
) -> Result<(), ChartError> {
    outline.windows(2).try_for_each(|side| pen.dashes((side[0], side[1]), ink, 1.2))
}

fn circle((x, y): (f64, f64), radius: f64) -> Vec<(f64, f64)> {
    let corner = |nth: u32| {
        let angle = f64::from(nth) / 16.0 * std::f64::consts::TAU;
        (x + radius * angle.cos(), y + radius * angle.sin())
    };
    (0..16).map(corner).collect()
}

/// The point at this share of the way.
pub(super) fn part(from: (f64, f64), to: (f64, f64), share: f64) -> (f64, f64) {
    (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share)
}
