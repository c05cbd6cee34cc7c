//! Turns a schedule that was drawn into one in which everything is staged: each fault at the place at which it struck.
//!
//! Invariant: the result is a schedule of [`Base`], in which nothing is drawn. It violates the same invariant at the
//! same level, and one client harms another, or itself, as before. If no schedule does, there is no result.

mod strikes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use harness::world::{RunError, RunRequest, World};
use history::fault::{Staged, Whom};
use history::verdict::{Finding, Verdict};
use scenarios::distribution::Distribution;
use scenarios::scenario::{Scenario, WorkloadPart};
use scenarios::span::Span;
use scenarios::topology::TopologyPart;

use self::strikes::{Readings, strikes};
use super::base::{Base, SEED, least, one_behind_the_other};
use super::bounds::Size;
use super::candidate::Candidate;
use super::search::FoundSchedule;
use super::shrink_drawn::DrawnSchedule;
use super::violation::Violation;

/// The schedule with everything staged, and the world in which it violates the same; none if it could not be staged.
///
/// # Errors
/// [`RunError`] where a schedule cannot be run.
pub fn staged(
    world: &mut impl World,
    schedule: &DrawnSchedule,
) -> Result<Option<(Base, FoundSchedule)>, RunError> {
    let run = world.run(&schedule.request())?;
    let concerned = concerned(&run.findings(), &schedule.violation);
    let scenario = &*schedule.scenario;
    let struck = strikes(&run.history, scenario);
    world.recycle(run);
    // A client that was paused was also answered late: without the late answers, fewer faults are enough.
    for late in [false, true] {
        let those = struck.iter().filter(|it| late || !it.is_late);
        let faults: Vec<Readings> = those.map(|it| it.readings.clone()).collect();
        for is_compact in [true, false] {
            let Some(numbers) = numbers(scenario, &concerned, &faults, is_compact) else {
                continue;
            };
            let clients = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let networks = [least(scenario, &numbers), one_behind_the_other(clients)];
            let lagging = with_constant_lags(scenario);
            for (network, still) in
                networks.iter().flat_map(|it| lagging.iter().map(move |lag| (it, lag)))
            {
                let base = Base::of_run(still.clone(), network.clone());
                let size = Size { clients, rounds: scenario.workload.rounds() };
                let drop = match &scenario.workload {
                    WorkloadPart::Register(register) => register.drop,
                    WorkloadPart::BonusPool(_) => None,
                };
                for faults in readings(&faults) {
                    let faults = faults.into_iter().map(|it| renumbered(it, &numbers)).collect();
                    let candidate = Candidate { size, drop, faults };
                    if let Some(violation) = violates(world, &base, &candidate, schedule)? {
                        return Ok(Some((base, FoundSchedule { candidate, violation })));
                    }
                }
            }
        }
    }
    Ok(None)
}

/// The scenario with each lag of a replica as short as it may be, as it is most often, and as long: once, if none is drawn.
fn with_constant_lags(scenario: &Scenario) -> Vec<Scenario> {
    let with = |choice| {
        let mut still = scenario.clone();
        let TopologyPart { lag, replica, .. } = &mut still.topology;
        for lag in lag.iter_mut().chain(replica.iter_mut().map(|it| &mut it.lag)) {
            let ns = lag.sampler().at(choice);
            *lag = Distribution::Constant(Span(Duration::from_nanos(ns)));
        }
        still
    };
    let mut all: Vec<Scenario> = [0, u32::MAX / 2, u32::MAX].map(with).into();
    all.dedup();
    all
}

/// The violation of the candidate that is like the schedule's, with the clients that are struck in it.
fn violates(
    world: &mut impl World,
    base: &Base,
    candidate: &Candidate,
    schedule: &DrawnSchedule,
) -> Result<Option<Violation>, RunError> {
    let scenario = Arc::new(base.scenario(candidate));
    let run = match world.run(&RunRequest::new(scenario, SEED)) {
        // The lock cannot work with what is left of its scenario.
        Err(RunError::Build(_) | RunError::Impossible { .. }) => return Ok(None),
        run => run?,
    };
    let findings = run.findings();
    world.recycle(run);
    let all = Violation::all(&findings, &candidate.faults);
    Ok(all.into_iter().find(|it| it.is_like(&schedule.violation)))
}

/// The clients of the witness.
fn concerned(findings: &[Finding], violation: &Violation) -> BTreeSet<u32> {
    let of =
        findings.iter().filter(|it| (it.name, it.level) == (violation.invariant, violation.level));
    let clients = of.flat_map(|it| match &it.verdict {
        Verdict::Violated(witness) => witness.clients.clone(),
        _ => Vec::new(),
    });
    clients.filter(|client| *client > 0).collect()
}

/// The clients that are kept, by their old numbers: all, or those that are concerned or struck, at least two. None if
/// `is_compact` leaves nobody out.
fn numbers(
    scenario: &Scenario,
    concerned: &BTreeSet<u32>,
    faults: &[Readings],
    is_compact: bool,
) -> Option<Vec<u32>> {
    let all: Vec<u32> = (1..=scenario.clients).collect();
    if !is_compact {
        return Some(all);
    }
    let struck = faults.iter().flatten().filter_map(|it| match it.on {
        Some(Whom::Client(client)) => Some(client),
        _ => None,
    });
    let mut kept: BTreeSet<u32> = concerned.iter().copied().chain(struck).collect();
    for client in &all {
        if kept.len() < 2 {
            kept.insert(*client);
        }
    }
    (kept.len() < all.len()).then(|| kept.into_iter().collect())
}

/// The fault, with the new number of its client.
fn renumbered(mut fault: Staged, numbers: &[u32]) -> Staged {
    if let Some(Whom::Client(client)) = fault.on {
        let place = numbers.iter().position(|it| *it == client).unwrap_or(0);
        fault.on = Some(Whom::Client(u32::try_from(place + 1).unwrap_or(u32::MAX)));
    }
    fault
}

/// Every fault in its likeliest reading; and then each time one of them in another reading.
fn readings(faults: &[Readings]) -> Vec<Vec<Staged>> {
    let likeliest: Vec<Staged> = faults.iter().filter_map(|it| it.first().cloned()).collect();
    let mut all = vec![likeliest.clone()];
    for (place, readings) in faults.iter().enumerate() {
        all.extend(readings.iter().skip(1).map(|other| {
            let mut otherwise = likeliest.clone();
            otherwise[place] = other.clone();
            otherwise
        }));
    }
    all
}
