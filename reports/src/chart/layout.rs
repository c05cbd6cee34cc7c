//! What charts have in common: where things stand, in which letters, and how axes and names are drawn.

use plotters::style::text_anchor::HPos;
use plotters::style::{RGBColor, WHITE};

use super::axis::Tick;
use super::error::ChartError;
use super::font::Type;
use super::palette::{AXIS, FAINT_INK, GRID, INK, Marker};
use super::pen::Pen;

/// The size of a chart, in its own units: pixels of a common screen.
pub(crate) const SIZE: (u32, u32) = (960, 600);

pub(crate) const LEFT: f64 = 92.0;
pub(crate) const TOP: f64 = 112.0;
pub(crate) const BOTTOM: f64 = 524.0;
/// Where titles begin.
pub(crate) const MARGIN: f64 = 32.0;
/// How far apart the labels of lines stand at least.
pub(crate) const LABEL_HEIGHT: f64 = 42.0;
pub(crate) const LINE_WIDTH: f64 = 2.0;
pub(crate) const MARK_RADIUS: f64 = 4.5;

const TITLE: Type = Type::bold(19.0);
const LONG_TITLE: Type = Type::bold(15.0);
const SUBTITLE: Type = Type::regular(13.0);
pub(crate) const SCALE: Type = Type::regular(12.0);
pub(crate) const NAME: Type = Type::bold(13.0);
pub(crate) const NOTE: Type = Type::regular(11.5);

/// Where the plot of a chart stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlotArea {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    /// How far from the plot the names of the vertical scale end.
    pub(crate) gap: f64,
}

impl PlotArea {
    /// The point at these parts of both scales, from 0 to 1.
    pub(crate) fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let Self { left, right, top, bottom, .. } = self;
        (left + x * (right - left), bottom - y * (bottom - top))
    }
}

impl Pen<'_> {
    /// The title, and the line below it.
    pub(crate) fn titles(&self, title: &str, subtitle: &str) -> Result<(), ChartError> {
        let width = f64::from(SIZE.0) - 2.0 * MARGIN;
        let face = if TITLE.width(title)? <= width { TITLE } else { LONG_TITLE };
        self.text((MARGIN, 44.0), &face.fit(title, width)?, face, INK, HPos::Left)?;
        let subtitle = SUBTITLE.fit(subtitle, width)?;
        self.text((MARGIN, 68.0), &subtitle, SUBTITLE, FAINT_INK, HPos::Left)
    }

    /// The grid with its names, and the horizontal axis. Ticks stand at places of the chart.
    pub(crate) fn axes(
        &self,
        area: &PlotArea,
        up: &[Tick],
        across: &[Tick],
    ) -> Result<(), ChartError> {
        let PlotArea { left, right, top, bottom, gap } = *area;
        for Tick { at: y, label } in up {
            self.line(&[(left, *y), (right, *y)], GRID, 1.0)?;
            self.text((left - gap, y + 4.3), label, SCALE, FAINT_INK, HPos::Right)?;
        }
        for Tick { at: x, label } in across {
            self.line(&[(*x, top), (*x, bottom)], GRID, 1.0)?;
            self.line(&[(*x, bottom), (*x, bottom + 5.0)], AXIS, 1.0)?;
            self.text((*x, bottom + 21.0), label, SCALE, FAINT_INK, HPos::Center)?;
        }
        self.line(&[(left, bottom), (right, bottom)], AXIS, 1.0)
    }

    /// A mark, set off from what it stands on.
    pub(crate) fn mark(
        &self,
        (colour, shape): (RGBColor, Marker),
        at: (f64, f64),
        radius: f64,
    ) -> Result<(), ChartError> {
        self.shape(&shape.corners(at, radius + 1.5), WHITE)?;
        self.shape(&shape.corners(at, radius), colour)
    }

    /// What a line is: its mark, its name, and what there is to say of it.
    pub(crate) fn label(
        &self,
        (colour, shape): (RGBColor, Marker),
        (x, y): (f64, f64),
        width: f64,
        [name, note]: [&str; 2],
    ) -> Result<(), ChartError> {
        self.shape(&shape.corners((x, y), MARK_RADIUS), colour)?;
        let x = x + 13.0;
        self.text((x, y - 1.0), &NAME.fit(name, width)?, NAME, INK, HPos::Left)?;
        self.text((x, y + 14.5), &NOTE.fit(note, width)?, NOTE, FAINT_INK, HPos::Left)
    }
}
