//! The rules of the house that neither rustc nor clippy knows: one check a file, all run over the
//! workspace of the current directory.
//!
//! Invariants: a check reads only the files and the metadata it is given, so its tests need no
//! repository. A workspace in which nothing was found to check is an error, never tidy.

mod apis;
mod cycles;
mod dependencies;
mod heads;
mod length;
mod manifests;
mod names;
mod pages;
mod planted;
mod type_names;
mod wiring;
mod words;

use std::{fmt, io};

use cargo_metadata::{Metadata, MetadataCommand};

use crate::tree::Tree;

/// One thing to put right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Diagnostic {
    /// From the root of the workspace.
    path: String,
    /// Counted from 1.
    line: usize,
    /// What is wrong, and what to do.
    what: String,
}

impl Diagnostic {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

/// As editors expect it.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// What all checks said.
pub(crate) struct TidyReport {
    /// What must be put right, in the order of files and lines.
    pub(crate) findings: Vec<Diagnostic>,
    /// What may be worth a look.
    pub(crate) notes: Vec<Diagnostic>,
    /// How many files were looked at.
    pub(crate) files: usize,
}

/// Why the workspace could not be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TidyError {
    #[error("cargo metadata failed; run it to see why: {0}")]
    Metadata(#[from] cargo_metadata::Error),
    #[error("the workspace at {root} could not be read: {error}")]
    Read { root: String, error: io::Error },
    #[error("no Rust file under {0}; run tidy inside the workspace")]
    Empty(String),
}

/// Checks the workspace around the current directory.
///
/// # Errors
/// Where it cannot be read, or there is nothing in it to check.
pub(crate) fn workspace() -> Result<TidyReport, TidyError> {
    let metadata = MetadataCommand::new().no_deps().exec()?;
    let root = &metadata.workspace_root;
    let tree = Tree::load(root.as_std_path())
        .map_err(|error| TidyError::Read { root: root.to_string(), error })?;
    if tree.rust().next().is_none() {
        return Err(TidyError::Empty(root.to_string()));
    }
    Ok(check(&tree, &metadata))
}

fn check(tree: &Tree, metadata: &Metadata) -> TidyReport {
    let mut findings = [
        broken(tree),
        dependencies::check(tree, metadata),
        manifests::check(tree),
        length::check(tree),
        wiring::check(tree),
        heads::check(tree),
        names::check(tree),
        words::check(tree),
        apis::check(tree),
        cycles::check(tree),
        type_names::check(tree),
        pages::check(tree),
        planted::check(tree),
    ]
    .concat();
    findings.sort();
    findings.dedup();
    TidyReport { findings, notes: length::notes(tree), files: tree.files.len() }
}

/// Finds Rust files that are none.
fn broken(tree: &Tree) -> Vec<Diagnostic> {
    let errors =
        tree.files.iter().filter_map(|file| Some((file, file.read.as_ref()?.as_ref().err()?)));
    let findings = errors.map(|(file, error)| {
        let what = format!("not readable as Rust: {error}");
        Diagnostic::new(&file.path, error.span().start().line, what)
    });
    findings.collect()
}

/// What one check says of a tree of these files.
#[cfg(test)]
fn findings<P: Into<String>, T: Into<String>>(
    check: impl Fn(&Tree) -> Vec<Diagnostic>,
    files: impl IntoIterator<Item = (P, T)>,
) -> Vec<Diagnostic> {
    let tree = Tree::new(files);
    // A check passes by what cannot be read, so a slip in a test's code would look like a pass.
    assert_eq!(broken(&tree), []);
    check(&tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_rust_is_found() {
        let said = broken(&Tree::new([("a.rs", "fn f() {}\n\"fn")]));
        let expected = "a.rs:2: not readable as Rust: cannot parse string into token stream";
        assert_eq!(said[0].to_string(), expected);
    }
}
