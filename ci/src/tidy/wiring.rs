//! `lib.rs` and `mod.rs` wire modules together and hold no logic, so that a reader finds the file
//! from the word.
//!
//! Allowed are docs, attributes, `mod`, `use` and `extern crate`; test-only code is not looked at.

use syn::Item;
use syn::spanned::Spanned;

use super::Diagnostic;
use crate::tree::Tree;

/// Finds logic in `lib.rs` and `mod.rs`.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        let name = file.name();
        // `tests/support/mod.rs` is there for its logic: Cargo takes `tests/support.rs` for a test.
        if file.is_test || !matches!(name, "lib.rs" | "mod.rs") {
            continue;
        }
        let logic = logic(&source.syntax.items).into_iter().map(Spanned::span);
        for span in logic.filter(|&span| !source.is_test_at(span)) {
            let what = format!("logic in {name}: move the item to a module of its own");
            findings.push(Diagnostic::new(&file.path, span.start().line, what));
        }
    }
    findings
}

/// The items that are more than wiring. An inline module is judged by what is in it.
fn logic(items: &[Item]) -> Vec<&Item> {
    let judged = items.iter().flat_map(|item| match item {
        Item::Use(_) | Item::ExternCrate(_) => Vec::new(),
        Item::Mod(module) => module.content.iter().flat_map(|(_, items)| logic(items)).collect(),
        _ => vec![item],
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        findings(check, [(path, text)]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn wiring_is_allowed() {
        let text = "//! Docs; fn f() {}\n#![warn(a)]\n#[macro_use]\nextern crate a;\nmod b;\n\
            /// Docs.\npub(crate) mod c;\npub use b::{d, e as f};\npub mod prelude { pub use g::*; }\n\
            #[cfg(test)]\nmod tests { fn h() {} }\n/// Docs.\n#[cfg(test)]\nstatic A: B = B {};\n";
        assert_eq!(lines("a/src/lib.rs", text), [0; 0]);
        assert_eq!(lines("a/src/b.rs", "fn f() {}"), [0; 0]);
        assert_eq!(lines("a/tests/support/mod.rs", "fn f() {}"), [0; 0]);
    }

    #[test]
    fn every_kind_of_logic_is_found_and_so_is_the_next() {
        for item in [
            "fn f() {}",
            "pub struct S { a: u8 }",
            "const A: [u8; 2] = [1; 2];",
            "impl S {}",
            "macro_rules! m { () => {}; }",
            "m! {}",
            "pub type T = u8;",
            "pub mod inner { use b; fn g() {} }",
        ] {
            let text = format!("mod a;\n{item}\nuse b;\nstatic X: u8 = 1;\n");
            assert_eq!(lines("a/src/mod.rs", &text), [2, 4], "{item}");
        }
    }
}
