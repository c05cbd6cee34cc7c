//! What the parts of a picture say where one points at them: times to the microsecond, which have no room in it.
//!
//! Invariant: a part says what it is in words, as its label does; marks lie above messages, and these above bars.

use super::layout::{BarKind, IncidentMessage};
use super::painting::IncidentChart;
use super::shapes::rectangle;
use crate::chart::Hover;
use crate::format::{duration, moment};
use history::exchange::Delivery;

/// How far around a moment one may point at it.
const NEAR: f64 = 5.0;

impl IncidentChart<'_> {
    /// Everything that can be pointed at.
    pub(super) fn hover_parts(&self) -> Vec<Hover> {
        let mut parts = Vec::new();
        let lanes = || self.layout.lanes.iter().zip(&self.places.lanes);
        for (lane, place) in lanes() {
            for bar in &lane.bars {
                let (from, until) =
                    (self.places.scale.x(bar.from_ns), self.places.scale.x(bar.until_ns));
                let what = match bar.texts[0].as_str() {
                    "" => name(bar.kind),
                    text => text,
                };
                let begins = if bar.open[0] { "before " } else { "" };
                let ends = if bar.open[1] { "after " } else { "" };
                let text = format!(
                    "{}: {what}, from {begins}{} to {ends}{} ({})",
                    lane.owner.name(),
                    moment(bar.from_ns),
                    moment(bar.until_ns),
                    duration(bar.until_ns - bar.from_ns)
                );
                parts.push(Hover {
                    points: rectangle((from, until), place.bars).into(),
                    is_line: false,
                    text,
                });
            }
        }
        for it in &self.layout.messages {
            if let Some(points) = self.places.way(it) {
                parts.push(Hover { points, is_line: true, text: told(it) });
            }
        }
        for (lane, place) in lanes() {
            for mark in &lane.marks {
                let x = self.places.scale.x(mark.at_ns);
                let points =
                    rectangle((x - NEAR, x + NEAR), (place.bars.0 - NEAR, place.bars.1 + NEAR));
                let text =
                    format!("{}: {}, at {}", lane.owner.name(), mark.text, moment(mark.at_ns));
                parts.push(Hover { points: points.into(), is_line: false, text });
            }
        }
        parts
    }
}

/// What a stretch of time is that has no text of its own.
fn name(kind: BarKind) -> &'static str {
    match kind {
        BarKind::Owned(_) => "owned",
        BarKind::PerhapsOwned(_) => "perhaps owned",
        BarKind::Left => "left behind",
        BarKind::Waits => "waits",
        BarKind::Holds => "holds",
        BarKind::Overstays => "at work, no longer valid",
        BarKind::Releases => "releases",
        BarKind::Stands => "stands still",
        BarKind::CutOff => "cut off",
        BarKind::Dead => "dead",
        BarKind::Down => "down",
    }
}

/// What became of a message and of its answer.
fn told(it: &IncidentMessage) -> String {
    let mut text = format!("client {}: {}, sent at {}", it.client, it.text, moment(it.sent_ns));
    if !matches!(it.request, Delivery::Lost | Delivery::Unknown) {
        text += &format!(", carried out at about {}", moment(it.done_ns));
    }
    if let Some(at_ns) = it.answered_ns {
        text += &format!(", answered at {}: {}", moment(at_ns), it.answer);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::testing::paused;
    use super::super::{IncidentChart, IncidentLayout};
    use crate::chart::Drawing;

    #[test]
    fn bars_messages_and_marks_say_when_they_were() {
        let (history, result) = paused();
        let layout = IncidentLayout::of(&history, &result).unwrap();
        for chart in [IncidentChart::wide(&layout), IncidentChart::narrow(&layout)] {
            let chart = chart.unwrap();
            let parts = chart.hovers();
            let (width, height) = chart.size();
            for (x, y) in parts.iter().flat_map(|it| &it.points) {
                assert!((0.0..=f64::from(width)).contains(x), "{x}");
                assert!((0.0..=f64::from(height)).contains(y), "{y}");
            }
            let says = |text: &str| parts.iter().any(|it| it.text.contains(text));
            for text in [
                "client 1: stands still 110 ms, from 40.000 ms to 150.000 ms (110 ms)",
                "client 1: writes 1: no longer has the lock, at ",
                "lock's key: deleted by client 1, at ",
                "client 1: DEL, sent at ",
            ] {
                assert!(says(text), "{text}: {parts:#?}");
            }
        }
    }
}
