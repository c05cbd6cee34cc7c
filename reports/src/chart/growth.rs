//! How something grows with something else: both scales logarithmic, a line a series.
//!
//! Invariant: the points are drawn as they are and joined by straight lines; nothing is fitted. On these
//! scales a line that is twice as steep grows with the square.

use std::path::Path;

use plotters::prelude::DrawingBackend;
use plotters::style::WHITE;
use plotters::style::text_anchor::HPos;

use super::error::ChartError;
use super::labels;
use super::layout::{
    BOTTOM, LABEL_HEIGHT, LEFT, LINE_WIDTH, MARGIN, MARK_RADIUS, NAME, NOTE, SCALE, SIZE, SUBTITLE,
    TITLE, TOP,
};
use super::palette::{AXIS, FAINT_INK, GRID, INK, MOST_LINES, line};
use super::pen::Pen;
use super::render::{Drawing, png_of, svg_of};
use crate::format::plain;

const RIGHT: f64 = 690.0;
const LABELS: f64 = 718.0;
const LABEL_WIDTH: f64 = 960.0 - LABELS - 32.0;

/// A chart of growth. Coordinates are above zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    /// The title.
    pub title: String,
    /// The line below it.
    pub subtitle: String,
    /// What the horizontal scale counts.
    pub x: String,
    /// What the vertical scale counts.
    pub y: String,
    /// The lines; those beyond the seventh are not drawn.
    pub series: Vec<Series>,
}

/// A line of the chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// What there is to say of its last point.
    pub note: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A logarithmic scale between two numbers.
#[derive(Clone, Copy, Debug)]
struct LogScale {
    low: f64,
    high: f64,
}

impl LogScale {
    /// One with room for all of these; between powers of ten where `whole`.
    fn covering(numbers: impl Iterator<Item = f64>, whole: bool) -> Option<Self> {
        let numbers: Vec<f64> = numbers.filter(|it| *it > 0.0).collect();
        let low = numbers.iter().copied().reduce(f64::min)?;
        let high = numbers.iter().copied().reduce(f64::max)?;
        if !whole {
            return Some(Self { low: low / 1.15, high: high * 1.15 });
        }
        let low = 10_f64.powf(low.log10().floor());
        Some(Self { low, high: 10_f64.powf(high.log10().ceil()).max(low * 10.0) })
    }

    fn at(self, number: f64) -> f64 {
        ((number / self.low).log10() / (self.high / self.low).log10()).clamp(0.0, 1.0)
    }

    fn powers(self) -> impl Iterator<Item = f64> {
        let first = self.low.log10().round();
        (0_u8..)
            .map(move |it| 10_f64.powf(first + f64::from(it)))
            .take_while(move |it| *it <= self.high * 1.001)
    }
}

impl Drawing for Growth {
    fn title(&self) -> String {
        plain(&self.title).into_owned()
    }

    fn paint<DB: DrawingBackend>(&self, pen: &Pen<'_, DB>) -> Result<(), ChartError> {
        pen.fill(WHITE)?;
        let width = f64::from(SIZE.0) - 2.0 * MARGIN;
        pen.text((MARGIN, 44.0), &TITLE.fit(&self.title(), width)?, TITLE, INK, HPos::Left)?;
        let subtitle = SUBTITLE.fit(&plain(&self.subtitle), width)?;
        pen.text((MARGIN, 68.0), &subtitle, SUBTITLE, FAINT_INK, HPos::Left)?;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let scales = LogScale::covering(points().map(|it| it.0), false)
            .zip(LogScale::covering(points().map(|it| it.1), true));
        let Some((x, y)) = scales else { return Ok(()) };
        self.scales(pen, x, y)?;
        self.lines(pen, x, y)
    }
}

impl Growth {
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

    fn scales<DB: DrawingBackend>(
        &self,
        pen: &Pen<'_, DB>,
        x: LogScale,
        y: LogScale,
    ) -> Result<(), ChartError> {
        for power in y.powers() {
            let at = BOTTOM - y.at(power) * (BOTTOM - TOP);
            pen.line(&[(LEFT, at), (RIGHT, at)], GRID, 1.0)?;
            pen.text((LEFT - 10.0, at + 4.3), &number(power), SCALE, FAINT_INK, HPos::Right)?;
        }
        // What was measured is named, and nothing else.
        let mut named: Vec<f64> =
            self.series.iter().flat_map(|series| series.points.iter().map(|it| it.0)).collect();
        named.sort_by(f64::total_cmp);
        named.dedup();
        for it in named {
            let at = LEFT + x.at(it) * (RIGHT - LEFT);
            pen.line(&[(at, TOP), (at, BOTTOM)], GRID, 1.0)?;
            pen.line(&[(at, BOTTOM), (at, BOTTOM + 5.0)], AXIS, 1.0)?;
            pen.text((at, BOTTOM + 21.0), &number(it), SCALE, FAINT_INK, HPos::Center)?;
        }
        pen.line(&[(LEFT, BOTTOM), (RIGHT, BOTTOM)], AXIS, 1.0)?;
        let above = format!("{}, logarithmic scale", plain(&self.y));
        pen.text((MARGIN, TOP - 16.0), &above, SCALE, INK, HPos::Left)?;
        let below = format!("{}, logarithmic scale", plain(&self.x));
        pen.text((LEFT, BOTTOM + 48.0), &below, SCALE, INK, HPos::Left)
    }

    fn lines<DB: DrawingBackend>(
        &self,
        pen: &Pen<'_, DB>,
        x: LogScale,
        y: LogScale,
    ) -> Result<(), ChartError> {
        let place = |point: &(f64, f64)| {
            (LEFT + x.at(point.0) * (RIGHT - LEFT), BOTTOM - y.at(point.1) * (BOTTOM - TOP))
        };
        let drawn: Vec<(&Series, Vec<(f64, f64)>)> = self
            .series
            .iter()
            .filter(|series| !series.points.is_empty())
            .take(MOST_LINES)
            .map(|series| (series, series.points.iter().map(place).collect()))
            .collect();
        let ends: Vec<(f64, f64)> =
            drawn.iter().map(|(_, points)| points[points.len() - 1]).collect();
        let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
        let places = labels::spread(&wanted, LABEL_HEIGHT, (TOP, BOTTOM));
        for (place, ((series, points), (end, at))) in
            drawn.iter().zip(ends.iter().zip(&places)).enumerate()
        {
            let (colour, mark) = line(place);
            pen.dashes((*end, (LABELS - 9.0, *at)), colour, 0.75)?;
            if points.len() > 1 {
                pen.line(points, colour, LINE_WIDTH)?;
            }
            for point in points {
                pen.shape(&mark.corners(*point, MARK_RADIUS + 1.5), WHITE)?;
                pen.shape(&mark.corners(*point, MARK_RADIUS), colour)?;
            }
            pen.shape(&mark.corners((LABELS, *at), MARK_RADIUS), colour)?;
            let (left, name, note) = (LABELS + 13.0, plain(&series.name), plain(&series.note));
            pen.text((left, at - 1.0), &NAME.fit(&name, LABEL_WIDTH)?, NAME, INK, HPos::Left)?;
            pen.text(
                (left, at + 14.5),
                &NOTE.fit(&note, LABEL_WIDTH)?,
                NOTE,
                FAINT_INK,
                HPos::Left,
            )?;
        }
        Ok(())
    }
}

/// A number without needless decimals, its thousands set apart.
fn number(value: f64) -> String {
    if value < 1.0 {
        let rounded = format!("{value:.4}");
        return rounded.trim_end_matches('0').to_owned();
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is above zero")]
    crate::format::count(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_cover_what_is_drawn() {
        let y = LogScale::covering([3.0, 0.0, 4_000.0].into_iter(), true).unwrap();
        assert_eq!(
            y.powers().map(number).collect::<Vec<_>>(),
            ["1", "10", "100", "1,000", "10,000"]
        );
        assert_eq!((y.at(1.0), y.at(100.0), y.at(1e9)), (0.0, 0.5, 1.0));
        assert!(LogScale::covering([0.0].into_iter(), true).is_none());
        let one = LogScale::covering([10.0].into_iter(), true).unwrap();
        assert!(one.high > one.low);
        assert_eq!(number(0.25), "0.25");
    }

    #[test]
    fn every_series_is_named_and_every_place_that_was_measured() {
        let series = |name: &str, factor: f64| Series {
            name: name.to_owned(),
            note: format!("{name} at last"),
            points: vec![(10.0, factor), (100.0, factor * factor)],
        };
        let growth = Growth {
            title: "Growth <of> all".to_owned(),
            subtitle: "beneath".to_owned(),
            x: "waiters".to_owned(),
            y: "commands".to_owned(),
            series: vec![series("one", 20.0), series("two", 30.0)],
        };
        let drawing = growth.svg().unwrap();
        for text in [
            "Growth &lt;of&gt; all",
            "beneath",
            "waiters, log",
            "commands, log",
            "one at last",
            ">two<",
            ">10<",
            ">100<",
        ] {
            let squeezed: String = drawing.split('\n').collect();
            assert!(squeezed.contains(text), "{text}");
        }
        assert!(Growth::default().svg().is_ok());
    }
}
