//! The painting of an incident: bands, lanes with bars and marks, messages, labels.
//!
//! Invariant: what a colour says, a word, a hatching or a shape says too. Labels are painted last, on a ground of their own,
//! so that no line makes them illegible.

use std::collections::BTreeMap;

use plotters::style::text_anchor::HPos;
use plotters::style::{RGBColor, WHITE};

use super::frame::{
    IncidentFrame, IncidentPlaces, LanePlace, NAME, NARROW, PlacedLabel, SMALL, SMALL_BOLD, WIDE,
};
use super::layout::{BarKind, IncidentLayout, IncidentMessage, LaneMark, LaneOwner};
use super::shapes::{arrowhead, axis_break, cross, dashed, hatch, part, rectangle, symbol};
use crate::chart::palette::{self, AXIS, FAINT_INK, GRID, HARM, INK, STALL};
use crate::chart::pen::Pen;
use crate::chart::{ChartError, Drawing, Hover, font};
use history::exchange::Delivery;

/// Where on its way a lost message ends.
const LOST_AT: f64 = 0.38;

/// An incident, ready to be painted.
#[derive(Clone, Debug)]
pub(crate) struct IncidentChart<'a> {
    pub(super) layout: &'a IncidentLayout,
    pub(super) places: IncidentPlaces,
    colours: BTreeMap<u32, RGBColor>,
}

impl<'a> IncidentChart<'a> {
    /// For a file, and for a page on a screen.
    pub(crate) fn wide(layout: &'a IncidentLayout) -> Result<Self, ChartError> {
        Self::new(layout, WIDE)
    }

    /// For a page on a telephone.
    pub(crate) fn narrow(layout: &'a IncidentLayout) -> Result<Self, ChartError> {
        Self::new(layout, NARROW)
    }

    fn new(layout: &'a IncidentLayout, frame: IncidentFrame) -> Result<Self, ChartError> {
        font::register()?;
        let mut places = IncidentPlaces::new(layout, frame)?;
        let colours = layout.clients().enumerate();
        let colours = colours.map(|(nth, client)| (client, palette::lane(nth))).collect();
        let mut chart = Self { layout, places: places.clone(), colours };
        places.height = chart.legend_end()?;
        chart.places = places;
        Ok(chart)
    }

    fn colour(&self, client: u32) -> RGBColor {
        self.colours.get(&client).copied().unwrap_or(AXIS)
    }

    fn ink(&self, owner: LaneOwner) -> RGBColor {
        match owner {
            LaneOwner::Client(client) => self.colour(client),
            LaneOwner::Key(_) => AXIS,
        }
    }
}

impl Drawing for IncidentChart<'_> {
    fn size(&self) -> (u32, u32) {
        let [width, height] = [self.places.frame.width, self.places.height].map(f64::ceil);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred")]
        (width as u32, height as u32)
    }

    fn title(&self) -> String {
        format!("Timeline: {}", self.layout.title)
    }

    fn hovers(&self) -> Vec<Hover> {
        self.hover_parts()
    }

    fn paint(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        pen.fill(WHITE)?;
        let IncidentPlaces { frame, heading, found, footing, .. } = &self.places;
        for (nth, (baseline, face, line)) in heading.iter().enumerate() {
            let ink = if nth < *found { INK } else { FAINT_INK };
            pen.text((frame.margin, *baseline), line, *face, ink, HPos::Left)?;
        }
        self.bands(pen)?;
        self.ticks(pen)?;
        self.lanes(pen)?;
        for message in &self.layout.messages {
            self.message(pen, message)?;
        }
        for notice in &self.layout.missed {
            if let Some([from, reached]) = self.places.notice(notice) {
                let end = part(from, reached, 1.0 - LOST_AT);
                pen.dashes((from, end), HARM, 1.6)?;
                cross(pen, end, HARM)?;
            }
        }
        self.names(pen)?;
        self.bar_texts(pen)?;
        for (lane, place) in self.layout.lanes.iter().zip(&self.places.lanes) {
            for mark in &lane.marks {
                self.mark(pen, mark, place)?;
            }
        }
        for label in &self.places.labels {
            let ink = if label.harms { HARM } else { INK };
            self.label(pen, label, ink)?;
        }
        for label in &self.places.band_labels {
            let ink = if label.harms { HARM } else { STALL };
            self.label(pen, label, ink)?;
        }
        for (baseline, line) in footing {
            pen.text((frame.margin, *baseline), line, SMALL, FAINT_INK, HPos::Left)?;
        }
        self.legend(pen)
    }
}

impl IncidentChart<'_> {
    fn bands(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        for (band, label) in self.layout.bands.iter().zip(&self.places.band_labels) {
            let ink = if band.overlap { HARM } else { STALL };
            let (left, right) = self.span(band.from_ns, band.until_ns);
            let top = label.baseline + 4.0;
            let bottom = self.places.bottom;
            pen.tint(&rectangle((left, right), (top, bottom)), ink, 0.13)?;
            pen.line(&[(left, bottom), (left, top), (right, top), (right, bottom)], ink, 1.2)?;
        }
        Ok(())
    }

    fn ticks(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        let IncidentPlaces { frame, top, bottom, .. } = &self.places;
        for (x, text) in &self.places.ticks {
            pen.line(&[(*x, *top + 14.0), (*x, bottom + 4.0)], GRID, 1.0)?;
            pen.text((*x, bottom + 16.0), text, SMALL, FAINT_INK, HPos::Center)?;
        }
        pen.line(&[(frame.ends.0, *bottom), (frame.ends.1, *bottom)], AXIS, 1.0)?;
        self.places.breaks.iter().try_for_each(|x| axis_break(pen, (*x, *bottom)))
    }

    fn lanes(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        let ends = self.places.frame.ends;
        for (lane, place) in self.layout.lanes.iter().zip(&self.places.lanes) {
            let (upper, lower) = place.bars;
            let middle = f64::midpoint(upper, lower);
            pen.line(&[(ends.0, middle), (ends.1, middle)], GRID, 1.0)?;
            let ink = self.ink(lane.owner);
            for bar in &lane.bars {
                let at = self.span(bar.from_ns, bar.until_ns);
                self.bar(pen, bar.kind, ink, (at, place.bars))?;
            }
        }
        Ok(())
    }

    /// The names of lanes, each beside its colour.
    fn names(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        let margin = self.places.frame.margin;
        for place in &self.places.lanes {
            let (name, edges) = (place.owner.name(), (place.name - 10.0, place.name + 3.0));
            pen.tint(&rectangle((margin, margin + NAME.width(&name)?), edges), WHITE, 0.85)?;
            if matches!(place.owner, LaneOwner::Client(_)) {
                let x = margin - 5.0;
                pen.shape(&rectangle((x - 3.0, x), edges), self.ink(place.owner))?;
            }
            pen.text((margin, place.name), &name, NAME, INK, HPos::Left)?;
        }
        Ok(())
    }

    fn bar_texts(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        for (lane, place) in self.layout.lanes.iter().zip(&self.places.lanes) {
            let middle = f64::midpoint(place.bars.0, place.bars.1);
            for (number, bar) in lane.bars.iter().enumerate() {
                let Some((x, text)) = self.places.bar_text(lane, number)? else { continue };
                let width = SMALL.width(&text)? / 2.0 + 3.0;
                let ground = rectangle((x - width, x + width), (middle - 8.0, middle + 8.0));
                let is_hatched = matches!(
                    bar.kind,
                    BarKind::Stands | BarKind::CutOff | BarKind::Down | BarKind::Dead
                );
                pen.tint(&ground, WHITE, if is_hatched { 1.0 } else { 0.4 })?;
                pen.text((x, middle + 4.0), &text, SMALL, INK, HPos::Center)?;
            }
        }
        Ok(())
    }

    pub(super) fn bar(
        &self,
        pen: &Pen<'_>,
        kind: BarKind,
        ink: RGBColor,
        (across, (upper, lower)): ((f64, f64), (f64, f64)),
    ) -> Result<(), ChartError> {
        let corners = rectangle(across, (upper, lower));
        let mut outline = corners.to_vec();
        outline.push(corners[0]);
        match kind {
            BarKind::Owned(client) => {
                pen.shape(&corners, WHITE)?;
                pen.tint(&corners, self.colour(client), 0.45)?;
                pen.line(&outline, self.colour(client), 1.2)
            }
            BarKind::PerhapsOwned(client) => {
                pen.tint(&corners, self.colour(client), 0.15)?;
                dashed(pen, &outline, self.colour(client))
            }
            BarKind::Left => {
                pen.shape(&corners, WHITE)?;
                pen.tint(&corners, HARM, 0.25)?;
                pen.line(&outline, HARM, 1.6)
            }
            BarKind::Waits | BarKind::Releases => {
                pen.tint(&rectangle(across, (upper + 5.0, lower - 5.0)), AXIS, 0.2)
            }
            BarKind::Holds => {
                pen.tint(&corners, ink, 0.3)?;
                pen.line(&outline, ink, 1.2)
            }
            BarKind::Overstays => {
                pen.tint(&corners, ink, 0.1)?;
                dashed(pen, &outline, ink)
            }
            BarKind::Stands => {
                hatch(pen, across, (upper, lower), 1.0)?;
                pen.line(&outline, FAINT_INK, 1.0)
            }
            BarKind::CutOff | BarKind::Down => {
                hatch(pen, across, (upper, lower), 1.0)?;
                hatch(pen, across, (upper, lower), -1.0)?;
                pen.line(&outline, FAINT_INK, 1.0)
            }
            BarKind::Dead => {
                let middle = f64::midpoint(upper, lower);
                pen.dashes(((across.0, middle), (across.1, middle)), AXIS, 1.5)
            }
        }
    }

    fn message(&self, pen: &Pen<'_>, it: &IncidentMessage) -> Result<(), ChartError> {
        let Some(way) = self.places.way(it) else { return Ok(()) };
        let (from, reached) = (way[0], way[1]);
        let (near, far) = (from.1, reached.1);
        let ink = if it.harms { HARM } else { self.colour(it.client) };
        let width = if it.harms { 2.4 } else { 1.4 };
        let is_beyond = it.done_ns > self.layout.until_ns;
        match it.request {
            Delivery::Lost => {
                let end = part(from, (reached.0.max(from.0 + 16.0), far), 1.0 - LOST_AT);
                pen.line(&[from, end], ink, width)?;
                return cross(pen, end, HARM);
            }
            Delivery::Unknown => pen.dashes((from, reached), ink, width)?,
            // It arrives after the end of the picture.
            _ if is_beyond => return pen.line(&[from, part(from, reached, 0.8)], ink, width),
            _ => {
                pen.line(&[from, reached], ink, width)?;
                arrowhead(pen, from, reached, ink)?;
            }
        }
        if it.reply == Delivery::Lost {
            let end = part(reached, (reached.0 + 16.0, near), LOST_AT);
            pen.line(&[reached, end], ink, 1.0)?;
            return cross(pen, end, HARM);
        }
        let Some((answered_ns, &back)) = it.answered_ns.zip(way.get(2)) else { return Ok(()) };
        let is_beyond = answered_ns > self.layout.until_ns;
        let end = if is_beyond { part(reached, back, 0.8) } else { back };
        pen.line(&[reached, end], ink, 0.6)?;
        if is_beyond { Ok(()) } else { arrowhead(pen, reached, end, ink) }
    }

    fn mark(&self, pen: &Pen<'_>, mark: &LaneMark, place: &LanePlace) -> Result<(), ChartError> {
        let (x, (upper, lower)) = (self.places.scale.x(mark.at_ns), place.bars);
        let ink = if mark.harms { HARM } else { INK };
        symbol(pen, mark.kind, (x, (upper, lower)), ink)
    }

    fn label(&self, pen: &Pen<'_>, label: &PlacedLabel, ink: RGBColor) -> Result<(), ChartError> {
        let PlacedLabel { x, baseline, width, text, harms, .. } = label;
        let ground = rectangle((x - 2.0, x + width + 2.0), (baseline - 9.5, baseline + 2.5));
        pen.tint(&ground, WHITE, 0.85)?;
        let face = if *harms || ink == STALL { SMALL_BOLD } else { SMALL };
        pen.text((*x, *baseline), text, face, ink, HPos::Left)
    }

    fn span(&self, from_ns: u64, until_ns: u64) -> (f64, f64) {
        (self.places.scale.x(from_ns), self.places.scale.x(until_ns))
    }
}
