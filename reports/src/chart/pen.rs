//! Strokes, shapes and texts at places that do not depend on the backend.
//!
//! Invariant: a text's baseline and size come out alike in SVG and PNG. plotters places the two
//! differently, so each backend brings its measures. Painters know nothing of backends, so each is compiled once.

use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend, PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, ShapeStyle, TextStyle};

use super::error::ChartError;
use super::font::{SIZE_PER_EM, Type};

/// How a backend draws texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measures {
    /// What it calls the size, for an em of 1.
    size_per_em: f64,
    /// From the place of a text anchored at its top to its baseline, for a size of 1.
    baseline: f64,
}

/// The SVG backend divides sizes by 1.24 and shifts a text anchored at its top by 0.76 em.
pub(crate) const SVG: Measures = Measures { size_per_em: 1.24, baseline: 0.76 / 1.24 };
/// The bitmap backend sets the baseline half a size below the top.
pub(crate) const BITMAP: Measures = Measures { size_per_em: SIZE_PER_EM, baseline: 0.5 };

/// What can be drawn on, in pixels.
pub(crate) trait Surface {
    fn fill(&self, colour: RGBColor) -> Result<(), ChartError>;
    fn path(&self, points: Vec<(i32, i32)>, stroke: ShapeStyle) -> Result<(), ChartError>;
    fn polygon(&self, corners: Vec<(i32, i32)>, fill: ShapeStyle) -> Result<(), ChartError>;
    fn text(&self, text: &str, at: (i32, i32), style: TextStyle<'_>) -> Result<(), ChartError>;
}

impl<DB: DrawingBackend> Surface for DrawingArea<DB, Shift> {
    fn fill(&self, colour: RGBColor) -> Result<(), ChartError> {
        DrawingArea::fill(self, &colour).map_err(ChartError::from_display)
    }

    fn path(&self, points: Vec<(i32, i32)>, stroke: ShapeStyle) -> Result<(), ChartError> {
        self.draw(&PathElement::new(points, stroke)).map_err(ChartError::from_display)
    }

    fn polygon(&self, corners: Vec<(i32, i32)>, fill: ShapeStyle) -> Result<(), ChartError> {
        self.draw(&Polygon::new(corners, fill)).map_err(ChartError::from_display)
    }

    fn text(&self, text: &str, at: (i32, i32), style: TextStyle<'_>) -> Result<(), ChartError> {
        self.draw(&Text::new(text.to_owned(), at, style)).map_err(ChartError::from_display)
    }
}

/// Draws on a surface in units of the chart.
pub struct Pen<'a> {
    pub(crate) surface: &'a dyn Surface,
    /// Pixels of the surface for a unit of the chart.
    pub(crate) scale: f64,
    pub(crate) measures: Measures,
}

impl Pen<'_> {
    /// Fills the whole surface.
    pub(crate) fn fill(&self, colour: RGBColor) -> Result<(), ChartError> {
        self.surface.fill(colour)
    }

    /// A line through these points.
    pub(crate) fn line(
        &self,
        points: &[(f64, f64)],
        colour: RGBColor,
        width: f64,
    ) -> Result<(), ChartError> {
        let stroke = colour.stroke_width(self.round(width).unsigned_abs().max(1));
        self.surface.path(self.pixels(points), stroke)
    }

    /// A line of dashes, to show that something belongs together.
    pub(crate) fn dashes(
        &self,
        (from, to): ((f64, f64), (f64, f64)),
        colour: RGBColor,
        width: f64,
    ) -> Result<(), ChartError> {
        const DASH: f64 = 3.0;
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let at = |way: f64| {
            let part = if length > 0.0 { (way / length).min(1.0) } else { 0.0 };
            (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part)
        };
        let mut way = 0.0;
        while way < length {
            self.line(&[at(way), at(way + DASH)], colour, width)?;
            way += 2.0 * DASH;
        }
        Ok(())
    }

    /// A filled shape with these corners.
    pub(crate) fn shape(&self, corners: &[(f64, f64)], colour: RGBColor) -> Result<(), ChartError> {
        self.surface.polygon(self.pixels(corners), colour.filled())
    }

    /// The same, so that what lies below shows through: 1 is opaque.
    pub(crate) fn tint(
        &self,
        corners: &[(f64, f64)],
        colour: RGBColor,
        opacity: f64,
    ) -> Result<(), ChartError> {
        self.surface.polygon(self.pixels(corners), colour.mix(opacity).filled())
    }

    /// A text whose baseline begins, is centred or ends at this point.
    pub(crate) fn text(
        &self,
        (x, baseline): (f64, f64),
        text: &str,
        face: Type,
        colour: RGBColor,
        anchor: HPos,
    ) -> Result<(), ChartError> {
        let size = face.em * self.scale * self.measures.size_per_em;
        let top = self.round(baseline) - pixels(size * self.measures.baseline);
        let style =
            TextStyle::from(face.at_size(size)).color(&colour).pos(Pos::new(anchor, VPos::Top));
        self.surface.text(text, (self.round(x), top), style)
    }

    fn pixels(&self, points: &[(f64, f64)]) -> Vec<(i32, i32)> {
        points.iter().map(|&(x, y)| (self.round(x), self.round(y))).collect()
    }

    fn round(&self, units: f64) -> i32 {
        pixels(units * self.scale)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a picture is some thousand pixels wide")]
fn pixels(length: f64) -> i32 {
    length.round() as i32
}
