//! Which fault decides a violation: how often the same is violated with only the first faults, while latencies vary.
//!
//! Invariant: only latencies are drawn, each from half to twice that of the schedule, and every row draws the same
//! ones. So rows differ only by their faults. They do not say how likely a fault is.

use std::sync::Arc;

use harness::world::{RunError, RunRequest, World};
use history::verdict::Verdict;
use scenarios::distribution::{Distribution, Uniform};
use scenarios::scenario::Scenario;
use scenarios::span::Span;

use super::base::Base;
use super::search::FoundSchedule;

/// How many schedules a row counts.
pub const DRAWN: u64 = 400;

/// How many of [`DRAWN`] schedules violate the same invariant: without a fault, with the first, and so on to all.
///
/// # Errors
/// [`RunError`] where a schedule cannot be run.
pub fn explain(
    world: &mut impl World,
    base: &Base,
    found: &FoundSchedule,
) -> Result<Vec<u64>, RunError> {
    let mut rows = Vec::new();
    for many in 0..=found.candidate.count() {
        let scenario = Arc::new(drawn(base.scenario(&found.candidate.up_to(many))));
        let mut violated = 0;
        for seed in 1..=DRAWN {
            let run = world.run(&RunRequest::new(Arc::clone(&scenario), seed))?;
            let same = run.findings().into_iter().any(|it| {
                (it.name, it.level) == (found.violation.invariant, found.violation.level)
                    && matches!(it.verdict, Verdict::Violated(_))
            });
            violated += u64::from(same);
            world.recycle(run);
        }
        rows.push(violated);
    }
    Ok(rows)
}

/// The scenario with latencies that are drawn.
fn drawn(mut scenario: Scenario) -> Scenario {
    let around = |latency: &mut Distribution| {
        if let Distribution::Constant(Span(span)) = *latency {
            let bounds = Uniform::new(Span(span / 2), Span(span * 2));
            *latency =
                Distribution::Uniform(bounds.expect("half of it is no more than twice of it"));
        }
    };
    around(&mut scenario.network.latency);
    scenario.network.link.iter_mut().for_each(|link| around(&mut link.latency));
    scenario
}
