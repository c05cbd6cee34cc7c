//! Calls that clippy cannot ban where they do harm and allow where they do none.
//!
//! A `select!` without `biased` draws lots outside the seed; `exit` skips destructors, and with them
//! the end of every server we started; a bare `unwrap` panics without saying which invariant broke;
//! a library that prints mixes its words with the results on stdout; a test left out without a
//! reason stays out.

use super::Diagnostic;
use crate::tree::{File, Tree};

/// The packages that are programs; the others are libraries.
const PROGRAMS: [&str; 3] = ["sim", "benches", "ci"];

/// Finds calls that are banned where they stand.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        let may_exit = file.name() == "main.rs";
        let may_unwrap = file.is_test || file.path.starts_with("benches/");
        let may_print = file.is_test || !in_library(tree, file);
        let texts = source.texts();
        for (at, token) in source.tokens.iter().enumerate() {
            let in_test = || source.is_test_at(token.span);
            let what = match &texts[at..] {
                ["select", "!", "{" | "(" | "[", "biased", ";", ..] => continue,
                ["select", "!", "{" | "(" | "[", ..] => {
                    "select! without `biased;` as its first word: its order would not follow from \
                     the seed"
                }
                ["process", ":", ":", rest @ ..] if !may_exit && names_exit(rest) => {
                    "process::exit outside main.rs skips destructors: return an ExitCode"
                }
                [".", "unwrap", "(", ")", ..] | [".", "expect", "(", "\"\"", ..]
                    if !may_unwrap && !in_test() =>
                {
                    "unwrap without a message: use expect, and say which invariant holds"
                }
                [call @ ("println" | "eprintln" | "print" | "eprint"), "!", ..]
                    if !may_print && !in_test() =>
                {
                    &format!("{call}! in library code: return the text, or use tracing")
                }
                ["#", "[", attribute @ ..] if ignores(attribute) => {
                    "an ignored test without a reason: write #[ignore = \"why\"]"
                }
                _ => continue,
            };
            findings.push(Diagnostic::new(&file.path, token.span.start().line, what));
        }
    }
    findings
}

fn in_library(tree: &Tree, file: &File) -> bool {
    let library = tree.package_of(file).filter(|package| !PROGRAMS.contains(package));
    library.is_some_and(|dir| file.path.starts_with(&format!("{dir}/src/")))
}

/// A call, or an import that would hide one.
fn names_exit(rest: &[&str]) -> bool {
    match rest {
        ["{", list @ ..] => {
            list.iter().take_while(|&&text| text != "}").any(|&text| text == "exit")
        }
        _ => rest.first() == Some(&"exit"),
    }
}

/// True for `ignore` without a value, where a test needs it or under `cfg_attr`.
fn ignores(attribute: &[&str]) -> bool {
    match attribute {
        ["cfg_attr", rest @ ..] => {
            let end = rest.iter().position(|&text| text == "]").unwrap_or(rest.len());
            rest[..end].windows(2).any(|pair| pair[0] == "ignore" && pair[1] != "=")
        }
        _ => attribute.starts_with(&["ignore", "]"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let packages = ["core", "sim", "sim/harness", "benches", "ci"];
        let manifests = packages.map(|dir| (format!("{dir}/Cargo.toml"), "[package]"));
        let files = manifests.into_iter().chain([(path.to_owned(), text)]);
        findings(check, files).into_iter().map(|finding| finding.line).collect()
    }

    /// Each call, the files in which it is banned, and those in which it is not.
    #[test]
    fn a_banned_call_is_found_where_it_does_harm() {
        let everywhere = &["core/src/a.rs", "core/tests/a.rs", "sim/src/main.rs"][..];
        let but_main = &["core/src/a.rs", "core/tests/a.rs", "sim/src/a.rs", "core/build.rs"][..];
        let shipped = &["core/src/a.rs", "sim/src/main.rs", "core/build.rs"][..];
        let libraries = &["core/src/a.rs", "sim/harness/src/a.rs"][..];
        let tests = &["core/tests/a.rs", "benches/src/a.rs"][..];
        let programs = &[
            "sim/src/a.rs",
            "benches/src/a.rs",
            "ci/src/a.rs",
            "core/build.rs",
            "core/examples/a.rs",
        ][..];
        for (call, banned, allowed) in [
            ("tokio::select! {\n a = b => {} }", everywhere, &[][..]),
            ("select!(biased_a = b => {});", everywhere, &[]),
            ("select! { biased }", everywhere, &[]),
            ("#[ignore] fn a() {}", everywhere, &[]),
            ("#[cfg_attr(miri, ignore)] fn a() {}", everywhere, &[]),
            ("std::process::exit(1)", but_main, &["sim/src/main.rs"]),
            ("use std::process::{self, exit};", but_main, &["sim/src/main.rs"]),
            ("process::exit(0)", but_main, &["sim/src/main.rs"]),
            ("a.unwrap();", shipped, tests),
            ("a\n.unwrap()", shipped, tests),
            ("a.expect(\"\");", shipped, tests),
            ("assert!(a.unwrap());", shipped, tests),
            ("std::println!(\"\");", libraries, programs),
            ("eprintln!();", libraries, programs),
            ("print!(\"\");", libraries, programs),
            ("eprint!(\"\");", libraries, programs),
        ] {
            let code = format!("\nfn f() {{ {call} }}");
            let in_tests = format!("#[cfg(test)]\nmod tests {{ {code} }}");
            for path in banned {
                assert_eq!(found(path, &code).len(), 1, "{path}: {call}");
            }
            for path in allowed {
                assert_eq!(found(path, &code), [0; 0], "{path}: {call}");
            }
            // A test may panic and print, and no more than that.
            let allowed_in_tests = banned == shipped || banned == libraries;
            assert_eq!(found("core/src/a.rs", &in_tests).is_empty(), allowed_in_tests, "{call}");
        }
        assert_eq!(found("core/src/a.rs", "fn f() {\n\n    a.unwrap()\n}"), [3]);
    }

    #[test]
    fn calls_that_only_look_alike_are_allowed() {
        for good in [
            "select! {\n    // In this order.\n    biased;\n a = b => {} }",
            "select_biased! { } // select! {}",
            "let a = \"select! {}\"; select! {biased; }",
            "use std::process::{Command, ExitCode}; process::exit_code(); exit()",
            "a.unwrap_or(b).expect(\"it is there\").unwrap_or_default(); // .unwrap()",
            "/// println!(\"\")\nfn f() { writeln!(g) }",
            "#[ignore = \"needs a cluster\"]\nfn a() { f(x, ignore); [ignore] }\n// #[ignore]",
            "#[cfg_attr(miri, ignore = \"slow\")] fn a() {}",
        ] {
            assert_eq!(found("core/src/a.rs", &format!("fn f() {{ {good}\n}}")), [0; 0], "{good}");
        }
    }
}
