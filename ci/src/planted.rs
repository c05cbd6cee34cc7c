//! Errors planted in the shipped lock, one at a time, to see that the scenarios convict them.
//!
//! Invariant: the shipped lock contains none of them. They are data (`ci/planted-errors/*.toml`), and a copy of
//! `core` under `target/` has them all; the variable `PICKLOCK_PLANTED` chooses one at run time, so the
//! copy is built once.

mod bench;
mod conviction;
mod explored;
mod page;
mod rewrite;
mod sources;

use std::io;

use serde::Deserialize;

use crate::tree::{File, Tree};

pub(crate) use bench::main;
pub(crate) use rewrite::locate;

/// Where the errors are, a file for each class.
const ERRORS: &str = "ci/planted-errors/";
/// Where the code is that they change.
const CORE: &str = "core/src/";

/// An error that could be in the lock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlantedError {
    name: String,
    /// The file it stands in, without the ending.
    #[serde(skip)]
    class: String,
    /// What is wrong, and who did it so.
    what: String,
    /// The recipes whose code it is.
    recipes: Vec<String>,
    /// Why it harms nobody.
    harmless: Option<String>,
    /// What would have to be added for it to be convicted, where it is not.
    missing: Option<String>,
    edit: Vec<Edit>,
}

/// A place in the lock, and what stands there with the error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// In `core/src`.
    file: String,
    /// An expression; or a statement, which ends with `;` or `}`; or a part of a script's text.
    find: String,
    /// The same kind of thing.
    replace: String,
    /// A text that occurs once in the file, where `find` alone does not.
    within: Option<String>,
}

/// Why there is no bench.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlantedFailure {
    #[error("{path}: {error}")]
    Read { path: String, error: io::Error },
    #[error("{path}: {error}")]
    Toml { path: String, error: toml::de::Error },
    #[error("{path}: {name}: {what}")]
    Entry { path: String, name: String, what: String },
    #[error("{0} did not run to its end; run it to see why")]
    Program(String),
    #[error(
        "the lock without an error is convicted, {0}: a scenario or a checker is wrong; in real time it may be that the \
         machine was busy: try again with nothing beside it"
    )]
    Sound(String),
    #[error("no planted error is called {0:?}; the names are in {ERRORS}")]
    NoSuchError(String),
}

impl PlantedFailure {
    fn read(path: &str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Read { path: path.to_owned(), error }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorFile {
    error: Vec<PlantedError>,
}

impl PlantedError {
    /// The file that it stands in.
    pub(crate) fn path(&self) -> String {
        format!("{ERRORS}{}.toml", self.class)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn edits(&self) -> &[Edit] {
        &self.edit
    }
}

impl Edit {
    /// The file that it changes, from the root of the workspace.
    pub(crate) fn path(&self) -> String {
        format!("{CORE}{}", self.file)
    }
}

/// All errors, in the order of their files.
///
/// # Errors
/// [`PlantedFailure::Toml`], and [`PlantedFailure::Entry`] for a name that is used twice.
pub(crate) fn errors(tree: &Tree) -> Result<Vec<PlantedError>, PlantedFailure> {
    let mut errors: Vec<PlantedError> = Vec::new();
    let is_ours = |file: &&File| file.path.starts_with(ERRORS) && file.name().ends_with(".toml");
    for file in tree.files.iter().filter(is_ours) {
        let path = file.path.clone();
        let read: ErrorFile = toml::from_str(&file.text)
            .map_err(|error| PlantedFailure::Toml { path: path.clone(), error })?;
        for mut error in read.error {
            let name = error.name.clone();
            if errors.iter().any(|it| it.name == name) {
                let what = "the name is used twice".to_owned();
                return Err(PlantedFailure::Entry { path, name, what });
            }
            file.stem().clone_into(&mut error.class);
            errors.push(error);
        }
    }
    Ok(errors)
}
