//! Where everything of a picture stands: lanes, labels, ticks.
//!
//! Invariant: no label overlaps another, or lies outside the picture; lanes are as high as their labels need.

use std::collections::BTreeMap;

use super::layout::{
    Bar, BarKind, IncidentLane, IncidentLayout, LaneMark, LaneOwner, MARKS_MOST, MarkKind,
};
use super::scale::IncidentScale;
use crate::chart::ChartError;
use crate::chart::font::Type;
use crate::chart::label_rows::LabelRows;

/// How wide a picture is, and where its parts begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct IncidentFrame {
    pub(super) width: f64,
    /// Where texts begin.
    pub(super) margin: f64,
    /// Between which places times stand.
    pub(super) ends: (f64, f64),
    /// Whether the name of a lane stands above it, rather than to the left.
    pub(super) names_above: bool,
    /// How far apart moments stand at least, if there is room.
    pub(super) apart: f64,
    pub(super) title: Type,
}

/// For files, and for a page on a screen.
pub(super) const WIDE: IncidentFrame = IncidentFrame {
    width: 800.0,
    margin: 16.0,
    ends: (96.0, 788.0),
    names_above: false,
    apart: 15.0,
    title: Type::bold(16.0),
};
/// For a page on a telephone.
pub(super) const NARROW: IncidentFrame = IncidentFrame {
    width: 320.0,
    margin: 8.0,
    ends: (8.0, 312.0),
    names_above: true,
    apart: 9.0,
    title: Type::bold(14.0),
};

pub(super) const SMALL: Type = Type::regular(11.0);
pub(super) const SMALL_BOLD: Type = Type::bold(11.0);
pub(super) const NAME: Type = Type::bold(12.0);
pub(super) const SUBTITLE: Type = Type::regular(12.0);

const EDGE: f64 = 6.0;
const TITLE_LINES: usize = 3;
const ROW: f64 = 14.0;
const LINE: f64 = 17.0;
const BAR: f64 = 24.0;
const LANE_GAP: f64 = 13.0;

/// Where the parts of one picture stand.
#[derive(Clone, Debug)]
pub(super) struct IncidentPlaces {
    pub(super) frame: IncidentFrame,
    pub(super) scale: IncidentScale,
    /// Lines above the lanes: their baselines, letters and texts.
    pub(super) heading: Vec<(f64, Type, String)>,
    /// How many of them are what was found; the others say what was run.
    pub(super) found: usize,
    pub(super) lanes: Vec<LanePlace>,
    pub(super) labels: Vec<PlacedLabel>,
    /// Names of bands: where they stand.
    pub(super) band_labels: Vec<PlacedLabel>,
    /// Where lanes begin and end.
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) ticks: Vec<(f64, String)>,
    /// Where the axis is broken.
    pub(super) breaks: Vec<f64>,
    /// Lines below the lanes.
    pub(super) footing: Vec<(f64, String)>,
    /// Where the legend stands.
    pub(super) legend: f64,
    pub(super) height: f64,
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct LanePlace {
    pub(super) owner: LaneOwner,
    /// Where its name stands: the baseline.
    pub(super) name: f64,
    /// The upper and the lower edge of its bars.
    pub(super) bars: (f64, f64),
}

/// A label that has a place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedLabel {
    pub(super) x: f64,
    pub(super) baseline: f64,
    pub(super) width: f64,
    pub(super) text: String,
    pub(super) harms: bool,
    /// The moment that it names.
    pub(super) names: f64,
}

/// A label that wants a place.
struct WantedLabel {
    x: f64,
    is_above: bool,
    text: String,
    harms: bool,
}

impl IncidentPlaces {
    /// The places of this incident in this frame.
    pub(super) fn new(layout: &IncidentLayout, frame: IncidentFrame) -> Result<Self, ChartError> {
        // What stands at either end keeps its whole symbol.
        let ends = (frame.ends.0 + EDGE, frame.ends.1 - EDGE);
        let scale = IncidentScale::new(&layout.instants(), ends, frame.apart);
        let width = frame.width - 2.0 * frame.margin;
        let mut heading = Vec::new();
        let mut y = 6.0;
        let mut say = |face: Type, text: &str, most: usize| -> Result<(), ChartError> {
            for line in face.wrapped(text, width, most)? {
                y += if face.bold { face.em + 6.0 } else { LINE };
                heading.push((y, face, line));
            }
            Ok(())
        };
        say(frame.title, &layout.title, TITLE_LINES)?;
        for also in &layout.also {
            say(SUBTITLE, also, 2)?;
        }
        say(SUBTITLE, &layout.why, 3)?;
        say(SUBTITLE, &layout.run, 2)?;
        let said = SUBTITLE.wrapped(&layout.run, width, 2)?.len();
        let found = heading.len() - said;

        let mut places = Self {
            frame,
            scale,
            heading,
            found,
            lanes: Vec::new(),
            labels: Vec::new(),
            band_labels: Vec::new(),
            top: y + 12.0,
            bottom: 0.0,
            ticks: Vec::new(),
            breaks: Vec::new(),
            footing: Vec::new(),
            legend: 0.0,
            height: 0.0,
        };
        let y = places.place_bands(layout, y + 12.0)?;
        let y = places.place_lanes(layout, y)?;
        places.bottom = y;
        places.breaks = places.scale.breaks();
        places.move_labels_off_arrows(layout);
        places.ticks = places.tick_labels(layout)?;
        let mut y = y + 17.0;
        let axis = match places.breaks[..] {
            [] => "Time in ms since the run began; quiet stretches are shortened.",
            _ => {
                "Time in ms since the run began, not to scale: at // far more time passes than the width shows."
            }
        };
        let text = std::iter::once(axis).chain(layout.notes.iter().map(String::as_str));
        for line in SMALL.wrapped(&text.collect::<Vec<_>>().join(" "), width, 8)? {
            y += ROW;
            places.footing.push((y, line));
        }
        places.legend = y + 20.0;
        Ok(places)
    }

    fn place_bands(&mut self, layout: &IncidentLayout, top: f64) -> Result<f64, ChartError> {
        let mut rows = LabelRows::default();
        for band in &layout.bands {
            let (from, until) = (self.scale.x(band.from_ns), self.scale.x(band.until_ns));
            let text = SMALL_BOLD.fit(&band.text, self.frame.ends.1 - self.frame.ends.0)?;
            let width = SMALL_BOLD.width(&text)?;
            let (row, x) = rows.place(f64::midpoint(from, until), width, self.frame.ends);
            let baseline = top + 11.0 + rows_high(row);
            let (harms, names) = (band.overlap, f64::midpoint(from, until));
            self.band_labels.push(PlacedLabel { x, baseline, width, text, harms, names });
        }
        Ok(if rows.count() == 0 { top } else { top + rows_high(rows.count()) + 6.0 })
    }

    fn place_lanes(&mut self, layout: &IncidentLayout, top: f64) -> Result<f64, ChartError> {
        let mut y = top;
        for lane in &layout.lanes {
            let wanted = self.wanted(layout, lane)?;
            let (mut above, mut below) = (LabelRows::default(), LabelRows::default());
            let mut placed = Vec::new();
            for WantedLabel { x, is_above, text, harms } in wanted {
                let face = if harms { SMALL_BOLD } else { SMALL };
                let text = face.fit(&text, self.frame.ends.1 - self.frame.ends.0)?;
                let width = face.width(&text)?;
                let rows = if is_above { &mut above } else { &mut below };
                let (names, (row, x)) = (x, rows.place(x, width, self.frame.ends));
                let label = PlacedLabel { x, baseline: 0.0, width, text, harms, names };
                placed.push((is_above, row, label));
            }
            if self.frame.names_above {
                y += ROW + 2.0;
            }
            let name = y - 4.0;
            let upper = y + rows_high(above.count()) + if above.count() > 0 { 3.0 } else { 0.0 };
            let lower = upper + BAR;
            for (is_above, row, label) in placed {
                let baseline = if is_above {
                    upper - 4.0 - rows_high(row)
                } else {
                    lower + 12.0 + rows_high(row)
                };
                self.labels.push(PlacedLabel { baseline, ..label });
            }
            let name = if self.frame.names_above { name } else { upper + BAR / 2.0 + 4.5 };
            self.lanes.push(LanePlace { owner: lane.owner, name, bars: (upper, lower) });
            y = lower + rows_high(below.count()) + LANE_GAP;
        }
        Ok(y)
    }

    /// The labels that a lane wants, what does harm first: it then stands nearest.
    fn wanted(
        &self,
        layout: &IncidentLayout,
        lane: &IncidentLane,
    ) -> Result<Vec<WantedLabel>, ChartError> {
        let is_key = matches!(lane.owner, LaneOwner::Key(_));
        let mut wanted = Vec::new();
        for mark in &lane.marks {
            let is_above = is_key || mark.kind == MarkKind::Reads;
            let (x, text) = (self.scale.x(mark.at_ns), mark.text.clone());
            wanted.push(WantedLabel { x, is_above, text, harms: mark.harms });
        }
        // Of many, those that are too short for their names go without.
        let named = lane.bars.iter().enumerate().filter(|_| lane.bars.len() <= MARKS_MOST);
        for (place, bar) in named {
            let is_said = !matches!(
                bar.kind,
                BarKind::Waits
                    | BarKind::Holds
                    | BarKind::Releases
                    | BarKind::Overstays
                    | BarKind::Dead
            );
            let harms = bar.kind == BarKind::Left;
            if is_said && self.bar_text(lane, place)?.is_none() {
                let from = self.scale.x(bar.from_ns);
                // What nobody holds any more has a bar of its own above this one.
                let left = lane.bars.get(place + 1).filter(|it| it.kind == BarKind::Left);
                let until_ns = left.map_or(bar.until_ns, |it| it.from_ns.min(bar.until_ns));
                let x = f64::midpoint(from, self.scale.x(until_ns));
                let [long, short] = &bar.texts;
                let text = if is_key { short } else { long }.clone();
                wanted.push(WantedLabel { x, is_above: is_key, text, harms });
            }
        }
        if let LaneOwner::Client(client) = lane.owner {
            let mut sent: BTreeMap<(u64, &str, bool), usize> = BTreeMap::new();
            for it in layout.messages.iter().filter(|it| it.client == client) {
                *sent.entry((it.sent_ns, it.text.as_str(), it.harms)).or_default() += 1;
            }
            for ((sent_ns, text, harms), many) in sent {
                let x = self.scale.x(sent_ns);
                let text = if many == 1 { text.to_owned() } else { format!("{many} × {text}") };
                wanted.push(WantedLabel { x, is_above: true, text, harms });
            }
        }
        for it in layout.missed.iter().filter(|it| lane.owner == LaneOwner::Client(it.client)) {
            let (x, text) = (self.scale.x(it.at_ns), it.text.clone());
            wanted.push(WantedLabel { x, is_above: true, text, harms: true });
        }
        wanted.sort_by_key(|it| !it.harms);
        Ok(wanted)
    }

    /// The text inside of a bar, and where its middle stands; none if there is no room for any.
    pub(super) fn bar_text(
        &self,
        lane: &IncidentLane,
        place: usize,
    ) -> Result<Option<(f64, String)>, ChartError> {
        let bar: &Bar = &lane.bars[place];
        let mut from = self.scale.x(bar.from_ns);
        let mut free: Vec<(f64, f64)> = Vec::new();
        let end = self.scale.x(bar.until_ns);
        // What is painted later hides it.
        let mut hidden: Vec<(f64, f64)> = lane.bars[place + 1..]
            .iter()
            .map(|it| (self.scale.x(it.from_ns), self.scale.x(it.until_ns)))
            .collect();
        let crosses = |it: &&LaneMark| match it.kind {
            MarkKind::Fault => true,
            MarkKind::Ends => bar.from_ns < it.at_ns && it.at_ns < bar.until_ns,
            _ => false,
        };
        let crossing = lane.marks.iter().filter(crosses).map(|it| self.scale.x(it.at_ns));
        hidden.extend(crossing.map(|x| (x - 6.0, x + 6.0)));
        hidden.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (begins, ends) in hidden {
            if begins < end && ends > from {
                free.push((from, begins));
                from = from.max(ends);
            }
        }
        free.push((from, end));
        let widest = free.into_iter().max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        let Some((from, end)) = widest else { return Ok(None) };
        for text in bar.texts.iter().filter(|it| !it.is_empty()) {
            if SMALL.width(text)? + 8.0 <= end - from {
                return Ok(Some((f64::midpoint(from, end), text.clone())));
            }
        }
        Ok(None)
    }
}

/// How high so many rows are.
fn rows_high(rows: usize) -> f64 {
    f64::from(u32::try_from(rows).unwrap_or(u32::MAX)) * ROW
}
