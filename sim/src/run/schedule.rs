//! A run of the virtual world as it was stored: what is needed to run its schedule once more.
//!
//! Invariant: a difference from the stored schedule is reported, never ignored: another build, another scenario, an
//! edited file.

use std::path::Path;
use std::sync::Arc;

use explore::DrawnSchedule;
use harness::world::World as _;
use history::History;
use reports::directory::RunDirectory;
use reports::latency::Latencies;
use reports::manifest::Manifest;
use reports::write::write_all;
use scenarios::judge::judge;
use scenarios::scenario::Scenario;
use virtual_world::WORLD;

use super::stored::{manifest, read, read_history, unusable};
use crate::failure::Failure;
use crate::line::Line;
use crate::world;

/// The choices of a schedule that no seed draws.
const CHOICES: &str = "choices.json";

/// A stored run, to be run once more.
pub(crate) struct StoredSchedule {
    pub(crate) manifest: Manifest,
    recorded: String,
    pub(crate) scenario: Scenario,
    pub(crate) seed: u64,
    /// Its choices, if they do not follow from the seed.
    pub(crate) choices: Option<Arc<[u32]>>,
}

impl StoredSchedule {
    /// Reads it.
    pub(crate) fn read(run: &Path) -> Result<Self, Failure> {
        let manifest = manifest(run)?;
        if manifest.world != WORLD {
            return Err(Failure::usage_text(
                format!(
                    "this run was made in the {} world, and only runs of the virtual world can be \
                     replayed or shrunk",
                    manifest.world
                ),
                format!(
                    "make one with --world virtual, or run the same conditions again: {}",
                    manifest.replay
                ),
            ));
        }
        let (recorded, _) = read_history(run, &manifest)?;
        let scenario = Scenario::from_json(manifest.scenario_as_run.clone())
            .map_err(|error| unusable(run, "manifest.json", &error.to_string()))?;
        let choices = match manifest.files.iter().any(|it| it == CHOICES) {
            true => {
                let listed = serde_json::from_str::<Vec<u32>>(&read(run, CHOICES)?);
                Some(listed.map_err(|error| unusable(run, CHOICES, &error.to_string()))?.into())
            }
            false => None,
        };
        let seed = manifest.seed;
        Ok(Self { manifest, recorded, scenario, seed, choices })
    }

    /// Refuses a history that is not byte for byte the recorded one.
    pub(crate) fn compare(&self, again: &History) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        history::write(again, &mut bytes).map_err(Failure::internal)?;
        let Some(line) = first_difference(self.recorded.as_bytes(), &bytes) else { return Ok(()) };
        Err(Failure::usage_text(
            format!("the replay differs from the recorded history, first in line {line}"),
            format!(
                "picklock {} wrote it and this is {}: a changed build or an edited file runs another \
                 schedule; check out the build that wrote it",
                self.manifest.picklock,
                env!("CARGO_PKG_VERSION")
            ),
        ))
    }

    /// Writes a schedule that this one was shrunk to as a run, which `replay` repeats; returns the replay line.
    pub(crate) fn write_choices(
        &self,
        schedule: &DrawnSchedule,
        directory: &RunDirectory,
    ) -> Result<String, Failure> {
        let scenario = &schedule.scenario;
        let run = world::simulated(false).run(&schedule.request())?;
        let place = directory.path().to_string_lossy();
        let replay = Line::new().word("replay").argument(&place).text();
        let latencies = Latencies::of(&run.history);
        let circumstances = run.circumstances(scenario, replay.clone(), latencies.summaries());
        let result = judge(&run.history, circumstances);
        let manifest = Manifest {
            scenario_as_run: serde_json::to_value(&**scenario).unwrap_or_default(),
            seed: schedule.seed,
            replay: replay.clone(),
            files: vec![CHOICES.to_owned()],
            ..self.manifest.clone()
        };
        let choices = serde_json::to_string(&schedule.choices[..]).map_err(Failure::internal)?;
        let written = directory.write(CHOICES, |out| writeln!(out, "{choices}"));
        written.map_err(Failure::unavailable)?;
        write_all(directory, &result, &run.history, &latencies, &manifest, &[])
            .map_err(Failure::unavailable)?;
        Ok(replay)
    }
}

/// The first line, from 1, in which two texts differ.
fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    if one == other {
        return None;
    }
    let mut lines = (1..).zip(one.split(|byte| *byte == b'\n'));
    let mut others = other.split(|byte| *byte == b'\n');
    lines.find(|(_, line)| others.next() != Some(line)).map(|(number, _)| number).or(Some(1))
}
