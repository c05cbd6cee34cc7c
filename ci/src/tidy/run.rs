//! Runs every check over the workspace of the current directory.
//!
//! Invariant: a workspace in which nothing was found to check is an error, never tidy.

use std::io;

use cargo_metadata::{Metadata, MetadataCommand};

use super::diagnostic::Diagnostic;
use super::tree::Tree;
use super::{
    apis, cycles, dependencies, heads, length, manifests, names, pages, type_names, wiring, words,
};

/// What all checks said.
#[derive(Clone, Debug, Default)]
pub struct TidyReport {
    /// What must be put right, in the order of files and lines.
    pub findings: Vec<Diagnostic>,
    /// What may be worth a look.
    pub notes: Vec<Diagnostic>,
    /// How many files were looked at.
    pub files: usize,
}

/// Why the workspace could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `cargo metadata` failed.
    #[error("cargo metadata failed; run it to see why: {0}")]
    Metadata(#[from] cargo_metadata::Error),
    /// A file could not be read.
    #[error("the workspace at {root} could not be read: {error}")]
    Read {
        /// The root of the workspace.
        root: String,
        /// What went wrong.
        error: io::Error,
    },
    /// There is no Rust under the root.
    #[error("no Rust file under {0}; run tidy inside the workspace")]
    Empty(String),
}

/// Checks the workspace around the current directory.
///
/// # Errors
/// Where it cannot be read, or there is nothing in it to check.
pub fn workspace() -> Result<TidyReport, Error> {
    let metadata = MetadataCommand::new().no_deps().exec()?;
    let root = &metadata.workspace_root;
    let tree = Tree::load(root.as_std_path())
        .map_err(|error| Error::Read { root: root.to_string(), error })?;
    if tree.rust().next().is_none() {
        return Err(Error::Empty(root.to_string()));
    }
    Ok(check(&tree, &metadata))
}

/// Runs every check over a tree and its metadata.
pub fn check(tree: &Tree, metadata: &Metadata) -> TidyReport {
    let mut findings = [
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
    ]
    .concat();
    findings.sort();
    findings.dedup();
    TidyReport { findings, notes: length::notes(tree), files: tree.files.len() }
}

#[cfg(test)]
mod tests {
    use cargo_metadata::MetadataCommand;

    use super::*;

    /// One breach of each check; so a check left out of the list is noticed.
    #[test]
    fn every_check_is_run() {
        let long = format!("//! A long file indeed.\n{}", "\n".repeat(600));
        let tree = Tree::new([
            ("core/Cargo.toml", "[package]\n"),
            ("core/src/long.rs", long.as_str()),
            ("core/src/lib.rs", "//! A library with logic.\nfn f() { println!(\"\"); }"),
            ("core/src/bare.rs", ""),
            ("core/src/a.rs", "//! One of a cycle.\nuse crate::b::B;\nstruct Twice;"),
            ("core/src/b.rs", "//! The other of it.\nuse crate::a::A;\nstruct Twice;"),
            ("core/src/word.rs", concat!("//! See /wo", "rk/x there.\n")),
            ("README.md", "[x](none)"),
            ("scenarios/catalog/gc-pause.toml", ""),
            ("scenarios/src/other.rs", "//! It knows a scenario.\nconst A: &str = \"gc-pause\";"),
        ]);
        let metadata = MetadataCommand::parse(super::super::dependencies::fixture::workspace(&[(
            "picklock",
            &[("sim", "normal", true)],
        )]));
        let report = check(&tree, &metadata.expect("well formed"));
        let said: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        for expected in [
            "core/Cargo.toml:1: picklock may not depend on sim",
            "core/Cargo.toml:1: the package does not inherit edition",
            "core/src/long.rs:501: ",
            "core/src/lib.rs:2: logic in lib.rs",
            "core/src/bare.rs:1: ",
            "README.md:1: ",
            "core/src/a.rs:2: import cycle",
            "core/src/a.rs:3: 2 types",
            "core/src/word.rs:1: ",
            "scenarios/src/other.rs:2: ",
            "core/src/lib.rs:2: println! in library code",
        ] {
            assert!(said.iter().any(|line| line.starts_with(expected)), "{expected}: {said:#?}");
        }
        assert!(said.is_sorted_by_key(|line| line.split(':').next().map(str::to_owned)));
    }
}
