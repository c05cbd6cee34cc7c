//! Makes a schedule that violates something smaller, and its durations round.
//!
//! Invariant: every step is kept only where the same invariant is violated at the same level by clients in the same roles.
//! No step makes a schedule larger, so it comes to an end.

use std::sync::Arc;
use std::time::Duration;

use harness::world::{RunError, RunRequest, World};
use history::fault::Staged;
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
/// [`RunError`] where one cannot be run.
pub fn shrink(
    world: &mut impl World,
    base: &Base,
    found: &FoundSchedule,
) -> Result<FoundSchedule, RunError> {
    let mut smallest = found.candidate.clone();
    // What comes first saves most. After each step that succeeds all are tried again.
    'again: loop {
        for smaller in smaller(&smallest) {
            if violates(world, base, &smaller, &found.violation)? {
                smallest = smaller;
                continue 'again;
            }
        }
        break;
    }
    Ok(FoundSchedule { candidate: smallest, violation: found.violation.clone() })
}

/// Whether the schedule violates the same.
fn violates(
    world: &mut impl World,
    base: &Base,
    candidate: &Candidate,
    violation: &Violation,
) -> Result<bool, RunError> {
    let scenario = Arc::new(base.scenario(candidate));
    let run = world.run(&RunRequest::new(scenario, SEED))?;
    let all = Violation::all(&run.findings(), &candidate.faults);
    world.recycle(run);
    Ok(all.contains(violation))
}

/// What is smaller by a step, the greatest step first.
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
    let last =
        |client: u32| faults.iter().any(|it| it.on == Some(history::fault::Whom::Client(client)));
    if *clients > 2 && !last(*clients) {
        all.push(Candidate {
            size: Size { clients: clients - 1, rounds: *rounds },
            ..candidate.clone()
        });
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

/// The fault in fewer words, or in less time.
fn simpler(fault: &Staged) -> Vec<Staged> {
    match (fault.until, fault.lasts) {
        // An event says more than a time, and is the same in every world.
        (Some(_), Some(_)) => vec![Staged { lasts: None, ..fault.clone() }],
        (None, Some(Span(lasts))) => {
            let shorter = ROUND_MS.map(Duration::from_millis).into_iter();
            let shorter = shorter.take_while(|it| *it < lasts);
            shorter.map(|it| Staged { lasts: Some(Span(it)), ..fault.clone() }).collect()
        }
        _ => Vec::new(),
    }
}
