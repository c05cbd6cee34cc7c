//! Calls that clippy cannot ban where they do harm and allow where they do none.
//!
//! A `select!` without `biased` draws lots outside the seed; `exit` skips destructors, and with them
//! the end of every server we started; a bare `unwrap` panics without saying which invariant broke;
//! a library that prints mixes its words with the results on stdout.

use super::diagnostic::Diagnostic;
use super::tree::{File, Tree};
use crate::rust::{RustSource, close, line_of, skip_space, word_at, words};

/// The packages that are programs; the others are libraries.
const PROGRAMS: [&str; 3] = ["sim", "benches", "ci"];
const PRINTING: [&str; 4] = ["println!", "eprintln!", "print!", "eprint!"];

/// Finds calls that are banned where they stand.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        let mut report = |at: usize, what: String| {
            findings.push(Diagnostic::new(&file.path, line_of(&file.text, at), what));
        };
        for at in unbiased(&source.code) {
            let what = "select! without `biased;` as its first word: its order would not follow from the seed";
            report(at, what.to_owned());
        }
        for at in exits(file, source) {
            let what = "process::exit outside main.rs skips destructors: return an ExitCode";
            report(at, what.to_owned());
        }
        for at in unwraps(file, source) {
            let what = "unwrap without a message: use expect, and say which invariant holds";
            report(at, what.to_owned());
        }
        for (at, call) in printing(tree, file, source) {
            report(at, format!("{call} in library code: return the text, or use tracing"));
        }
    }
    findings
}

fn unbiased(code: &str) -> Vec<usize> {
    let calls = words(code, "select!");
    let unbiased = calls.filter(|at| {
        let open = skip_space(code, at + "select!".len());
        let first = skip_space(code, open + 1);
        let after = skip_space(code, first + word_at(code, first).len());
        let biased = word_at(code, first) == "biased" && code[after..].starts_with(';');
        code[open..].starts_with(['{', '(', '[']) && !biased
    });
    unbiased.collect()
}

/// Calls of `process::exit`, and imports that would hide one.
fn exits(file: &File, source: &RustSource) -> Vec<usize> {
    if file.name() == "main.rs" {
        return Vec::new();
    }
    let code = &source.code;
    let direct = words(code, "process::exit");
    let imported = words(code, "process::{").filter(|at| {
        let open = at + "process::".len();
        words(&code[open..close(code, open)], "exit").next().is_some()
    });
    direct.chain(imported).collect()
}

fn unwraps(file: &File, source: &RustSource) -> Vec<usize> {
    if file.is_test || file.path.starts_with("benches/") {
        return Vec::new();
    }
    let bare = words(&source.code, ".unwrap()");
    let empty = source.literals.iter().filter(|literal| {
        literal.value.is_empty() && source.code[..literal.offset].trim_end().ends_with(".expect(")
    });
    let all = bare.chain(empty.map(|literal| literal.offset));
    all.filter(|&at| !source.is_test_at(at)).collect()
}

fn printing(tree: &Tree, file: &File, source: &RustSource) -> Vec<(usize, &'static str)> {
    let library = tree.package_of(file).filter(|package| !PROGRAMS.contains(package));
    let in_library = library.is_some_and(|dir| file.path.starts_with(&format!("{dir}/src/")));
    if file.is_test || !in_library {
        return Vec::new();
    }
    let calls = PRINTING.into_iter();
    let found = calls.flat_map(|call| words(&source.code, call).map(move |at| (at, call)));
    found.filter(|&(at, _)| !source.is_test_at(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let packages = ["core", "sim", "sim/harness", "benches", "ci"];
        let manifests = packages.map(|dir| (format!("{dir}/Cargo.toml"), "[package]"));
        let tree = Tree::new(manifests.into_iter().chain([(path.to_owned(), text)]));
        let mut lines: Vec<usize> = check(&tree).into_iter().map(|finding| finding.line).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn select_without_biased_is_found_even_in_tests() {
        let bad =
            "tokio::select! {\n a = b => {} }\nselect!(biased_a = b => {});\nselect! { biased }";
        assert_eq!(found("sim/tests/a.rs", bad), [1, 3, 4]);
        let good = "select! {\n    // In this order.\n    biased;\n a = b => {} }\nselect_biased! { }\n\
            // select! {}\nlet a = \"select! {}\"; select! {biased; }";
        assert_eq!(found("sim/src/a.rs", good), [0; 0]);
    }

    #[test]
    fn exit_is_for_main() {
        for bad in ["std::process::exit(1)", "use std::process::{self, exit};", "process::exit(0)"]
        {
            assert_eq!(found("sim/src/a.rs", bad), [1], "{bad}");
            assert_eq!(found("sim/src/main.rs", bad), [0; 0], "{bad}");
        }
        let good = "use std::process::{Command, ExitCode}; process::exit_code(); exit()";
        assert_eq!(found("sim/src/a.rs", good), [0; 0]);
    }

    #[test]
    fn a_panic_has_words_outside_tests() {
        for bad in ["a.unwrap();", "a\n.unwrap()", "a.expect(\"\");"] {
            assert_eq!(found("core/src/a.rs", bad).len(), 1, "{bad}");
            assert_eq!(found("core/tests/a.rs", bad), [0; 0]);
            assert_eq!(found("benches/src/a.rs", bad), [0; 0]);
            let in_tests = format!("#[cfg(test)]\nmod tests {{ fn f() {{ {bad} }} }}");
            assert_eq!(found("core/src/a.rs", &in_tests), [0; 0]);
        }
        let good = "a.unwrap_or(b).expect(\"it is there\").unwrap_or_default(); // .unwrap()";
        assert_eq!(found("core/src/a.rs", good), [0; 0]);
    }

    #[test]
    fn libraries_do_not_print() {
        for call in PRINTING {
            let text = format!("fn f() {{\n    std::{call}(\"\");\n}}");
            for dir in ["core", "sim/harness"] {
                assert_eq!(found(&format!("{dir}/src/a.rs"), &text), [2], "{call}");
                assert_eq!(found(&format!("{dir}/build.rs"), &text), [0; 0]);
                assert_eq!(found(&format!("{dir}/examples/a.rs"), &text), [0; 0]);
            }
            for dir in PROGRAMS {
                assert_eq!(found(&format!("{dir}/src/a.rs"), &text), [0; 0]);
            }
            let in_tests = format!("#[cfg(test)]\nmod tests {{ fn f() {{ {call}(\"\") }} }}");
            assert_eq!(found("core/src/a.rs", &in_tests), [0; 0]);
        }
        assert_eq!(found("core/src/a.rs", "/// println!(\"\")\nfn f() { writeln!(g) }"), [0; 0]);
    }
}
