//! The same is said of a history that says the same in other words, or tells more that has nothing to do with the lock.
//!
//! Invariant: each change leaves what happened to the lock as it was.

use std::collections::BTreeMap;

use checkers::judge;
use history::verdict::{Outcome, Verdict};
use history::{Answer, Event, History, Intent, Stage, Touch, What};
use rand_pcg::Pcg64Mcg;

use crate::histories::{Change, below, changed, for_each, number_operations};

const LATER_NS: u64 = 1_234_567_891_011;
const MORE: i64 = 1_000;
/// Above the number of any operation.
const MORE_OPS: u32 = 1_000_000;

/// All clocks show a later time.
fn is_later(history: &mut History, _: &mut Pcg64Mcg) {
    for it in &mut history.events {
        it.at_ns += LATER_NS;
        if let What::ValidUntil(until_ns) = &mut it.what {
            *until_ns += LATER_NS;
        }
    }
}

/// Keys have other names.
fn renames_keys(history: &mut History, _: &mut Pcg64Mcg) {
    let History { head, events, texts } = history;
    head.lock_key = format!("another {}", head.lock_key);
    for it in events {
        if let What::Command { key, .. } = &mut it.what {
            let other = format!("another {}", texts.get(*key));
            *key = texts.intern(&other);
        }
    }
}

/// Clients have other numbers.
fn renames_clients(history: &mut History, _: &mut Pcg64Mcg) {
    let last = history.head.clients + 1;
    for it in history.events.iter_mut().filter(|it| it.client > 0) {
        it.client = last - it.client;
    }
}

/// Acquisitions have other numbers.
fn renames_acquisitions(history: &mut History, _: &mut Pcg64Mcg) {
    let last = history.events.iter().map(|it| it.acquisition).max().unwrap_or(0) + 1;
    for it in history.events.iter_mut().filter(|it| it.acquisition > 0) {
        it.acquisition = last - it.acquisition;
    }
}

/// Fencing tokens are others, in the same order; and so are the values of the register.
fn renames_values(history: &mut History, _: &mut Pcg64Mcg) {
    let token = |it: u64| 3 * it + 5;
    history.head.register = history.head.register.map(|it| it + MORE);
    for it in &mut history.events {
        match &mut it.what {
            What::Fence(it) => *it = token(*it),
            What::Updated(update) | What::UpdateUnknown { update, .. } => {
                update.token = update.token.map(token);
                (update.read, update.written) = (update.read + MORE, update.written + MORE);
            }
            What::RegisterLeft(left) => *left += MORE,
            _ => {}
        }
    }
}

/// What a client does after a moment at which it has nothing under way is done by another. Faults tie what they strike.
fn splits_clients(history: &mut History, random: &mut Pcg64Mcg) {
    for client in 1..=history.head.clients {
        let events = &mut history.events;
        let theirs = |it: &Event| it.client == client;
        let is_fault = |it: &Event| matches!(it.what, What::Fault { .. });
        let moments = idle(events.iter().enumerate().filter(|(_, it)| theirs(it)));
        if moments.is_empty() || events.iter().any(|it| theirs(it) && is_fault(it)) {
            continue;
        }
        let from = moments[below(random, moments.len())] + 1;
        history.head.clients += 1;
        let later = events[from..].iter_mut().filter(|it| theirs(it));
        later.for_each(|it| it.client = history.head.clients);
    }
}

/// The places behind which these events of one client go on with nothing that was begun before.
fn idle<'a>(events: impl Iterator<Item = (usize, &'a Event)> + Clone) -> Vec<usize> {
    let last: BTreeMap<u32, usize> =
        events.clone().map(|(place, it)| (it.acquisition, place)).collect();
    let (mut holds, mut open) = (BTreeMap::new(), 0);
    let is_idle = |(place, it): &(usize, &Event)| {
        match it.what.stage() {
            Stage::Invoke => open += 1,
            Stage::Note => {}
            Stage::Ok | Stage::Fail | Stage::Info => open -= 1,
        }
        let has = holds.entry(it.acquisition).or_insert(false);
        match it.what {
            What::Acquired => *has = true,
            What::Lost | What::Release => *has = false,
            _ => {}
        }
        open == 0 && holds.iter().all(|(of, has)| !has && (*of == 0 || last[of] <= *place))
    };
    events.filter(is_idle).map(|(place, _)| place).collect()
}

/// A client that takes another lock again and again comes to it.
fn adds_a_client(history: &mut History, random: &mut Pcg64Mcg) {
    let History { head, events, texts } = history;
    head.clients += 1;
    let (name, key) = (texts.intern("SET"), texts.intern("another lock"));
    let touch = Touch::Create(Some(head.ttl_ns));
    let intent = Intent { touch, compares: false };
    for op in MORE_OPS..MORE_OPS + 20 {
        let end = below(random, events.len() + 1);
        let begin = below(random, end + 1);
        let answered = What::Answered { touch, answer: Answer::Ok, found: 0 };
        let sent = What::Command { node: 0, name, key, intent };
        for (place, what) in [(end, answered), (begin, sent)] {
            let at_ns = place.checked_sub(1).map_or(0, |before| events[before].at_ns);
            let client = head.clients;
            events.insert(place, Event { at_ns, client, acquisition: 0, op, what });
        }
    }
    number_operations(events);
}

/// Other clients send the same commands, on other keys.
fn repeats_on_other_keys(history: &mut History, _: &mut Pcg64Mcg) {
    let History { head, events, texts } = history;
    let clients = head.clients;
    head.clients *= 2;
    let mut all = Vec::with_capacity(2 * events.len());
    for it in events.drain(..) {
        all.push(it);
        let what = match it.what {
            What::Command { node, name, key, intent } => {
                let other = format!("another {}", texts.get(key));
                What::Command { node, name, key: texts.intern(&other), intent }
            }
            What::Answered { touch, answer, found } => {
                let found = if found == 0 { 0 } else { found + MORE_OPS };
                What::Answered { touch, answer, found }
            }
            What::Refused(_) | What::Unanswered(_) => it.what,
            _ => continue,
        };
        let client = if it.client == 0 { 0 } else { it.client + clients };
        all.push(Event { client, acquisition: 0, op: it.op + MORE_OPS, what, ..it });
    }
    *events = all;
    number_operations(events);
}

/// What is said of a history, and how often somebody is blamed. How many commands each acquisition takes is asked of all of them.
fn said(history: &History) -> Vec<(&'static str, Outcome, u64)> {
    let found = judge(history, true).into_iter().filter(|it| it.name != "efficiency");
    let said = found.map(|it| {
        let times =
            if let Verdict::Violated(witness) = &it.verdict { witness.occurrences } else { 0 };
        (it.name, it.verdict.outcome(), times)
    });
    said.collect()
}

#[test]
fn the_same_is_said_in_other_words() {
    let laws: [(&str, Change); 8] = [
        ("another time", is_later),
        ("other keys", renames_keys),
        ("other clients", renames_clients),
        ("other acquisitions", renames_acquisitions),
        ("other values", renames_values),
        ("more clients for the same", splits_clients),
        ("a client more", adds_a_client),
        ("the same on other keys", repeats_on_other_keys),
    ];
    let mut differ = Vec::new();
    for_each(|run, history| {
        let before = said(&history);
        for (law, change) in laws {
            let after = said(&changed(&history, change));
            if before != after {
                differ.push(format!("{law}: {run}: {before:?}, {after:?}"));
            }
        }
    });
    assert_eq!(differ, [""; 0]);
}
