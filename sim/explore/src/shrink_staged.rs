//! Shrinks a schedule of staged faults, and rounds its durations.
//!
//! Invariant: a step is kept only if the same invariant is violated at the same level by clients in the same roles, and
//! no client of the witness is struck that was not before. No step makes a schedule larger, so shrinking ends.

use std::sync::Arc;
use std::time::Duration;

use harness::world::{RunError, RunRequest, World};
use history::fault::{Staged, Trigger, Whom};
use scenarios::span::Span;

use super::base::{Base, SEED};
use super::bounds::Size;
use super::candidate::Candidate;
use super::search::FoundSchedule;
use super::violation::Violation;

/// Durations that are easy to read.
const ROUND_MS: [u64; 12] = [10, 20, 50, 100, 150, 200, 250, 300, 400, 500, 600, 1_000];

/// The smallest schedule that this one can be made into.
///
/// # Errors
/// [`RunError`] if one cannot be run.
pub fn shrink_staged(
    world: &mut impl World,
    base: &Base,
    found: &FoundSchedule,
) -> Result<FoundSchedule, RunError> {
    let mut smallest = found.clone();
    // The first steps save most. After each step that succeeds, all are tried again.
    'again: loop {
        for candidate in smaller(&smallest.candidate) {
            if let Some(violation) = violates(world, base, &candidate, &smallest.violation)? {
                smallest = FoundSchedule { candidate, violation };
                continue 'again;
            }
        }
        break;
    }
    Ok(smallest)
}

/// The same violation in this schedule. A client that no fault strikes any more need not have been struck.
fn violates(
    world: &mut impl World,
    base: &Base,
    candidate: &Candidate,
    violation: &Violation,
) -> Result<Option<Violation>, RunError> {
    let scenario = Arc::new(base.scenario(candidate));
    let run = world.run(&RunRequest::new(scenario, SEED))?;
    let all = Violation::all(&run.findings(), &candidate.faults);
    world.recycle(run);
    Ok(all.into_iter().find(|it| it.is_within(violation)))
}

/// The candidates that are smaller by one step, the largest step first.
fn smaller(candidate: &Candidate) -> Vec<Candidate> {
    let Candidate { size: Size { clients, rounds }, drop, faults } = candidate;
    let mut all = Vec::new();
    if drop.is_some() {
        all.push(Candidate { drop: None, ..candidate.clone() });
    }
    let places = 0..faults.len();
    all.extend(places.clone().map(|nth| {
        let mut fewer = faults.clone();
        fewer.remove(nth);
        Candidate { faults: fewer, ..candidate.clone() }
    }));
    let is_struck = |client: u32| faults.iter().any(|it| it.on == Some(Whom::Client(client)));
    if *clients > 2 {
        let idle = (1..=*clients).rev().filter(|client| !is_struck(*client));
        all.extend(idle.map(|client| without(candidate, client)));
    }
    if *rounds > 1 {
        all.push(Candidate {
            size: Size { clients: *clients, rounds: rounds - 1 },
            ..candidate.clone()
        });
    }
    for nth in places {
        all.extend(simpler(&faults[nth]).into_iter().map(|fault| {
            let mut faults = faults.clone();
            faults[nth] = fault;
            Candidate { faults, ..candidate.clone() }
        }));
    }
    all
}

/// The same without this client; the numbers of later clients are one lower.
fn without(candidate: &Candidate, gone: u32) -> Candidate {
    let mut fewer = candidate.clone();
    fewer.size.clients -= 1;
    for fault in &mut fewer.faults {
        if let Some(Whom::Client(client)) = &mut fault.on
            && *client > gone
        {
            *client -= 1;
        }
    }
    fewer
}

/// The fault in fewer words, in less time, or sooner.
fn simpler(fault: &Staged) -> Vec<Staged> {
    let mut all = match (fault.until, fault.lasts) {
        // An event says more than a time, and is the same in every world.
        (Some(_), Some(_)) => vec![Staged { lasts: None, ..fault.clone() }],
        (None, Some(lasts)) => {
            shorter(lasts).map(|it| Staged { lasts: Some(it), ..fault.clone() }).collect()
        }
        _ => Vec::new(),
    };
    all.extend(earlier(&fault.at).map(|at| Staged { at, ..fault.clone() }));
    all
}

/// Triggers that are reached earlier.
fn earlier(at: &Trigger) -> impl Iterator<Item = Trigger> {
    let at_once = at.after.is_some().then(|| Trigger { after: None, ..at.clone() });
    let after = at.after.into_iter().flat_map(shorter);
    let after = after.map(|it| Trigger { after: Some(it), ..at.clone() });
    let time = at.time.into_iter().flat_map(shorter);
    let time = time.map(|it| Trigger { time: Some(it), ..at.clone() });
    let nth = (1..at.nth.unwrap_or(1)).map(|nth| Some(nth).filter(|nth| *nth > 1));
    let nth = nth.map(|nth| Trigger { nth, ..at.clone() });
    at_once.into_iter().chain(after).chain(time).chain(nth).collect::<Vec<_>>().into_iter()
}

/// Shorter times that are easy to read, the shortest first.
fn shorter(Span(span): Span) -> impl Iterator<Item = Span> {
    ROUND_MS.into_iter().map(Duration::from_millis).take_while(move |it| *it < span).map(Span)
}
