//! What a soak has found: many pairs of a scenario and a recipe, in turn, each time with fresh seeds.
//!
//! Invariant: it is as large after a billion schedules as after a thousand; and what is counted is what was run, each turn once,
//! however often the soak was ended and gone on with.

use std::collections::BTreeSet;
use std::ops::Range;

use history::verdict::{Level, Outcome};
use serde::{Deserialize, Serialize};

use crate::matrix::{Cell, Conformance, VerdictCounts};
use crate::scenario::Scenario;
use crate::sweep::Sweep;

/// So many seeds a pair has in a turn.
const SEEDS: u64 = 10;
/// The same with many clients.
const SEEDS_CROWDED: u64 = 1;

/// What was found so far, and where to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Soak {
    /// All seeds are drawn from this.
    pub base: u64,
    /// The first turn that nobody has begun.
    pub next: u64,
    /// Turns before it that are not done.
    pub open: BTreeSet<u64>,
    /// What all schedules have shown together. Seeds are not kept: a seed alone names no schedule.
    pub whole: Sweep,
    /// Each pair.
    pub pairs: Vec<SoakedPair>,
    /// What ended it: the first violation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conviction: Option<SoakConviction>,
    /// The open turns that somebody is at.
    #[serde(skip)]
    running: BTreeSet<u64>,
}

/// What one pair has run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakedPair {
    /// The scenario's name.
    pub scenario: String,
    /// The recipe's name.
    pub lock: String,
    /// How many schedules.
    pub schedules: u64,
    /// In how many of them a fault struck while a client held the lock.
    pub met_hold: u64,
    /// How many of them showed nothing.
    pub vacuous: u64,
    /// How many of them violated something that the scenario expects to be violated, or of which it claims nothing.
    #[serde(default)]
    pub expected: u64,
}

/// A schedule that violates what is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoakConviction {
    /// The scenario's name.
    pub scenario: String,
    /// The recipe's name.
    pub lock: String,
    /// The seed.
    pub seed: u64,
    /// The nearest level that it violates.
    pub level: Level,
}

/// One sitting of a soak: from its start to its end, or to the signal that ended it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sitting {
    /// When it began, such as `2026-11-21T06:15:00Z`.
    pub started_utc: String,
    /// How long it lasted, in nanoseconds of the user's time.
    pub lasted_ns: u64,
    /// How many schedules it ran.
    pub schedules: u64,
    /// The memory of the process at the end, in bytes; 0 where the system does not tell.
    pub memory_bytes: u64,
    /// The most memory that it had.
    pub highest_bytes: u64,
}

/// One pair's turn in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its number among all turns of the soak.
    number: u64,
    /// The pair, by its place among the pairs.
    pub place: usize,
    /// The seeds that it runs.
    pub seeds: Range<u64>,
}

impl Soak {
    /// A soak of these pairs, of which nothing has been run.
    pub fn new<'a>(base: u64, pairs: impl IntoIterator<Item = &'a Scenario>) -> Self {
        let pair = |it: &Scenario| SoakedPair {
            scenario: it.name.clone(),
            lock: it.lock.recipe.clone(),
            ..SoakedPair::default()
        };
        Self { base, pairs: pairs.into_iter().map(pair).collect(), ..Self::default() }
    }

    /// The next turn, for whoever asks: one that was left, or else a new one. `is_crowded` says of a
    /// pair whether it has many clients.
    pub fn take(&mut self, is_crowded: impl Fn(usize) -> bool) -> Turn {
        let left = self.open.difference(&self.running).next().copied();
        let number = left.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.open.insert(number);
        self.running.insert(number);
        let (pairs, round) = (self.pairs.len() as u64, number / self.pairs.len() as u64);
        // Below the number of pairs, which are in memory.
        let place = usize::try_from(number % pairs).unwrap_or(0);
        let seeds = if is_crowded(place) { SEEDS_CROWDED } else { SEEDS };
        let first = drawn(self.base, round);
        Turn { number, place, seeds: first..first + seeds }
    }

    /// Gives a turn back that was not run to its end.
    pub fn leave(&mut self, turn: &Turn) {
        self.running.remove(&turn.number);
    }

    /// Counts a turn, and what it convicts the recipe of, if anything.
    pub fn done(&mut self, turn: &Turn, scenario: &Scenario, mut found: Sweep) {
        self.running.remove(&turn.number);
        self.open.remove(&turn.number);
        let pair = &mut self.pairs[turn.place];
        pair.schedules += found.schedules;
        pair.met_hold += found.met_hold;
        pair.vacuous += found.vacuous.values().map(|it| it.schedules).sum::<u64>();
        let conviction = convicted(scenario, &found).map(|(seed, level)| SoakConviction {
            scenario: pair.scenario.clone(),
            lock: pair.lock.clone(),
            seed,
            level,
        });
        if conviction.is_none() {
            pair.expected += found.violations;
        }
        if self.conviction.is_none() {
            self.conviction = conviction;
        }
        found.kinds.clear();
        self.whole.merge(found, 0);
    }

    /// How many pairs have not had a turn yet.
    pub fn missing(&self) -> usize {
        self.pairs.iter().filter(|it| it.schedules == 0).count()
    }

    /// How often a fault struck a hold.
    pub fn strikes_in_holds(&self) -> u64 {
        self.whole.coverage.values().map(|it| it.in_hold).sum()
    }

    /// What it shows so far.
    pub fn verdict(&self) -> Outcome {
        match () {
            () if self.conviction.is_some() => Outcome::Violated,
            () if self.missing() > 0 => Outcome::Inconclusive,
            () => Outcome::Held,
        }
    }
}

/// The lowest seed that violates what is claimed of this recipe, and the nearest level at which it does. A flawed recipe is
/// there only where the user has asked for it, and everything that it violates counts.
fn convicted(scenario: &Scenario, found: &Sweep) -> Option<(u64, Level)> {
    let about = scenario.about_lock();
    let counts = |level: Level| {
        let violated = VerdictCounts { violated: 1, ..VerdictCounts::default() };
        let cell = Cell::of(level, scenario.expected(about.name, level), violated, about, true);
        about.flaw.is_some() || cell.standing == Conformance::Different
    };
    let of_claims = found.invariants.iter().filter(|it| counts(it.level));
    of_claims.filter_map(|it| Some((it.first_violated?, it.level))).min()
}

/// The first seed of a round: splitmix64, cut to what every JSON reader can hold.
fn drawn(base: u64, round: u64) -> u64 {
    let mut bits = base.wrapping_add(round.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) >> 12
}

#[cfg(test)]
mod tests;
