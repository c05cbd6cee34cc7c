//! `lib.rs` and `mod.rs` wire modules together and hold no logic, so that a reader finds the file
//! from the word.
//!
//! Allowed are docs, attributes, `mod`, `use` and `extern crate`; test-only code is not looked at.

use super::diagnostic::Diagnostic;
use super::tree::Tree;
use crate::rust::{close, item_end, line_of, skip_attribute, skip_space, word_at};

/// Finds logic in `lib.rs` and `mod.rs`.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        // `tests/support/mod.rs` is there for its logic: Cargo takes `tests/support.rs` for a test.
        let in_tests = file.path.split('/').any(|part| part == "tests");
        if in_tests || !matches!(file.name(), "lib.rs" | "mod.rs") {
            continue;
        }
        for at in logic(&source.code_without_tests()) {
            let name = file.name();
            let what = format!("logic in {name}: move the item to a module of its own");
            findings.push(Diagnostic::new(&file.path, line_of(&file.text, at), what));
        }
    }
    findings
}

/// Where the items begin that are more than wiring.
fn logic(code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = skip_space(code, 0);
    while at < code.len() {
        at = skip_space(code, item(code, at, &mut found));
    }
    found
}

/// Judges the item at `at`; the offset after it. An inline module is judged by what is in it.
fn item(code: &str, at: usize, found: &mut Vec<usize>) -> usize {
    if let Some(next) = skip_attribute(code, at) {
        return next;
    }
    let start = skip_visibility(code, at);
    match word_at(code, start) {
        "mod" => {
            let name = skip_space(code, start + "mod".len());
            let after = skip_space(code, name + word_at(code, name).len());
            if code[after..].starts_with('{') {
                let end = close(code, after);
                let inside = &code[after + 1..end.saturating_sub(1).max(after + 1)];
                found.extend(logic(inside).into_iter().map(|offset| after + 1 + offset));
                return end;
            }
            item_end(code, start)
        }
        "use" | "extern" => code[start..].find(';').map_or(code.len(), |end| start + end + 1),
        _ if code[at..].starts_with(';') => at + 1,
        _ => {
            found.push(at);
            // A stray closing bracket ends no item; step over it, or this would never end.
            item_end(code, at).max(at + 1)
        }
    }
}

fn skip_visibility(code: &str, at: usize) -> usize {
    if word_at(code, at) != "pub" {
        return at;
    }
    let next = skip_space(code, at + "pub".len());
    if code[next..].starts_with('(') { skip_space(code, close(code, next)) } else { next }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::new([(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn wiring_is_allowed() {
        let text = "//! Docs; fn f() {}\n#![warn(a)]\n#[macro_use]\nextern crate a;\nmod b;\n\
            /// Docs.\npub(crate) mod c;\npub use b::{d, e as f};\npub mod prelude { pub use g::*; }\n\
            #[cfg(test)]\nmod tests { fn h() {} }\n";
        assert_eq!(lines("a/src/lib.rs", text), [0; 0]);
    }

    #[test]
    fn every_kind_of_logic_is_found_and_so_is_the_next() {
        for item in [
            "fn f() {}",
            "pub struct S { a: u8 }",
            "const A: [u8; 2] = [1; 2];",
            "impl S {}",
            "macro_rules! m { () => {}; }",
            "pub type T = u8;",
            "mod inner {\n}\nfn g() {}",
        ] {
            let text = format!("mod a;\n{item}\nuse b;\nstatic X: u8 = 1;\n");
            let found = lines("a/src/mod.rs", &text);
            assert_eq!(found.len(), 2, "{item}: {found:?}");
            assert_eq!(found.last(), Some(&(text.lines().count())), "{item}");
        }
    }

    #[test]
    fn an_inline_module_does_not_hide_logic() {
        assert_eq!(lines("lib.rs", "pub mod a {\n    use b;\n    fn f() {}\n}\n"), [3]);
    }

    #[test]
    fn other_files_and_support_of_tests_are_not_looked_at() {
        assert_eq!(lines("a/src/b.rs", "fn f() {}"), [0; 0]);
        assert_eq!(lines("a/tests/support/mod.rs", "fn f() {}"), [0; 0]);
    }

    #[test]
    fn broken_code_ends_the_check() {
        for text in ["}", "mod", "mod a {", "pub(", "use a", "fn f(", ")"] {
            lines("lib.rs", text);
        }
    }
}
