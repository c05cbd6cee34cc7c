//! Every recipe in every scenario: what is expected, and what was found.
//!
//! Invariant: an expectation comes from the scenario's file and nowhere else; what is found is only ever
//! set beside it. A cell of which nothing is claimed is counted as such, with its reason, and never as a
//! success. What many runs show together is decided as for a sweep.

pub mod expected;

use history::fault::Swarm;
use history::verdict::{Finding, Level, Outcome, Verdict, worst};
use serde::{Deserialize, Serialize};

use crate::catalog;
use crate::recipe::{self, About};
use crate::scenario::{Overrides, Scenario, ScenarioError, ScenarioFile};
use crate::sweep::{self, InvariantCounts};

/// The version of the format.
pub const SCHEMA: &str = "picklock/matrix/1";
/// The version of the format of several matrices.
const MATRICES_SCHEMA: &str = "picklock/matrices/1";

/// Why a pair was not run if an interruption came first.
pub const INTERRUPTED: &str = "interrupted";

/// What was found of every recipe in every scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrix {
    /// The format: `picklock/matrix/1`.
    pub schema: String,
    /// The world it was found in: `virtual`, `embedded` or `redis`.
    pub world: String,
    /// The server, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Whether pairs are missing because of an interruption.
    pub interrupted: bool,
    /// The number of cells by conformance.
    pub totals: Totals,
    /// Every pair, scenario by scenario.
    pub pairs: Vec<Pair>,
}

/// A matrix of each of several servers. Only their totals are added up: what one server shows says nothing of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrices {
    /// The format: `picklock/matrices/1`.
    pub schema: String,
    /// The number of cells by conformance, of all servers.
    pub totals: Totals,
    /// The matrix on each server, in the order in which they were named.
    pub matrices: Vec<Matrix>,
}

/// One recipe in one scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The scenario's name.
    pub scenario: String,
    /// The recipe's name.
    pub lock: String,
    /// Whether the recipe has no known flaw.
    pub sound: bool,
    /// Whether the scenario's faults were searched for, not staged.
    pub searched: bool,
    /// Why this is expected, or why nothing is.
    pub why: String,
    /// Why it was not run, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// The duration of all its runs together, by the clock of their world, in nanoseconds.
    #[serde(default)]
    pub lasted_ns: u64,
    /// Why each run before the one that counts was vacuous. A vacuous run is repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_again: Vec<String>,
    /// The four levels; empty if it was not run.
    pub cells: Vec<Cell>,
}

/// One level of a pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The level.
    pub level: Level,
    /// What the scenario's file expects; `n/a` where it claims nothing.
    pub expected: Outcome,
    /// What was found.
    pub found: Outcome,
    /// Whether the two agree.
    pub standing: Conformance,
    /// What each run showed.
    pub runs: VerdictCounts,
}

/// How often each outcome was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictCounts {
    /// It held.
    pub held: u64,
    /// It was violated.
    pub violated: u64,
    /// The run cannot tell, and was not vacuous.
    pub inconclusive: u64,
    /// The run was vacuous.
    #[serde(default)]
    pub vacuous: u64,
    /// It does not apply.
    pub not_applicable: u64,
    /// The first seed that violated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_violated: Option<u64>,
}

/// What was found, beside what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conformance {
    /// The same.
    AsExpected,
    /// Nothing is claimed.
    Unclaimed,
    /// Something is claimed, and the runs cannot tell.
    Vacuous,
    /// Something else.
    Different,
}

/// The number of cells by conformance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// As expected.
    pub as_expected: u64,
    /// Not as expected.
    pub different: u64,
    /// Claimed, and the runs cannot tell.
    pub vacuous: u64,
    /// Of which nothing is claimed.
    pub unclaimed: u64,
    /// Of pairs that were not run.
    pub not_run: u64,
}

impl VerdictCounts {
    /// The counts of one run, with this seed.
    pub fn of_run(seed: u64, outcome: Outcome) -> Self {
        let mut counts = Self::default();
        counts.add(seed, outcome);
        counts
    }

    /// Adds what the run with this seed showed.
    pub fn add(&mut self, seed: u64, outcome: Outcome) {
        match outcome {
            Outcome::Held => self.held += 1,
            Outcome::Violated => {
                self.violated += 1;
                self.first_violated = Some(self.first_violated.map_or(seed, |it| it.min(seed)));
            }
            Outcome::Inconclusive => self.inconclusive += 1,
            Outcome::NotApplicable => self.not_applicable += 1,
        }
    }

    /// The counts of one run, with this seed, at this level.
    pub fn of_findings(seed: u64, findings: &[Finding], level: Level) -> Self {
        let mut counts = Self::default();
        counts.add_run(seed, findings, level);
        counts
    }

    /// Adds what the run with this seed showed at this level.
    pub fn add_run(&mut self, seed: u64, findings: &[Finding], level: Level) {
        let of_level = || findings.iter().filter(|it| it.level == level).map(|it| &it.verdict);
        match worst(of_level().map(Verdict::outcome)) {
            Outcome::Inconclusive
                if !of_level().any(|it| matches!(it, Verdict::Inconclusive(_))) =>
            {
                self.vacuous += 1;
            }
            outcome => self.add(seed, outcome),
        }
    }

    fn of(&self, outcome: Outcome) -> u64 {
        match outcome {
            Outcome::Held => self.held,
            Outcome::Violated => self.violated,
            Outcome::Inconclusive => self.inconclusive + self.vacuous,
            Outcome::NotApplicable => self.not_applicable,
        }
    }

    /// How many runs there were.
    pub fn total(&self) -> u64 {
        self.held + self.violated + self.inconclusive + self.vacuous + self.not_applicable
    }

    /// Whether every run shows this. Vacuous ones show nothing, as long as they do not outnumber the others.
    fn all_show(&self, expected: Outcome) -> bool {
        let (shown, others) = (self.of(expected), self.total() - self.of(expected));
        let is_open = expected == Outcome::Inconclusive;
        others == 0 || !is_open && others == self.vacuous && others <= shown
    }

    /// Which of its counts is impossible, if any: a file may be damaged.
    fn contradiction(&self) -> Option<String> {
        let Self { held, violated, inconclusive, vacuous, not_applicable, first_violated } = *self;
        let counts = [held, violated, inconclusive, vacuous, not_applicable];
        let sum = counts.into_iter().try_fold(0_u64, u64::checked_add);
        match () {
            () if sum.is_none() => Some("its counts have no sum".to_owned()),
            () if first_violated.is_some() != (violated > 0) => {
                Some(format!("{violated} runs violate it, and the first is wrong"))
            }
            () => None,
        }
    }

    /// What all of them show.
    fn outcome(&self) -> Outcome {
        sweep::outcome(self.held, self.violated, self.inconclusive, self.vacuous)
    }
}

impl Cell {
    /// What was found at this level by these runs, beside what was expected.
    pub fn of(
        level: Level,
        expected: Outcome,
        runs: VerdictCounts,
        about: &About,
        searched: bool,
    ) -> Self {
        Self::found(level, expected, (runs.outcome(), runs), about, searched)
    }

    fn found(
        level: Level,
        expected: Outcome,
        (found, runs): (Outcome, VerdictCounts),
        about: &About,
        searched: bool,
    ) -> Self {
        // A staged story shows the same in every run, a searched one in some.
        let agrees = found == expected && (searched || runs.all_show(expected));
        let standing = match () {
            // What a flawed recipe shows without a claim is another scenario's story.
            () if expected == Outcome::NotApplicable && about.flaw.is_some() => {
                Conformance::Unclaimed
            }
            // With random faults progress may be violated, rarely, so neither verdict can be claimed. The safety of a sound
            // recipe is always judged.
            () if expected == Outcome::NotApplicable && searched && level == Level::Progress => {
                Conformance::Unclaimed
            }
            () if agrees && expected == Outcome::NotApplicable => Conformance::Unclaimed,
            () if agrees && runs.total() > 0 => Conformance::AsExpected,
            // Where it has held, it was not violated, whatever other runs leave open.
            () if expected == Outcome::Violated && runs.held > 0 => Conformance::Different,
            () if found == Outcome::Inconclusive => Conformance::Vacuous,
            () => Conformance::Different,
        };
        Self { level, expected, found, standing, runs }
    }
}

impl Pair {
    /// Which of its counts is impossible, if any.
    pub fn contradiction(&self) -> Option<String> {
        let Self { scenario, lock, cells, .. } = self;
        cells.iter().find_map(|it| {
            let level = it.level.name();
            let why = it.runs.contradiction()?;
            Some(format!("{scenario} with {lock}, {level}: {why}"))
        })
    }

    /// The scenario that a pair of the catalogue runs: with this recipe and, if its faults are staged, without a swarm.
    ///
    /// # Errors
    /// [`ScenarioError`] where there is no such recipe, or it does not go with the scenario.
    ///
    /// # Panics
    /// Where the catalogue has no such scenario.
    pub fn scenario(name: &str, lock: &str) -> Result<Scenario, ScenarioError> {
        catalogued(name, lock, false)
    }

    /// The same, in the scenario's searched form.
    ///
    /// # Errors
    /// [`ScenarioError`] where it has none, and as for [`Pair::scenario`].
    ///
    /// # Panics
    /// Where the catalogue has no such scenario.
    pub fn searched(name: &str, lock: &str) -> Result<Scenario, ScenarioError> {
        catalogued(name, lock, true)
    }

    /// The scenario that a pair of this file runs, or its searched form.
    ///
    /// # Errors
    /// [`ScenarioError`] as for [`ScenarioFile::with`].
    pub fn form(
        file: &ScenarioFile<'_>,
        lock: &str,
        searched: bool,
    ) -> Result<Scenario, ScenarioError> {
        let lock = Some(lock.to_owned());
        let mut scenario = file.with(&Overrides { lock, searched, ..Overrides::default() })?;
        if !scenario.swarm.searched {
            // Faults that a sweep may draw are no part of a staged story.
            scenario.swarm = Swarm::default();
        }
        Ok(scenario)
    }

    /// Whether the scenario names its recipe and claims nothing about it: then all cells are
    /// [`Conformance::Unclaimed`], whatever runs show. False where no `[[expect]]` names the recipe.
    pub fn is_unclaimed(scenario: &Scenario) -> bool {
        let about = scenario.about_lock();
        let nothing = |level| scenario.expected(about.name, level) == Outcome::NotApplicable;
        let is_named = scenario.expectation(about.name).is_some();
        is_named && about.flaw.is_some() && Level::ALL.into_iter().all(nothing)
    }

    /// The pair with the duration of its runs, in nanoseconds.
    #[must_use]
    pub fn lasting(self, lasted_ns: u64) -> Self {
        Self { lasted_ns, ..self }
    }

    /// The pair with what its runs showed at each level.
    pub fn found(scenario: &Scenario, runs: [VerdictCounts; 4]) -> Self {
        Self::of_levels(scenario, runs.map(|runs| (runs.outcome(), runs)))
    }

    /// The same, with what they showed of each invariant: a level shows what a sweep of the same seeds does.
    pub fn swept(
        scenario: &Scenario,
        invariants: &[InvariantCounts],
        runs: [VerdictCounts; 4],
    ) -> Self {
        let swept = |place: usize| {
            let of_level = invariants.iter().filter(|it| it.level == Level::ALL[place]);
            (worst(of_level.map(InvariantCounts::outcome)), runs[place])
        };
        Self::of_levels(scenario, std::array::from_fn(swept))
    }

    fn of_levels(scenario: &Scenario, levels: [(Outcome, VerdictCounts); 4]) -> Self {
        let about = scenario.about_lock();
        let cell = |(level, found): (Level, (Outcome, VerdictCounts))| {
            let expected = scenario.expected(about.name, level);
            Cell::found(level, expected, found, about, scenario.swarm.searched)
        };
        let cells = Level::ALL.into_iter().zip(levels).map(cell).collect();
        Self { cells, ..Self::not_run(scenario, None) }
    }

    /// The pair without cells, and why it was not run.
    pub fn not_run(scenario: &Scenario, why_not: Option<String>) -> Self {
        let about = scenario.about_lock();
        let expectation = scenario.expectation(about.name);
        Self {
            scenario: scenario.name.clone(),
            lock: about.name.to_owned(),
            sound: about.flaw.is_none(),
            searched: scenario.swarm.searched,
            why: expectation.map_or(String::new(), |it| it.why.clone()),
            not_run: why_not,
            lasted_ns: 0,
            run_again: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// The worst of its cells; none if it was not run.
    pub fn standing(&self) -> Option<Conformance> {
        let worst = [Conformance::Different, Conformance::Vacuous, Conformance::AsExpected];
        let stands = |standing: &Conformance| self.cells.iter().any(|it| it.standing == *standing);
        let worst = worst.into_iter().find(stands);
        worst.or(self.cells.first().map(|_| Conformance::Unclaimed))
    }

    /// The lowest seed that violated what was not expected to be violated, if one did.
    pub fn first_unexpected(&self) -> Option<u64> {
        let cells = self.cells.iter().filter(|it| it.standing == Conformance::Different);
        let cells = cells.filter(|it| it.expected != Outcome::Violated);
        cells.filter_map(|it| it.runs.first_violated).min()
    }
}

impl Matrix {
    /// The matrix of these pairs.
    pub fn new(world: &str, server: Option<String>, pairs: Vec<Pair>, interrupted: bool) -> Self {
        let mut totals = Totals::default();
        for pair in &pairs {
            if pair.cells.is_empty() {
                totals.not_run += Level::ALL.len() as u64;
            }
            for cell in &pair.cells {
                *match cell.standing {
                    Conformance::AsExpected => &mut totals.as_expected,
                    Conformance::Different => &mut totals.different,
                    Conformance::Vacuous => &mut totals.vacuous,
                    Conformance::Unclaimed => &mut totals.unclaimed,
                } += 1;
            }
        }
        let (schema, world) = (SCHEMA.to_owned(), world.to_owned());
        Self { schema, world, server, interrupted, totals, pairs }
    }

    /// Whether every claim was tested and found true.
    pub fn is_as_expected(&self) -> bool {
        let Totals { different, vacuous, as_expected, .. } = self.totals;
        !self.interrupted && different == 0 && vacuous == 0 && as_expected > 0
    }

    /// Whether no claim was tested: no pair was run, or nothing is claimed of those that were.
    pub fn has_tested_nothing(&self) -> bool {
        let Totals { different, vacuous, as_expected, .. } = self.totals;
        !self.interrupted && different + vacuous + as_expected == 0
    }

    /// The pairs whose runs were repeated: scenario, recipe, and the reason of each repetition.
    pub fn run_again(&self) -> Vec<(&str, &str, &[String])> {
        let again = self.pairs.iter().filter(|it| !it.run_again.is_empty());
        again.map(|it| (&*it.scenario, &*it.lock, &*it.run_again)).collect()
    }

    /// The scenarios, in their order.
    pub fn scenarios(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.pairs.iter().map(|it| it.scenario.as_str()).collect();
        names.dedup();
        names
    }

    /// The pairs of one scenario, grouped by what they show.
    pub fn groups(&self, scenario: &str) -> Vec<Vec<&Pair>> {
        let mut groups: Vec<Vec<&Pair>> = Vec::new();
        for pair in self.pairs.iter().filter(|it| it.scenario == scenario) {
            let alike = |group: &&mut Vec<&Pair>| {
                let first = group[0];
                let cells = first.cells.iter().zip(&pair.cells);
                let same = |(a, b): (&Cell, &Cell)| {
                    (a.expected, a.found, a.standing) == (b.expected, b.found, b.standing)
                };
                first.not_run == pair.not_run
                    && first.why == pair.why
                    && cells.into_iter().all(same)
            };
            match groups.iter_mut().find(alike) {
                Some(group) => group.push(pair),
                None => groups.push(vec![pair]),
            }
        }
        groups
    }
}

impl Matrices {
    /// These matrices with their totals.
    pub fn new(matrices: Vec<Matrix>) -> Self {
        let totals = Totals::sum(&matrices);
        Self { schema: MATRICES_SCHEMA.to_owned(), totals, matrices }
    }
}

impl Totals {
    /// The sum of these matrices.
    pub fn sum(matrices: &[Matrix]) -> Self {
        let add = |sum: Self, it: &Matrix| Self {
            as_expected: sum.as_expected + it.totals.as_expected,
            different: sum.different + it.totals.different,
            vacuous: sum.vacuous + it.totals.vacuous,
            unclaimed: sum.unclaimed + it.totals.unclaimed,
            not_run: sum.not_run + it.totals.not_run,
        };
        matrices.iter().fold(Self::default(), add)
    }
}

fn catalogued(name: &str, lock: &str, searched: bool) -> Result<Scenario, ScenarioError> {
    let text = catalog::text(name).expect("a scenario of the catalogue");
    Pair::form(&ScenarioFile::read(name, &format!("{name}.toml"), text)?, lock, searched)
}

/// The names of all recipes, in their order.
pub fn locks() -> impl Iterator<Item = &'static str> {
    recipe::ALL.into_iter().map(|about| about.name)
}

#[cfg(test)]
mod tests;
