//! From a history and its findings to what is drawn of the incident that says most.
//!
//! Invariant: what others did to the key meanwhile is drawn in the key's lane, without lanes of their own.

use std::collections::BTreeSet;

use history::verdict::Level;
use history::{History, What};
use scenarios::recipe;
use scenarios::result::RunResult;

use super::bands::bands;
use super::cause::{cause, risk};
use super::client_lane;
use super::facts::{IncidentFacts, text};
use super::group::{FindingGroup, groups, most_telling};
use super::key_lane;
use super::layout::{IncidentLane, IncidentLayout, LANES_MOST, MARKS_MOST};
use super::message;
use super::notice;
use crate::format::counted;

/// So many faults are named, the last of them.
const FAULTS_MOST: usize = 3;
/// Invariants whose stories end with the harm.
const OF_HARM: [&str; 3] = ["ownership", "mutual-exclusion", "no-lost-update"];
/// Of many marks in the middle of a lane, so many that do harm are drawn.
const HARMS_MOST: usize = 3;

impl IncidentLayout {
    /// The incident of a run that says most; none if nothing was violated.
    pub(crate) fn of(history: &History, result: &RunResult) -> Option<Self> {
        let groups = groups(&result.invariants);
        let group = most_telling(&groups)?;
        let (first, witness) = group.first()?;
        let mut facts = IncidentFacts::of(history, group)?;
        let mut notes = Vec::new();
        let keys = key_lane::owners(&facts, &mut notes);
        if group.findings.iter().all(|(it, _)| it.level == Level::Progress) {
            facts.add_waiting();
        }
        facts.keep_clients(LANES_MOST - keys.len(), &mut notes);
        leave_out_the_aftermath(&mut facts, group);

        let mut lanes: Vec<IncidentLane> =
            keys.iter().map(|owner| key_lane::lane(&facts, *owner)).collect();
        let (mut of_clients, mut holds) = (Vec::new(), Vec::new());
        for &client in &facts.clients {
            let (lane, held) = client_lane::lane(&facts, client);
            of_clients.push((facts.first_ns(client, &lane), lane));
            holds.extend(held);
        }
        // From above to below in the order in which they had the lock.
        of_clients.sort_by_key(|it| it.0);
        lanes.extend(of_clients.into_iter().map(|it| it.1));
        let missed = notice::missed(&facts, &keys);
        lanes.iter_mut().for_each(|lane| notice::mark(&missed, lane));
        let left_out: usize = lanes.iter_mut().map(thin_out).sum();
        if left_out > 0 {
            let marks = counted(left_out as u64, "mark");
            notes.push(format!("{marks} in the middle left out."));
        }
        let messages = message::messages(&facts, &keys, &mut notes);
        let bands = bands(&facts, group, &holds);
        if !messages.is_empty() {
            notes.push("When the server acted is estimated between request and reply.".to_owned());
        }
        // A sum over the whole run, such as how many updates were lost, is no incident.
        let others = groups.iter().filter(|it| it.has_clients()).count().saturating_sub(1);
        if others > 0 {
            let others = counted(others as u64, "other incident");
            notes.push(format!("{others} of this run not drawn."));
        }
        let title = cause(&facts, first.level, &missed, &holds);
        let title = title.unwrap_or_else(|| witness.summary.clone());
        let (mut told, mut also) = (BTreeSet::from([title.as_str()]), Vec::new());
        for (it, witness) in &group.findings {
            if told.insert(&witness.summary) {
                also.push(text(&format!("{}: {}", it.level.name(), witness.summary)));
            }
        }
        if first.level == Level::Key && also.is_empty() {
            also.extend(risk(&facts, &holds));
        }
        let RunResult { scenario, lock, world, seed, .. } = result;
        let layout = Self {
            title: text(&title),
            also,
            why: why(&facts, first.level, lock),
            run: text(&format!(
                "{} violated in scenario {scenario}, lock {lock}, world {world}, seed {seed}",
                first.level.name()
            )),
            from_ns: facts.from_ns,
            until_ns: facts.until_ns,
            lanes,
            messages,
            missed,
            bands,
            notes,
        };
        let is_empty = layout.lanes.iter().all(|it| it.bars.is_empty() && it.marks.is_empty());
        (!is_empty).then_some(layout)
    }
}

/// Ends the picture with the harm, where the story is of nothing else: with the hold of whoever was harmed, or the last write.
fn leave_out_the_aftermath(facts: &mut IncidentFacts<'_>, group: &FindingGroup<'_>) {
    if !group.findings.iter().all(|(it, _)| OF_HARM.contains(&it.name.as_str())) {
        return;
    }
    let (mut holds, mut ends) = (Vec::new(), Vec::new());
    for &client in &facts.clients {
        let (lane, held) = client_lane::lane(facts, client);
        ends.extend(lane.marks.iter().filter(|it| it.harms || it.tells()).map(|it| it.at_ns));
        holds.extend(held);
    }
    let overlaps = bands(facts, group, &holds);
    ends.extend(overlaps.iter().map(|it| it.until_ns));
    let accused = facts.exchanges.iter().filter(|it| facts.accused.contains(&it.op));
    ends.extend(accused.map(history::exchange::Exchange::last_ns));
    for tenure in &facts.tenures {
        let is_ended = tenure.end.op().is_some_and(|op| facts.accused.contains(&op));
        let theirs = holds.iter().filter(|it| is_ended && it.acquisition == tenure.acquisition);
        ends.extend(theirs.map(|it| it.until_ns));
    }
    if let Some(until_ns) = ends.into_iter().max().filter(|it| *it > facts.from_ns) {
        facts.until_ns = facts.until_ns.min(until_ns);
    }
}

/// What had struck the clients of the incident until its end, and where safety is violated, every known flaw of the
/// recipe: the history does not say which of them it shows.
fn why(facts: &IncidentFacts<'_>, level: Level, lock: &str) -> String {
    let mut struck = Vec::new();
    for event in facts.history.events.iter().rev().filter(|it| it.at_ns <= facts.until_ns) {
        if let What::Fault { fault, .. } = event.what {
            let whom = match event.client {
                0 => String::new(),
                client if facts.clients.contains(&client) => format!(" (client {client})"),
                _ => continue,
            };
            let fault = format!("{}{whom}", fault.name());
            if !struck.contains(&fault) && struck.len() < FAULTS_MOST {
                struck.push(fault);
            }
        }
    }
    struck.reverse();
    let faults = (!struck.is_empty()).then(|| format!("Struck by: {}.", struck.join(", ")));
    let flaw = recipe::about(lock).ok().and_then(|it| it.flaw);
    let flaws = flaw.filter(|_| level != Level::Progress).map(|it| {
        let flaws = if it.contains("; ") { "flaws" } else { "flaw" };
        format!("Known {flaws} of {lock}: {it}.")
    });
    text(&[faults, flaws].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Leaves out marks of a lane that has too many: those in the middle but for the first that do harm. How many.
fn thin_out(lane: &mut IncidentLane) -> usize {
    let all = lane.marks.len();
    if all > MARKS_MOST {
        let ends = MARKS_MOST / 2;
        let (mut place, mut harmful) = (0..all, 0);
        lane.marks.retain(|mark| {
            let place = place.next().unwrap_or(all);
            harmful += usize::from(mark.harms);
            let is_first_harm = mark.harms && harmful <= HARMS_MOST;
            place < ends || place >= all - ends || is_first_harm
        });
    }
    all - lane.marks.len()
}
