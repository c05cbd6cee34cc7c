//! Counterexamples that are kept: every later run of their recipe runs them first.
//!
//! Invariant: a file is added only when the user asks for it, and never replaced. What a file shows is compared with
//! its own `[[expect]]`: so the same file shows an error until it is fixed, and guards the fix from then on.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use explore::{Counterexample, SEED};
use harness::matrix::shown;
use history::verdict::{Level, Outcome};
use reports::file;
use scenarios::scenario::Overrides;

use super::args::{RegressionArgs, RegressionDirectory};
use super::failure::Failure;
use super::terminal::Terminal;
use super::{input, load, print, world};

/// How many files of one name are kept beside each other.
const NAMES: u32 = 99;

/// The result of the files of a recipe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Regressions {
    /// The nearest level at which a file violates what it expects to hold.
    pub(super) broken: Option<Level>,
    /// Whether a file violates no more what it expects to be violated.
    pub(super) stale: bool,
}

/// Runs the files of this recipe, and prints their result in a line. `asked` is the user's own scenario, which is run
/// anyway.
pub(super) fn first(
    kept: &RegressionDirectory,
    lock: &str,
    asked: Option<&OsStr>,
    terminal: &Terminal,
) -> Result<Regressions, Failure> {
    let mut found = Regressions::default();
    let [mut violate, mut hold] = [0, 0];
    for path in files(&kept.path)? {
        let is_asked = asked.is_some_and(|asked| {
            fs::canonicalize(asked)
                .is_ok_and(|it| fs::canonicalize(&path).is_ok_and(|path| path == it))
        });
        let scenario = Arc::new(load::parsed(path.as_os_str(), &Overrides::default())?);
        if scenario.lock.recipe != lock || is_asked {
            continue;
        }
        let mut simulated = world::simulated(false);
        let (shows, _) = shown(&mut simulated, &scenario, SEED)?;
        let levels = || Level::ALL.into_iter().zip(shows);
        let is = |level, outcome| scenario.expected(lock, level) == outcome;
        let broken = levels()
            .find(|(level, shown)| *shown == Outcome::Violated && is(*level, Outcome::Held));
        let stale = levels()
            .find(|(level, shown)| *shown != Outcome::Violated && is(*level, Outcome::Violated));
        match (broken, stale) {
            (Some((level, _)), _) => {
                let nearest = found.broken.map_or(level, |it| it.min(level));
                found.broken = Some(nearest);
                print::note(&format!(
                    "regression: {} is violated again in {}",
                    level.name(),
                    path.display()
                ));
            }
            (None, Some((level, shown))) => {
                found.stale = true;
                print::note(&format!(
                    "stale: {} expects {} to be violated, and it is {}: if {lock} was mended, expect it to be held, \
                     and the file guards the mend; else remove the file",
                    path.display(),
                    level.name(),
                    shown.name()
                ));
            }
            (None, None) if shows.contains(&Outcome::Violated) => violate += 1,
            (None, None) => hold += 1,
        }
    }
    let says = |count: u32, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let lines = [says(violate, "still violated"), says(hold, "still held")];
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    if !lines.is_empty() && !terminal.options.quiet {
        let directory = kept.path.display();
        print::note(&format!("{lock} in {directory}, run first: {}", lines.join(", ")));
    }
    Ok(found)
}

/// Every scenario of the directory, by name; none if there is no such directory.
fn files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let refused = |error: std::io::Error| {
        Failure::usage_text(
            format!("cannot read {}: {error}", directory.display()),
            "name a directory with --regressions DIR, or remove what is in its place",
        )
    };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(refused)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(refused)?.path();
        if path.extension() == Some(OsStr::new("toml")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Checks before any search whether what is found can be kept, if that is asked for.
pub(super) fn check(args: &RegressionArgs) -> Result<(), Failure> {
    if !args.keep {
        return Ok(());
    }
    let path = &args.directory.path;
    // Directories that are missing are made in the nearest that is there.
    let there = path.ancestors().find(|it| it.exists()).unwrap_or(Path::new("."));
    file::check(&there.join("trial.toml"))
        .map_err(|error| Failure::unwritable(path, &error, "--regressions"))
}

/// Keeps a counterexample there, beside those of the same name; returns its path. The same one is not kept twice.
pub(super) fn keep(directory: &Path, example: &Counterexample) -> Result<PathBuf, Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::unavailable_text(
            format!("cannot write {}: {error}", path.display()),
            "name another directory with --regressions DIR",
        )
    };
    fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let name = &example.scenario.name;
    let mut path = directory.join(format!("{name}.toml"));
    for nth in 2..=NAMES {
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(example.toml.as_bytes()).map_err(|error| failed(&path, error))?;
                return Ok(path);
            }
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(failed(&path, error));
            }
            Err(_) if input::text(&path).is_ok_and(|text| text == example.toml) => {
                return Ok(path);
            }
            Err(_) => path = directory.join(format!("{name}-{nth}.toml")),
        }
    }
    Err(failed(&path, ErrorKind::AlreadyExists.into()))
}
