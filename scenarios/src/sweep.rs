//! What many schedules of one scenario have shown.
//!
//! Invariant: the sum does not depend on the order. `violated` outranks `inconclusive`, which outranks `held`. Vacuous
//! schedules are counted separately; the result is inconclusive only if they outnumber those that held.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use history::fault::Fault;
use history::verdict::{Finding, Level, Outcome, Verdict, Witness, worst};
use history::{History, What};
use serde::{Deserialize, Serialize};

/// The name of schedules in which no fault struck.
pub const NO_FAULT: &str = "none";

/// The invariant, at level progress, that no task waits or runs for ever.
pub const STUCK: &str = "nobody-stuck";

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// How many schedules were run.
    pub schedules: u64,
    /// Whether it ended before all were run. Then nothing counts as held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Their virtual time, in nanoseconds.
    pub virtual_ns: u64,
    /// Their events and polls.
    pub events: u64,
    /// Operations in their histories.
    pub operations: u64,
    /// Each invariant, in the order in which they are checked.
    pub invariants: Vec<InvariantCounts>,
    /// How often each fault struck.
    pub coverage: BTreeMap<Fault, Coverage>,
    /// By fault, and for [`NO_FAULT`]: in how many schedules it struck, and how many of these violated each invariant.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub struck_by: BTreeMap<String, StruckSchedules>,
    /// In how many schedules some fault struck while a client held the lock.
    pub met_hold: u64,
    /// Vacuous schedules, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vacuous: BTreeMap<String, VacuousSchedules>,
    /// How many schedules violated something.
    pub violations: u64,
    /// Their lowest seeds, and what each violated.
    pub failing: BTreeMap<u64, Vec<String>>,
    /// Schedules by the invariants that they violated, with commas between the names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, FailureKind>,
    /// A digest of all histories, if one was asked for. It does not depend on their order. Two sweeps of the same seeds
    /// with the same digest had the same histories, byte for byte.
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
pub struct InvariantCounts {
    /// Its name.
    pub name: String,
    /// Its level.
    pub level: Level,
    /// It held.
    pub held: u64,
    /// It was violated.
    pub violated: u64,
    /// The schedule cannot tell, and was not vacuous.
    pub inconclusive: u64,
    /// The schedule was vacuous.
    #[serde(default)]
    pub vacuous: u64,
    /// It does not apply.
    pub not_applicable: u64,
    /// The lowest seed that violated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_violated: Option<u64>,
}

/// Vacuous schedules with the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VacuousSchedules {
    /// How many.
    pub schedules: u64,
    /// The lowest of their seeds.
    pub seed: u64,
}

/// Schedules in which a fault struck, or in which none did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StruckSchedules {
    /// How many.
    pub schedules: u64,
    /// How many of them violated each invariant.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub violated: BTreeMap<String, u64>,
}

/// Schedules that violated the same invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureKind {
    /// How many.
    pub schedules: u64,
    /// The seed of the one with the fewest strikes; of several, the lowest.
    pub seed: u64,
    /// How often faults struck in it.
    pub strikes: u64,
    /// At how many levels these invariants are.
    pub levels: u32,
    /// How many invariants these are.
    pub invariants: u32,
}

/// How often a fault struck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// How often.
    pub strikes: u64,
    /// How often while the client that it struck held the lock or, of a fault that strikes no client, while any did.
    pub in_hold: u64,
    /// In how many schedules.
    pub schedules: u64,
    /// In how many schedules while a client held the lock.
    pub schedules_in_hold: u64,
}

/// What a schedule's history does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its virtual time, in nanoseconds.
    pub virtual_ns: u64,
    /// Its events and polls.
    pub events: u64,
    /// How many tasks still waited when all faults were healed and the time was up.
    pub stuck: usize,
    /// Whether it was ended as a livelock.
    pub livelock: bool,
    /// The digest of its history and seed, if one was asked for.
    pub digest: Option<Digest>,
}

impl InvariantCounts {
    fn new(name: &str, level: Level) -> Self {
        let name = name.to_owned();
        let (held, violated, inconclusive, vacuous, not_applicable) = (0, 0, 0, 0, 0);
        let first_violated = None;
        Self { name, level, held, violated, inconclusive, vacuous, not_applicable, first_violated }
    }

    fn count(&mut self, seed: u64, verdict: &Verdict) {
        match verdict {
            Verdict::Held => self.held += 1,
            Verdict::Violated(_) => {
                self.violated += 1;
                self.violated_by(Some(seed));
            }
            Verdict::Inconclusive(_) => self.inconclusive += 1,
            Verdict::Vacuous(_) => self.vacuous += 1,
            Verdict::NotApplicable(_) => self.not_applicable += 1,
        }
    }

    fn violated_by(&mut self, seed: Option<u64>) {
        self.first_violated = self.first_violated.into_iter().chain(seed).min();
    }

    /// Which of its counts is impossible with so many schedules, if any.
    fn contradiction(&self, schedules: u64) -> Option<String> {
        let Self { name, held, violated, inconclusive, vacuous, not_applicable, .. } = self;
        let counts = [held, violated, inconclusive, vacuous, not_applicable];
        let sum = counts.into_iter().try_fold(0_u64, |sum, count| sum.checked_add(*count));
        match sum {
            None => Some(format!("{name}: its counts have no sum")),
            Some(sum) if sum != schedules => {
                Some(format!("{name}: counted in {sum} of {schedules} schedules"))
            }
            Some(_) if self.first_violated.is_some() != (*violated > 0) => {
                Some(format!("{name}: {violated} schedules violate it, and the first is wrong"))
            }
            Some(_) => None,
        }
    }

    /// What all its schedules have shown.
    pub fn outcome(&self) -> Outcome {
        let Self { held, violated, inconclusive, vacuous, .. } = *self;
        outcome(held, violated, inconclusive, vacuous)
    }
}

/// The worst outcome of any schedule, if so many had each. Vacuous schedules make it inconclusive only if they outnumber
/// those that held; those to which it does not apply do not count.
pub(crate) fn outcome(held: u64, violated: u64, inconclusive: u64, vacuous: u64) -> Outcome {
    match () {
        () if violated > 0 => Outcome::Violated,
        () if inconclusive > 0 || vacuous > held => Outcome::Inconclusive,
        () if held > 0 => Outcome::Held,
        () => Outcome::NotApplicable,
    }
}

/// Counts what the schedule of this seed has shown of one of these invariants.
pub fn count(invariants: &mut Vec<InvariantCounts>, seed: u64, finding: &Finding) {
    let Finding { name, level, verdict } = finding;
    counts(invariants, name, *level).count(seed, verdict);
}

fn counts<'a>(
    invariants: &'a mut Vec<InvariantCounts>,
    name: &str,
    level: Level,
) -> &'a mut InvariantCounts {
    let place = invariants.iter().position(|it| it.name == name).unwrap_or(invariants.len());
    if place == invariants.len() {
        invariants.push(InvariantCounts::new(name, level));
    }
    &mut invariants[place]
}

impl Coverage {
    fn add(&mut self, other: Self) {
        self.strikes = self.strikes.saturating_add(other.strikes);
        self.in_hold = self.in_hold.saturating_add(other.in_hold);
        self.schedules = self.schedules.saturating_add(other.schedules);
        self.schedules_in_hold += other.schedules_in_hold;
    }
}

impl Sweep {
    /// The worst outcome at this level.
    pub fn level(&self, level: Level) -> Outcome {
        let of_level = self.invariants.iter().filter(|it| it.level == level);
        worst(of_level.map(|it| self.outcome(it)))
    }

    /// The outcome of one of its invariants. In an interrupted sweep nothing counts as held: the missing schedules might
    /// have violated it.
    pub fn outcome(&self, counts: &InvariantCounts) -> Outcome {
        match counts.outcome() {
            Outcome::Held if self.interrupted => Outcome::Inconclusive,
            outcome => outcome,
        }
    }

    /// The worst outcome of all.
    pub fn verdict(&self) -> Outcome {
        match worst(self.invariants.iter().map(|it| self.outcome(it))) {
            // Interrupted before the first schedule.
            Outcome::NotApplicable if self.interrupted => Outcome::Inconclusive,
            outcome => outcome,
        }
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
        let faults: Vec<&str> = match struck.is_empty() {
            true => vec![NO_FAULT],
            false => struck.keys().map(|fault| fault.name()).collect(),
        };
        let strikes = struck.values().map(|it| it.strikes).sum();
        for (fault, it) in &struck {
            self.coverage.entry(*fault).or_default().add(*it);
        }
        let findings = checkers::judge(history, !facts.livelock);
        let stuck = match facts.stuck > 0 || facts.livelock {
            true => Verdict::Violated(Witness::default()),
            false => Verdict::Held,
        };
        let stuck = Finding { name: STUCK, level: Level::Progress, verdict: stuck };
        let (mut violated, mut vacuous) = (Vec::new(), None);
        for finding in findings.iter().chain([&stuck]) {
            count(&mut self.invariants, seed, finding);
            match &finding.verdict {
                Verdict::Violated(_) => violated.push(finding.name.to_owned()),
                // The last reason concerns all invariants, the first may concern one alone.
                Verdict::Vacuous(why) => vacuous = Some(*why),
                _ => {}
            }
        }
        if let Some(why) = vacuous {
            self.add_vacuous(why.what(), VacuousSchedules { schedules: 1, seed });
        }
        for fault in faults {
            let it = self.struck_by.entry(fault.to_owned()).or_default();
            it.schedules += 1;
            violated.iter().for_each(|name| *it.violated.entry(name.clone()).or_default() += 1);
        }
        if !violated.is_empty() {
            let levels: BTreeSet<Level> = self.levels_of(&violated).collect();
            let [levels, invariants] =
                [levels.len(), violated.len()].map(|it| u32::try_from(it).unwrap_or(u32::MAX));
            let kind = FailureKind { schedules: 1, seed, strikes, levels, invariants };
            self.kind(violated.join(", "), kind);
            self.violations += 1;
            self.failing.insert(seed, violated);
            self.keep(keep);
        }
    }

    /// Adds another sweep of the same scenario.
    pub fn merge(&mut self, other: Self, keep: usize) {
        self.schedules = self.schedules.saturating_add(other.schedules);
        self.interrupted |= other.interrupted;
        self.virtual_ns = self.virtual_ns.saturating_add(other.virtual_ns);
        self.events = self.events.saturating_add(other.events);
        self.operations = self.operations.saturating_add(other.operations);
        self.violations += other.violations;
        self.met_hold += other.met_hold;
        Digest::join(&mut self.digest, other.digest);
        for theirs in other.invariants {
            let mine = counts(&mut self.invariants, &theirs.name, theirs.level);
            mine.held += theirs.held;
            mine.violated += theirs.violated;
            mine.inconclusive += theirs.inconclusive;
            mine.vacuous += theirs.vacuous;
            mine.not_applicable += theirs.not_applicable;
            mine.violated_by(theirs.first_violated);
        }
        for (fault, it) in other.coverage {
            self.coverage.entry(fault).or_default().add(it);
        }
        other.vacuous.into_iter().for_each(|(what, it)| self.add_vacuous(what, it));
        for (fault, theirs) in other.struck_by {
            let mine = self.struck_by.entry(fault).or_default();
            mine.schedules += theirs.schedules;
            for (name, schedules) in theirs.violated {
                *mine.violated.entry(name).or_default() += schedules;
            }
        }
        other.kinds.into_iter().for_each(|(what, it)| self.kind(what, it));
        self.failing.extend(other.failing);
        self.keep(keep);
    }

    /// Which of its counts cannot be, if any: what was read from a file may be damaged.
    pub fn contradiction(&self) -> Option<String> {
        let all = self.schedules;
        let most = |what: &str, count: u64, most: u64| {
            (count > most).then(|| format!("{what}: {count} of {most} schedules"))
        };
        let of_invariants = self.invariants.iter().find_map(|it| it.contradiction(all));
        let mut names = self.invariants.iter().map(|it| it.name.as_str()).collect::<BTreeSet<_>>();
        if names.len() < self.invariants.len() {
            return Some("an invariant is counted twice".to_owned());
        }
        let kinds = self.kinds.values().try_fold(0_u64, |sum, it| sum.checked_add(it.schedules));
        if kinds != Some(self.violations) {
            return Some(format!(
                "{} schedules violate something, and those of each kind are another number",
                self.violations
            ));
        }
        names.insert(NO_FAULT);
        let of_kinds = self.kinds.keys().flat_map(|kind| kind.split(", "));
        let of_failing = self.failing.values().flatten().map(String::as_str);
        let of_faults = self.struck_by.values().flat_map(|it| it.violated.keys());
        let mut told = of_kinds.chain(of_failing).chain(of_faults.map(String::as_str));
        let unknown = told.find(|name| !names.contains(name));
        of_invariants
            .or_else(|| unknown.map(|name| format!("{name} is violated, and counted nowhere")))
            .or_else(|| most("violations", self.violations, all))
            .or_else(|| most("faults that met a hold", self.met_hold, all))
            .or_else(|| most("failing seeds", self.failing.len() as u64, self.violations))
            .or_else(|| self.vacuous.iter().find_map(|(what, it)| most(what, it.schedules, all)))
            .or_else(|| {
                self.coverage.iter().find_map(|(fault, it)| {
                    let Coverage { strikes, in_hold, schedules, schedules_in_hold } = *it;
                    most(fault.name(), schedules, all)
                        .or_else(|| most(fault.name(), schedules_in_hold, schedules))
                        .or_else(|| most(fault.name(), in_hold, strikes))
                })
            })
            .or_else(|| {
                self.struck_by.iter().find_map(|(fault, it)| {
                    let violated = it.violated.iter();
                    most(fault, it.schedules, all).or_else(|| {
                        violated
                            .into_iter()
                            .find_map(|(name, count)| most(name, *count, it.schedules))
                    })
                })
            })
    }

    /// The levels of these invariants.
    fn levels_of<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = Level> + 'a {
        self.invariants.iter().filter(|it| names.contains(&it.name)).map(|it| it.level)
    }

    /// Counts schedules that violated these invariants, and no others.
    fn kind(&mut self, what: String, theirs: FailureKind) {
        let mine = self.kinds.entry(what).or_insert(FailureKind { schedules: 0, ..theirs });
        mine.schedules += theirs.schedules;
        (mine.strikes, mine.seed) = (mine.strikes, mine.seed).min((theirs.strikes, theirs.seed));
    }

    /// What the worst schedules violated, and which they are: those that violate something at the most levels first, then
    /// the most invariants, then the most frequent ones.
    pub fn worst(&self, most: usize) -> Vec<(&str, FailureKind)> {
        let mut kinds: Vec<(&str, FailureKind)> =
            self.kinds.iter().map(|(what, it)| (what.as_str(), *it)).collect();
        kinds.sort_by_key(|(_, it)| {
            std::cmp::Reverse((it.levels, it.invariants, it.schedules, std::cmp::Reverse(it.seed)))
        });
        kinds.truncate(most);
        kinds
    }

    /// Counts schedules that showed nothing for this reason.
    fn add_vacuous(&mut self, what: String, theirs: VacuousSchedules) {
        let none = VacuousSchedules { schedules: 0, seed: theirs.seed };
        let mine = self.vacuous.entry(what).or_insert(none);
        mine.schedules += theirs.schedules;
        mine.seed = mine.seed.min(theirs.seed);
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
mod tests;
