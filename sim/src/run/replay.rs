//! `picklock replay`: a schedule of the virtual world once more, compared byte for byte.
//!
//! Invariant: a difference is reported, never ignored: another build, another scenario, an edited file.

use std::path::Path;
use std::sync::Arc;

use harness::world::{ChoicePlan, Run, RunRequest, World as _};
use reports::latency::Latencies;
use scenarios::judge::judge;

use super::{StoredSchedule, report};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::{output, print, world};

/// Replays, compares, and returns the exit code.
pub(crate) fn main(run: &Path, lua: bool, terminal: &Terminal) -> Result<Exit, Failure> {
    let stored = StoredSchedule::read(run)?;
    let scenario = Arc::new(stored.scenario.clone());
    let choices = stored.choices.clone().map_or(ChoicePlan::Drawn, ChoicePlan::Listed);
    let request = RunRequest { choices, ..RunRequest::new(Arc::clone(&scenario), stored.seed) };
    let again = world::simulated(lua).run(&request)?;
    stored.compare(&again.history)?;
    let latencies = Latencies::of(&again.history).summaries();
    let again = Run { server: stored.manifest.server, remarks: Vec::new(), ..again };
    let circumstances = again.circumstances(&scenario, stored.manifest.replay, latencies);
    let result = judge(&again.history, circumstances);
    report::print(&output::HUMAN, &result, None, Some(run), terminal)?;
    print::results(&format!(
        "replayed: the same {} events, byte for byte\n",
        again.history.events.len()
    ))?;
    Ok(Exit::of_run(&result, again.cut_short.as_ref()))
}
