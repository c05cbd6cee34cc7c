//! How a counterexample is written, confirmed and printed, by `explore` and by `shrink` alike.
//!
//! Invariant: a file whose name is printed exists. What cannot be written is printed without.

use explore::{Base, Counterexample, DRAWN, Reproduction, SEED};
use reports::directory::RunDirectory;
use reports::write::write_incident;
use serde::Serialize;

use super::args::RegressionArgs;
use super::failure::Failure;
use super::line::Line;
use super::{regressions, world};

/// A counterexample, for people and for machines.
#[derive(Debug, Serialize)]
pub(super) struct ExampleReport {
    /// Where it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Where its picture is.
    #[serde(skip)]
    picture: Option<String>,
    invariant: &'static str,
    level: &'static str,
    clients: u32,
    rounds: u32,
    faults: Vec<&'static str>,
    steps: usize,
    /// In how many of as many schedules it is violated: without a fault, with the first, and so on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    decided: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmation: Option<ConfirmationReport>,
    /// Where later runs find it.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
}

#[derive(Debug, Serialize)]
struct ConfirmationReport {
    server: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl ExampleReport {
    /// Writes the scenario and its picture, keeps it for later runs where that is asked for, and says what of this has
    /// failed first.
    pub(super) fn write(
        example: &Counterexample,
        directory: &RunDirectory,
        regressions: &RegressionArgs,
    ) -> (Self, Option<Failure>) {
        let found = &example.found;
        let invariant = found.violation.invariant;
        let place = |ending| {
            let path = directory.path().join(format!("{invariant}.{ending}"));
            path.to_string_lossy().into_owned()
        };
        let scenario = directory
            .write(&format!("{invariant}.toml"), |file| file.write_all(example.toml.as_bytes()));
        let picture = write_incident(directory, invariant, &example.history, &example.result);
        let kept = regressions
            .keep
            .then(|| regressions::keep(&regressions.directory.path, example))
            .transpose();
        let it = Self {
            file: scenario.is_ok().then(|| place("toml")),
            picture: picture.is_ok().then(|| place("png")),
            invariant,
            level: found.violation.level.name(),
            clients: found.candidate.size.clients,
            rounds: found.candidate.size.rounds,
            faults: found.candidate.names(),
            steps: example.steps(),
            decided: Vec::new(),
            confirmation: None,
            kept: kept
                .as_ref()
                .ok()
                .and_then(Option::as_ref)
                .map(|it| it.to_string_lossy().into_owned()),
        };
        let written = scenario.and(picture.map(drop)).map_err(Failure::unavailable);
        (it, written.and(kept.map(drop)).err())
    }

    /// Whether there is a scenario of it.
    pub(super) fn is_written(&self) -> bool {
        self.file.is_some()
    }

    /// Finds out which fault decides it.
    pub(super) fn decide(&mut self, base: &Base, example: &Counterexample) -> Result<(), Failure> {
        let decided = explore::explain(&mut world::simulated(false), base, &example.found);
        self.decided = decided?;
        Ok(())
    }

    /// Notes what a server has shown.
    pub(super) fn confirmed(&mut self, (server, found): (String, Reproduction)) {
        let why = found.why().map(str::to_owned);
        self.confirmation = Some(ConfirmationReport { server, outcome: found.name(), why });
    }

    /// A line for a counterexample whose story is not printed.
    pub(super) fn also(&self) -> String {
        let confirmed = self.confirmation.as_ref().map(|it| format!(" ({})", it.text()));
        let Self { level, invariant, file, .. } = self;
        let file = file.as_ref().map_or_else(String::new, |file| format!(", in {file}"));
        format!("also {level} violated: {invariant}{file}{}\n", confirmed.unwrap_or_default())
    }

    /// Which fault decides it, if that was asked for.
    pub(super) fn explained(&self) -> String {
        let [calm, rest @ ..] = &self.decided[..] else { return String::new() };
        if rest.is_empty() {
            return format!(
                "cause: no fault; {calm} of {DRAWN} schedules with varied latencies violate it\n"
            );
        }
        // Each row has the faults before it, too.
        let with = rest.iter().zip(&self.faults).enumerate().map(|(place, (violated, fault))| {
            let also = if place == 0 { "" } else { "also " };
            format!(", {violated} {also}with {fault}")
        });
        format!(
            "cause: of {DRAWN} schedules with varied latencies, {calm} violate it without a fault{}\n",
            with.collect::<String>()
        )
    }

    /// What a server has shown.
    pub(super) fn confirmation(&self) -> String {
        self.confirmation.as_ref().map_or_else(String::new, |it| format!("{}\n", it.text()))
    }

    /// Where it is, and what runs it again.
    pub(super) fn places(&self) -> String {
        let replay = |file: &String| {
            let line = Line::new().option("--scenario", file).option("--world", "virtual");
            line.option("--seed", SEED).text()
        };
        let places = [
            ("scenario", self.file.clone()),
            ("picture", self.picture.clone()),
            ("kept", self.kept.clone()),
            ("replay", self.file.as_ref().or(self.kept.as_ref()).map(replay)),
        ];
        let lines = places.into_iter().filter_map(|(name, it)| Some(format!("{name}: {}\n", it?)));
        lines.collect()
    }
}

impl ConfirmationReport {
    fn text(&self) -> String {
        let why = self.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        format!("{} on {}{why}", self.outcome, self.server)
    }
}
