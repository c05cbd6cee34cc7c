//! The places at which a fault can strike, learnt from a run.
//!
//! Invariant: a client has certainly come to each place, in a run with the same size and the same faults so far; so a
//! fault that is staged there strikes. Of the attempts of one acquisition, and of the renewals of one hold, the first and
//! the last count: those between are alike.

use std::collections::BTreeMap;

use history::fault::Trigger;
use history::{Event, History, What};

/// In whose name it is counted how often any client has come to a place.
const ANYBODY: u32 = 0;

/// Where a client has come to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    /// Which client.
    pub(crate) client: u32,
    /// What a scenario calls the place, of this client.
    pub(crate) at: Trigger,
    /// The same where it is any client's, as for what strikes a server.
    pub(crate) at_any: Trigger,
    /// Whether the client sends a command to the lock's servers there.
    pub(crate) sends: bool,
    /// Whether it is the first place of its client.
    pub(crate) first: bool,
}

/// A place, and what it is one of.
struct Found {
    place: Place,
    /// Its event.
    event: usize,
    at_ns: u64,
    name: String,
    acquisition: u32,
}

/// Every place behind the fault that has struck last, in the order in which clients come to them; none where one of so
/// many staged faults has not struck.
pub(crate) fn places(history: &History, staged: usize) -> Vec<Place> {
    let Some(after) = struck_last(history, staged) else { return Vec::new() };
    let found = all(history).into_iter().filter(|it| it.event >= after).collect();
    without_those_between(found).into_iter().map(|it| it.place).collect()
}

/// The event behind the one by which the last of so many staged faults has struck: the first event where none is staged,
/// none where one has not struck.
fn struck_last(history: &History, staged: usize) -> Option<usize> {
    let mut struck: Vec<Option<usize>> = vec![None; staged];
    for (nth, event) in history.events.iter().enumerate() {
        if let What::Fault { staged: Some(which), .. } = event.what {
            let first = struck.get_mut(usize::from(which))?;
            *first = first.or(Some(nth + 1));
        }
    }
    struck.into_iter().try_fold(0, |last, it| Some(last.max(it?)))
}

/// Every place of the run.
fn all(history: &History) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut times = BTreeMap::<(u32, String), u32>::new();
    // The event of each client that came last, and the place that it is, if it is one.
    let mut last = BTreeMap::<u32, (usize, Option<usize>)>::new();
    for (nth, event) in history.events.iter().enumerate().filter(|(_, it)| it.client > 0) {
        let Event { client, what, at_ns, acquisition, .. } = *event;
        let before = last.insert(client, (nth, None)).and_then(|(_, place)| place);
        let (name, phase, is_lock) = match what {
            What::Phase(phase) => (phase.name().to_owned(), Some(phase), true),
            What::Command { name, node, .. } => {
                (history.text(name).to_owned(), None, !history.head.is_resource(node))
            }
            _ => continue,
        };
        let mut nth_of = |client| {
            let times = times.entry((client, name.clone())).or_default();
            *times += 1;
            Some(*times).filter(|times| *times > 1)
        };
        let (nth_own, nth_any) = (nth_of(client), nth_of(ANYBODY));
        if !is_lock {
            continue;
        }
        let same_time = before.filter(|place| found[*place].at_ns == at_ns);
        if let (Some(before), None) = (same_time, phase) {
            // What it came to a moment ago was this: to send the command. Of several the first stands for all.
            found[before].place.sends = true;
            last.insert(client, (nth, Some(before)));
            continue;
        }
        let command = phase.is_none().then(|| name.clone());
        let at = Trigger { phase, command, nth: nth_own, ..Trigger::default() };
        let at_any = Trigger { nth: nth_any, ..at.clone() };
        let first = !found.iter().any(|it| it.place.client == client);
        let place = Place { client, at, at_any, sends: phase.is_none(), first };
        last.insert(client, (nth, Some(found.len())));
        found.push(Found { place, event: nth, at_ns, name, acquisition });
    }
    found
}

/// Of places of the same name in the same acquisition the first and the last.
fn without_those_between(found: Vec<Found>) -> Vec<Found> {
    let key = |it: &Found| (it.place.client, it.acquisition, it.name.clone());
    let mut ends = BTreeMap::<(u32, u32, String), (usize, usize)>::new();
    for it in &found {
        let ends = ends.entry(key(it)).or_insert((it.event, it.event));
        ends.1 = it.event;
    }
    let is_end = |it: &Found| ends.get(&key(it)).is_some_and(|(first, last)| it.event == *first || it.event == *last);
    found.into_iter().filter(is_end).collect()
}
