//! Names of moments below the lanes.
//!
//! Invariant: two names of moments never overlap.

use super::frame::{IncidentPlaces, SMALL};
use super::layout::{IncidentLane, IncidentLayout, LaneOwner, MarkKind};
use crate::chart::ChartError;
use crate::format::milliseconds;

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
            // One at the end of the picture still has its name.
            let x = x.min(self.frame.width - width / 2.0 - 5.0);
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
