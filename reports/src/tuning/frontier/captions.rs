//! What is written into a tuning's chart: which setting to take, why not the next, and the TTLs.
//!
//! Invariant: what is advised is said first and has the first choice of the room; a TTL that finds none
//! is left out.

use scenarios::span::Span;
use ttl_model::tuning::{Point, TargetStatus, Tuning};

use super::label_layout::{FreeSpace, Position, Rect, leader};
use super::plot::{Plot, PlotMark};
use super::series::{FailureMode, chosen};
use crate::chart::ChartError;
use crate::chart::font::Type;
use crate::chart::layout::{MARK_RADIUS, NOTE};
use crate::format::plain;
use ttl_model::format::{at_most, time};

/// Of the ring around a setting that is spoken of.
pub(super) const RING: f64 = 10.0;
pub(super) const STRONG: Type = Type::bold(11.5);
/// From a line to the next.
pub(super) const LEADING: f64 = 15.0;
/// From the top of a line to where its letters stand.
pub(super) const ASCENT: f64 = 11.0;
/// The widest that what is said of a setting may be.
const WIDEST: f64 = 330.0;
/// The most lines that its head may take, and that the reason below it may.
const LINES: usize = 2;

/// A text in a box.
#[derive(Clone, Debug)]
pub(super) struct TextBox {
    pub(super) rect: Rect,
    pub(super) lines: Vec<(String, Type)>,
}

impl TextBox {
    fn size(lines: &[(String, Type)]) -> Result<Position, ChartError> {
        let mut width = 0.0_f64;
        for (line, face) in lines {
            width = width.max(face.width(line)?);
        }
        Ok((width, LEADING * lines.len() as f64))
    }
}

/// What is said of one setting.
#[derive(Clone, Debug)]
pub(super) struct Callout {
    pub(super) at: Position,
    pub(super) text: TextBox,
    pub(super) leader: (Position, Position),
    /// Whether it is the one that is advised.
    pub(super) advised: bool,
}

/// All texts within the plot.
#[derive(Clone, Debug)]
pub(super) struct Captions {
    pub(super) callouts: Vec<Callout>,
    pub(super) met: Option<TextBox>,
    pub(super) ttls: Vec<TtlLabel>,
}

/// The TTL beside a mark, or those of several that lie on one another.
#[derive(Clone, Debug)]
pub(super) struct TtlLabel {
    pub(super) text: TextBox,
    pub(super) leader: Option<(Position, Position)>,
}

impl Captions {
    /// What is written into this plot.
    pub(super) fn of(tuning: &Tuning, plot: &Plot<'_>) -> Result<Self, ChartError> {
        let mut room = plot.room();
        let labels = labels(tuning, plot);
        let mut callouts: Vec<Callout> = Vec::new();
        for (number, PointLabel { at, said, meets, .. }) in labels.iter().enumerate() {
            let mut lines: Vec<(String, Type)> = Vec::new();
            for (text, face) in said.iter().zip([STRONG, NOTE]) {
                let wrapped = face.wrapped(&plain(text), WIDEST, LINES)?;
                lines.extend(wrapped.into_iter().map(|line| (line, face)));
            }
            let others = labels.iter().enumerate().filter(|it| it.0 != number);
            let mut free = room.clone();
            free.marks.extend(others.map(|it| Rect::around(it.1.at, RING)));
            let size = TextBox::size(&lines)?;
            // What misses a target is not spoken of in the corner where they are met, if that can be helped.
            let mut outside = free.clone();
            outside.marks.extend((!meets).then(|| plot.met()));
            let rect = outside.tied_to(*at, RING, size).or_else(|| free.tied_to(*at, RING, size));
            let Some(rect) = rect else { continue };
            let tie = leader(*at, RING, &rect);
            room.lines.push(tie);
            room.texts.push(rect);
            let text = TextBox { rect, lines };
            callouts.push(Callout { at: *at, text, leader: tie, advised: number == 0 });
        }
        room.marks.extend(labels.iter().map(|it| Rect::around(it.at, RING)));
        let met = met(plot, &mut room)?;
        // What a callout says need not be said again.
        let named = labels.iter().filter(|it| it.at.1 < plot.floor).map(|it| it.ttl).collect();
        let ttls = ttls(plot, &room, named)?;
        Ok(Self { callouts, met, ttls })
    }
}

/// What is to be said of a setting.
struct PointLabel {
    at: Position,
    ttl: Span,
    meets: bool,
    said: [String; 2],
}

/// That one setting is advised, and why the next shorter is not.
fn labels(tuning: &Tuning, plot: &Plot<'_>) -> Vec<PointLabel> {
    let Some(point) = chosen(tuning) else { return Vec::new() };
    let Some((wrong, at)) = plot.worst(point) else { return Vec::new() };
    let (head, tail) = match tuning.advice.answer {
        TargetStatus::Met => ("take", format!("{}: {}", wrong.name(), at_most(high(wrong, point)))),
        _ => ("closest:", point.misses.join("; ")),
    };
    let renewed = match point.renew {
        Some(every) => format!("renewed every {}", time(every)),
        None => "not renewed".to_owned(),
    };
    let said = [format!("{head} TTL {}, {renewed}", time(point.ttl)), tail];
    let mut all = vec![PointLabel { at, ttl: point.ttl, meets: point.meets(), said }];
    let rival = rival(tuning, point);
    all.extend(rival.and_then(|(it, said)| {
        let (_, at) = plot.worst(it)?;
        Some(PointLabel { at, ttl: it.ttl, meets: it.meets(), said })
    }));
    all
}

fn high(wrong: FailureMode, point: &Point) -> f64 {
    wrong.share(point).per_day_high
}

/// The setting that one would rather have, and why it is not advised.
fn rival<'a>(tuning: &'a Tuning, point: &Point) -> Option<(&'a Point, [String; 2])> {
    let alike = |it: &&Point| {
        let renews = it.renew.is_some() == point.renew.is_some();
        it.keeping == point.keeping && renews && !it.unfinished
    };
    let all = || tuning.points.iter().filter(alike);
    if tuning.advice.answer != TargetStatus::Met {
        // What is missed besides the takeover is rare enough from some TTL on.
        let slow = |it: &&Point| it.misses.iter().all(|it| it.starts_with("takeover"));
        let rare = all().filter(|it| it.ttl > point.ttl).filter(slow).min_by_key(|it| it.ttl)?;
        let head = format!("rare enough from TTL {} on", time(rare.ttl));
        let (takes, wanted) = (time(rare.takeover.p99_high), time(tuning.targets.takeover));
        return Some((
            rare,
            [head, format!("but a crash blocks for {takes}, the target is {wanted}")],
        ));
    }
    let shorter = all().filter(|it| it.ttl < point.ttl).max_by_key(|it| it.ttl)?;
    let ttl = time(shorter.ttl);
    match shorter.misses.join("; ") {
        misses if !misses.is_empty() => {
            Some((shorter, [format!("TTL {ttl} is too short"), misses]))
        }
        _ if shorter.renewals_per_second > point.renewals_per_second => {
            let tail = "but renews more often".to_owned();
            Some((shorter, [format!("TTL {ttl} would do, too"), tail]))
        }
        _ => None,
    }
}

/// The name of the corner in which all is met, where it has the room.
fn met(plot: &Plot<'_>, room: &mut FreeSpace) -> Result<Option<TextBox>, ChartError> {
    let lines = vec![("targets met".to_owned(), STRONG)];
    let corner = plot.met();
    let mut inside = room.clone();
    inside.within = corner.grown(-4.0);
    let rect = inside.tied_to((corner.left, corner.top), 0.0, TextBox::size(&lines)?);
    Ok(rect.map(|rect| {
        room.texts.push(rect);
        TextBox { rect, lines }
    }))
}

/// The TTL of each setting, once, beside the first of its marks that has the room: in the scale, or else below it. Marks
/// that lie on one another have one text, from the shortest TTL to the longest, and a leader where there is no room beside them.
fn ttls(
    plot: &Plot<'_>,
    room: &FreeSpace,
    mut named: Vec<Span>,
) -> Result<Vec<TtlLabel>, ChartError> {
    let mut room = room.clone();
    let bottom = room.within.bottom;
    let mut labels: Vec<TtlLabel> = Vec::new();
    for below in [false, true] {
        room.within.bottom = if below { bottom } else { bottom.min(plot.floor) };
        let groups = plot.lines.iter().flat_map(|it| heaps(&it.marks));
        for group in groups.filter(|it| it[0].below == below) {
            let ttls = group.iter().map(|it| it.says[0].point.ttl);
            let mut ttls: Vec<Span> = ttls.filter(|it| !named.contains(it)).collect();
            ttls.sort();
            let said = match &ttls[..] {
                [] => continue,
                [ttl] => time(*ttl),
                [first, .., last] => format!("{} to {}", time(*first), time(*last)),
            };
            let lines = vec![(said, NOTE)];
            let size = TextBox::size(&lines)?;
            let mut beside = group.iter().filter_map(|it| room.beside(it.at, MARK_RADIUS, size));
            let (rect, leader) = match (beside.next(), &group[..]) {
                (Some(rect), _) => (rect, None),
                (None, [_] | []) => continue,
                (None, [.., lowest]) => {
                    let at = lowest.at;
                    let Some(rect) = room.tied_to(at, MARK_RADIUS, size) else { continue };
                    (rect, Some(leader(at, MARK_RADIUS, &rect)))
                }
            };
            room.texts.push(rect);
            room.lines.extend(leader);
            named.extend(ttls);
            labels.push(TtlLabel { text: TextBox { rect, lines }, leader });
        }
    }
    Ok(labels)
}

/// The marks of a line, those that lie on one another together, from above to below.
fn heaps<'a, 'b>(marks: &'a [PlotMark<'b>]) -> Vec<Vec<&'a PlotMark<'b>>> {
    let mut marks: Vec<&PlotMark<'_>> = marks.iter().collect();
    marks.sort_by(|a, b| a.at.1.total_cmp(&b.at.1));
    let mut heaps: Vec<Vec<&PlotMark<'_>>> = Vec::new();
    for mark in marks {
        let touches = |it: &&PlotMark<'_>| {
            let (x, y) = (it.at.0 - mark.at.0, it.at.1 - mark.at.1);
            it.below == mark.below && x.hypot(y) < 2.0 * MARK_RADIUS
        };
        match heaps.iter_mut().find(|heap| heap.iter().any(touches)) {
            Some(heap) => heap.push(mark),
            None => heaps.push(vec![mark]),
        }
    }
    heaps
}
