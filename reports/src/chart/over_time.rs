//! When operations took how long: each is a mark at the time at which it ended, and behind the marks stand the faults.
//!
//! Invariant: only what clients did and what came to its end is drawn; a fault is shaded for as long as it lasted. Marks that
//! would hide each other are drawn once.

use std::collections::BTreeSet;

use history::{Event, History, What};
use plotters::style::WHITE;
use plotters::style::text_anchor::HPos;

use super::axis::{Tick, Times};
use super::error::ChartError;
use super::font::Type;
use super::label_rows::LabelRows;
use super::layout::{LEFT, MARGIN, NAME, NOTE, PlotArea, SCALE, SIZE};
use super::palette::{FAINT_INK, INK, STALL, line};
use super::pen::Pen;
use super::render::{Drawing, Hover};
use crate::format::{count, counted, duration, plain};
use crate::latency::{LatencySpan, Operation, spans};
use history::fault::Fault;

/// What is drawn, in the order in which lines of the other chart have their colours.
const DRAWN: [Operation; 4] =
    [Operation::Acquire, Operation::Hold, Operation::Release, Operation::Handoff];
/// Marks closer to each other than this, in units of the chart, are drawn once.
const GRAIN: f64 = 3.0;
const RADIUS: f64 = 3.0;
/// The narrowest shading that can be seen.
const NARROWEST: f64 = 2.0;
/// So many rows of names of faults stand above the plot; those that find no place are named where they are pointed at.
const FAULT_ROWS: usize = 2;
const FAULT_ROW: f64 = 14.0;
/// So many of the slowest operations say who they are where they are pointed at.
const SLOWEST: usize = 100;

/// When operations of a run took how long.
#[derive(Clone, Debug)]
pub struct LatencyOverTime {
    title: String,
    /// From the slowest on.
    spans: Vec<LatencySpan>,
    faults: Vec<FaultSpan>,
    until_ns: u64,
    frame: &'static OverTimeFrame,
}

/// A fault, for as long as it lasted.
#[derive(Clone, Debug)]
struct FaultSpan {
    fault: Fault,
    client: u32,
    from_ns: u64,
    until_ns: u64,
    text: String,
}

/// Where the parts of the chart stand.
#[derive(Clone, Copy, Debug)]
struct OverTimeFrame {
    /// Without its legend.
    size: (u32, u32),
    area: PlotArea,
    /// Whether it has a title of its own; on a page it stands under one.
    titled: bool,
    /// How many entries of the legend stand in a line, and how far apart.
    legend: (u32, f64),
}

const WIDE: OverTimeFrame = OverTimeFrame {
    size: (SIZE.0, 456),
    area: PlotArea { left: LEFT, right: 928.0, top: 140.0, bottom: 384.0, gap: 10.0 },
    titled: true,
    legend: (5, 172.0),
};
const NARROW: OverTimeFrame = OverTimeFrame {
    size: (400, 412),
    area: PlotArea { left: 62.0, right: 382.0, top: 66.0, bottom: 340.0, gap: 10.0 },
    titled: false,
    legend: (2, 186.0),
};

const LEGEND_ROW: u32 = 34;
const EMPTY: Type = Type::regular(16.0);

impl LatencyOverTime {
    /// For a page on a screen and for one on a telephone.
    pub fn both(history: &History) -> [Self; 2] {
        let mut spans: Vec<LatencySpan> =
            spans(history).into_iter().filter(|it| DRAWN.contains(&it.operation)).collect();
        spans.sort_by_key(|it| std::cmp::Reverse(it.took_ns()));
        let until_ns = history.events.last().map_or(0, |it| it.at_ns);
        let events = history.events.iter().enumerate();
        let faults: Vec<FaultSpan> = events
            .filter_map(|(place, it)| FaultSpan::of(it, &history.events[place + 1..], until_ns))
            .collect();
        let head = &history.head;
        let title = format!("Latency over time — {}, {}", head.scenario, head.lock);
        let title = plain(&title).into_owned();
        [&WIDE, &NARROW].map(|frame| Self {
            title: title.clone(),
            spans: spans.clone(),
            faults: faults.clone(),
            until_ns,
            frame,
        })
    }

    /// Its scales: of the run's time, and of latency; none where there is nothing to draw.
    fn scales(&self) -> Option<(Times, Times)> {
        let shortest_ns = self.spans.last()?.took_ns();
        let longest_ns = self.spans.first()?.took_ns();
        Some((Times::until(self.until_ns), Times::covering(shortest_ns, longest_ns)))
    }

    /// Where each operation stands, those that hide no other; the slowest first.
    fn places(&self, (across, up): (Times, Times)) -> Vec<(&LatencySpan, (f64, f64))> {
        let mut taken = BTreeSet::new();
        let at =
            |it: &LatencySpan| self.frame.area.at((across.at(it.until_ns), up.at(it.took_ns())));
        #[expect(clippy::cast_possible_truncation, reason = "a chart is some hundred units wide")]
        let cell = |(x, y): (f64, f64)| ((x / GRAIN) as i32, (y / GRAIN) as i32);
        let all = self.spans.iter().map(|it| (it, at(it)));
        all.filter(|(it, at)| taken.insert((it.operation.clone(), cell(*at)))).collect()
    }

    /// The corners of what is shaded of a fault.
    fn shading(&self, across: Times, it: &FaultSpan) -> [(f64, f64); 4] {
        let PlotArea { left, right, top, bottom, .. } = self.frame.area;
        let [from, until] =
            [it.from_ns, it.until_ns].map(|ns| left + across.at(ns) * (right - left));
        let until = until.max(from + NARROWEST).min(right);
        let from = from.min(until - NARROWEST);
        [(from, top), (until, top), (until, bottom), (from, bottom)]
    }

    fn shadings(&self, pen: &Pen<'_>, across: Times) -> Result<(), ChartError> {
        let PlotArea { left, right, top, .. } = self.frame.area;
        for it in &self.faults {
            let corners = self.shading(across, it);
            pen.tint(&corners, STALL, 0.22)?;
            pen.line(&[corners[0], corners[1]], STALL, 2.0)?;
        }
        let mut rows = LabelRows::default();
        let mut named = BTreeSet::new();
        // What happens to a server often breaks connections, so its name comes first.
        let of_server = self.faults.iter().filter(|it| it.fault.strikes().is_server());
        let others = self.faults.iter().filter(|it| !it.fault.strikes().is_server());
        for it in of_server.chain(others) {
            // The same is named once, and of many faults each kind.
            let whose = if self.faults.len() > 6 { 0 } else { it.client };
            if !named.insert((it.fault, whose)) {
                continue;
            }
            let corners = self.shading(across, it);
            let name = match it.client {
                0 => it.fault.name().to_owned(),
                client => format!("{}, client {client}", it.fault.name()),
            };
            let (middle, width) = (f64::midpoint(corners[0].0, corners[1].0), NOTE.width(&name)?);
            let (row, x) = rows.place(middle, width, (left, right));
            if row < FAULT_ROWS {
                let row = f64::from(u32::try_from(row).unwrap_or_default());
                pen.text((x, top - 6.0 - row * FAULT_ROW), &name, NOTE, STALL, HPos::Left)?;
            }
        }
        Ok(())
    }

    fn legend(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        let (columns, apart) = self.frame.legend;
        let mut place = 0;
        let mut next = || {
            let (row, column) = (place / columns, place % columns);
            place += 1;
            let left = MARGIN.min(self.frame.area.left / 2.0);
            (
                left + f64::from(column) * apart,
                self.frame.area.bottom + 78.0 + f64::from(row * LEGEND_ROW),
            )
        };
        for (number, operation) in DRAWN.iter().enumerate() {
            // They stand from the slowest on.
            let mut of_kind = self.spans.iter().filter(|it| it.operation == *operation);
            let Some(slowest) = of_kind.next() else { continue };
            let many = count(1 + of_kind.count() as u64);
            let note = format!("{many} ×, max {}", duration(slowest.took_ns()));
            pen.label(line(number), next(), apart - 20.0, [&operation.to_string(), &note])?;
        }
        if !self.faults.is_empty() {
            let (x, y) = next();
            let corners =
                [(x - 5.0, y - 7.0), (x + 6.0, y - 7.0), (x + 6.0, y + 6.0), (x - 5.0, y + 6.0)];
            pen.tint(&corners, STALL, 0.3)?;
            pen.line(&[corners[0], corners[1]], STALL, 2.0)?;
            pen.text((x + 13.0, y - 1.0), "faults", NAME, INK, HPos::Left)?;
            let many = counted(self.faults.len() as u64, "strike");
            pen.text((x + 13.0, y + 14.5), &many, NOTE, FAINT_INK, HPos::Left)?;
        }
        Ok(())
    }
}

impl FaultSpan {
    /// The fault of this event, behind which these came.
    fn of(event: &Event, behind: &[Event], run_until_ns: u64) -> Option<Self> {
        let What::Fault { fault, for_ns, .. } = event.what else { return None };
        let text = fault.story(event.client, for_ns)?;
        let who = match event.client {
            0 => "the run".to_owned(),
            client => format!("client {client}"),
        };
        let until_ns = match fault {
            // How far a clock jumps is no time that passes.
            Fault::ClockStep => event.at_ns,
            // It lasts until something else has happened, and then its client goes on.
            Fault::Pause if for_ns == 0 => {
                let is_its = |it: &&Event| {
                    it.client == event.client && !matches!(it.what, What::Fault { .. })
                };
                behind.iter().find(is_its).map_or(run_until_ns, |it| it.at_ns)
            }
            _ => event.at_ns.saturating_add(for_ns).min(run_until_ns),
        };
        let text = format!("{who} {text}, at {}", duration(event.at_ns));
        Some(Self { fault, client: event.client, from_ns: event.at_ns, until_ns, text })
    }
}

impl Drawing for LatencyOverTime {
    fn size(&self) -> (u32, u32) {
        let is_drawn =
            |operation: &&Operation| self.spans.iter().any(|it| it.operation == **operation);
        let entries = DRAWN.iter().filter(is_drawn).count() + usize::from(!self.faults.is_empty());
        let rows = u32::try_from(entries).unwrap_or_default().div_ceil(self.frame.legend.0);
        (self.frame.size.0, self.frame.size.1 + rows * LEGEND_ROW)
    }

    fn title(&self) -> String {
        self.title.clone()
    }

    fn hovers(&self) -> Vec<Hover> {
        let Some(scales) = self.scales() else { return Vec::new() };
        let faults = self.faults.iter().map(|it| Hover {
            points: self.shading(scales.0, it).to_vec(),
            is_line: false,
            text: it.text.clone(),
        });
        let slowest = self.places(scales).into_iter().take(SLOWEST).map(|(it, (x, y))| {
            let [from, until, took] = [it.from_ns, it.until_ns, it.took_ns()].map(duration);
            let text =
                format!("{}, client {}: {took}, from {from} to {until}", it.operation, it.client);
            let points = vec![
                (x - 5.0, y - 5.0),
                (x + 5.0, y - 5.0),
                (x + 5.0, y + 5.0),
                (x - 5.0, y + 5.0),
            ];
            Hover { points, is_line: false, text }
        });
        faults.chain(slowest).collect()
    }

    fn paint(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        let OverTimeFrame { size, area, titled, .. } = self.frame;
        pen.fill(WHITE)?;
        if *titled {
            let says =
                "each mark is an operation, at the time at which it ended; faults are shaded";
            pen.titles(&self.title(), says)?;
        }
        let Some((across, up)) = self.scales() else {
            let middle = (f64::from(size.0) / 2.0, (area.top + area.bottom) / 2.0);
            return pen.text(middle, "No operation was completed.", EMPTY, FAINT_INK, HPos::Center);
        };
        let (mut of_latency, mut of_time) = (up.ticks(), across.ticks());
        of_latency.iter_mut().for_each(|Tick { at, .. }| *at = area.at((0.0, *at)).1);
        of_time.iter_mut().for_each(|Tick { at, .. }| *at = area.at((*at, 0.0)).0);
        self.shadings(pen, across)?;
        pen.axes(area, &of_latency, &of_time)?;
        let unit = if up.is_logarithmic() { "latency, logarithmic scale" } else { "latency" };
        let left = MARGIN.min(area.left / 2.0);
        pen.text((left, area.top - 10.0 - FAULT_ROW * 2.0), unit, SCALE, INK, HPos::Left)?;
        pen.text(
            (area.left, area.bottom + 46.0),
            "time since the run began",
            SCALE,
            INK,
            HPos::Left,
        )?;
        // What is listed first is painted last.
        let mut places = self.places((across, up));
        places.sort_by_key(|(it, _)| std::cmp::Reverse(it.operation.clone()));
        for (it, at) in places {
            let number = DRAWN.iter().position(|operation| *operation == it.operation);
            let (colour, shape) = line(number.unwrap_or_default());
            pen.shape(&shape.corners(at, RADIUS), colour)?;
        }
        self.legend(pen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::svg;
    use crate::support;

    fn struck(faults: &[(u64, Fault, u32, u64)]) -> History {
        let mut history = support::bonus_pool();
        let last = history.events[history.events.len() - 1];
        for &(at_ns, fault, client, for_ns) in faults {
            let what = What::Fault { fault, node: None, for_ns, in_hold: true, staged: None };
            history.events.push(Event { at_ns, client, acquisition: 0, op: 0, what });
        }
        history.events.sort_by_key(|it| it.at_ns);
        history.events.push(last);
        history
    }

    #[test]
    fn faults_are_shaded_for_as_long_as_they_last_and_named() {
        let history = struck(&[
            (5_000_000, Fault::Pause, 3, 9_000_000),
            (20_000_000, Fault::ClockStep, 0, 3_600_000_000_000),
        ]);
        let [wide, narrow] = LatencyOverTime::both(&history);
        let (across, _) = wide.scales().unwrap();
        let width = |it: &FaultSpan| {
            let corners = wide.shading(across, it);
            corners[1].0 - corners[0].0
        };
        let of_run = wide.frame.area.right - wide.frame.area.left;
        let share = 9e6 / wide.until_ns as f64;
        assert!((width(&wide.faults[0]) - share * of_run).abs() < 0.5);
        assert!(
            (width(&wide.faults[1]) - NARROWEST).abs() < 1e-9,
            "an hour of a clock is a moment"
        );
        let until_another = struck(&[(1, Fault::Pause, 100, 0)]);
        let [chart, _] = LatencyOverTime::both(&until_another);
        let is_its = |it: &&Event| it.client == 100 && it.at_ns > 1;
        let next = until_another.events.iter().find(is_its).unwrap();
        assert_eq!(chart.faults[0].until_ns, next.at_ns, "until its client goes on");
        for chart in [&wide, &narrow] {
            let drawing = svg(chart).unwrap();
            for said in
                ["pause, client 3", "client 3 stands still for 9 ms, at 5.00 ms", "2 strikes"]
            {
                assert!(drawing.contains(said), "{said}");
            }
        }
    }

    #[test]
    fn a_fault_of_a_server_is_named_before_those_of_clients_and_none_twice() {
        let reset = |at_ns| (at_ns, Fault::Reset, 1, 0);
        let history =
            struck(&[reset(1), reset(2), (3, Fault::PowerLoss, 0, 9), (4, Fault::Pause, 2, 9)]);
        let drawing = svg(&LatencyOverTime::both(&history)[0]).unwrap();
        assert_eq!(drawing.matches("reset, client 1").count(), 1, "{drawing}");
        assert!(drawing.contains("power-loss"), "{drawing}");
    }

    #[test]
    fn what_clients_did_is_drawn_and_commands_are_not() {
        let [wide, narrow] = LatencyOverTime::both(&support::bonus_pool());
        let names: BTreeSet<String> =
            wide.spans.iter().map(|it| it.operation.to_string()).collect();
        assert_eq!(Vec::from_iter(names), ["acquire", "handoff", "hold", "release"]);
        assert!(!svg(&wide).unwrap().contains("strike"));
        for (chart, width) in [(&wide, 960.0), (&narrow, 400.0)] {
            let scales = chart.scales().unwrap();
            let places = chart.places(scales);
            assert!(places.iter().all(|(_, (x, _))| (0.0..width).contains(x)));
            assert!(chart.hovers().len() <= SLOWEST);
        }
    }

    #[test]
    fn a_run_without_operations_says_so() {
        let [wide, _] = LatencyOverTime::both(&History::new(support::head()));
        assert!(svg(&wide).unwrap().contains("No operation was completed."));
    }
}
