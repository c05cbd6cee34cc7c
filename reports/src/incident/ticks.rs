//! Texts around a picture: names of moments below the lanes, and long texts in lines.
//!
//! Invariant: two names of moments never overlap.

use super::frame::{IncidentPlaces, SMALL};
use super::layout::{IncidentLane, IncidentLayout, LaneOwner, MarkKind};
use crate::chart::ChartError;
use crate::chart::font::Type;
use crate::format::count;

impl IncidentPlaces {
    /// Names of moments, the most important first, as far as they fit.
    pub(super) fn tick_labels(
        &self,
        layout: &IncidentLayout,
    ) -> Result<Vec<(f64, String)>, ChartError> {
        let mut wanted: Vec<u64> = Vec::new();
        wanted.extend(layout.bands.iter().flat_map(|it| [it.from_ns, it.until_ns]));
        let marks = || layout.lanes.iter().flat_map(|it| &it.marks);
        wanted.extend(marks().filter(|it| it.harms).map(|it| it.at_ns));
        let bars = |lane: &IncidentLane| lane.bars.clone();
        for lane in layout.lanes.iter().filter(|it| matches!(it.owner, LaneOwner::Key(_))) {
            wanted.extend(bars(lane).iter().map(|it| it.from_ns));
        }
        wanted.extend(marks().filter(|it| it.kind == MarkKind::Ends).map(|it| it.at_ns));
        wanted.extend([layout.from_ns, layout.until_ns]);
        wanted.extend(layout.instants());
        let mut ticks: Vec<(f64, f64, String)> = Vec::new();
        for at_ns in wanted {
            let text = milliseconds(at_ns);
            let (x, width) = (self.scale.x(at_ns), SMALL.width(&text)?);
            let (left, right) = (x - width / 2.0 - 5.0, x + width / 2.0 + 5.0);
            let is_inside = left >= 0.0 && right <= self.frame.width;
            let is_free = ticks.iter().all(|it| right < it.0 - 5.0 || left > it.0 + it.1 + 5.0);
            if is_inside && is_free {
                ticks.push((left + 5.0, width, text));
            }
        }
        ticks.sort_by(|one, other| one.0.total_cmp(&other.0));
        Ok(ticks.into_iter().map(|(left, width, text)| (left + width / 2.0, text)).collect())
    }
}

/// A time of the run in milliseconds, to the tenth.
pub(super) fn milliseconds(at_ns: u64) -> String {
    let tenths = at_ns.saturating_add(50_000) / 100_000;
    format!("{}.{}", count(tenths / 10), tenths % 10)
}

/// The text in lines of this width, at most so many; the last is cut short.
pub(super) fn wrapped(
    face: Type,
    text: &str,
    width: f64,
    most: usize,
) -> Result<Vec<String>, ChartError> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match longer {
            Some(longer) if lines.len() == most || face.width(&longer)? <= width => {
                *lines.last_mut().expect("it was just looked at") = longer;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| face.fit(line, width)).collect()
}
