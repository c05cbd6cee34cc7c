//! What many schedules of one scenario have shown.
//!
//! Invariant: adding up does not depend on the order; over many schedules, violated counts before
//! inconclusive, and inconclusive before held. Deliberately absent: running them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::checker;
use crate::fault::Fault;
use crate::history::{History, What};
use crate::verdict::{Level, Outcome, worst};

/// The name under which tasks that wait for ever are found, at level progress.
const STUCK: &str = "nobody-stuck";

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// How many schedules were run.
    pub schedules: u64,
    /// Virtual nanoseconds of all of them.
    pub virtual_ns: u64,
    /// Events and polls of all of them.
    pub events: u64,
    /// Operations in their histories.
    pub operations: u64,
    /// Each invariant, in the order in which they are checked.
    pub invariants: Vec<Counts>,
    /// How often each fault struck.
    pub coverage: BTreeMap<Fault, Coverage>,
    /// In how many schedules some fault struck while a client held the lock.
    pub met_hold: u64,
    /// How many schedules violated something.
    pub violations: u64,
    /// The lowest of their seeds, and what each violated.
    pub failing: BTreeMap<u64, Vec<String>>,
    /// A digest of all histories, whatever their order, where one was asked for: two sweeps of the
    /// same seeds with the same digest had the same histories, byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// The digests of histories, each combined with its seed, all joined by exclusive or.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest(pub [u64; 2]);

impl Digest {
    fn join(mine: &mut Option<Self>, theirs: Option<Self>) {
        if let Some(Self(theirs)) = theirs {
            let Self(mine) = mine.get_or_insert_default();
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine ^= theirs);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// In how many schedules an invariant had each outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Its name.
    pub name: String,
    /// Its level.
    pub level: Level,
    /// It held.
    pub held: u64,
    /// It was violated.
    pub violated: u64,
    /// The schedule does not say.
    pub inconclusive: u64,
    /// It makes no statement.
    pub not_applicable: u64,
}

/// How often a fault struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// How often.
    pub strikes: u64,
    /// How often while a client held the lock: the one it struck, or any where it struck nobody in
    /// particular.
    pub in_hold: u64,
    /// In how many schedules.
    pub schedules: u64,
    /// In how many schedules while a client held the lock.
    pub schedules_in_hold: u64,
}

/// What a schedule's history does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// How long it took, in virtual nanoseconds.
    pub virtual_ns: u64,
    /// How many events and polls it was made of.
    pub events: u64,
    /// Tasks that were still waiting when everything had been put right and time was up.
    pub stuck: usize,
    /// The digest of its history and seed, where one was asked for.
    pub digest: Option<Digest>,
}

impl Counts {
    fn new(name: &str, level: Level) -> Self {
        let name = name.to_owned();
        Self { name, level, held: 0, violated: 0, inconclusive: 0, not_applicable: 0 }
    }

    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Held => self.held += 1,
            Outcome::Violated => self.violated += 1,
            Outcome::Inconclusive => self.inconclusive += 1,
            Outcome::NotApplicable => self.not_applicable += 1,
        }
    }

    /// The worst outcome of any schedule; an invariant that says something of some schedules and
    /// nothing of others is judged by those.
    pub fn outcome(&self) -> Outcome {
        match () {
            () if self.violated > 0 => Outcome::Violated,
            () if self.inconclusive > 0 => Outcome::Inconclusive,
            () if self.held > 0 => Outcome::Held,
            () => Outcome::NotApplicable,
        }
    }
}

impl Coverage {
    fn add(&mut self, other: Self) {
        self.strikes += other.strikes;
        self.in_hold += other.in_hold;
        self.schedules += other.schedules;
        self.schedules_in_hold += other.schedules_in_hold;
    }
}

impl Sweep {
    /// The worst outcome at this level.
    pub fn level(&self, level: Level) -> Outcome {
        let of_level = self.invariants.iter().filter(|it| it.level == level);
        worst(of_level.map(Counts::outcome))
    }

    /// The worst outcome of all.
    pub fn verdict(&self) -> Outcome {
        worst(self.invariants.iter().map(Counts::outcome))
    }

    /// Adds a schedule, keeping the lowest `keep` seeds that fail.
    pub fn add(&mut self, seed: u64, history: &History, facts: Facts, keep: usize) {
        self.schedules += 1;
        self.virtual_ns = self.virtual_ns.saturating_add(facts.virtual_ns);
        self.events += facts.events;
        self.operations += history.operations();
        Digest::join(&mut self.digest, facts.digest);
        let struck = strikes(history);
        self.met_hold += u64::from(struck.values().any(|it| it.in_hold > 0));
        for (fault, it) in struck {
            self.coverage.entry(fault).or_default().add(it);
        }
        let findings = checker::judge(history, true);
        let found = findings.iter().map(|it| (it.name, it.level, it.verdict.outcome()));
        let stuck = if facts.stuck > 0 { Outcome::Violated } else { Outcome::Held };
        let mut violated = Vec::new();
        for (name, level, outcome) in found.chain([(STUCK, Level::Progress, stuck)]) {
            self.counts(name, level).count(outcome);
            if outcome == Outcome::Violated {
                violated.push(name.to_owned());
            }
        }
        if !violated.is_empty() {
            self.violations += 1;
            self.failing.insert(seed, violated);
            self.keep(keep);
        }
    }

    /// Adds another sweep of the same scenario.
    pub fn merge(&mut self, other: Self, keep: usize) {
        self.schedules += other.schedules;
        self.virtual_ns = self.virtual_ns.saturating_add(other.virtual_ns);
        self.events += other.events;
        self.operations += other.operations;
        self.violations += other.violations;
        self.met_hold += other.met_hold;
        Digest::join(&mut self.digest, other.digest);
        for theirs in other.invariants {
            let mine = self.counts(&theirs.name, theirs.level);
            mine.held += theirs.held;
            mine.violated += theirs.violated;
            mine.inconclusive += theirs.inconclusive;
            mine.not_applicable += theirs.not_applicable;
        }
        for (fault, it) in other.coverage {
            self.coverage.entry(fault).or_default().add(it);
        }
        self.failing.extend(other.failing);
        self.keep(keep);
    }

    fn counts(&mut self, name: &str, level: Level) -> &mut Counts {
        let place = self.invariants.iter().position(|it| it.name == name);
        let place = place.unwrap_or_else(|| {
            self.invariants.push(Counts::new(name, level));
            self.invariants.len() - 1
        });
        &mut self.invariants[place]
    }

    fn keep(&mut self, keep: usize) {
        while self.failing.len() > keep {
            self.failing.pop_last();
        }
    }
}

/// How often each fault struck in one schedule.
fn strikes(history: &History) -> BTreeMap<Fault, Coverage> {
    let mut struck = BTreeMap::<Fault, Coverage>::new();
    for event in &history.events {
        if let What::Fault { fault, in_hold, .. } = event.what {
            let it = struck.entry(fault).or_default();
            it.strikes += 1;
            it.in_hold += u64::from(in_hold);
            it.schedules = 1;
            it.schedules_in_hold |= u64::from(in_hold);
        }
    }
    struck
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Event, Head};

    fn history(in_holds: &[bool]) -> History {
        let mut history = History::new(Head { locks: true, ..Head::default() });
        for &in_hold in in_holds {
            let what =
                What::Fault { fault: Fault::Pause, node: None, for_ns: 1, in_hold, staged: None };
            history.events.push(Event { at_ns: 0, client: 1, acquisition: 0, op: 0, what });
        }
        history
    }

    #[test]
    fn adding_up_does_not_depend_on_the_order() {
        let (stuck, fine) = (Facts { stuck: 1, ..Facts::default() }, Facts::default());
        let schedules = [
            (3, vec![true, false], stuck),
            (1, vec![], fine),
            (2, vec![false], stuck),
            (9, vec![true], stuck),
        ];
        let add = |order: &[usize]| {
            let mut sweep = Sweep::default();
            for &place in order {
                let (seed, holds, facts) = &schedules[place];
                let mut one = Sweep::default();
                one.add(*seed, &history(holds), *facts, 2);
                sweep.merge(one, 2);
            }
            sweep
        };
        let sweep = add(&[0, 1, 2, 3]);
        assert_eq!(sweep, add(&[3, 2, 1, 0]));
        assert_eq!((sweep.schedules, sweep.violations), (4, 3));
        assert_eq!(sweep.failing.keys().collect::<Vec<_>>(), [&2, &3], "the lowest two");
        let pause = sweep.coverage[&Fault::Pause];
        assert_eq!((pause.strikes, pause.in_hold), (4, 2));
        assert_eq!((pause.schedules, pause.schedules_in_hold), (3, 2));
        assert_eq!(sweep.met_hold, 2);
        assert_eq!(sweep.level(Level::Progress), Outcome::Violated);
        assert_eq!(sweep.level(Level::Belief), Outcome::Inconclusive, "nobody held anything");
    }
}
