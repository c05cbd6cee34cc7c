//! An incident as Mermaid text, a sequence diagram that hosts of code show in a pull request.
//!
//! Invariant: no text of the run can end a line or a statement: what Mermaid could take for syntax is written as an entity.

use super::layout::{BarKind, IncidentLayout, LaneOwner};
use crate::format::milliseconds;
use history::exchange::Delivery;

/// A statement, at its time.
struct Statement {
    at_ns: u64,
    /// What belongs before other statements of the same moment comes first.
    rank: u8,
    text: String,
}

/// The incident as a sequence diagram.
pub(crate) fn mermaid(layout: &IncidentLayout) -> String {
    let mut text = String::from("sequenceDiagram\n");
    text += &format!("  accTitle: {}\n", escaped(&layout.title));
    for lane in &layout.lanes {
        text += &format!("  participant {} as {}\n", id(lane.owner), escaped(&lane.owner.name()));
    }
    let mut all = statements(layout);
    all.sort_by_key(|it| (it.at_ns, it.rank));
    for it in all {
        text += &format!("  {}\n", it.text);
    }
    text
}

fn statements(layout: &IncidentLayout) -> Vec<Statement> {
    let mut all = Vec::new();
    let mut say = |at_ns: u64, rank: u8, text: String| all.push(Statement { at_ns, rank, text });
    let Some(first) = layout.lanes.first().map(|it| id(it.owner)) else { return all };
    let last = layout.lanes.last().map(|it| id(it.owner)).unwrap_or_default();
    let over = |at_ns: u64, owner: String, text: &str| {
        format!("Note over {owner}: {} ms: {}", milliseconds(at_ns), escaped(text))
    };
    let title = if first == last { first } else { format!("{first},{last}") };
    say(0, 0, format!("Note over {title}: {}", escaped(&layout.title)));
    for band in &layout.bands {
        let (from, until) = (milliseconds(band.from_ns), milliseconds(band.until_ns));
        let text = format!("{}, from {from} to {until} ms", band.text);
        say(band.from_ns, 1, format!("Note over {title}: {}", escaped(&text)));
    }
    for lane in &layout.lanes {
        let owner = || id(lane.owner);
        for bar in &lane.bars {
            let is_told = matches!(
                bar.kind,
                BarKind::Stands | BarKind::CutOff | BarKind::Holds | BarKind::Down | BarKind::Left
            );
            if is_told && !bar.open[0] {
                say(bar.from_ns, 3, over(bar.from_ns, owner(), &bar.texts[0]));
            }
        }
        for mark in &lane.marks {
            say(mark.at_ns, 4, over(mark.at_ns, owner(), &mark.text));
        }
    }
    for it in &layout.missed {
        let (client, key, at) =
            (id(LaneOwner::Client(it.client)), id(it.key), milliseconds(it.at_ns));
        say(it.at_ns, 2, format!("{key}--x{client}: {at} ms: {}", escaped(&it.text)));
    }
    for it in &layout.messages {
        let (client, key) = (id(LaneOwner::Client(it.client)), id(it.key));
        let arrow = match it.request {
            Delivery::Lost | Delivery::Unknown => "-x",
            _ => "->>",
        };
        let sent = milliseconds(it.sent_ns);
        let request = format!("{client}{arrow}{key}: {sent} ms: {}", escaped(&it.text));
        // A late one stands where it arrives, behind what overtook it.
        let is_late = it.request == Delivery::Late && it.done_ns <= layout.until_ns;
        say(if is_late { it.done_ns } else { it.sent_ns }, 2, request);
        let back = match it.answered_ns {
            Some(at_ns) if at_ns <= layout.until_ns => Some((at_ns, "-->>", it.answer.as_str())),
            _ if it.reply == Delivery::Lost => Some((it.done_ns, "--x", "the reply is lost")),
            _ => None,
        };
        if let Some((at_ns, arrow, answer)) = back {
            let at = milliseconds(at_ns);
            say(at_ns, 2, format!("{key}{arrow}{client}: {at} ms: {}", escaped(answer)));
        }
    }
    all
}

fn id(owner: LaneOwner) -> String {
    match owner {
        LaneOwner::Key(None) => "K".to_owned(),
        LaneOwner::Key(Some(node)) => format!("K{node}"),
        LaneOwner::Client(client) => format!("C{client}"),
    }
}

/// The text as Mermaid shows it, whatever it says.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'a'..='z'
            | 'A'..='Z'
            | '0'..='9'
            | ' '
            | '.'
            | ','
            | '-'
            | '_'
            | '\''
            | '('
            | ')'
            | '/' => {
                safe.push(c);
            }
            ':' | '?' | '+' | '=' => safe.push(c),
            c if !c.is_ascii() && !c.is_control() => safe.push(c),
            c => safe.push_str(&format!("#{};", u32::from(c))),
        }
    }
    // `end` would close a block.
    if safe == "end" { "(end)".to_owned() } else { safe }
}
