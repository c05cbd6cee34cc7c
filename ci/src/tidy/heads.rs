//! Every Rust file opens by saying what it is for, and every flawed recipe says how it fails.
//!
//! A flawed recipe's head has four parts in this order, each a line of its own that begins with the
//! word: *Claim*, *Flaw*, *Smallest failing schedule*, *Source*. A recipe's head that has any of them
//! is a flawed one's.

use syn::{Expr, ExprLit, Lit, Meta};

use super::Diagnostic;
use crate::rust::RustSource;
use crate::tree::{File, Tree};

const PARTS: [&str; 4] = ["Claim", "Flaw", "Smallest failing schedule", "Source"];
const RECIPES: &str = "scenarios/src/recipe";
/// A head shorter than this repeats the name of the file and says nothing.
const FEWEST_WORDS: usize = 3;

/// Finds missing heads, and flawed recipes that do not say how they fail.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    tree.rust().flat_map(|(file, source)| check_file(file, source)).collect()
}

fn check_file(file: &File, source: &RustSource) -> Vec<Diagnostic> {
    let (line, head) = head(source);
    let count: usize = head.iter().map(|text| text.split_whitespace().count()).sum();
    let wrong = if head.is_empty() {
        vec!["no module head: open the file with //! and say what it is for".to_owned()]
    } else if count < FEWEST_WORDS {
        vec!["the module head says nothing: say what the file is for".to_owned()]
    } else if file.dir() == RECIPES {
        parts(&head)
    } else {
        Vec::new()
    };
    wrong.into_iter().map(|what| Diagnostic::new(&file.path, line, what)).collect()
}

/// The lines of the head, and the line at which it begins or should begin.
fn head(source: &RustSource) -> (usize, Vec<String>) {
    let mut line = None;
    let mut head = Vec::new();
    for attribute in &source.syntax.attrs {
        let Meta::NameValue(meta) = &attribute.meta else { continue };
        if let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value
            && meta.path.is_ident("doc")
        {
            line.get_or_insert(text.span().start().line);
            head.push(text.value());
        }
    }
    (line.unwrap_or(1), head)
}

/// What is wrong with the four parts; nothing where the head has none of them.
fn parts(head: &[String]) -> Vec<String> {
    let marks: Vec<Option<(usize, &str)>> = PARTS.iter().map(|part| mark(head, part)).collect();
    let mut words = head.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
    let says_flaw = words.any(|word| word == "Flaw");
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
        let mut texts = head[place + 1..end].iter().map(String::as_str).chain([rest]);
        if !texts.any(|text| text.contains(char::is_alphanumeric)) {
            wrong.push(format!("*{part}* is empty: say it"));
        }
    }
    wrong
}

/// The line that opens a part, and what follows the word on it. `**Claim.** …`, `# Claim` and
/// `Claim: …` open one; a sentence that happens to begin with the word does not.
fn mark<'a>(head: &'a [String], part: &str) -> Option<(usize, &'a str)> {
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
    use crate::tidy::findings;

    fn said(path: &str, text: &str) -> Vec<String> {
        findings(check, [(path, text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_file_has_a_head_that_says_something() {
        for text in [
            "//! What it is for.\nfn f() {}",
            "#![cfg(\n    test\n)]\n#![a] //! What it is for.\n",
            "//!\n//! # Title\n//! And more.",
        ] {
            assert_eq!(said("a.rs", text), [""; 0], "{text}");
        }
        for (text, place) in [
            ("", "a.rs:1: no"),
            ("fn f() {}", "a.rs:1: no"),
            ("// What it is for.", "a.rs:1: no"),
            ("/// What it is for.\nmod a;", "a.rs:1: no"),
            ("#![doc(hidden)]\n#![a = \"What it is for.\"]\nfn f() {}", "a.rs:1: no"),
            ("#![a]\n\n//! lib", "a.rs:3: the"),
        ] {
            let said = said("a.rs", text);
            assert!(said.len() == 1 && said[0].starts_with(place), "{text} {said:?}");
        }
    }

    const FLAWED: &str = "//! A lock without an owner.\n//!\n//! **Claim.** It excludes.\n\
        //! **Flaw**: it does not.\n//! # Smallest failing schedule\n//! 1. Pause.\n//! Source — notes\n";

    #[test]
    fn a_flawed_recipe_says_how_it_fails() {
        let swapped =
            FLAWED.replace("Claim", "Tmp").replace("Flaw", "Claim").replace("Tmp", "Flaw");
        for (text, first, count) in [
            (FLAWED.replace("Claim", "Other"), "no *Claim*", 1),
            (FLAWED.replace("Flaw", "Other"), "no *Flaw*", 1),
            (FLAWED.replace("Smallest", "Other"), "no *Smallest failing schedule*", 1),
            (FLAWED.replace("Source", "Other"), "no *Source*", 1),
            (swapped, "*Flaw* comes too early", 1),
            (FLAWED.replace("//! 1. Pause.\n", ""), "*Smallest failing schedule* is empty", 1),
            // The word alone makes a recipe a flawed one.
            ("//! A lock with a Flaw in it.".to_owned(), "no *Claim*", PARTS.len()),
        ] {
            let said_here = said("scenarios/src/recipe/a.rs", &text);
            assert!(said_here.len() == count && said_here[0].contains(first), "{said_here:?}");
            assert_eq!(said("scenarios/src/other/a.rs", &text), [""; 0]);
        }
        let sound = "//! A sound lock.\n//! Source addresses do not matter; it is flawless.";
        for text in [FLAWED, sound] {
            assert_eq!(said("scenarios/src/recipe/a.rs", text), [""; 0]);
        }
    }
}
