//! How long operations took by percentile: title, grid, lines, marks and labels.
//!
//! Invariant: labels overlap neither each other nor the lines, and no text of a scenario or server reaches a
//! picture with control characters in it.

use history::Head;
use plotters::style::text_anchor::HPos;
use plotters::style::{RGBColor, WHITE};

use super::axis::{Percentiles, Tick, Times};
use super::error::ChartError;
use super::font::Type;
use super::layout::{
    BOTTOM, LABEL_HEIGHT, LEFT, LINE_WIDTH, MARGIN, MARK_RADIUS, PlotArea, SCALE, SIZE, TOP,
};
use super::palette::{FAINT_INK, INK, MOST_LINES, Marker, line};
use super::pen::Pen;
use super::render::Drawing;
use super::{curve, labels};
use crate::format::{count, counted, duration, plain};
use crate::latency::{Latencies, LatencyHistogram, Operation};

/// Distributions over one another: of the operations of a run, or of one operation in several runs.
#[derive(Clone, Debug)]
pub struct LatencyChart<'a> {
    title: String,
    /// How much was measured.
    subtitle: String,
    /// What each line is called, and what it shows; the first are listed first.
    lines: Vec<(String, &'a LatencyHistogram)>,
    frame: &'static ChartFrame,
}

/// Where the parts of the chart stand.
#[derive(Clone, Copy, Debug)]
struct ChartFrame {
    size: (u32, u32),
    area: PlotArea,
    /// Whether it has a title of its own; on a page it stands under one.
    titled: bool,
    legend: Legend,
    below: &'static str,
}

/// Where the names of the lines stand.
#[derive(Clone, Copy, Debug)]
enum Legend {
    /// Behind the end of each line, from here on.
    Beside { x: f64, width: f64 },
    /// Below the plot, in two columns.
    Below { y: f64, columns: [f64; 2], width: f64 },
}

const WIDE: ChartFrame = ChartFrame {
    size: SIZE,
    area: PlotArea { left: LEFT, right: 742.0, top: TOP, bottom: BOTTOM, gap: 10.0 },
    titled: true,
    legend: Legend::Beside { x: 772.0, width: 152.0 },
    below: "percentile of operations; each line ends at its slowest one",
};
/// Nothing of it lies outside a width of 400, and its letters stay legible.
const NARROW: ChartFrame = ChartFrame {
    size: (400, 580),
    area: PlotArea { left: 62.0, right: 382.0, top: 34.0, bottom: 330.0, gap: 10.0 },
    titled: false,
    legend: Legend::Below { y: 412.0, columns: [26.0, 216.0], width: 160.0 },
    below: "percentile of operations",
};

const EMPTY: Type = Type::regular(16.0);

/// A line of the chart.
struct LatencyLine<'a> {
    name: String,
    distribution: &'a LatencyHistogram,
    points: Vec<(f64, f64)>,
    look: (RGBColor, Marker),
}

impl<'a> LatencyChart<'a> {
    /// The operations of a run, for a file and for a page on a screen.
    pub fn wide(latencies: &'a Latencies, head: &Head) -> Self {
        Self::of_run(latencies, head, &WIDE)
    }

    /// The same for a page on a telephone: its legend stands below, and the page says what it is of.
    pub(crate) fn narrow(latencies: &'a Latencies, head: &Head) -> Self {
        Self::of_run(latencies, head, &NARROW)
    }

    /// One operation in several runs, each with its name: for a page on a screen, and for a telephone. Those beyond the seventh
    /// are not drawn.
    pub fn compared(operation: &Operation, runs: &[(String, &'a Latencies)]) -> [Self; 2] {
        let lines = runs.iter().filter_map(|(name, it)| Some((name.clone(), it.get(operation)?)));
        let lines: Vec<_> = lines.take(MOST_LINES).collect();
        [&WIDE, &NARROW].map(|frame| Self {
            title: format!("{operation}: latency by percentile"),
            subtitle: counted(lines.len() as u64, "run"),
            lines: lines.clone(),
            frame,
        })
    }

    fn of_run(latencies: &'a Latencies, head: &Head, frame: &'static ChartFrame) -> Self {
        let Head { scenario, lock, world, .. } = head;
        let clients = counted(u64::from(head.clients), "client");
        let chosen = chosen(latencies).into_iter();
        Self {
            title: format!("Latency by percentile — {scenario}, {lock}, {clients}, {world}"),
            subtitle: measured(latencies, head.seed),
            lines: chosen.map(|(operation, it)| (operation.to_string(), it)).collect(),
            frame,
        }
    }
}

/// How much was measured of a run.
fn measured(latencies: &Latencies, seed: u64) -> String {
    let is_command = |it: &(&Operation, _)| matches!(it.0, Operation::Command(_));
    let commands = latencies.iter().filter(is_command).map(|it| it.1.count()).sum();
    let of_lock = [
        (Operation::Acquire, "acquisition"),
        (Operation::Refusal, "refusal"),
        (Operation::Release, "release"),
    ];
    let counts = of_lock.map(|(operation, name)| (latencies.count(&operation), name));
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = counts.map(|(count, name)| counted(count, name)).collect();
    parts.push(counted(commands, "answered command"));
    format!("{}; seed {seed}", parts.join(", "))
}

impl Drawing for LatencyChart<'_> {
    fn size(&self) -> (u32, u32) {
        self.frame.size
    }

    fn title(&self) -> String {
        plain(&self.title).into_owned()
    }

    fn paint(&self, pen: &Pen<'_>) -> Result<(), ChartError> {
        let ChartFrame { size, area, titled, .. } = self.frame;
        pen.fill(WHITE)?;
        if *titled {
            pen.titles(&self.title(), &self.subtitle)?;
        }
        let counts = self.lines.iter().map(|(_, distribution)| distribution.count());
        let Some(samples) = counts.max() else {
            let middle = (f64::from(size.0) / 2.0, (area.top + area.bottom) / 2.0);
            return pen.text(middle, "No operation was completed.", EMPTY, FAINT_INK, HPos::Center);
        };
        let shortest = self.lines.iter().map(|(_, it)| it.min_ns()).min().unwrap_or_default();
        let longest = self.lines.iter().map(|(_, it)| it.max_ns()).max().unwrap_or_default();
        let percentiles = Percentiles::up_to(samples);
        let times = Times::covering(shortest, longest);
        scales(pen, percentiles, times, self.frame)?;

        let drawn = self.lines.iter().enumerate().map(|(number, (name, distribution))| {
            let points = curve::points(distribution, percentiles, times);
            let points = points.into_iter().map(|it| area.at(it)).collect();
            let name = plain(name).into_owned();
            LatencyLine { name, distribution, points, look: line(number) }
        });
        lines(pen, &drawn.collect::<Vec<_>>(), self.frame)
    }
}

/// The operations that are drawn: what becomes of the lock, then the most frequent commands.
fn chosen(latencies: &Latencies) -> Vec<(&Operation, &LatencyHistogram)> {
    let main = [Operation::Acquire, Operation::Hold, Operation::Release, Operation::Handoff];
    let (mut chosen, mut commands) = (Vec::new(), Vec::new());
    for (operation, distribution) in latencies.iter() {
        if main.contains(operation) {
            chosen.push((operation, distribution));
        } else if matches!(operation, Operation::Command(_)) {
            commands.push((operation, distribution));
        }
    }
    commands.sort_by_key(|(_, distribution)| std::cmp::Reverse(distribution.count()));
    chosen.extend(commands);
    chosen.truncate(MOST_LINES);
    chosen
}

fn scales(
    pen: &Pen<'_>,
    percentiles: Percentiles,
    times: Times,
    ChartFrame { area, below, .. }: &ChartFrame,
) -> Result<(), ChartError> {
    let PlotArea { left, right, top, bottom, .. } = *area;
    let (mut up, mut across) = (times.ticks(), percentiles.ticks(right - left));
    up.iter_mut().for_each(|Tick { at, .. }| *at = area.at((0.0, *at)).1);
    across.iter_mut().for_each(|Tick { at, .. }| *at = area.at((*at, 0.0)).0);
    pen.axes(area, &up, &across)?;
    let unit = if times.is_logarithmic() { "latency, logarithmic scale" } else { "latency" };
    pen.text((MARGIN.min(left / 2.0), top - 16.0), unit, SCALE, INK, HPos::Left)?;
    pen.text((left, bottom + 48.0), below, SCALE, INK, HPos::Left)
}

fn lines(
    pen: &Pen<'_>,
    lines: &[LatencyLine<'_>],
    ChartFrame { area, legend, .. }: &ChartFrame,
) -> Result<(), ChartError> {
    let PlotArea { left, right, top, bottom, .. } = *area;
    let ends: Vec<(f64, f64)> =
        lines.iter().map(|line| line.points.last().copied().unwrap_or((left, bottom))).collect();
    let hidden = hidden(&ends);
    let (places, width) = match *legend {
        Legend::Beside { x, width } => {
            let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
            let places = labels::spread(&wanted, LABEL_HEIGHT, (top, bottom));
            for ((line, &end), &y) in lines.iter().zip(&ends).zip(&places) {
                pen.dashes((end, (right, end.1)), line.look.0, 0.75)?;
                pen.dashes(((right, end.1), (x - 9.0, y)), line.look.0, 0.75)?;
            }
            (places.into_iter().map(|y| (x, y)).collect(), width)
        }
        Legend::Below { y, columns, width } => {
            let place = |number: usize| {
                let row = u32::try_from(number / columns.len()).unwrap_or(u32::MAX);
                (columns[number % columns.len()], y + f64::from(row) * LABEL_HEIGHT)
            };
            ((0..lines.len()).map(place).collect::<Vec<_>>(), width)
        }
    };
    // What was listed first is what a reader came for, so it is painted last.
    for (line, hidden) in lines.iter().zip(&hidden).rev().filter(|(line, _)| line.points.len() > 1)
    {
        pen.line(&line.points, line.look.0, LINE_WIDTH + hidden * 2.5)?;
    }
    for ((line, &end), hidden) in lines.iter().zip(&ends).zip(&hidden).rev() {
        pen.mark(line.look, end, MARK_RADIUS + hidden * 4.0)?;
    }
    for (line, &place) in lines.iter().zip(&places) {
        let LatencyLine { name, distribution: it, .. } = line;
        let note = format!("{} ×, max {}", count(it.count()), duration(it.max_ns()));
        pen.label(line.look, place, width, [name, &note])?;
    }
    Ok(())
}

/// Under how many of the lines before it each line ends, such as a command under the operation that
/// consists of it. It is drawn so much wider, and shows at both sides.
fn hidden(ends: &[(f64, f64)]) -> Vec<f64> {
    let near = |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0).hypot(a.1 - b.1) < 2.0;
    let counts = ends.iter().enumerate().map(|(number, end)| {
        ends[..number].iter().filter(|other| near(other, end)).map(|_| 1.0).sum()
    });
    counts.collect()
}
