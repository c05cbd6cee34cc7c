//! `picklock replay`: a schedule of the virtual world once more, compared byte for byte.
//!
//! Invariant: what differs is said, never ignored: another build, another scenario, an edited file.

use std::path::Path;
use std::sync::Arc;

use harness::world::{Run, RunRequest, World as _};
use reports::latency::Latencies;
use scenarios::judge::judge;
use scenarios::scenario::Scenario;

use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::terminal::Terminal;
use super::super::{print, world};
use super::stored::{manifest, read, unusable};
use super::{failed, report};
use virtual_world::WORLD;

/// Replays, compares, and says how picklock ends.
pub(crate) fn main(run: &Path, lua: bool, terminal: &Terminal) -> Result<Exit, Failure> {
    let manifest = manifest(run)?;
    if manifest.world != WORLD {
        return Err(Failure::usage_text(
            format!("this run was made in the {} world, which no replay repeats", manifest.world),
            format!("run it again under the same conditions: {}", manifest.replay),
        ));
    }
    let recorded = read(run, "history.jsonl")?;
    let head = history::read(recorded.as_bytes())
        .map_err(|error| unusable(run, "history.jsonl", &error.to_string()))?
        .head;
    let scenario = Scenario::from_json(manifest.scenario_as_run.clone())
        .map_err(|error| unusable(run, "manifest.json", &error.to_string()))?;
    let same = (head.scenario.as_str(), head.lock.as_str(), head.seed)
        == (scenario.name.as_str(), scenario.lock.recipe.as_str(), manifest.seed);
    if !same {
        let why = format!(
            "the manifest is of {} with {} and seed {}, and the history of {} with {} and seed {}",
            scenario.name, scenario.lock.recipe, manifest.seed, head.scenario, head.lock, head.seed
        );
        return Err(unusable(run, "manifest.json", &why));
    }
    let scenario = Arc::new(scenario);
    let request = RunRequest::new(Arc::clone(&scenario), manifest.seed);
    let again = world::simulated(lua).run(&request).map_err(failed)?;
    let mut bytes = Vec::new();
    history::write(&again.history, &mut bytes).map_err(Failure::internal)?;
    if let Some(line) = first_difference(recorded.as_bytes(), &bytes) {
        return Err(Failure::usage_text(
            format!("the replay differs from the recorded history, first in line {line}"),
            format!(
                "picklock {} wrote it and this is {}: a changed build or an edited file runs another \
                 schedule; check out the build that wrote it",
                manifest.picklock,
                env!("CARGO_PKG_VERSION")
            ),
        ));
    }
    let latencies = Latencies::of(&again.history).summaries();
    let again = Run { server: manifest.server, remarks: Vec::new(), ..again };
    let circumstances = again.circumstances(&scenario, manifest.replay, latencies);
    let result = judge(&again.history, circumstances);
    report::print(&super::super::output::HUMAN, &result, Some(run), terminal)?;
    print::results(&format!(
        "replayed: the same {} events, byte for byte\n",
        again.history.events.len()
    ))?;
    Ok(report::exit(&result, again.cut_short.as_ref()))
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
