//! The frontier of a tuning: how long a crashed holder blocks the others, against how often it goes wrong.
//!
//! How often is told as a multiple of the target, so that one corner serves for all targets: a
//! setting meets them where all its marks stand there.
//!
//! Invariant: what is drawn is what may be at most, and not the best guess; what is rarer than the scale
//! shows stands below it.

mod captions;
mod label_layout;
mod legend;
mod plot;
mod series;

use plotters::style::text_anchor::HPos;
use plotters::style::{RGBColor, WHITE};
use ttl_model::tuning::{IfTaken, Point, Protection, Tuning};

use self::captions::{ASCENT, Callout, Captions, LEADING, RING, TextBox};
use self::plot::{LEFT, Plot, PlotLine, PlotMark, RIGHT, TOP};
use self::series::{FailureMode, RenewalRule};
use super::table::{header, row};
use crate::chart::layout::{BOTTOM, LINE_WIDTH, MARGIN, MARK_RADIUS, PlotArea, SCALE, SIZE};
use crate::chart::palette::{AXIS, FAINT_INK, INK, MET, MET_INK, Marker, line};
use crate::chart::pen::Pen;
use crate::chart::{ChartError, Drawing, Hover};
use crate::format::plain;
use ttl_model::format::time;

/// By so much a stroke is wider than another that lies on it.
const WIDER: f64 = 3.0;
/// How far around a mark one may point at it.
const NEAR: f64 = 9.0;

/// The chart of a tuning.
#[derive(Clone, Copy, Debug)]
pub struct Frontier<'a>(pub &'a Tuning);

/// The colour and mark of what a line shows first: each has its own in every chart.
fn look(line_of: &PlotLine<'_>) -> (RGBColor, Marker) {
    line(match line_of.shows.first() {
        Some((FailureMode::Lost, RenewalRule::Never)) => 1,
        Some((FailureMode::Lost, _)) => 4,
        Some((FailureMode::Overlaps, RenewalRule::Never)) | None => 0,
        Some((FailureMode::Overlaps, _)) => 2,
    })
}

impl Drawing for Frontier<'_> {
    fn title(&self) -> String {
        "What TTL to set: how often it goes wrong, and how long a crash blocks".to_owned()
    }

    fn hovers(&self) -> Vec<Hover> {
        let Some(plot) = Plot::of(self.0) else { return Vec::new() };
        let marks = plot.lines.iter().flat_map(|it| &it.marks);
        let hover = |mark: &PlotMark<'_>| {
            let mut told: Vec<String> =
                mark.says.iter().map(|it| said_of(self.0, it.point)).collect();
            told.dedup();
            let (x, y) = mark.at;
            let corners = [
                (x - NEAR, y - NEAR),
                (x + NEAR, y - NEAR),
                (x + NEAR, y + NEAR),
                (x - NEAR, y + NEAR),
            ];
            Hover { points: corners.into(), is_line: false, text: told.join(". ") }
        };
        marks.map(hover).collect()
    }

    fn paint(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        pen.fill(WHITE)?;
        let lock = match self.0.keeping {
            Protection::None => "A lock that keeps no validity",
            Protection::Tracked => "A lock that keeps its validity",
            Protection::Fenced => "A lock with a fence",
        };
        let says = format!("{lock} — {}", self.0.advice.says);
        pen.titles(&self.title(), &plain(&says))?;
        let Some(plot) = Plot::of(self.0) else { return Ok(()) };
        let captions = Captions::of(self.0, &plot)?;
        scales(pen, self.0, &plot)?;
        lines(pen, &plot)?;
        legend::paint(pen, self.0, &plot)?;
        write(pen, &captions)
    }
}

/// A setting and what it leads to, in a line.
fn said_of(tuning: &Tuning, point: &Point) -> String {
    let [ttl, every, wrong, overlap, takeover, ..] = row(point);
    let renewed = match point.renew {
        Some(_) => format!("renewed every {every}"),
        None => "not renewed".to_owned(),
    };
    let [_, _, of_wrong, of_overlap, of_takeover, ..] = header(tuning.keeping, tuning.if_taken);
    format!(
        "TTL {ttl}, {renewed}. {of_wrong}: {wrong}. {of_overlap}: {overlap}. {of_takeover}: {takeover}"
    )
}

fn scales(pen: &Pen<'_>, tuning: &Tuning, plot: &Plot<'_>) -> Result<(), ChartError> {
    let (met, (edge, level)) = (plot.met(), plot.wanted);
    let corners = [(met.left, met.top), (met.right, met.top), (met.right, met.bottom)];
    if met.left < met.right && met.top < met.bottom {
        pen.shape(&[corners[0], corners[1], corners[2], (met.left, met.bottom)], MET)?;
    }
    let area = PlotArea { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM, gap: 8.0 };
    pen.axes(&area, &plot.up, &plot.across)?;
    if plot.floor < BOTTOM {
        pen.line(&[(LEFT, plot.floor), (RIGHT, plot.floor)], AXIS, 1.0)?;
        let middle = (plot.floor + BOTTOM) / 2.0;
        pen.text((LEFT - area.gap, middle + 4.3), "rarer still", SCALE, FAINT_INK, HPos::Right)?;
    }
    pen.dashes(((LEFT, level), (RIGHT, level)), MET_INK, 1.25)?;
    pen.dashes(((edge, TOP), (edge, BOTTOM)), MET_INK, 1.25)?;
    let targets = &tuning.targets;
    let (overlaps, lost) = (plain(&targets.overlaps), plain(&targets.lost));
    let wanted = match tuning.keeping {
        Protection::None => format!("overlaps {overlaps}"),
        Protection::Tracked => format!("overlaps {overlaps}, lost holds {lost}"),
        Protection::Fenced => format!("lost holds {lost}"),
    };
    let above = format!("how often it goes wrong at most, as a multiple of the target ({wanted})");
    let width = f64::from(SIZE.0) - 2.0 * MARGIN;
    pen.text((MARGIN, TOP - 18.0), &SCALE.fit(&above, width)?, SCALE, INK, HPos::Left)?;
    let below = format!(
        "time until {} after a crash (99 of 100 cases; target: {})",
        match tuning.if_taken {
            IfTaken::Wait => "a waiting client has the lock",
            IfTaken::Skip => "the next run begins",
        },
        time(targets.takeover)
    );
    pen.text((LEFT, BOTTOM + 48.0), &below, SCALE, INK, HPos::Left)
}

fn lines(pen: &Pen<'_>, plot: &Plot<'_>) -> Result<(), ChartError> {
    let near = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).hypot(a.1 - b.1) < MARK_RADIUS;
    // What is listed first is painted last; what it would hide is wider there, and shows at both sides.
    for (number, line) in plot.lines.iter().enumerate().rev() {
        let (colour, _) = look(line);
        for (from, to) in line.strokes() {
            let hides =
                |it: &&PlotLine<'_>| it.strokes().any(|it| near(it.0, from) && near(it.1, to));
            let hiding = plot.lines[..number].iter().filter(hides).count();
            pen.line(&[from, to], colour, LINE_WIDTH + WIDER * hiding as f64)?;
        }
    }
    for (number, line) in plot.lines.iter().enumerate().rev() {
        for mark in &line.marks {
            let hides = |it: &&PlotLine<'_>| it.marks.iter().any(|it| near(it.at, mark.at));
            let hiding = plot.lines[..number].iter().filter(hides).count();
            pen.mark(look(line), mark.at, MARK_RADIUS + WIDER * hiding as f64)?;
        }
    }
    Ok(())
}

fn write(pen: &Pen<'_>, captions: &Captions) -> Result<(), ChartError> {
    let text = |it: &TextBox, ink: RGBColor| -> Result<(), ChartError> {
        let mut baseline = it.rect.top + ASCENT;
        for (line, face) in &it.lines {
            pen.text((it.rect.left, baseline), line, *face, ink, HPos::Left)?;
            baseline += LEADING;
        }
        Ok(())
    };
    for Callout { at, text: said, leader, advised } in &captions.callouts {
        let ring: Vec<(f64, f64)> = (0..=32)
            .map(|step| f64::from(step) / 32.0 * std::f64::consts::TAU)
            .map(|turn| (at.0 + RING * turn.cos(), at.1 + RING * turn.sin()))
            .collect();
        let (ink, width) = if *advised { (INK, 2.0) } else { (FAINT_INK, 1.0) };
        pen.line(&ring, ink, width)?;
        pen.line(&[leader.0, leader.1], ink, 1.0)?;
        text(said, ink)?;
    }
    for it in &captions.ttls {
        if let Some((from, to)) = it.leader {
            pen.line(&[from, to], FAINT_INK, 1.0)?;
        }
        text(&it.text, FAINT_INK)?;
    }
    captions.met.iter().try_for_each(|it| text(it, MET_INK))
}

#[cfg(test)]
mod tests;
