//! What a client does to the protected resource: it reads, it writes, it takes prizes.
//!
//! Invariant: a write is called harmful only if the history shows it: somebody else wrote between its reading and its
//! writing, or the prize that it takes was won before.

use history::{Answer, What};

use super::exchange::ExchangeEnd;
use super::facts::IncidentFacts;
use super::layout::{LaneMark, MarkKind};

/// How the resource is read.
const READ: &str = "GET";

/// The marks of this client.
pub(super) fn marks(facts: &IncidentFacts<'_>, client: u32) -> Vec<LaneMark> {
    let mut marks: Vec<LaneMark> = reads(facts, client);
    let events = &facts.history.events;
    let shown = |it: &&history::Event| it.client == client && facts.shows(it.at_ns);
    for event in events.iter().filter(shown) {
        let (text, harms) = match event.what {
            What::Updated(update) => {
                let between = written_between(facts, event, update.read);
                let text = match between {
                    Some(other) => {
                        format!("writes {}: undoes client {other}'s write", update.written)
                    }
                    None => format!("writes {}", update.written),
                };
                (text, between.is_some())
            }
            What::UpdateUnknown { update, .. } => (format!("writes {}?", update.written), false),
            What::NotUpdated(_) => ("writes nothing".to_owned(), false),
            What::Taken { prize, .. } => {
                let is_won = |it: &history::Event| {
                    it.at_ns <= event.at_ns
                        && it.op != event.op
                        && matches!(it.what, What::Taken { prize: won, .. } if won == prize)
                };
                let until = events.partition_point(|it| it.at_ns <= event.at_ns);
                let again = events[..until]
                    .iter()
                    .take_while(|it| it.op != event.op || it.what != event.what);
                let again = again.into_iter().any(is_won);
                let again_too = if again { " again" } else { "" };
                (format!("wins prize {prize}{again_too}"), again)
            }
            What::TakeUnknown { prize, .. } => (format!("wins prize {prize}?"), false),
            What::NotTaken(_) => ("takes no prize".to_owned(), false),
            _ => continue,
        };
        marks.push(LaneMark { at_ns: event.at_ns, kind: MarkKind::Writes, text, harms });
    }
    marks
}

fn reads(facts: &IncidentFacts<'_>, client: u32) -> Vec<LaneMark> {
    let history = facts.history;
    let theirs = facts.exchanges.iter().filter(|it| it.client == client && it.acquisition > 0);
    let reads = theirs.filter_map(|it| {
        let (at_ns, ExchangeEnd::Answered(_, answer)) = it.end? else { return None };
        if facts.is_of_lock(it) || history.text(it.name) != READ || !facts.shows(at_ns) {
            return None;
        }
        let value = match answer {
            Answer::Int(value) => value.to_string(),
            Answer::Text(value) => super::facts::text(history.text(value)),
            Answer::Nil => "nothing".to_owned(),
            Answer::Ok | Answer::List => return None,
        };
        let text = format!("reads {value}");
        Some(LaneMark { at_ns, kind: MarkKind::Reads, text, harms: false })
    });
    reads.collect()
}

/// Who else wrote after this update had read and before it wrote, if anybody.
fn written_between(facts: &IncidentFacts<'_>, event: &history::Event, read: i64) -> Option<u32> {
    let events = &facts.history.events;
    let until = events.partition_point(|it| it.at_ns <= event.at_ns);
    let before = events[..until].iter().rev().skip_while(|it| it.op != event.op);
    let mut before = before.skip(1).take_while(|it| it.op != event.op);
    let other = before.find_map(|it| match it.what {
        What::Updated(update) if it.client != event.client => Some((it.client, update)),
        _ => None,
    });
    // Who wrote before this one read is what this one read.
    other.filter(|(_, update)| update.written != read).map(|(client, _)| client)
}
