//! A run as its directory has it.
//!
//! Invariant: files that do not belong to each other, or that another version wrote, are refused with the name of the file and
//! what to do.

use std::path::Path;

use history::{Head, History};
use reports::manifest::{self, Manifest};
use scenarios::result::{RunResult, SCHEMA};

use crate::failure::Failure;
use crate::input;

/// What other commands leave in their directories, and which command that is.
const OTHERS: [(&str, &str, &str); 3] = [
    ("attack.json", "attack", "report.html"),
    ("tune.json", "tune", "report.html"),
    ("compare.json", "report", "compare.html"),
];

/// A run as its directory has it.
pub(super) struct StoredRun {
    pub(super) manifest: Manifest,
    pub(super) result: RunResult,
    pub(super) history: History,
}

impl StoredRun {
    /// Reads a run whose files belong to each other.
    pub(super) fn read(run: &Path) -> Result<Self, Failure> {
        let manifest = manifest(run)?;
        let text = read(run, "result.json")?;
        let result: RunResult = serde_json::from_str(&text)
            .map_err(|error| unusable(run, "result.json", &error.to_string()))?;
        if result.schema != SCHEMA {
            let why =
                format!("its format is {:?}, and this picklock reads {SCHEMA:?}", result.schema);
            return Err(unusable(run, "result.json", &why));
        }
        let (_, history) = read_history(run, &manifest)?;
        let of_result = (&*result.scenario, &*result.lock, result.seed);
        refuse_of_another_run(run, "result.json", of_result, &manifest)?;
        Ok(Self { manifest, result, history })
    }
}

/// The history of the run with this manifest: as text, and parsed.
pub(super) fn read_history(run: &Path, manifest: &Manifest) -> Result<(String, History), Failure> {
    let text = read(run, "history.jsonl")?;
    let history = history::read(text.as_bytes())
        .map_err(|error| unusable(run, "history.jsonl", &error.to_string()))?;
    let Head { scenario, lock, seed, .. } = &history.head;
    refuse_of_another_run(run, "history.jsonl", (scenario, lock, *seed), manifest)?;
    Ok((text, history))
}

/// Refuses a file that is not of the scenario, recipe and seed of the manifest.
fn refuse_of_another_run(
    run: &Path,
    name: &str,
    (scenario, lock, seed): (&str, &str, u64),
    manifest: &Manifest,
) -> Result<(), Failure> {
    if (scenario, lock, seed) == (&*manifest.scenario, &*manifest.lock, manifest.seed) {
        return Ok(());
    }
    let why = format!(
        "it is of {scenario} with {lock} and seed {seed}, and the manifest of {} with {} and seed {}",
        manifest.scenario, manifest.lock, manifest.seed
    );
    Err(unusable(run, name, &why))
}

/// The manifest of a run.
pub(super) fn manifest(run: &Path) -> Result<Manifest, Failure> {
    if let Some((_, command, page)) = OTHERS.into_iter().find(|(name, ..)| run.join(name).exists())
    {
        return Err(Failure::usage_text(
            format!("{} is of `picklock {command}`, and no run", run.display()),
            format!("its page is {}; name the directory of a run", run.join(page).display()),
        ));
    }
    let text = read(run, "manifest.json")?;
    let manifest: Manifest = serde_json::from_str(&text)
        .map_err(|error| unusable(run, "manifest.json", &error.to_string()))?;
    if manifest.format != manifest::FORMAT {
        let why = format!(
            "its format is {:?}, and this picklock reads {:?}",
            manifest.format,
            manifest::FORMAT
        );
        return Err(unusable(run, "manifest.json", &why));
    }
    Ok(manifest)
}

/// The text of a file of the run.
pub(super) fn read(run: &Path, name: &str) -> Result<String, Failure> {
    let path = run.join(name);
    input::text(&path).map_err(|error| {
        Failure::usage_text(
            format!("cannot read {}: {error}", path.display()),
            "name the directory of a run, such as picklock-out/<scenario>/latest",
        )
    })
}

/// A file that is there, and is not what a run leaves.
pub(super) fn unusable(run: &Path, name: &str, why: &str) -> Failure {
    Failure::usage_text(
        format!("{} cannot be used: {why}", run.join(name).display()),
        "it is truncated, edited, or of another picklock; run the scenario again with its seed",
    )
}
