//! Builds the planted lock, runs it through the matrix, and says which errors were convicted.
//!
//! Invariant: before any error is tried, the same build without one holds in everything that is used. A conviction is
//! *violated* where a recipe without a known flaw is expected to hold; a run that shows nothing, or does
//! not end in time, convicts nobody.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::conviction::{Conviction, ErrorTrial, FoundMatrix, MatrixForm};
use super::page::{self, ErrorShare};
use super::sources::{self, PLANTED, PROFILE, PROGRAM};
use super::{PlantedError, PlantedFailure, errors, explored};
use crate::tree::Tree;

const CATALOGUE: &str = "scenarios/catalog/";
/// The page, with `--markdown`.
const PAGE: &str = "docs/planted.md";
const USAGE: &str = "usage: ci/planted [--explore] [NAME…], or ci/planted [--explore] --markdown, or ci/planted --check";
/// The most processor time that a run may take, in seconds: on a busy machine it may last longer.
const LIMIT: &str = "--cpu=60";
const AT_ONCE: usize = 2;
/// The same of those that wait for real servers.
const LIVE_AT_ONCE: usize = 4;
/// The share of the errors that do harm which has to be convicted, in per cent; of those that were written blind none has to be.
const LEAST: usize = 95;

/// `ci planted [--explore] [NAME…] [--markdown]`: exit code 0 where enough were convicted, 1 where not, 2 usage, 69 where
/// the bench could not be run. `ci planted --check`: 0 if the lock with all errors compiles, otherwise 69.
pub(crate) fn main(words: &[String]) -> ExitCode {
    let (options, names): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| word.starts_with('-'));
    let [writes, explores] =
        ["--markdown", "--explore"].map(|option| options.iter().any(|it| *it == option));
    let checks = words == ["--check"];
    if !checks
        && (options.len() > usize::from(writes) + usize::from(explores)
            || (writes && !names.is_empty()))
    {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let ended = if checks { check().map(|()| true) } else { run(&names, writes, explores) };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error @ PlantedFailure::NoSuchError(_)) => {
            eprintln!("planted: {error}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("planted: {error}");
            ExitCode::from(69)
        }
    }
}

/// Whether each error still fits the code around it.
fn check() -> Result<(), PlantedFailure> {
    let tree = Tree::load(".".as_ref()).map_err(PlantedFailure::read("."))?;
    sources::write(&tree, &errors(&tree)?)?;
    cargo(&["check", "--package", "picklock"])
}

fn run(names: &[&String], writes: bool, explores: bool) -> Result<bool, PlantedFailure> {
    let tree = Tree::load(".".as_ref()).map_err(PlantedFailure::read("."))?;
    let errors = errors(&tree)?;
    if let Some(name) = names.iter().find(|name| errors.iter().all(|error| error.name != ***name)) {
        return Err(PlantedFailure::NoSuchError((*name).clone()));
    }
    sources::write(&tree, &errors)?;
    cargo(&["build", "--profile", PROFILE, "--package", "sim"])?;
    let asked = |error: &&PlantedError| names.is_empty() || names.contains(&&error.name);
    if explores {
        let is_asked = |error: &&PlantedError| match names.is_empty() {
            true => explored::ERRORS.contains(&error.name()),
            false => asked(error),
        };
        return explored::run(&errors.iter().filter(is_asked).collect::<Vec<_>>(), writes);
    }
    let pairs: Vec<(&PlantedError, &str)> = errors
        .iter()
        .filter(asked)
        .flat_map(|error| error.recipes.iter().map(move |recipe| (error, &**recipe)))
        .collect();
    let recipes: BTreeSet<(&[MatrixForm], &str)> =
        pairs.iter().map(|(error, recipe)| (forms(error), *recipe)).collect();
    let recipes: Vec<(&[MatrixForm], &str)> = recipes.into_iter().collect();
    let sound =
        at_once(&recipes, |(forms, _)| is_live(forms), |(forms, recipe)| trial("", recipe, forms))?;
    for ((_, recipe), (found, endless, _)) in sound {
        if let Some(found) = found {
            let (scenario, form) = (&found.scenario, found.form.suffix());
            let what = format!("{recipe} at {} in {scenario}{form}", found.level());
            return Err(PlantedFailure::Sound(what));
        }
        if !endless.is_empty() {
            return Err(PlantedFailure::Program(format!("{recipe} without an error")));
        }
    }
    let began = now();
    let trials = at_once(
        &pairs,
        |(error, _)| is_live(forms(error)),
        |(error, recipe)| {
            let trial = trial(&error.name, recipe, forms(error));
            eprintln!(
                "{}: {recipe}: {}",
                error.name,
                match &trial {
                    Ok((Some(it), ..)) => format!("{} {} {}", it.scenario, it.level(), it.seeds),
                    Ok((None, ..)) => "not convicted".to_owned(),
                    Err(failed) => failed.to_string(),
                }
            );
            trial
        },
    )?;
    let trials: Vec<ErrorTrial<'_>> = trials
        .into_iter()
        .map(|(&(error, recipe), (found, endless, took))| ErrorTrial {
            error,
            recipe,
            found,
            endless,
            took,
        })
        .collect();
    let summary = page::summary(&trials, began.elapsed());
    let (ErrorShare { harmful, convicted }, _) = page::shares(&trials);
    if writes {
        fs::write(PAGE, page::page(&trials)).map_err(PlantedFailure::read(PAGE))?;
    }
    println!("{}\n{summary}", page::tables(&trials));
    Ok(convicted * 100 >= harmful * LEAST)
}

fn cargo(words: &[&str]) -> Result<(), PlantedFailure> {
    let manifest = format!("{PLANTED}/Cargo.toml");
    let status = Command::new("cargo")
        .args(words)
        .args(["--locked", "--manifest-path", &manifest])
        .args(["--target-dir", &format!("{PLANTED}/build")])
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(PlantedFailure::Program(format!("cargo {} of the planted lock", words[0]))),
    }
}

#[expect(clippy::disallowed_methods, reason = "how long the bench takes is for the reader alone")]
fn now() -> Instant {
    Instant::now()
}

/// Does `work` with each of these, some at a time. Those that wait for real servers leave the processor to the others.
fn at_once<T: Sync, R: Send>(
    all: &[T],
    waits: impl Fn(&T) -> bool + Copy + Send,
    work: impl Fn(&T) -> Result<R, PlantedFailure> + Sync,
) -> Result<Vec<(&T, R)>, PlantedFailure> {
    let those = |live| all.iter().enumerate().filter(move |(_, one)| waits(one) == live);
    let lines = [(Mutex::new(those(true)), LIVE_AT_ONCE), (Mutex::new(those(false)), AT_ONCE)];
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (line, many) in &lines {
            for _ in 0..*many {
                scope.spawn(|| {
                    while let Some((place, one)) = { locked(line).next() } {
                        let result = work(one);
                        locked(&done).push((place, one, result));
                    }
                });
            }
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, ..)| *place);
    done.into_iter().map(|(_, one, result)| Ok((one, result?))).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Found = (Option<Conviction>, BTreeSet<String>, Duration);

/// Where an error is tried. What leads to a real server stands only in the live worlds.
fn forms(error: &PlantedError) -> &'static [MatrixForm] {
    match error.edit.iter().any(|edit| edit.file.starts_with("tokio_env")) {
        true => &[MatrixForm::Embedded],
        false => &[MatrixForm::Staged, MatrixForm::Searched],
    }
}

fn is_live(forms: &[MatrixForm]) -> bool {
    forms == [MatrixForm::Embedded]
}

/// One form after the other, until one convicts.
fn trial(error: &str, recipe: &str, forms: &[MatrixForm]) -> Result<Found, PlantedFailure> {
    let began = now();
    let mut endless = BTreeSet::new();
    let mut found = None;
    for form in forms {
        found = matrix(error, recipe, *form, &mut endless)?;
        if found.is_some() {
            break;
        }
    }
    Ok((found, endless, began.elapsed()))
}

/// All scenarios at once; where they do not end, each for itself.
fn matrix(
    error: &str,
    recipe: &str,
    form: MatrixForm,
    endless: &mut BTreeSet<String>,
) -> Result<Option<Conviction>, PlantedFailure> {
    let files = catalogue(form)?;
    if let Some(matrix) = scenarios(error, recipe, form, &files.join(","))? {
        return Ok(Conviction::of(&matrix, form));
    }
    let mut found = None;
    for file in files {
        match scenarios(error, recipe, form, &file)? {
            Some(matrix) => found = found.into_iter().chain(Conviction::of(&matrix, form)).min(),
            None => {
                let name = file.trim_start_matches(CATALOGUE).trim_end_matches(".toml");
                endless.insert(name.to_owned());
            }
        }
    }
    Ok(found)
}

/// The files of the scenarios; for searched forms, of those that have one.
fn catalogue(form: MatrixForm) -> Result<Vec<String>, PlantedFailure> {
    let mut files = Vec::new();
    for file in fs::read_dir(CATALOGUE).map_err(PlantedFailure::read(CATALOGUE))? {
        let name = file.map_err(PlantedFailure::read(CATALOGUE))?.file_name();
        let path = format!("{CATALOGUE}{}", name.to_string_lossy());
        let text = fs::read_to_string(&path).map_err(PlantedFailure::read(&path))?;
        if form != MatrixForm::Searched
            || !text.lines().any(|line| line.starts_with("unsearched = "))
        {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// What `picklock matrix` found; none where it did not end, or not in time.
fn scenarios(
    error: &str,
    recipe: &str,
    form: MatrixForm,
    files: &str,
) -> Result<Option<FoundMatrix>, PlantedFailure> {
    let out = format!("{PLANTED}/{error}-{recipe}-{form:?}.json");
    let mut command = Command::new("prlimit");
    command.args([LIMIT, PROGRAM]);
    command.args(["matrix", "--quiet", "--progress", "off", "--threads", "1", "--lock", recipe]);
    command.args(["--scenario", files, "--format", &format!("json={out}")]);
    command.args(form.options());
    let _ = fs::remove_file(&out);
    command.env("PICKLOCK_PLANTED", error).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map_err(PlantedFailure::read("prlimit"))?;
    // Neither a run that was ended nor one that panicked has written anything.
    let Ok(text) = fs::read_to_string(&out) else { return Ok(None) };
    let _ = fs::remove_file(&out);
    let failed = || PlantedFailure::Program(format!("PICKLOCK_PLANTED={error} picklock matrix"));
    serde_json::from_str(&text).map(Some).map_err(|_| failed())
}
