//! Every Rust file opens by saying what it is for, and every flawed recipe says how it fails.
//!
//! A flawed recipe's head has four parts in this order, each a line of its own that begins with the
//! word: *Claim*, *Flaw*, *Smallest failing schedule*, *Source*. A recipe's head that has any of them
//! is a flawed one's.

use super::diagnostic::Diagnostic;
use super::tree::{File, Tree};
use crate::rust::{RustSource, line_of, skip_attribute, skip_space, words};

const PARTS: [&str; 4] = ["Claim", "Flaw", "Smallest failing schedule", "Source"];
const RECIPES: &str = "scenarios/src/recipe";
/// A head shorter than this repeats the name of the file and says nothing.
const FEWEST_WORDS: usize = 3;

/// Finds missing heads, and flawed recipes that do not say how they fail.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    tree.rust().flat_map(|(file, source)| check_file(file, source)).collect()
}

fn check_file(file: &File, source: &RustSource) -> Vec<Diagnostic> {
    let (line, head) = head(&file.text, &source.code);
    let count: usize = head.iter().map(|text| text.split_whitespace().count()).sum();
    if count < FEWEST_WORDS {
        let what = if head.is_empty() {
            "no module head: open the file with //! and say what it is for"
        } else {
            "the module head says nothing: say what the file is for"
        };
        return vec![Diagnostic::new(&file.path, line, what)];
    }
    if file.dir() != RECIPES {
        return Vec::new();
    }
    parts(&head).into_iter().map(|what| Diagnostic::new(&file.path, line, what)).collect()
}

/// The head's lines without their `//!`, and the line at which it begins or should begin.
fn head<'a>(text: &'a str, code: &str) -> (usize, Vec<&'a str>) {
    let shebang = text.starts_with("#!") && !text.starts_with("#![");
    let mut at = if shebang { text.find('\n').map_or(text.len(), |end| end + 1) } else { 0 };
    // Attributes may stand before the head, and blank lines; the masked code would hide the head
    // itself, so what is blank is decided by the text.
    loop {
        at = skip_space(text, at);
        match skip_attribute(code, at) {
            Some(next) if text[at..].starts_with("#!") => at = next,
            _ => break,
        }
    }
    let lines = text[at.min(text.len())..].lines().map(str::trim);
    (line_of(text, at), lines.map_while(|line| line.strip_prefix("//!")).collect())
}

/// What is wrong with the four parts; nothing where the head has none of them.
fn parts(head: &[&str]) -> Vec<String> {
    let marks: Vec<Option<(usize, &str)>> = PARTS.iter().map(|part| mark(head, part)).collect();
    let says_flaw = head.iter().any(|line| words(line, "Flaw").next().is_some());
    if !says_flaw && marks.iter().all(Option::is_none) {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    let mut before = None;
    for (part, mark) in PARTS.iter().zip(&marks) {
        let Some((place, rest)) = *mark else {
            wrong.push(format!("the head has no *{part}*: give a line that begins with it"));
            continue;
        };
        if before.is_some_and(|before| place < before) {
            wrong.push(format!("*{part}* comes too early; the order is {}", PARTS.join(", ")));
        }
        before = before.max(Some(place));
        let next = marks.iter().flatten().map(|&(other, _)| other).filter(|&other| other > place);
        let end = next.min().unwrap_or(head.len());
        let texts = head[place + 1..end].iter().chain([&rest]);
        if !texts.into_iter().any(|text| text.contains(char::is_alphanumeric)) {
            wrong.push(format!("*{part}* is empty: say it"));
        }
    }
    wrong
}

/// The line that opens a part, and what follows the word on it. `**Claim.** …`, `# Claim` and
/// `Claim: …` open one; a sentence that happens to begin with the word does not.
fn mark<'a>(head: &[&'a str], part: &str) -> Option<(usize, &'a str)> {
    head.iter().enumerate().find_map(|(place, line)| {
        let text = line.trim_start_matches(|c: char| c.is_whitespace() || "*_#-".contains(c));
        let rest = text.strip_prefix(part)?;
        let opens = rest.is_empty()
            || rest.starts_with(['.', ':', '*', '_'])
            || [" —", " –", " -"].iter().any(|dash| rest.starts_with(dash));
        opens.then_some((place, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        check(&Tree::new([(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_head_may_follow_a_shebang_and_attributes() {
        for text in [
            "//! What it is for.\nfn f() {}",
            "#!/usr/bin/env run\n\n//! What it is for.",
            "#![cfg(\n    test\n)]\n#![a] //! What it is for.\n",
            "//!\n//! # Title\n//! And more.",
        ] {
            assert_eq!(said("a.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_missing_or_empty_head_is_found() {
        for (text, line) in [
            ("", 1),
            ("fn f() {}", 1),
            ("// What it is for.", 1),
            ("//! lib", 1),
            ("use a;\n//! What it is for.", 1),
            ("/// What it is for.\nmod a;", 1),
            ("#![a]\n\nfn f() {}", 3),
        ] {
            let said = said("a.rs", text);
            assert!(said.len() == 1 && said[0].starts_with(&format!("a.rs:{line}: ")), "{said:?}");
        }
    }

    const FLAWED: &str = "//! A lock without an owner.\n//!\n//! **Claim.** It excludes.\n\
        //! **Flaw**: it does not.\n//! # Smallest failing schedule\n//! 1. Pause.\n//! Source — notes\n";

    #[test]
    fn a_flawed_recipe_with_all_parts_passes() {
        assert_eq!(said("scenarios/src/recipe/a.rs", FLAWED), [""; 0]);
    }

    #[test]
    fn each_missing_part_is_found() {
        for part in PARTS {
            let text = FLAWED.replace(part, "Other");
            let said = said("scenarios/src/recipe/a.rs", &text);
            assert!(said.iter().any(|line| line.contains(&format!("no *{part}*"))), "{said:?}");
        }
    }

    #[test]
    fn order_and_emptiness_are_found() {
        let swapped =
            FLAWED.replace("Claim", "Tmp").replace("Flaw", "Claim").replace("Tmp", "Flaw");
        assert!(said("scenarios/src/recipe/a.rs", &swapped)[0].contains("*Flaw* comes too early"));
        let empty = FLAWED.replace("//! 1. Pause.\n", "");
        let said = said("scenarios/src/recipe/a.rs", &empty);
        assert!(said[0].contains("*Smallest failing schedule* is empty"), "{said:?}");
    }

    #[test]
    fn the_word_alone_makes_a_recipe_flawed() {
        let text = "//! A lock with a Flaw in it.";
        assert_eq!(said("scenarios/src/recipe/a.rs", text).len(), PARTS.len());
        assert_eq!(said("scenarios/src/other/a.rs", text), [""; 0]);
    }

    #[test]
    fn a_sound_recipe_needs_no_parts() {
        let text = "//! A sound lock.\n//! Source addresses do not matter; it is flawless.";
        assert_eq!(said("scenarios/src/recipe/a.rs", text), [""; 0]);
    }
}
