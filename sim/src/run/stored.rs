//! A run as its directory has it.
//!
//! Invariant: files that do not belong to each other, or that another version wrote, are refused with the name of the file and
//! what to do.

use std::path::Path;

use history::History;
use reports::manifest::{self, Manifest};
use scenarios::result::{RunResult, SCHEMA};

use super::super::failure::Failure;
use super::super::input;

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
        let text = read(run, "history.jsonl")?;
        let history = history::read(text.as_bytes())
            .map_err(|error| unusable(run, "history.jsonl", &error.to_string()))?;
        let head = &history.head;
        let of_manifest = (&manifest.scenario, &manifest.lock, manifest.seed);
        for (name, of_file) in [
            ("result.json", (&result.scenario, &result.lock, result.seed)),
            ("history.jsonl", (&head.scenario, &head.lock, head.seed)),
        ] {
            if of_file != of_manifest {
                let why = format!(
                    "it is of {} with {} and seed {}, and the manifest of {} with {} and seed {}",
                    of_file.0, of_file.1, of_file.2, of_manifest.0, of_manifest.1, of_manifest.2
                );
                return Err(unusable(run, name, &why));
            }
        }
        Ok(Self { manifest, result, history })
    }
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
