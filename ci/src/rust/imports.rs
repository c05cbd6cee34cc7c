//! What a file names in other modules: its `use` items, and paths that begin with `crate`, `self`
//! or `super`.
//!
//! Works on masked code. A path that a macro puts together from pieces is not seen.

use super::items::{close, skip_space, word_at};

/// A path as the code names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import<'a> {
    /// Offset of its last word.
    pub offset: usize,
    /// Its words; the last is `*` for a glob.
    pub path: Vec<&'a str>,
    /// The name it has here, where a `use` gives it one.
    pub name: Option<&'a str>,
}

/// Every import in the code, in order; each branch of a `use` tree is one.
pub fn imports(code: &str) -> Vec<Import<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = code[at..].chars().next() {
        let word = word_at(code, at);
        at = match word {
            "use" => tree(code, at + word.len(), &[], true, &mut found),
            "crate" | "self" | "super" if begins_path(code, at) => {
                tree(code, at, &[], false, &mut found)
            }
            _ => at + word.len().max(first.len_utf8()),
        };
    }
    found
}

/// True for a path of more than one word that is no visibility, such as `pub(in crate::a)`.
fn begins_path(code: &str, at: usize) -> bool {
    let before = code[..at].trim_end();
    let after = &code[skip_space(code, at + word_at(code, at).len())..];
    after.starts_with("::") && !before.ends_with("::") && !before.ends_with("(in")
}

/// Takes the tree at `at`, which continues `prefix`; the offset after it.
fn tree<'a>(
    code: &'a str,
    at: usize,
    prefix: &[&'a str],
    in_use: bool,
    found: &mut Vec<Import<'a>>,
) -> usize {
    let mut path = prefix.to_vec();
    let mut at = skip_space(code, at);
    loop {
        let offset = at;
        if code[at..].starts_with('{') {
            let end = close(code, at);
            at += 1;
            while at < end {
                // The comma or bracket after a branch is stepped over with it.
                at = skip_space(code, tree(code, at, &path, in_use, found)) + 1;
            }
            return end;
        }
        if code[at..].starts_with('*') && !path.is_empty() {
            path.push("*");
            found.push(Import { offset, path, name: None });
            return at + 1;
        }
        let word = word_at(code, at);
        if word.is_empty() {
            return at;
        }
        path.push(word);
        at = skip_space(code, at + word.len());
        let next = skip_space(code, (at + 2).min(code.len()));
        if code[at..].starts_with("::") && !code[next..].starts_with('<') {
            at = next;
            continue;
        }
        if path.len() > 1 && word == "self" {
            path.pop();
        }
        let mut name = path.last().copied();
        if in_use && word_at(code, at) == "as" {
            at = skip_space(code, at + "as".len());
            name = Some(word_at(code, at));
            at += word_at(code, at).len();
        }
        found.push(Import { offset, path, name: name.filter(|_| in_use) });
        return at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        imports(code).iter().map(|import| import.path.join("::")).collect()
    }

    #[test]
    fn each_branch_of_a_use_is_an_import() {
        let code = "pub use crate::a::{self, b::{C, D as E}, f, *,};\nuse super::g;";
        let all = ["crate::a", "crate::a::b::C", "crate::a::b::D", "crate::a::f", "crate::a::*"];
        assert_eq!(paths(code), [&all[..], &["super::g"]].concat());
        let names: Vec<_> = imports(code).iter().map(|import| import.name).collect();
        let named = |name| Some(name);
        assert_eq!(names, [named("a"), named("C"), named("E"), named("f"), None, named("g")]);
    }

    #[test]
    fn paths_in_code_are_imports_and_casts_rename_nothing() {
        let code = "fn f(x: crate::a::B<self::C>) -> super::D { vec![$crate::e::<u8>() as F] }";
        assert_eq!(paths(code), ["crate::a::B", "self::C", "super::D", "crate::e"]);
        assert_eq!(paths("let x = self::g::H as u8 ;"), ["self::g::H"]);
        assert!(imports("self::g::H as u8")[0].name.is_none());
    }

    #[test]
    fn what_only_looks_like_a_path_is_none() {
        for code in [
            "pub(crate) fn f(&self) {}",
            "pub(in crate::a) fn f() {}",
            "impl Iterator<Item = u8> + use<'_>",
            "Self::new()",
            "std::self_like::x()",
            "user::a()",
        ] {
            assert_eq!(paths(code), [""; 0], "{code}");
        }
    }

    #[test]
    fn the_offset_is_that_of_the_last_word() {
        let code = "use crate::{\n    a,\n    b::c,\n};";
        let offsets: Vec<usize> = imports(code).iter().map(|import| import.offset).collect();
        assert_eq!(offsets, [code.find("a,").expect("a"), code.find("c,").expect("c")]);
    }

    #[test]
    fn broken_code_ends_the_search() {
        for code in
            ["use", "use {", "use a::", "use a::{b", "crate::", "use *", "use {,}", "use a as"]
        {
            imports(code);
        }
    }
}
