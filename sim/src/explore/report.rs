//! What an exploration found, for people and for machines.
//!
//! Invariant: a count of schedules stands beside the bounds within which they were tried.

use std::path::Path;
use std::time::Duration;

use explore::{
    Base, Bounds, Counterexample, DRAWN, Explored, Reproduction, SearchEnd, SearchStage,
};
use scenarios::format::count;
use serde::Serialize;

use super::super::line::Line;
use super::super::run::report::style;
use super::super::terminal::Terminal;
use super::file_name;

const SCHEMA: &str = "picklock/explore/1";
/// What schedules are run with.
const SEED: u64 = 1;
const STOPPED: &str = "stopped";
const INTERRUPTED: &str = "interrupted";

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct ExploreReport {
    schema: &'static str,
    lock: String,
    bounds: BoundsReport,
    ended: &'static str,
    schedules: u64,
    seconds: f64,
    stages: Vec<StageReport>,
    counterexamples: Vec<ExampleReport>,
    /// In how many of as many schedules the nearest is violated: without a fault, with the first, and so on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decided: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmation: Option<ConfirmationReport>,
}

#[derive(Debug, Serialize)]
struct BoundsReport {
    clients: u32,
    rounds: u32,
    faults: usize,
}

#[derive(Debug, Serialize)]
struct StageReport {
    clients: u32,
    rounds: u32,
    faults: usize,
    schedules: u64,
    violating: u64,
    undecided: u64,
    vacuous: u64,
    whole: bool,
}

#[derive(Debug, Serialize)]
struct ExampleReport {
    file: String,
    invariant: &'static str,
    level: &'static str,
    clients: u32,
    rounds: u32,
    faults: Vec<&'static str>,
    steps: usize,
}

#[derive(Debug, Serialize)]
struct ConfirmationReport {
    server: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl ExploreReport {
    pub(super) fn new(
        base: &Base,
        bounds: Bounds,
        explored: &Explored,
        examples: &[Counterexample],
        took: Duration,
    ) -> Self {
        let Bounds { clients, rounds, faults } = bounds;
        Self {
            schema: SCHEMA,
            lock: base.lock().to_owned(),
            bounds: BoundsReport { clients, rounds: rounds.min(base.rounds_most()), faults },
            ended: match explored.ended {
                SearchEnd::Exhausted => "exhausted",
                SearchEnd::Violated => "violated",
                SearchEnd::Stopped => STOPPED,
            },
            schedules: explored.schedules(),
            seconds: (took.as_secs_f64() * 10.0).round() / 10.0,
            stages: explored.stages.iter().map(stage_report).collect(),
            counterexamples: examples.iter().map(example_report).collect(),
            decided: Vec::new(),
            confirmation: None,
        }
    }

    /// The same where a signal may have ended the search.
    pub(super) fn interrupted(mut self, interrupted: bool) -> Self {
        if interrupted && self.ended == STOPPED {
            self.ended = INTERRUPTED;
        }
        self
    }

    /// The same with the files where they are.
    pub(super) fn at(mut self, directory: &Path) -> Self {
        for it in &mut self.counterexamples {
            it.file = directory.join(&it.file).to_string_lossy().into_owned();
        }
        self
    }

    pub(super) fn decided(mut self, decided: Vec<u64>) -> Self {
        self.decided = decided;
        self
    }

    pub(super) fn confirmed(mut self, confirmed: Option<(String, Reproduction)>) -> Self {
        self.confirmation = confirmed.map(|(server, found)| ConfirmationReport {
            server,
            outcome: found.name(),
            why: found.why().map(str::to_owned),
        });
        self
    }

    /// For people.
    pub(super) fn text(&self, examples: &[Counterexample], terminal: &Terminal) -> String {
        let tried = format!("{} in {:.1} s", schedules(self.schedules), self.seconds);
        let undecided: u64 = self.stages.iter().map(|it| it.undecided).sum();
        let undecided = few(undecided, "undecided");
        let BoundsReport { clients, rounds, faults } = self.bounds;
        let clients = if clients == 2 { "2".to_owned() } else { format!("2 to {clients}") };
        let within = format!(
            "{clients} clients, {}, {}",
            up_to(u64::from(rounds), "round"),
            up_to(faults as u64, "fault"),
        );
        let verdict = match (self.ended, examples.first()) {
            (_, Some(nearest)) => format!(
                "verdict: violated ({}): {} after {tried}, with {}, {} steps\n",
                nearest.found.violation.level.name(),
                nearest.found.violation.invariant,
                nearest.found.candidate,
                nearest.steps()
            ),
            ("exhausted", None) => {
                format!(
                    "verdict: exhausted: {tried}, none violates anything{undecided}\nbounds: {within}\n{NOT_TRIED}"
                )
            }
            (INTERRUPTED, None) => {
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
                None => {
                    text +=
                        &format!("also {} violated: {}, in {}\n", it.level, it.invariant, it.file)
                }
            }
        }
        text += &self.explained();
        text += &verdict;
        if let Some(it) = &self.confirmation {
            let why = it.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            text += &format!("{} on {}{why}\n", it.outcome, it.server);
        }
        if let Some(it) = self.counterexamples.first() {
            let replay = Line::new().option("--scenario", &it.file).option("--world", "virtual");
            let replay = replay.option("--seed", &SEED.to_string());
            let picture = Path::new(&it.file).with_extension("png");
            text += &format!(
                "scenario: {}\npicture: {}\nreplay: {}\n",
                it.file,
                picture.display(),
                replay.text()
            );
        }
        text
    }

    /// By which fault the nearest is decided, where it takes any.
    fn explained(&self) -> String {
        let (Some(nearest), [calm, rest @ ..]) = (self.counterexamples.first(), &self.decided[..])
        else {
            return String::new();
        };
        if rest.is_empty() {
            return format!(
                "decided: in {calm} of {DRAWN} schedules with other latencies, and no fault\n"
            );
        }
        let with = rest
            .iter()
            .zip(&nearest.faults)
            .map(|(violated, fault)| format!(", {violated} with {fault}"));
        format!(
            "decided: with other latencies, {calm} of {DRAWN} schedules violate it without a fault{}\n",
            with.collect::<String>()
        )
    }
}

/// What the alphabet leaves out, for whoever reads that nothing was found.
const NOT_TRIED: &str = "not tried: servers that forget and servers whose clocks jump, which a lock that expires assumes away; \
                         two faults at one moment; durations other than a quarter of the TTL, one and a half, and until \
                         another has the lock\n";

/// One stage, as a line.
pub(super) fn stage(stage: &SearchStage) -> String {
    let SearchStage { size, faults, schedules, violating, undecided, vacuous, is_whole } = stage;
    let violate = if *violating == 0 { ", none violates anything" } else { "" };
    format!(
        "{size}, {}: {}{violate}{}{}{}{}",
        plural(*faults as u64, "fault"),
        self::schedules(*schedules),
        few(*violating, "violating something"),
        few(*undecided, "undecided"),
        few(*vacuous, "showing nothing"),
        if *is_whole { "" } else { ", ended early" }
    )
}

fn schedules(number: u64) -> String {
    format!("{} schedule{}", count(number), if number == 1 { "" } else { "s" })
}

/// How many of them did so, if any.
fn few(number: u64, what: &str) -> String {
    if number == 0 { String::new() } else { format!(", {} {what}", count(number)) }
}

fn plural(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn up_to(most: u64, what: &str) -> String {
    if most <= 1 { plural(most, what) } else { format!("up to {}", plural(most, what)) }
}

fn stage_report(stage: &SearchStage) -> StageReport {
    let SearchStage { size, faults, schedules, violating, undecided, vacuous, is_whole } = *stage;
    let (clients, rounds) = (size.clients, size.rounds);
    StageReport {
        clients,
        rounds,
        faults,
        schedules,
        violating,
        undecided,
        vacuous,
        whole: is_whole,
    }
}

fn example_report(example: &Counterexample) -> ExampleReport {
    let found = &example.found;
    ExampleReport {
        file: file_name(example),
        invariant: found.violation.invariant,
        level: found.violation.level.name(),
        clients: found.candidate.size.clients,
        rounds: found.candidate.size.rounds,
        faults: found.candidate.names(),
        steps: example.steps(),
    }
}
