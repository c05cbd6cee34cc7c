//! Labels that lie on arrows are moved along their rows.
//!
//! Invariant: a label stays in its row and near to what it names, and still overlaps no other.

use super::frame::{IncidentPlaces, PlacedLabel};
use super::layout::{IncidentLayout, IncidentMessage, LaneOwner, MissedNotice};

/// A label is moved in steps of so many pixels,
const STEP: f64 = 4.0;
/// and so many of them at most.
const STEPS: i32 = 16;
/// How far beside a label the moment may be that it names.
const NEAR: f64 = 14.0;
/// How far apart two labels of a row stand at least.
const GAP: f64 = 5.0;
/// How high a label is above its baseline, and how far it reaches below.
const RISES: f64 = 9.5;
const FALLS: f64 = 2.5;
/// How far the end of a notice stands to the right of its beginning.
const NOTICE: f64 = 26.0;

type ArrowEnd = (f64, f64);

impl IncidentPlaces {
    /// The way of a message: where it is sent, where it arrives, and where its answer does.
    pub(super) fn way(&self, it: &IncidentMessage) -> Option<Vec<ArrowEnd>> {
        let (client, key) = (self.bars(LaneOwner::Client(it.client))?, self.bars(it.key)?);
        let (near, far) = (client.0, key.1);
        let from = (self.scale.x(it.sent_ns), near);
        let reached = (self.scale.x(it.done_ns).max(from.0), far);
        let back = it.answered_ns.map(|at_ns| (self.scale.x(at_ns).max(reached.0), near));
        Some([Some(from), Some(reached), back].into_iter().flatten().collect())
    }

    /// The way of what a client did not hear.
    pub(super) fn notice(&self, it: &MissedNotice) -> Option<[ArrowEnd; 2]> {
        let (client, key) = (self.bars(LaneOwner::Client(it.client))?, self.bars(it.key)?);
        let x = self.scale.x(it.at_ns);
        Some([(x, key.1), (x + NOTICE, client.0)])
    }

    fn bars(&self, owner: LaneOwner) -> Option<(f64, f64)> {
        self.lanes.iter().find(|it| it.owner == owner).map(|it| it.bars)
    }

    /// Moves each label to where it hides least of any arrow, and not farther than it must.
    pub(super) fn move_labels_off_arrows(&mut self, layout: &IncidentLayout) {
        let ways = layout.messages.iter().filter_map(|it| self.way(it));
        let mut arrows: Vec<[ArrowEnd; 2]> = ways
            .flat_map(|way| way.windows(2).map(|it| [it[0], it[1]]).collect::<Vec<_>>())
            .collect();
        arrows.extend(layout.missed.iter().filter_map(|it| self.notice(it)));
        if arrows.is_empty() {
            return;
        }
        let (left, right) = self.frame.ends;
        for place in 0..self.labels.len() {
            let label = self.labels[place].clone();
            let is_free = |x: f64| {
                let apart = |other: &PlacedLabel| {
                    (other.baseline - label.baseline).abs() >= RISES + FALLS
                        || x + label.width + GAP <= other.x
                        || other.x + other.width + GAP <= x
                };
                let others = self.labels.iter().enumerate().filter(|(nth, _)| *nth != place);
                let is_beside = (x - NEAR..=x + label.width + NEAR).contains(&label.names);
                let is_inside = x >= left && x + label.width <= right;
                is_beside && is_inside && others.map(|it| it.1).all(apart)
            };
            let steps = (-STEPS..=STEPS).map(|step| label.x + STEP * f64::from(step));
            let hidden = |x: f64| arrows.iter().map(|arrow| hidden(arrow, &label, x)).sum::<f64>();
            // Where it stands already is always a place.
            let best = steps.filter(|x| *x == label.x || is_free(*x)).min_by(|one, other| {
                let cost = |x: f64| hidden(x) * 6.0 + (x - label.x).abs();
                cost(*one).total_cmp(&cost(*other))
            });
            self.labels[place].x = best.unwrap_or(label.x);
        }
    }
}

/// How much of an arrow a label hides that begins here, in pixels.
fn hidden(&[from, to]: &[ArrowEnd; 2], label: &PlacedLabel, x: f64) -> f64 {
    let (top, bottom) = (label.baseline - RISES, label.baseline + FALLS);
    let length = (to.0 - from.0).hypot(to.1 - from.1);
    let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
    for (begins, ends, low, high) in
        [(from.0, to.0, x - 2.0, x + label.width + 2.0), (from.1, to.1, top, bottom)]
    {
        let span = ends - begins;
        if span.abs() < f64::EPSILON {
            if begins < low || begins > high {
                return 0.0;
            }
            continue;
        }
        let (one, other) = ((low - begins) / span, (high - begins) / span);
        enters = enters.max(one.min(other));
        leaves = leaves.min(one.max(other));
    }
    (leaves - enters).max(0.0) * length
}

#[cfg(test)]
mod tests {
    use super::super::shapes::part;
    use super::*;

    #[test]
    fn what_a_label_hides_of_an_arrow_is_measured() {
        let label = PlacedLabel {
            x: 0.0,
            baseline: 50.0 - FALLS,
            width: 20.0,
            text: String::new(),
            harms: false,
            names: 0.0,
        };
        let upwards = [(110.0, 100.0), (110.0, 0.0)];
        assert!((hidden(&upwards, &label, 100.0) - RISES - FALLS).abs() < 1e-9);
        assert_eq!(hidden(&upwards, &label, 113.0), 0.0);
        assert_eq!(hidden(&upwards, &label, 87.0), 0.0);
        let slanted = [(90.0, 100.0), (140.0, 0.0)];
        let share = hidden(&slanted, &label, 100.0) / 50.0_f64.hypot(100.0);
        assert!(part(slanted[0], slanted[1], share).1 > 80.0, "{share}");
    }
}
