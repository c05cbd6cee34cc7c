//! How something grows with something else: both scales logarithmic, a line a series.
//!
//! Invariant: the points are drawn as they are and joined by straight lines; nothing is fitted. On these
//! scales a line that is twice as steep grows with the square.

use plotters::style::WHITE;
use plotters::style::text_anchor::HPos;

use super::axis::Tick;
use super::error::ChartError;
use super::labels;
use super::layout::{
    BOTTOM, LABEL_HEIGHT, LEFT, LINE_WIDTH, MARGIN, MARK_RADIUS, PlotArea, SCALE, TOP,
};
use super::palette::{INK, MOST_LINES, line};
use super::pen::Pen;
use super::render::Drawing;
use crate::format::plain;

const AREA: PlotArea = PlotArea { left: LEFT, right: 690.0, top: TOP, bottom: BOTTOM, gap: 10.0 };
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

    fn paint(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        pen.fill(WHITE)?;
        pen.titles(&self.title(), &plain(&self.subtitle))?;
        let points = || self.series.iter().flat_map(|series| &series.points);
        let scales = LogScale::covering(points().map(|it| it.0), false)
            .zip(LogScale::covering(points().map(|it| it.1), true));
        let Some((x, y)) = scales else { return Ok(()) };
        self.scales(pen, x, y)?;
        self.lines(pen, x, y)
    }
}

impl Growth {
    fn scales(&self, pen: &Pen<'_>, x: LogScale, y: LogScale) -> Result<(), ChartError> {
        let up = y.powers().map(|it| Tick { at: AREA.at((0.0, y.at(it))).1, label: number(it) });
        // What was measured is named, and nothing else.
        let mut named: Vec<f64> =
            self.series.iter().flat_map(|series| series.points.iter().map(|it| it.0)).collect();
        named.sort_by(f64::total_cmp);
        named.dedup();
        let across =
            named.into_iter().map(|it| Tick { at: AREA.at((x.at(it), 0.0)).0, label: number(it) });
        pen.axes(&AREA, &up.collect::<Vec<_>>(), &across.collect::<Vec<_>>())?;
        let above = format!("{}, logarithmic scale", plain(&self.y));
        pen.text((MARGIN, TOP - 16.0), &above, SCALE, INK, HPos::Left)?;
        let below = format!("{}, logarithmic scale", plain(&self.x));
        pen.text((LEFT, BOTTOM + 48.0), &below, SCALE, INK, HPos::Left)
    }

    fn lines(&self, pen: &Pen<'_>, x: LogScale, y: LogScale) -> Result<(), ChartError> {
        let place = |point: &(f64, f64)| AREA.at((x.at(point.0), y.at(point.1)));
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
            let look = line(place);
            pen.dashes((*end, (LABELS - 9.0, *at)), look.0, 0.75)?;
            if points.len() > 1 {
                pen.line(points, look.0, LINE_WIDTH)?;
            }
            points.iter().try_for_each(|point| pen.mark(look, *point, MARK_RADIUS))?;
            let said = [&*plain(&series.name), &*plain(&series.note)];
            pen.label(look, (LABELS, *at), LABEL_WIDTH, said)?;
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
    use crate::chart::svg;

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
        let drawing = svg(&growth).unwrap();
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
        assert!(svg(&Growth::default()).is_ok());
    }
}
