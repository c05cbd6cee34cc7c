//! What the shapes of a picture mean: only those that occur in it.
//!
//! Invariant: entries stand in lines, whole, and the picture ends below the last.

use std::collections::BTreeSet;

use plotters::style::text_anchor::HPos;

use super::frame::SMALL;
use super::layout::{BarKind, MarkKind};
use super::painting::IncidentChart;
use super::shapes::{arrowhead, cross, rectangle, symbol};
use crate::chart::ChartError;
use crate::chart::palette::{AXIS, FAINT_INK, HARM, INK};
use crate::chart::pen::Pen;
use history::exchange::Delivery;

/// How wide a sample is, and how far apart entries stand.
const SAMPLE: f64 = 22.0;
const GAP: f64 = 16.0;
const LINE: f64 = 18.0;

/// What an entry shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sample {
    Holds,
    Bar(BarKind),
    Mark(MarkKind),
    Request,
    Reply,
    Lost,
    Unanswered,
    Harm,
}

/// An entry: what it shows, what that means, and where its baseline begins.
type LegendEntry = (Sample, &'static str, (f64, f64));

impl IncidentChart<'_> {
    /// Where the legend ends.
    pub(super) fn legend_end(&self) -> Result<f64, ChartError> {
        let last = self.entries()?.last().map_or(self.places.legend, |it| it.2.1);
        Ok(last + 12.0)
    }

    pub(super) fn legend(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        for (sample, name, (x, y)) in self.entries()? {
            let (left, right) = (x, x + SAMPLE);
            let edges = (y - 10.0, y + 2.0);
            let middle = y - 4.0;
            match sample {
                Sample::Holds => self.bar(pen, BarKind::Holds, AXIS, ((left, right), edges))?,
                Sample::Bar(kind) => self.bar(pen, kind, AXIS, ((left, right), edges))?,
                Sample::Mark(kind) => {
                    let at = match kind {
                        MarkKind::Reads | MarkKind::Writes | MarkKind::Event => (middle, middle),
                        _ => edges,
                    };
                    symbol(pen, kind, (x + SAMPLE / 2.0, at), INK)?;
                }
                Sample::Request => {
                    pen.line(&[(left, middle), (right, middle)], INK, 1.4)?;
                    arrowhead(pen, (left, middle), (right, middle), INK)?;
                }
                Sample::Reply => {
                    pen.line(&[(left, middle), (right, middle)], INK, 0.6)?;
                    arrowhead(pen, (right, middle), (left, middle), INK)?;
                }
                Sample::Lost => {
                    pen.line(&[(left, middle), (x + 13.0, middle)], INK, 1.4)?;
                    cross(pen, (x + 14.0, middle), HARM)?;
                }
                Sample::Unanswered => pen.dashes(((left, middle), (right, middle)), INK, 1.4)?,
                Sample::Harm => pen.shape(&rectangle((x + 5.0, x + 17.0), edges), HARM)?,
            }
            pen.text((right + 5.0, y), name, SMALL, FAINT_INK, HPos::Left)?;
        }
        Ok(())
    }

    fn entries(&self) -> Result<Vec<LegendEntry>, ChartError> {
        let mut samples: BTreeSet<Sample> = BTreeSet::new();
        let mut harm = false;
        for lane in &self.layout.lanes {
            for bar in &lane.bars {
                match bar.kind {
                    BarKind::Holds => _ = samples.insert(Sample::Holds),
                    BarKind::Overstays | BarKind::Stands | BarKind::CutOff => {
                        samples.insert(Sample::Bar(bar.kind));
                    }
                    BarKind::Left => harm = true,
                    BarKind::PerhapsOwned(_) => {
                        samples.insert(Sample::Bar(BarKind::PerhapsOwned(0)));
                    }
                    _ => {}
                }
            }
            let marks = lane.marks.iter().filter(|it| it.kind != MarkKind::Ends);
            samples.extend(marks.map(|it| Sample::Mark(it.kind)));
            harm |= lane.marks.iter().any(|it| it.harms);
        }
        for it in &self.layout.messages {
            harm |= it.harms;
            samples.insert(Sample::Request);
            if it.answered_ns.is_some() {
                samples.insert(Sample::Reply);
            }
            if [it.request, it.reply].contains(&Delivery::Lost) {
                samples.insert(Sample::Lost);
            }
            if it.request == Delivery::Unknown {
                samples.insert(Sample::Unanswered);
            }
        }
        if !self.layout.missed.is_empty() {
            samples.insert(Sample::Lost);
            harm = true;
        }
        if harm {
            samples.insert(Sample::Harm);
        }
        let (mut x, mut y) = (self.places.frame.margin, self.places.legend);
        let mut entries = Vec::new();
        for sample in samples {
            let name = name(sample);
            let width = SAMPLE + 5.0 + SMALL.width(name)?;
            if x > self.places.frame.margin && x + width > self.places.frame.ends.1 {
                (x, y) = (self.places.frame.margin, y + LINE);
            }
            entries.push((sample, name, (x, y)));
            x += width + GAP;
        }
        Ok(entries)
    }
}

fn name(sample: Sample) -> &'static str {
    match sample {
        Sample::Holds => "holds, or is at work",
        Sample::Bar(BarKind::Overstays) => "at work, no longer valid",
        Sample::Bar(BarKind::Stands) => "stands still",
        Sample::Bar(BarKind::CutOff) => "cut off",
        Sample::Bar(_) => "perhaps its key",
        Sample::Mark(MarkKind::Reads) => "reads the resource",
        Sample::Mark(MarkKind::Writes) => "writes it",
        Sample::Mark(MarkKind::Fault) => "fault",
        Sample::Mark(_) => "learns",
        Sample::Request => "request",
        Sample::Reply => "reply",
        Sample::Lost => "lost",
        Sample::Unanswered => "never answered",
        Sample::Harm => "does harm",
    }
}
