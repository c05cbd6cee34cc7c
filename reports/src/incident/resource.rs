//! What a client does to the protected resource: it reads, it writes, it takes prizes.
//!
//! Invariant: a write is called harmful only if the history shows it: of two updates one is lost, and this one had the lock no
//! longer or undoes the other; or the prize that it takes was won before.

use history::{Answer, Event, Update, What};

use super::facts::IncidentFacts;
use super::layout::{LaneMark, MarkKind};
use history::exchange::ExchangeEnd;
use history::tenure::TenureEnd;

/// How the resource is read.
const READ: &str = "GET";

/// The marks of this client.
pub(super) fn marks(facts: &IncidentFacts<'_>, client: u32) -> Vec<LaneMark> {
    let mut marks: Vec<LaneMark> = reads(facts, client);
    let events = &facts.history.events;
    let shown = |it: &&history::Event| it.client == client && facts.shows(it.at_ns);
    for event in events.iter().filter(shown) {
        let (text, harms) = match event.what {
            What::Updated(update) => write(facts, event, update),
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

/// What a writer had of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its key, or nothing says that it had not.
    Kept,
    /// Its key had run out, or was lost, and another had made it since.
    RanOut,
    /// Another had ended its key.
    Robbed,
}

/// What a write is called, and whether it does harm: of two updates of which one is lost, the one that was written when its key
/// had run out. Where that cannot be told and nobody was robbed, it is the one that undoes the other.
fn write(facts: &IncidentFacts<'_>, event: &Event, update: Update) -> (String, bool) {
    let written = update.written;
    let undone = written_between(facts, event, update.read);
    if undone.is_none() && !is_undone(facts, event) {
        return (format!("writes {written}"), false);
    }
    let standing = |it: &Event| standing(facts, it.acquisition, it.at_ns);
    match (standing(event), undone) {
        (Standing::RanOut, _) => (format!("writes {written}: no longer has the lock"), true),
        (Standing::Robbed, _) => (format!("writes {written}: its lock was taken away"), false),
        (Standing::Kept, None) => (format!("writes {written}"), false),
        (Standing::Kept, Some(other)) if standing(other) != Standing::Kept => {
            (format!("writes {written}, too: one update is lost"), false)
        }
        (Standing::Kept, Some(other)) => {
            (format!("writes {written}: undoes client {}'s write", other.client), true)
        }
    }
}

/// What this acquisition had of the lock at this moment. On several servers it is had with most of all.
fn standing(facts: &IncidentFacts<'_>, acquisition: u32, at_ns: u64) -> Standing {
    let begun = || facts.tenures.iter().filter(|it| it.from_ns <= at_ns);
    let of_it = || begun().filter(|it| it.acquisition == acquisition);
    // What it made anew counts from then on.
    let last = of_it()
        .filter(|it| !of_it().any(|other| other.node == it.node && other.from_ns > it.from_ns));
    let (mut all, mut ran_out, mut robbed) = (0, 0, 0);
    for it in last {
        all += 1;
        let is_anothers = begun().any(|other| {
            other.node == it.node
                && other.acquisition != acquisition
                && other.from_ns >= it.until_ns
        });
        match it.end {
            _ if it.until_ns > at_ns || !is_anothers => {}
            TenureEnd::Expired | TenureEnd::Lost(_) | TenureEnd::Gone => ran_out += 1,
            TenureEnd::Deleted { by, .. } | TenureEnd::Overwritten { by, .. } => {
                robbed += usize::from(by != it.client);
            }
            TenureEnd::Stays => {}
        }
    }
    let (lost, nodes) = (ran_out + robbed, usize::from(facts.history.head.nodes.unwrap_or(1)));
    let is_kept = if nodes > 1 { (all - lost) * 2 > nodes } else { lost * 2 <= all };
    match () {
        () if is_kept || lost == 0 => Standing::Kept,
        () if ran_out > robbed => Standing::RanOut,
        () => Standing::Robbed,
    }
}

/// Who else wrote after this update had read and before it wrote, if anybody.
fn written_between<'a>(facts: &IncidentFacts<'a>, event: &Event, read: i64) -> Option<&'a Event> {
    let events = &facts.history.events;
    let until = events.partition_point(|it| it.at_ns <= event.at_ns);
    let before = events[..until].iter().rev().skip_while(|it| it.op != event.op);
    let mut before = before.skip(1).take_while(|it| it.op != event.op);
    let other = before.find_map(|it| match it.what {
        What::Updated(update) if it.client != event.client => Some((it, update)),
        _ => None,
    });
    // Who wrote before this one read is what this one read.
    other.filter(|(_, update)| update.written != read).map(|(it, _)| it)
}

/// Whether another update undoes this one, within the picture.
fn is_undone(facts: &IncidentFacts<'_>, event: &Event) -> bool {
    let events = &facts.history.events;
    let behind = &events[events.partition_point(|it| it.at_ns < event.at_ns)..];
    behind.iter().take_while(|it| it.at_ns <= facts.until_ns).any(|it| match it.what {
        What::Updated(update) if it.client != event.client => {
            written_between(facts, it, update.read).is_some_and(|undone| undone.op == event.op)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests;
