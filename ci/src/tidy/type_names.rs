//! A type name means one thing in the workspace, so that a reader who has met it once knows it.
//!
//! Structs, enums, unions, traits and aliases count, public or not; associated types do not, nor
//! what tests, benches and examples define.

use std::collections::BTreeMap;

use super::diagnostic::Diagnostic;
use super::tree::Tree;
use crate::rust::{close, line_of, skip_space, word_at, words};

const KINDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];
const NOT_LOOKED_AT: [&str; 2] = ["benches", "examples"];
/// Names that several types may have, each with the reason why a longer one would say no more.
const EXCEPTIONS: [(&str, &str); 3] = [
    (
        "Outcome",
        "the library's is public: how an acquisition ended; a verdict's is what the field calls it",
    ),
    ("Reply", "the library's is public and has what a lock can use; that of RESP is whole"),
    ("World", "the trait of the worlds, and the option --world, which names one"),
];
const HERE: &str = "ci/src/tidy/type_names.rs";

/// Finds type names with several definitions, and exceptions that nothing needs.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    check_but(tree, &EXCEPTIONS)
}

fn check_but(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Diagnostic> {
    let mut definitions: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for (file, source) in tree.rust() {
        let elsewhere = file.path.split('/').any(|part| NOT_LOOKED_AT.contains(&part));
        if file.is_test || elsewhere {
            continue;
        }
        let code = source.code_without_tests();
        for at in names(&code) {
            let places = definitions.entry(word_at(&code, at).to_owned()).or_default();
            places.push((&file.path, line_of(&code, at)));
        }
    }
    definitions.retain(|_, places| places.len() > 1);
    let unneeded = exceptions.iter().filter(|(name, _)| !definitions.contains_key(*name));
    let unneeded = unneeded.map(|(name, _)| {
        Diagnostic::new(HERE, 1, format!("no two types are called {name}: remove the exception"))
    });
    let twice = definitions.iter().filter(|(name, _)| !exceptions.iter().any(|(it, _)| it == name));
    let twice = twice.map(|(name, places)| {
        let all: Vec<String> = places.iter().map(|(path, line)| format!("{path}:{line}")).collect();
        let what = format!(
            "{} types are called {name}: rename all but one ({})",
            all.len(),
            all.join(", ")
        );
        Diagnostic::new(places[0].0, places[0].1, what)
    });
    twice.chain(unneeded).collect()
}

/// Where the names of the types that the code defines stand.
fn names(code: &str) -> Vec<usize> {
    let bodies = ["impl", "trait"].into_iter().flat_map(|kind| words(code, kind));
    let bodies: Vec<_> = bodies
        .filter_map(|at| Some(at + code[at..].find(['{', ';'])?))
        .map(|open| open..close(code, open))
        .collect();
    let mut names = Vec::new();
    for kind in KINDS {
        for at in words(code, kind) {
            let name = skip_space(code, at + kind.len());
            let associated = kind == "type" && bodies.iter().any(|body| body.contains(&at));
            if word_at(code, name).starts_with(char::is_uppercase) && !associated {
                names.push(name);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: &[(&str, &str)], exceptions: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::new(files.iter().copied());
        check_but(&tree, exceptions).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_kind_of_type_is_found_in_every_place() {
        for kind in KINDS {
            let other = format!("mod x {{ fn f() {{\n    pub(crate) {kind}  A<T> {{}} }} }}");
            let said = said(&[("a/src/lib.rs", "pub struct A;"), ("sim/b/src/c.rs", &other)], &[]);
            assert_eq!(said.len(), 1, "{kind}");
            let places = "a/src/lib.rs:1, sim/b/src/c.rs:2";
            assert!(said[0].starts_with("a/src/lib.rs:1: 2 types are called A"), "{said:?}");
            assert!(said[0].contains(places), "{said:?}");
        }
    }

    #[test]
    fn associated_types_tests_and_examples_may_repeat_a_name() {
        let own = ("a/src/lib.rs", "struct A; trait B { type A; } impl B for u8 { type A = u8; }");
        for (path, text) in [
            ("a/tests/b.rs", "struct A;"),
            ("a/examples/b.rs", "struct A;"),
            ("benches/src/b.rs", "struct A;"),
            ("a/src/b.rs", "#[cfg(test)]\nmod tests { struct A; }"),
            ("a/src/b.rs", "// struct A\nfn struct_A() { \"enum A\" }"),
            ("a/src/b.rs", "use crate::A; fn f(a: A) -> impl A { A }"),
        ] {
            assert_eq!(said(&[own, (path, text)], &[]), [""; 0], "{path} {text}");
        }
    }

    #[test]
    fn an_exception_must_be_needed() {
        let twice = [("a.rs", "struct A;"), ("b.rs", "struct A; struct C;")];
        assert_eq!(said(&twice, &[("A", "why")]), [""; 0]);
        assert_eq!(said(&twice, &[]).len(), 1);
        for name in ["C", "D"] {
            let said = said(&twice, &[("A", "why"), (name, "why")]);
            assert!(
                said.len() == 1 && said[0].contains(&format!("called {name}: remove")),
                "{said:?}"
            );
        }
    }
}
