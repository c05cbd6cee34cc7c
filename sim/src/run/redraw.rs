//! `picklock report`: draws a run again from its directory, or compares several.
//!
//! Invariant: the directories that are read stay as they are; all of them are read and understood before anything is
//! written, and what is written lies in a directory of its own.

use std::path::{Path, PathBuf};

use reports::compared::ComparedRun;
use reports::html::compare_page;
use reports::latency::Latencies;
use reports::manifest::Manifest;
use reports::write::write_all;
use scenarios::result::RunResult;
use serde::Serialize;

use super::directory;
use super::report::{self, finish};
use super::stored::StoredRun;
use crate::args::ReportArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::{input, output, print};

/// The version of the format.
const SCHEMA: &str = "picklock/compare/1";

/// `compare.json`.
#[derive(Serialize)]
struct StoredComparison<'a> {
    schema: &'static str,
    runs: Vec<StoredResult<'a>>,
}

/// What a run found, and where that is stored.
#[derive(Serialize)]
struct StoredResult<'a> {
    directory: &'a str,
    result: &'a RunResult,
}

/// Reads, draws, and prints where the result is.
pub(crate) fn main(args: &ReportArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let runs = args.runs.iter().map(|run| StoredRun::read(run)).collect::<Result<Vec<_>, _>>()?;
    let seed = runs[0].manifest.seed;
    let logs = server_logs(&args.runs[0], &runs[0].manifest)?;
    let directory = directory(&args.out, "report", seed)?;
    let path = directory.path().to_owned();
    if let [StoredRun { manifest, result, history }] = &runs[..] {
        let manifest = Manifest { files: Vec::new(), ..manifest.clone() };
        let latencies = Latencies::of(history);
        write_all(&directory, result, history, &latencies, &manifest, &logs)
            .map_err(Failure::unavailable)?;
        finish(directory);
        report::print(&output::HUMAN, result, None, Some(&path), terminal)?;
        return Ok(Exit::Held);
    }
    let compared: Vec<ComparedRun> =
        args.runs.iter().zip(runs).map(|(run, it)| compared(run, it)).collect();
    let page = compare_page(&compared).map_err(Failure::internal)?;
    let stored =
        compared.iter().map(|it| StoredResult { directory: &it.directory, result: &it.result });
    let comparison = StoredComparison { schema: SCHEMA, runs: stored.collect() };
    let json = output::json_text(&comparison)?;
    for (name, text) in [("compare.json", &json), ("compare.html", &page)] {
        directory
            .write(name, |out| out.write_all(text.as_bytes()))
            .map_err(Failure::unavailable)?;
    }
    finish(directory);
    let mut text = reports::terminal::compared(&compared);
    text += &format!("report: {}/compare.html\n", path.display());
    print::results(&text)?;
    Ok(Exit::Held)
}

fn compared(run: &Path, StoredRun { manifest, result, history }: StoredRun) -> ComparedRun {
    let directory = run.to_string_lossy().into_owned();
    ComparedRun { directory, result, manifest, latencies: Latencies::of(&history) }
}

/// The logs of servers, which cannot be made again.
fn server_logs(run: &Path, manifest: &Manifest) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let is_log = |name: &&String| {
        Path::new(name).extension().is_some_and(|it| it == "log") && !name.contains('/')
    };
    let logs = manifest.files.iter().filter(is_log).map(|name| {
        let path: PathBuf = run.join(name);
        let log = input::bytes(&path).map_err(|error| {
            let message = format!("cannot read {}: {error}", path.display());
            Failure::usage_text(
                message,
                "the run's manifest names it: put it back, or remove it from its `files`",
            )
        });
        Ok((name.clone(), log?))
    });
    logs.collect()
}
