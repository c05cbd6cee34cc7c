//! Sweeps: many seeds, on every core.
//!
//! Invariant: what is found depends on the scenario and the seeds, not on how many threads look, nor
//! in which order they come. Deliberately absent: shrinking what is found.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use scenarios::checker;
use scenarios::fault::Fault;
use scenarios::history::{History, What};
use scenarios::recipe::BuildError;
use scenarios::scenario::Scenario;
use scenarios::verdict::{Level, Outcome};

use super::choices::Choices;
use super::run::{Runner, Schedule};

/// What a sweep has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// How many schedules were run.
    pub schedules: u64,
    /// Virtual nanoseconds of all of them.
    pub virtual_ns: u128,
    /// Events and polls of all of them.
    pub events: u64,
    /// Operations in their histories.
    pub operations: u64,
    /// For each invariant, how many schedules had each outcome.
    pub invariants: BTreeMap<(Level, &'static str), BTreeMap<Outcome, u64>>,
    /// For each fault, how often it struck, how often in a hold, and in how many schedules.
    pub coverage: BTreeMap<Fault, Coverage>,
    /// The lowest seeds that violated something, and what.
    pub failing: BTreeMap<u64, Vec<&'static str>>,
    /// How many seeds violated something.
    pub violations: u64,
}

/// How often a fault struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// How often.
    pub strikes: u64,
    /// How often while a client held the lock that it struck, or any client where it struck nobody
    /// in particular.
    pub in_hold: u64,
    /// In how many schedules.
    pub schedules: u64,
}

impl Sweep {
    /// The worst outcome of any schedule at this level.
    pub fn level(&self, level: Level) -> Outcome {
        let of_level = self.invariants.iter().filter(|((it, _), _)| *it == level);
        let outcomes = of_level.flat_map(|(_, outcomes)| outcomes.keys().copied());
        outcomes.max().unwrap_or(Outcome::NotApplicable)
    }

    fn add(&mut self, seed: u64, schedule: &Schedule, history: &History, keep: usize) {
        self.schedules += 1;
        self.virtual_ns += u128::from(schedule.virtual_ns);
        self.events += schedule.events;
        let mut struck = BTreeMap::<Fault, Coverage>::new();
        for event in &history.events {
            if let What::Fault { fault, in_hold, .. } = event.what {
                let it = struck.entry(fault).or_default();
                it.strikes += 1;
                it.in_hold += u64::from(in_hold);
                it.schedules = 1;
            }
        }
        self.operations += history.operations();
        for (fault, it) in struck {
            self.coverage.entry(fault).or_default().add(it);
        }
        let mut violated = Vec::new();
        for finding in checker::check(history, true) {
            let outcome = finding.verdict.outcome();
            if outcome == Outcome::Violated {
                violated.push(finding.name);
            }
            let outcomes = self.invariants.entry((finding.level, finding.name)).or_default();
            *outcomes.entry(outcome).or_default() += 1;
        }
        if schedule.stuck > 0 {
            violated.push("stuck");
        }
        if !violated.is_empty() {
            self.violations += 1;
            self.failing.insert(seed, violated);
            if self.failing.len() > keep {
                self.failing.pop_last();
            }
        }
    }

    fn merge(&mut self, other: Self, keep: usize) {
        self.schedules += other.schedules;
        self.virtual_ns += other.virtual_ns;
        self.events += other.events;
        self.operations += other.operations;
        self.violations += other.violations;
        for (name, outcomes) in other.invariants {
            let mine = self.invariants.entry(name).or_default();
            for (outcome, count) in outcomes {
                *mine.entry(outcome).or_default() += count;
            }
        }
        for (fault, it) in other.coverage {
            self.coverage.entry(fault).or_default().add(it);
        }
        self.failing.extend(other.failing);
        while self.failing.len() > keep {
            self.failing.pop_last();
        }
    }
}

impl Coverage {
    fn add(&mut self, other: Self) {
        self.strikes += other.strikes;
        self.in_hold += other.in_hold;
        self.schedules += other.schedules;
    }
}

/// Runs every seed of the range on so many threads, keeping the lowest `keep` that fail. `done` is
/// counted up meanwhile; once `stop` is true no further seed is begun.
///
/// # Errors
/// [`BuildError`] where the recipe cannot work with the scenario's parameters.
pub fn sweep(
    scenario: &Scenario,
    seeds: Range<u64>,
    threads: usize,
    keep: usize,
    done: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Sweep, BuildError> {
    // Looked at before any thread begins, so that what is wrong is said once.
    drop(Runner::new(scenario)?);
    let next = AtomicU64::new(seeds.start);
    let whole = Mutex::new(Sweep::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let Ok(mut runner) = Runner::new(scenario) else { return };
                let mut part = Sweep::default();
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let schedule = runner.run(seed, Choices::seeded(seed));
                    runner.journal().look(|history| part.add(seed, &schedule, history, keep));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                let mut whole = whole.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                whole.merge(part, keep);
            });
        }
    });
    Ok(whole.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use scenarios::scenario::Overrides;

    use super::*;

    #[test]
    fn what_is_found_does_not_depend_on_the_number_of_threads() {
        let text = scenarios::catalog::text("bonus-pool").unwrap();
        for lock in ["single", "none"] {
            let overrides = Overrides { lock: Some(lock.to_owned()), ..Overrides::default() };
            let scenario = Scenario::parse("pool", "pool.toml", text, &overrides).unwrap();
            let on = |threads| {
                let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
                let found = sweep(&scenario, 5..45, threads, 3, &done, &stop).unwrap();
                assert_eq!(done.into_inner(), 40);
                found
            };
            let alone = on(1);
            assert_eq!(alone.schedules, 40);
            assert_eq!(on(2), alone);
            assert_eq!(on(7), alone);
            assert_eq!(alone.failing.len(), if lock == "none" { 3 } else { 0 });
        }
    }
}
