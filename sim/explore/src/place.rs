//! The places at which a fault can strike, learnt from a run.
//!
//! Invariant: a client has come to each place in a run of the same size with the same faults so far, so a fault that is
//! staged there strikes. Of the attempts of one acquisition, and of the renewals of one hold, only the first and the
//! last count: those between are alike.

use std::collections::BTreeMap;

use history::fault::Trigger;
use history::{Event, History, What};

/// The client number under which visits of all clients to a place are counted.
const ANYBODY: u32 = 0;

/// A place to which a client has come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FaultPlace {
    /// Which client.
    pub(crate) client: u32,
    /// The place as a scenario names it, counted for this client.
    pub(crate) at: Trigger,
    /// The same, counted for all clients: for a fault that strikes a server.
    pub(crate) at_any: Trigger,
    /// Whether the client sends a command to the lock's servers there.
    pub(crate) sends: bool,
    /// Whether it is the first place of its client.
    pub(crate) first: bool,
}

/// A place, with its event.
struct SeenPlace {
    place: FaultPlace,
    /// Its event.
    event: usize,
    at_ns: u64,
    name: String,
    acquisition: u32,
}

/// Every place after the last strike, in the order in which clients come to them; none if one of the `staged` faults
/// has not struck.
pub(crate) fn places(history: &History, staged: usize) -> Vec<FaultPlace> {
    let Some(after) = struck_last(history, staged) else { return Vec::new() };
    let found = all(history).into_iter().filter(|it| it.event >= after).collect();
    without_those_between(found).into_iter().map(|it| it.place).collect()
}

/// The event after the last strike of the `staged` faults; the first event if no fault is staged, none if one has not
/// struck.
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
fn all(history: &History) -> Vec<SeenPlace> {
    let mut found: Vec<SeenPlace> = Vec::new();
    let mut times = BTreeMap::<(u32, String), u32>::new();
    // The last event of each client, and its place, if it is one.
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
            // The client came to the place before in order to send this command. The first of several commands counts.
            found[before].place.sends = true;
            last.insert(client, (nth, Some(before)));
            continue;
        }
        let command = phase.is_none().then(|| name.clone());
        let at = Trigger { phase, command, nth: nth_own, ..Trigger::default() };
        let at_any = Trigger { nth: nth_any, ..at.clone() };
        let first = !found.iter().any(|it| it.place.client == client);
        let place = FaultPlace { client, at, at_any, sends: phase.is_none(), first };
        last.insert(client, (nth, Some(found.len())));
        found.push(SeenPlace { place, event: nth, at_ns, name, acquisition });
    }
    found
}

/// Only the first and the last of the places with the same name in the same acquisition.
fn without_those_between(found: Vec<SeenPlace>) -> Vec<SeenPlace> {
    let key = |it: &SeenPlace| (it.place.client, it.acquisition, it.name.clone());
    let mut ends = BTreeMap::<(u32, u32, String), (usize, usize)>::new();
    for it in &found {
        let ends = ends.entry(key(it)).or_insert((it.event, it.event));
        ends.1 = it.event;
    }
    let is_end = |it: &SeenPlace| {
        ends.get(&key(it)).is_some_and(|(first, last)| it.event == *first || it.event == *last)
    };
    found.into_iter().filter(is_end).collect()
}

#[cfg(test)]
mod tests {
    use history::fault::Fault;
    use history::{Head, Intent, Touch};
    use picklock::env::Phase;

    use super::*;

    /// An action of a client at a time; a command goes to the server of the lock, or to that of the resource.
    enum Does {
        Phase(Phase),
        Lock(&'static str),
        Resource(&'static str),
        Struck(u16),
    }

    fn history(events: &[(u64, u32, Does)]) -> History {
        let mut history = History::new(Head { resource: Some(1), ..Head::default() });
        let intent = Intent { touch: Touch::None, compares: false };
        for (at_ns, client, does) in events {
            let mut command = |node, name| {
                let (name, key) = (history.texts.intern(name), history.texts.intern("k"));
                What::Command { node, name, key, intent }
            };
            let what = match does {
                Does::Phase(phase) => What::Phase(*phase),
                Does::Lock(name) => command(0, name),
                Does::Resource(name) => command(1, name),
                Does::Struck(staged) => {
                    let (fault, staged) = (Fault::Pause, Some(*staged));
                    What::Fault { fault, node: None, for_ns: 0, in_hold: false, staged }
                }
            };
            let event = Event { at_ns: *at_ns, client: *client, acquisition: *client, op: 0, what };
            history.events.push(event);
        }
        history
    }

    /// Each place in short: which client, what, which time, and whether something is sent there.
    fn shown(history: &History, staged: usize) -> Vec<String> {
        let show = |place: FaultPlace| {
            let what = place.at.phase.map(Phase::name).map(str::to_owned).or(place.at.command);
            let (own, any) = (place.at.nth.unwrap_or(1), place.at_any.nth.unwrap_or(1));
            let sends = if place.sends { " sends" } else { "" };
            format!("{} {} {own}/{any}{sends}", place.client, what.unwrap())
        };
        places(history, staged).into_iter().map(show).collect()
    }

    #[test]
    fn a_phase_and_the_command_that_follows_at_once_are_one_place() {
        let history = history(&[
            (1, 1, Does::Phase(Phase::AcquireBeforeSend)),
            (1, 1, Does::Lock("SET")),
            (3, 2, Does::Phase(Phase::AcquireBeforeSend)),
            (3, 2, Does::Lock("SET")),
            (5, 1, Does::Phase(Phase::ReleaseBeforeDelete)),
            (6, 1, Does::Lock("DEL")),
        ]);
        let expected = [
            "1 acquire.before-send 1/1 sends",
            "2 acquire.before-send 1/2 sends",
            "1 release.before-delete 1/1",
            "1 DEL 1/1 sends",
        ];
        assert_eq!(shown(&history, 0), expected);
    }

    #[test]
    fn commands_to_the_resource_are_counted_and_no_places() {
        let history = history(&[(1, 1, Does::Resource("GET")), (2, 1, Does::Lock("GET"))]);
        assert_eq!(shown(&history, 0), ["1 GET 2/2 sends"]);
    }

    #[test]
    fn of_many_attempts_the_first_and_the_last_count() {
        let tries = |times| {
            let tries = (1..=times).map(|at_ns| (at_ns, 1, Does::Lock("SET")));
            shown(&history(&tries.collect::<Vec<_>>()), 0)
        };
        assert_eq!(tries(1), ["1 SET 1/1 sends"]);
        assert_eq!(tries(2), ["1 SET 1/1 sends", "1 SET 2/2 sends"]);
        assert_eq!(tries(5), ["1 SET 1/1 sends", "1 SET 5/5 sends"]);
    }

    #[test]
    fn only_what_comes_behind_the_last_strike_counts() {
        let one = [
            (1, 1, Does::Lock("SET")),
            (1, 1, Does::Struck(0)),
            (3, 1, Does::Lock("DEL")),
            (5, 2, Does::Lock("SET")),
        ];
        assert_eq!(shown(&history(&one), 1), ["1 DEL 1/1 sends", "2 SET 1/2 sends"]);
        assert_eq!(shown(&history(&one), 2), [""; 0], "one of two has not struck");
        let two = [
            (1, 1, Does::Struck(1)),
            (3, 1, Does::Lock("SET")),
            (3, 1, Does::Struck(0)),
            (5, 2, Does::Lock("SET")),
        ];
        assert_eq!(shown(&history(&two), 2), ["2 SET 1/2 sends"], "in whatever order they struck");
    }
}
