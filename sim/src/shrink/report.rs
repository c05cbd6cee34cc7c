//! What a run was shrunk to, for people and for machines.
//!
//! Invariant: a schedule that could not be staged is not shown as a scenario.

use explore::{Counterexample, DrawnSchedule};
use scenarios::format::{count, plural};
use serde::Serialize;

use crate::example::ExampleReport;
use crate::run::report::style;
use crate::terminal::Terminal;

const SCHEMA: &str = "picklock/shrink/1";

/// What a run was shrunk to.
#[derive(Debug, Serialize)]
pub(super) struct ShrinkReport {
    schema: &'static str,
    lock: String,
    invariant: &'static str,
    level: &'static str,
    whole: ScheduleSize,
    smallest: ScheduleSize,
    /// The same with everything staged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) example: Option<ExampleReport>,
    /// The line that repeats the smallest schedule, if it could not be staged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replay: Option<String>,
}

/// How large a drawn schedule is.
#[derive(Clone, Copy, Debug, Serialize)]
struct ScheduleSize {
    clients: u32,
    rounds: u32,
    /// How many faults its scenario stages.
    staged: usize,
    choices: usize,
    /// How many of them are harmful.
    harmful: usize,
}

impl ScheduleSize {
    fn of(schedule: &DrawnSchedule) -> Self {
        Self {
            clients: schedule.scenario.clients,
            rounds: schedule.scenario.workload.rounds(),
            staged: schedule.scenario.faults.len(),
            choices: schedule.choices.len(),
            harmful: schedule.harmful(),
        }
    }

    fn text(self) -> String {
        let Self { clients, rounds, staged, choices, harmful } = self;
        let (many, harmful) = (count(choices as u64), count(harmful as u64));
        format!(
            "{clients} clients, {rounds} {}, {staged} staged, {many} choices ({harmful} of them harmful)",
            plural(u64::from(rounds), "round")
        )
    }
}

/// How far the choices were shrunk, as a line.
pub(super) fn smaller(whole: &DrawnSchedule, smallest: &DrawnSchedule) -> String {
    let (whole, smallest) = (ScheduleSize::of(whole), ScheduleSize::of(smallest));
    format!("shrunk from {} to {}", whole.text(), smallest.text())
}

impl ShrinkReport {
    pub(super) fn new(whole: &DrawnSchedule, smallest: &DrawnSchedule) -> Self {
        Self {
            schema: SCHEMA,
            lock: whole.scenario.lock.recipe.clone(),
            invariant: whole.violation.invariant,
            level: whole.violation.level.name(),
            whole: ScheduleSize::of(whole),
            smallest: ScheduleSize::of(smallest),
            example: None,
            replay: None,
        }
    }

    /// For people.
    pub(super) fn text(&self, example: Option<&Counterexample>, terminal: &Terminal) -> String {
        let Self { level, invariant, .. } = self;
        let verdict = match example {
            Some(it) => format!(
                "verdict: violated ({level}): {invariant}, with {}, {} steps\n",
                it.found.candidate,
                it.steps()
            ),
            None => {
                format!("verdict: violated ({level}): {invariant}, with {}\n", self.smallest.text())
            }
        };
        if terminal.options.quiet {
            return verdict;
        }
        let mut text = String::new();
        if let Some(invariant) = example.and_then(Counterexample::invariant) {
            text += &reports::terminal::story(invariant, style(terminal));
        }
        if let Some(it) = &self.example {
            text += &it.explained();
        }
        text += &verdict;
        match (&self.example, &self.replay) {
            (Some(it), _) => text += &(it.confirmation() + &it.places()),
            (None, Some(replay)) => {
                text += &format!(
                    "not staged: with its faults where they struck, and nothing drawn, no scenario that was tried \
                     violates the same\nreplay: {replay}\n"
                );
            }
            (None, None) => {}
        }
        text
    }
}
