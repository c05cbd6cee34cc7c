//! What an exploration found, for people and for machines.
//!
//! Invariant: a count of schedules stands beside the bounds of the search.

use explore::{Base, Bounds, Counterexample, Explored, SearchEnd, SearchStage};
use scenarios::format::{count, counted};
use serde::Serialize;

use super::SearchSpent;
use crate::example::ExampleReport;
use crate::run::report::style;
use crate::terminal::Terminal;

const SCHEMA: &str = "picklock/explore/1";

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct ExploreReport {
    schema: &'static str,
    lock: String,
    bounds: Bounds,
    ended: SearchOutcome,
    /// What missing shards have not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    lacking: Option<String>,
    schedules: u64,
    seconds: f64,
    stages: Vec<SearchStage>,
    counterexamples: Vec<ExampleReport>,
}

/// How the search ended.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum SearchOutcome {
    Exhausted,
    Violated,
    Interrupted,
    /// The budget ran out.
    Stopped,
}

impl ExploreReport {
    pub(super) fn new(
        base: &Base,
        bounds: Bounds,
        explored: &Explored,
        counterexamples: Vec<ExampleReport>,
        spent: SearchSpent,
    ) -> Self {
        let SearchSpent { took, interrupted, lacking } = spent;
        Self {
            schema: SCHEMA,
            lock: base.lock().to_owned(),
            bounds: Bounds { rounds: bounds.rounds.min(base.rounds_most()), ..bounds },
            ended: match explored.ended {
                SearchEnd::Exhausted => SearchOutcome::Exhausted,
                SearchEnd::Violated => SearchOutcome::Violated,
                SearchEnd::Stopped if interrupted => SearchOutcome::Interrupted,
                SearchEnd::Stopped => SearchOutcome::Stopped,
            },
            lacking,
            schedules: explored.schedules(),
            seconds: (took.as_secs_f64() * 10.0).round() / 10.0,
            stages: explored.stages.clone(),
            counterexamples,
        }
    }

    /// For people.
    pub(super) fn text(&self, examples: &[Counterexample], terminal: &Terminal) -> String {
        let tried = format!("{} in {:.1} s", counted(self.schedules, "schedule"), self.seconds);
        let undecided: u64 = self.stages.iter().map(|it| it.undecided).sum();
        let undecided = few(undecided, "undecided");
        let Bounds { clients, rounds, faults } = self.bounds;
        let clients = if clients == 2 { "2".to_owned() } else { format!("2 to {clients}") };
        let within = format!(
            "{clients} clients, {}, {}",
            up_to(u64::from(rounds), "round"),
            up_to(faults as u64, "fault"),
        );
        let verdict = match (self.ended, examples.first(), &self.lacking) {
            (_, Some(nearest), _) => format!(
                "verdict: violated ({}): {} after {tried}, with {}, {} steps\n",
                nearest.found.violation.level.name(),
                nearest.found.violation.invariant,
                nearest.found.candidate,
                nearest.steps()
            ),
            (_, None, Some(lacking)) => format!(
                "verdict: inconclusive: {tried}, none violates anything, and {lacking}\nbounds: {within}\n"
            ),
            (SearchOutcome::Exhausted, None, None) => {
                format!(
                    "verdict: exhausted: {tried}, none violates anything{undecided}\nbounds: {within}\n{NOT_TRIED}"
                )
            }
            (SearchOutcome::Interrupted, None, None) => {
                format!(
                    "verdict: inconclusive: interrupted after {tried}, none violates anything\n"
                )
            }
            _ => format!(
                "verdict: inconclusive: {tried}, none violates anything, and the budget ran out before the bounds \
                 were exhausted\nbounds: {within}\nGive more time with --budget, or nearer bounds with --faults, --clients \
                 or --rounds.\n"
            ),
        };
        if terminal.options.quiet {
            return format!("{}\n", verdict.lines().next().unwrap_or_default());
        }
        let mut text = String::new();
        for (nth, (it, example)) in self.counterexamples.iter().zip(examples).enumerate() {
            match example.invariant().filter(|_| nth == 0) {
                Some(invariant) => text += &reports::terminal::story(invariant, style(terminal)),
                None => text += &it.also(),
            }
        }
        let nearest = self.counterexamples.first();
        text += &nearest.map(ExampleReport::explained).unwrap_or_default();
        text += &verdict;
        text += &nearest.map(|it| it.confirmation() + &it.places()).unwrap_or_default();
        text
    }
}

/// What the alphabet leaves out, for readers of a report without findings.
const NOT_TRIED: &str = "not tried: servers that forget and servers whose clocks jump, which a lock that expires assumes away; \
                         two faults at one moment; durations other than a quarter of the TTL, one and a half, and until \
                         another has the lock or has released it\n";

/// One stage, as a line.
pub(super) fn stage(stage: &SearchStage) -> String {
    let SearchStage { size, faults, schedules, violating, undecided, vacuous, is_whole } = stage;
    let violate = if *violating == 0 { ", none violates anything" } else { "" };
    format!(
        "{size}, {}: {}{violate}{}{}{}{}",
        counted(*faults as u64, "fault"),
        counted(*schedules, "schedule"),
        few(*violating, "violating something"),
        few(*undecided, "undecided"),
        few(*vacuous, "showing nothing"),
        if *is_whole { "" } else { ", ended early" }
    )
}

/// How many of them did so, if any.
fn few(number: u64, what: &str) -> String {
    if number == 0 { String::new() } else { format!(", {} {what}", count(number)) }
}

fn up_to(most: u64, what: &str) -> String {
    let many = counted(most, what);
    if most <= 1 { many } else { format!("up to {many}") }
}
