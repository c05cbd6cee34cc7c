//! A Rust file seen as code, literals and the parts that only tests compile.

use std::ops::Range;

use super::items::{close, item_end, skip_space, word_at};
use super::mask::{Literal, mask};

/// A Rust file, masked, with its test-only parts known.
#[derive(Clone, Debug, Default)]
pub struct RustSource {
    /// The text without comments and the insides of literals; offsets as in the file.
    pub code: String,
    /// The string literals, in order.
    pub literals: Vec<Literal>,
    tests: Vec<Range<usize>>,
}

impl RustSource {
    /// Reads the text of a Rust file.
    pub fn new(text: &str) -> Self {
        let masked = mask(text);
        let tests = test_parts(&masked.code);
        Self { code: masked.code, literals: masked.literals, tests }
    }

    /// True where only a test build compiles what stands at `offset`.
    pub fn is_test_at(&self, offset: usize) -> bool {
        self.tests.iter().any(|part| part.contains(&offset))
    }

    /// The modules that only a test build compiles and that have files of their own.
    pub fn test_modules(&self) -> Vec<&str> {
        self.tests.iter().filter_map(|part| module_name(&self.code[part.clone()])).collect()
    }

    /// How many lines, of code or not, a build without tests has.
    pub fn lines_without_tests(&self) -> usize {
        let lines = |part: &str| part.lines().count();
        let in_tests: usize = self.tests.iter().map(|part| lines(&self.code[part.clone()])).sum();
        // A part may lie inside another where the whole file is a test.
        lines(&self.code).saturating_sub(in_tests)
    }

    /// The code with its test-only parts blanked too.
    pub fn code_without_tests(&self) -> String {
        let mut code = self.code.clone().into_bytes();
        for part in &self.tests {
            for byte in &mut code[part.clone()] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
        }
        String::from_utf8_lossy(&code).into_owned()
    }
}

/// The line, counted from 1, of a byte offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// Where `needle` stands in `text` as a word of its own: no letter, digit or underscore touches an
/// end of it that is one itself.
pub fn words<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(needle).map(|(at, _)| at).filter(move |&at| {
        let touches_before = needle.starts_with(part_of_word) && text[..at].ends_with(part_of_word);
        let after = &text[at + needle.len()..];
        let touches_after = needle.ends_with(part_of_word) && after.starts_with(part_of_word);
        !touches_before && !touches_after
    })
}

fn test_parts(code: &str) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for (at, open) in code.match_indices("#[cfg(").map(|(at, found)| (at, at + found.len() - 1)) {
        let nested = parts.last().is_some_and(|part| part.contains(&at));
        if !nested && needs_test(&code[open + 1..close(code, open).saturating_sub(1).max(open + 1)])
        {
            parts.push(at..item_end(code, at));
        }
    }
    for (at, found) in code.match_indices("#![cfg(") {
        let open = at + found.len() - 1;
        if needs_test(&code[open + 1..close(code, open).saturating_sub(1).max(open + 1)]) {
            parts.push(0..code.len());
        }
    }
    parts
}

/// True for `test` and for `all(…)` with `test` among its parts.
fn needs_test(condition: &str) -> bool {
    let condition = condition.trim();
    if condition == "test" {
        return true;
    }
    let all = condition.strip_prefix("all").map(str::trim_start);
    let inside =
        all.and_then(|rest| rest.strip_prefix('(')).and_then(|rest| rest.strip_suffix(')'));
    inside.is_some_and(|inside| top_level(inside).any(needs_test))
}

/// The parts of a list between commas that stand in no bracket.
fn top_level(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    list.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn module_name(item: &str) -> Option<&str> {
    let mut at = 0;
    while let Some(next) = super::items::skip_attribute(item, at) {
        at = skip_space(item, next);
    }
    if word_at(item, at) == "pub" {
        at = skip_space(item, at + "pub".len());
        if item[at..].starts_with('(') {
            at = skip_space(item, close(item, at));
        }
    }
    if word_at(item, at) != "mod" || !item.ends_with(';') {
        return None;
    }
    Some(word_at(item, skip_space(item, at + "mod".len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_parts_are_known_and_the_rest_is_not() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}\n";
        let source = RustSource::new(text);
        let at = |needle| text.find(needle).expect("the needle is there");
        assert!(source.is_test_at(at("fn b")));
        assert!(!source.is_test_at(at("fn a")) && !source.is_test_at(at("fn c")));
        assert!(!source.code_without_tests().contains("fn b"));
        assert_eq!(source.code_without_tests().lines().count(), text.lines().count());
    }

    #[test]
    fn only_conditions_that_need_test_count() {
        for yes in ["test", " test ", "all(test, picklock_loom)", "all(unix, all(test))"] {
            assert!(needs_test(yes), "{yes}");
        }
        for no in ["any(test, unix)", "not(test)", "all(unix, not(test))", "testing", "all()"] {
            assert!(!needs_test(no), "{no}");
        }
    }

    #[test]
    fn a_whole_file_may_be_a_test() {
        assert!(RustSource::new("#![cfg(test)]\nfn a() {}").is_test_at(15));
        assert!(!RustSource::new("#![cfg(unix)]\nfn a() {}").is_test_at(15));
    }

    #[test]
    fn lines_of_tests_do_not_count() {
        let lines = |text| RustSource::new(text).lines_without_tests();
        assert_eq!(lines("// a\n\nfn b() {}\n"), 3);
        assert_eq!(lines("fn a() {}\n#[cfg(test)]\nmod tests {\n\n}\nfn b() {}\n"), 2);
        assert_eq!(lines("#![cfg(test)]\n#[cfg(test)]\nmod tests {}\n"), 0);
    }

    #[test]
    fn test_modules_of_other_files_are_named() {
        let text = "#[cfg(test)] #[a] pub(crate) mod far;\n#[cfg(test)] mod near {}\nmod plain;";
        assert_eq!(RustSource::new(text).test_modules(), ["far"]);
    }

    #[test]
    fn words_stand_alone() {
        let text = "exit exits _exit a.exit(";
        assert_eq!(words(text, "exit").collect::<Vec<_>>(), [0, 19]);
        assert_eq!(words("eprintln!(x) println!(y)", "println!").collect::<Vec<_>>(), [13]);
    }

    #[test]
    fn lines_count_from_one() {
        assert_eq!((line_of("a\nb", 0), line_of("a\nb", 2), line_of("a", 9)), (1, 2, 1));
    }
}
