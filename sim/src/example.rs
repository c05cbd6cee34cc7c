//! How a counterexample is written, confirmed and printed, by `explore` and by `shrink` alike.
//!
//! Invariant: a file whose name is printed exists.

use std::path::Path;

use explore::{Base, Counterexample, DRAWN, Reproduction, SEED};
use reports::directory::RunDirectory;
use reports::write::write_incident;
use serde::Serialize;

use super::args::RegressionArgs;
use super::failure::Failure;
use super::line::Line;
use super::{regressions, run, world};

/// A counterexample, for people and for machines.
#[derive(Debug, Serialize)]
pub(super) struct ExampleReport {
    file: String,
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
    /// Writes the scenario and its picture.
    pub(super) fn write(
        example: &Counterexample,
        directory: &RunDirectory,
    ) -> Result<Self, Failure> {
        let found = &example.found;
        let name = format!("{}.toml", found.violation.invariant);
        let written = directory.write(&name, |file| file.write_all(example.toml.as_bytes()));
        written.map_err(Failure::unavailable)?;
        write_incident(directory, found.violation.invariant, &example.history, &example.result)
            .map_err(Failure::unavailable)?;
        Ok(Self {
            file: directory.path().join(name).to_string_lossy().into_owned(),
            invariant: found.violation.invariant,
            level: found.violation.level.name(),
            clients: found.candidate.size.clients,
            rounds: found.candidate.size.rounds,
            faults: found.candidate.names(),
            steps: example.steps(),
            decided: Vec::new(),
            confirmation: None,
            kept: None,
        })
    }

    /// Finds out which fault decides it.
    pub(super) fn decide(&mut self, base: &Base, example: &Counterexample) -> Result<(), Failure> {
        let decided = explore::explain(&mut world::simulated(false), base, &example.found);
        self.decided = decided.map_err(run::failed)?;
        Ok(())
    }

    /// Notes what a server has shown.
    pub(super) fn confirmed(&mut self, (server, found): (String, Reproduction)) {
        let why = found.why().map(str::to_owned);
        self.confirmation = Some(ConfirmationReport { server, outcome: found.name(), why });
    }

    /// Keeps it for later runs, where that is asked for.
    pub(super) fn keep(
        &mut self,
        args: &RegressionArgs,
        example: &Counterexample,
    ) -> Result<(), Failure> {
        if args.keep {
            let kept = regressions::keep(&args.directory.path, example)?;
            self.kept = Some(kept.to_string_lossy().into_owned());
        }
        Ok(())
    }

    /// A line for a counterexample whose story is not printed.
    pub(super) fn also(&self) -> String {
        let confirmed = self.confirmation.as_ref().map(|it| format!(" ({})", it.text()));
        let Self { level, invariant, file, .. } = self;
        format!("also {level} violated: {invariant}, in {file}{}\n", confirmed.unwrap_or_default())
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
        let replay = Line::new().option("--scenario", &self.file).option("--world", "virtual");
        let replay = replay.option("--seed", &SEED.to_string()).text();
        let picture = Path::new(&self.file).with_extension("png");
        let kept = self.kept.as_ref().map_or_else(String::new, |it| format!("kept: {it}\n"));
        format!("scenario: {}\npicture: {}\n{kept}replay: {replay}\n", self.file, picture.display())
    }
}

impl ConfirmationReport {
    fn text(&self) -> String {
        let why = self.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        format!("{} on {}{why}", self.outcome, self.server)
    }
}
