//! A violation as a scenario that people can read, edit, run and commit, and its story.
//!
//! Invariant: the scenario's text reads back as the scenario that violates.

use std::sync::Arc;

use harness::world::{RunError, RunRequest, World};
use history::History;
use history::verdict::{Level, Witness, WitnessStep};
use scenarios::judge::judge;
use scenarios::result::{Invariant, RunResult};
use scenarios::scenario::{Expectation, Overrides, Scenario};

use super::base::{Base, SEED};
use super::search::{Explored, FoundSchedule};
use super::shrink_staged::shrink_staged;
use super::text::shortened;

/// A violation, and the scenario that shows it.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The schedule, and what it violates.
    pub found: FoundSchedule,
    /// The schedule as a scenario.
    pub scenario: Scenario,
    /// The scenario as TOML.
    pub toml: String,
    /// What it shows in the world in which it was found.
    pub result: RunResult,
    /// The history of that run.
    pub history: History,
}

impl Counterexample {
    /// One for each violated invariant: each schedule is shrunk, and the one with the fewest faults and then the
    /// shortest story is taken. `line` is the command that has found them.
    ///
    /// # Errors
    /// [`RunError`] where a schedule cannot be run.
    pub fn all(
        world: &mut impl World,
        base: &Base,
        explored: &Explored,
        line: &str,
    ) -> Result<Vec<Self>, RunError> {
        let mut all: Vec<Self> = Vec::new();
        for found in &explored.found {
            let small = shrink_staged(world, base, found)?;
            let it = Self::told(world, base, small)?;
            let is_same = |other: &&mut Self| other.found.violation.is_of(&found.violation);
            match all.iter_mut().find(is_same) {
                None => all.push(it),
                Some(other) if it.measure() < other.measure() => *other = it,
                Some(_) => {}
            }
        }
        all.into_iter().map(|it| it.written(line)).collect()
    }

    /// Runs the schedule once more and tells its story. `line` is the command that has found it.
    ///
    /// # Errors
    /// [`RunError::Bug`] if it does not violate the same again, or its text is no scenario.
    pub fn of(
        world: &mut impl World,
        base: &Base,
        found: FoundSchedule,
        line: &str,
    ) -> Result<Self, RunError> {
        Self::told(world, base, found)?.written(line)
    }

    /// The schedule with its story, not written yet.
    fn told(world: &mut impl World, base: &Base, found: FoundSchedule) -> Result<Self, RunError> {
        let invariant = found.violation.invariant;
        let mut scenario = base.scenario(&found.candidate);
        scenario.name = format!("{}-{invariant}", base.lock());
        if found.violation.level != Level::Progress {
            // Limits on progress are no part of this story.
            (scenario.available_within, scenario.woken_within) = (None, None);
            scenario.commands_within = None;
            scenario.limits.clear();
        }
        let run = world.run(&RunRequest::new(Arc::new(scenario.clone()), SEED))?;
        let circumstances = run.circumstances(&scenario, String::new(), Vec::new());
        let result = judge(&run.history, circumstances);
        let it = Self { found, scenario, toml: String::new(), result, history: run.history };
        match it.witness() {
            Some(_) => Ok(it),
            None => {
                Err(RunError::Bug(format!("{invariant} is violated in one run and not in another")))
            }
        }
    }

    /// The witness of the violation.
    pub fn witness(&self) -> Option<&Witness> {
        self.invariant().and_then(|it| it.witness.as_ref())
    }

    /// The invariant that is violated.
    pub fn invariant(&self) -> Option<&Invariant> {
        let name = self.found.violation.invariant;
        self.result.invariants.iter().find(|it| it.name == name)
    }

    /// How many steps the story has.
    pub fn steps(&self) -> usize {
        self.witness().map_or(0, |witness| witness.short_story().len())
    }

    /// How large it is: its faults, and the steps of its story.
    fn measure(&self) -> (usize, usize) {
        (self.found.candidate.count(), self.steps())
    }

    /// The same with title, story and expectation, and as a text.
    fn written(mut self, line: &str) -> Result<Self, RunError> {
        let witness = self.witness().cloned().unwrap_or_default();
        let (lock, violation) = (self.scenario.lock.recipe.clone(), &self.found.violation);
        let scenario = &mut self.scenario;
        scenario.title =
            format!("{lock} violates {} ({})", violation.invariant, violation.level.name());
        let steps: String = witness.short_story().iter().map(line_of).collect();
        scenario.story = format!("{}:\n{steps}", witness.summary);
        line.clone_into(&mut scenario.source);
        let [key, belief, effect, progress] = Level::ALL.map(|level| self.result.level(level));
        let why = witness.summary;
        scenario.expect =
            vec![Expectation { locks: vec![lock], key, belief, effect, progress, why }];
        let bug = |why: String| RunError::Bug(format!("a counterexample is no scenario: {why}"));
        let whole = scenario.to_toml().map_err(|error| bug(error.to_string()))?;
        let file = format!("{}.toml", scenario.name);
        // The name in the text counts, whatever its file is called.
        let read = |text: &str| Scenario::parse("", &file, text, &Overrides::default());
        match read(&whole).map_err(|error| bug(error.to_string()))? {
            same if same == *scenario => {}
            _ => return Err(bug("its text reads back as another".to_owned())),
        }
        self.toml = shortened(&whole, |text| read(text).is_ok_and(|it| it == *scenario));
        Ok(self)
    }
}

/// A step as a line of the scenario's story. A gap is no act of a client, so it names none.
fn line_of(step: &WitnessStep) -> String {
    match step.client {
        _ if step.is_gap() => format!("{}\n", step.text),
        0 => format!("the run {}\n", step.text),
        client => format!("client {client} {}\n", step.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_does_what_is_left_out() {
        let step = |client, text: &str| WitnessStep { at_ns: 1, client, text: text.to_owned() };
        let told = [step(2, "dies"), step(0, "evicts"), WitnessStep::gap(2, 3)];
        let lines = ["client 2 dies\n", "the run evicts\n", "3 steps left out\n"];
        assert_eq!(told.each_ref().map(line_of), lines);
    }
}
