//! The workspace under `target/`, whose `core` has the errors.
//!
//! Invariant: everything but the sources of `core` is a link to the workspace itself, and a file that has not
//! changed is not written, so cargo builds again only what has to be.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::rewrite::{EditPlace, ErrorChoice, locate, rewrite};
use super::{CORE, PlantedError, PlantedFailure};
use crate::tree::Tree;

pub(super) const PLANTED: &str = "target/planted";
/// How the planted lock is built.
pub(super) const PROFILE: &str = "quick";
/// The binary with the planted lock.
pub(super) const PROGRAM: &str = "target/planted/build/quick/picklock";
/// The module that chooses, to be filled in.
const MODULE: &str = include_str!("../../planted-errors/planted.rs.in");
/// Where a script comes to its text, and what makes it the planted one.
const SCRIPT: &str = "Self { text, sha1:";
const PLANTED_SCRIPT: &str = "let text = crate::planted::script(text);\n        Self { text, sha1:";

/// Writes them.
///
/// # Errors
/// [`PlantedFailure::Entry`] for an error whose place is not found, and [`PlantedFailure::Read`].
pub(super) fn write(tree: &Tree, errors: &[PlantedError]) -> Result<(), PlantedFailure> {
    link_all(".", PLANTED, "../..", &["core", "target", ".git"])?;
    link_all("core", &format!("{PLANTED}/core"), "../../../core", &["src"])?;
    let mut scripts = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.starts_with(CORE)) {
        let mut choices = Vec::new();
        for (number, error) in errors.iter().enumerate() {
            let stale =
                |what| PlantedFailure::Entry { path: error.path(), name: error.name.clone(), what };
            for edit in error.edit.iter().filter(|edit| edit.path() == file.path) {
                let rust = file.rust().ok_or_else(|| stale(format!("{} is no Rust", file.path)))?;
                match locate(&file.text, rust, edit).map_err(stale)? {
                    EditPlace::Code(range) => {
                        choices.push(ErrorChoice { range, number, replace: &edit.replace });
                    }
                    EditPlace::Script => scripts.push((number, &edit.find, &edit.replace)),
                }
            }
        }
        let entry = |what| PlantedFailure::Entry {
            path: file.path.clone(),
            name: "the planted copy".to_owned(),
            what,
        };
        let mut text = rewrite(&file.text, choices).map_err(entry)?;
        match file.path.strip_prefix(CORE) {
            // What the errors leave unused is no reason for a warning.
            Some("lib.rs") => text = format!("#![allow(warnings)]\n{text}\nmod planted;\n"),
            Some("script.rs") if text.contains(SCRIPT) => {
                text = text.replacen(SCRIPT, PLANTED_SCRIPT, 1);
            }
            Some("script.rs") => return Err(entry(format!("it has no `{SCRIPT}`"))),
            _ => {}
        }
        write_changed(&format!("{PLANTED}/{}", file.path), &text)?;
    }
    let names: Vec<&str> = errors.iter().map(|error| &*error.name).collect();
    let module = MODULE
        .replace("NAMES_HERE", &format!("{names:?}"))
        .replace("SCRIPTS_HERE", &format!("{scripts:?}"));
    write_changed(&format!("{PLANTED}/{CORE}planted.rs"), &module)
}

/// Links everything in `from`, but for `except`, into `to`, from where `back` leads to `from`.
fn link_all(from: &str, to: &str, back: &str, except: &[&str]) -> Result<(), PlantedFailure> {
    fs::create_dir_all(to).map_err(PlantedFailure::read(to))?;
    for entry in fs::read_dir(from).map_err(PlantedFailure::read(from))? {
        let name = entry.map_err(PlantedFailure::read(from))?.file_name();
        let Some(name) = name.to_str().filter(|name| !except.contains(name)) else { continue };
        match symlink(format!("{back}/{name}"), Path::new(to).join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(PlantedFailure::Read { path: format!("{to}/{name}"), error });
            }
            _ => {}
        }
    }
    Ok(())
}

fn write_changed(path: &str, text: &str) -> Result<(), PlantedFailure> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if let Some(dir) = Path::new(path).parent() {
        fs::create_dir_all(dir).map_err(PlantedFailure::read(path))?;
    }
    fs::write(path, text).map_err(PlantedFailure::read(path))
}
