//! A type name means one thing in the workspace, so that a reader who has met it once knows it.
//!
//! Structs, enums, unions, traits and aliases count, public or not; associated types do not, nor
//! what tests, benches and examples define.

use std::collections::BTreeMap;

use proc_macro2::Span;
use syn::ItemType;
use syn::visit::Visit;

use super::Diagnostic;
use crate::rust::RustSource;
use crate::tree::Tree;

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
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    check_but(tree, &EXCEPTIONS)
}

fn check_but(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Diagnostic> {
    let mut definitions: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for (file, source) in tree.rust() {
        let elsewhere = file.path.split('/').any(|part| NOT_LOOKED_AT.contains(&part));
        if file.is_test || elsewhere {
            continue;
        }
        for (name, span) in names(source) {
            if !source.is_test_at(span) {
                definitions.entry(name).or_default().push((&file.path, span.start().line));
            }
        }
    }
    definitions.retain(|_, places| places.len() > 1);
    let unneeded = exceptions.iter().filter(|(name, _)| !definitions.contains_key(*name));
    let unneeded = unneeded.map(|(name, _)| {
        Diagnostic::new(HERE, 1, format!("no two types are called {name}: remove the exception"))
    });
    let twice = definitions.iter().filter(|(name, _)| !exceptions.iter().any(|(it, _)| it == name));
    let twice = twice.map(|(name, places)| {
        let count = places.len();
        let all: Vec<String> = places.iter().map(|(path, line)| format!("{path}:{line}")).collect();
        let all = all.join(", ");
        let what = format!("{count} types are called {name}: rename all but one ({all})");
        Diagnostic::new(places[0].0, places[0].1, what)
    });
    twice.chain(unneeded).collect()
}

/// The types that the code defines; all but aliases in macros, too.
fn names(source: &RustSource) -> Vec<(String, Span)> {
    let mut aliases = Aliases(Vec::new());
    aliases.visit_file(&source.syntax);
    let definitions = source.tokens.windows(2).filter(|pair| {
        matches!(&*pair[0].text, "struct" | "enum" | "union" | "trait")
            && pair[1].text.starts_with(char::is_uppercase)
    });
    let definitions = definitions.map(|pair| (pair[1].text.clone(), pair[1].span));
    definitions.chain(aliases.0).collect()
}

/// `type` items: tokens alone would not tell them from the types of a trait.
struct Aliases(Vec<(String, Span)>);

impl Visit<'_> for Aliases {
    fn visit_item_type(&mut self, alias: &ItemType) {
        self.0.push((alias.ident.to_string(), alias.ident.span()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    fn said(files: &[(&str, &str)], exceptions: &[(&str, &str)]) -> Vec<String> {
        let check = |tree: &Tree| check_but(tree, exceptions);
        findings(check, files.iter().copied()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_kind_of_type_is_found_in_every_place() {
        for other in [
            "struct A<T>(T);",
            "enum A {}",
            "union A { a: u8 }",
            "trait A {}",
            "type A = u8;",
            "m! { struct A; }",
        ] {
            let other = format!("mod x {{ fn f() {{\n    {other} }} }}");
            let said = said(&[("a/src/lib.rs", "pub struct A;"), ("sim/b/src/c.rs", &other)], &[]);
            let expected = "a/src/lib.rs:1: 2 types are called A: rename all but one \
                (a/src/lib.rs:1, sim/b/src/c.rs:2)";
            assert_eq!(said, [expected], "{other}");
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
            let expected =
                format!("{HERE}:1: no two types are called {name}: remove the exception");
            assert_eq!(said, [expected]);
        }
    }
}
