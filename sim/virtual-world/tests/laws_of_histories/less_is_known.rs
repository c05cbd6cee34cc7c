//! What is held stays held when less is known of it: replies that are missing or came later, and operations that began earlier or
//! ended later.
//!
//! Invariant: each history is one that a client could have recorded of the same run.

use checkers::judge;
use history::verdict::{Finding, Level, Outcome};
use history::{Event, History, What};
use rand_pcg::Pcg64Mcg;

use crate::histories::{Change, below, changed, for_each, number_operations};

/// One reply in four never came.
fn drops_replies(history: &mut History, random: &mut Pcg64Mcg) {
    let why = history.texts.intern("reset");
    for event in &mut history.events {
        if matches!(event.what, What::Answered { .. }) && below(random, 4) == 0 {
            event.what = What::Unanswered(why);
        }
    }
}

/// Replies come later.
fn delays_replies(history: &mut History, random: &mut Pcg64Mcg) {
    delays(&mut history.events, random, |what| {
        matches!(what, What::Answered { .. } | What::Refused(_) | What::Unanswered(_))
    });
}

/// What clients do to the register or the pool takes longer.
fn delays_updates(history: &mut History, random: &mut Pcg64Mcg) {
    delays(&mut history.events, random, |what| {
        let updated =
            matches!(what, What::Updated(_) | What::NotUpdated(_) | What::UpdateUnknown { .. });
        updated || matches!(what, What::Taken { .. } | What::NotTaken(_) | What::TakeUnknown { .. })
    });
}

/// Such events come later: just before their client does anything else at the latest.
fn delays(events: &mut Vec<Event>, random: &mut Pcg64Mcg, is_such: fn(What) -> bool) {
    for place in (0..events.len()).rev() {
        let it = events[place];
        if !is_such(it.what) {
            continue;
        }
        let is_theirs = |other: &Event| [0, it.client].contains(&other.client);
        let later = events[place + 1..].iter().position(is_theirs).unwrap_or(0);
        if later > 0 {
            let to = place + below(random, later + 1);
            let at_ns = events[to].at_ns;
            events.remove(place);
            events.insert(to, Event { at_ns, ..it });
        }
    }
}

/// Commands are sent earlier: just after whatever their client has done before at the earliest.
fn sends_earlier(history: &mut History, random: &mut Pcg64Mcg) {
    begins_earlier(&mut history.events, random, |what| matches!(what, What::Command { .. }));
}

/// The same of what clients do to the register or the pool.
fn updates_earlier(history: &mut History, random: &mut Pcg64Mcg) {
    begins_earlier(&mut history.events, random, |what| matches!(what, What::Update | What::Take));
}

fn begins_earlier(events: &mut Vec<Event>, random: &mut Pcg64Mcg, is_such: fn(What) -> bool) {
    for place in 0..events.len() {
        let it = events[place];
        if !is_such(it.what) {
            continue;
        }
        let is_theirs = |other: &Event| [0, it.client].contains(&other.client);
        let earlier = events[..place].iter().rev().position(is_theirs).unwrap_or(0);
        if earlier > 0 {
            let to = place - below(random, earlier + 1);
            let at_ns = if to == place { it.at_ns } else { events[to - 1].at_ns };
            events.remove(place);
            events.insert(to, Event { at_ns, ..it });
        }
    }
    number_operations(events);
}

/// What is violated in these histories.
fn violated(history: &History, is_asked: fn(&Finding) -> bool) -> Vec<&'static str> {
    let found = judge(history, true).into_iter().filter(is_asked);
    let found = found.filter(|it| it.verdict.outcome() == Outcome::Violated);
    found.map(|it| it.name).collect()
}

/// What is violated once these histories are changed, of which nothing was before.
fn blamed(change: Change, is_asked: fn(&Finding) -> bool) -> Vec<String> {
    let (mut blamed, mut judged) = (Vec::new(), 0);
    for_each(|run, mut history| {
        history.head.exact = false;
        if violated(&history, is_asked).is_empty() {
            judged += 1;
            let found = violated(&changed(&history, change), is_asked);
            blamed.extend(found.iter().map(|it| format!("{it}: {run}")));
        }
    });
    assert!(judged > 1_000, "{judged} were held");
    blamed
}

/// What is true of a run, however much of it is known. Whoever has the lock by a reply that never came has told a lie, so *honesty*
/// is left out.
fn is_safety(finding: &Finding) -> bool {
    finding.level != Level::Progress && finding.name != "honesty"
}

#[test]
fn replies_that_are_missing_blame_nobody() {
    assert_eq!(blamed(drops_replies, is_safety), [""; 0]);
}

#[test]
fn replies_that_come_later_blame_nobody() {
    assert_eq!(blamed(delays_replies, |_| true), [""; 0]);
}

#[test]
fn updates_that_take_longer_blame_nobody() {
    assert_eq!(blamed(delays_updates, |_| true), [""; 0]);
    assert_eq!(blamed(updates_earlier, |_| true), [""; 0]);
}

#[test]
fn commands_that_are_sent_earlier_blame_nobody() {
    assert_eq!(blamed(sends_earlier, |_| true), [""; 0]);
}
