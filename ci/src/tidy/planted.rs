//! Every planted error still has its place in the lock, exactly once.

use super::Diagnostic;
use crate::planted::{PlantedFailure, errors, locate};
use crate::tree::Tree;

/// Finds errors that a change of the lock has made stale.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let errors = match errors(tree) {
        Ok(errors) => errors,
        Err(PlantedFailure::Toml { path, error }) => {
            return vec![Diagnostic::new(&path, 1, error.to_string())];
        }
        Err(error) => return vec![Diagnostic::new("ci", 1, error.to_string())],
    };
    let mut findings = Vec::new();
    for error in &errors {
        for edit in error.edits() {
            let path = edit.path();
            let file = tree.get(&path).and_then(|file| Some((file, file.rust()?)));
            let place = match file {
                Some((file, rust)) => locate(&file.text, rust, edit).map(drop),
                None => Err(format!("there is no {path}")),
            };
            if let Err(what) = place {
                let what = format!(
                    "{}: {what}; plant it in {path} anew, or name the place with `within`",
                    error.name()
                );
                findings.push(Diagnostic::new(&error.path(), 1, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::findings;
    use super::*;

    #[test]
    fn an_error_whose_place_has_changed_is_found() {
        let error = |find| {
            let head = "[[error]]\nname = \"a\"\nwhat = \"b\"\nrecipes = [\"c\"]\n";
            let edit =
                format!("[[error.edit]]\nfile = \"d.rs\"\nfind = \"{find}\"\nreplace = \"x\"\n");
            let files = [
                ("ci/planted-errors/e.toml", format!("{head}{edit}")),
                ("core/src/d.rs", "fn f() { g(h) }\n".to_owned()),
            ];
            findings(check, files)
        };
        assert_eq!(error("g(h)"), []);
        let said = error("g(i)")[0].to_string();
        assert!(said.starts_with("ci/planted-errors/e.toml:1: a: `find` occurs 0 times"), "{said}");
    }
}
