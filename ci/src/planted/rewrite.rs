//! Rewrites a file of the lock so that each planted error is a choice at run time.
//!
//! Invariant: with no error chosen, the file does what it did. An edit whose place is not found exactly once
//! is refused, so a change of the lock that makes an error stale is noticed.

use std::cmp::Reverse;
use std::ops::Range;

use syn::LitStr;

use super::Edit;
use crate::rust::RustSource;

/// Where an edit applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EditPlace {
    /// Code, by its bytes in the file.
    Code(Range<usize>),
    /// The text of a script: it is replaced when the script is made.
    Script,
}

/// A place in code, and what stands there under an error.
#[derive(Clone)]
pub(super) struct ErrorChoice<'a> {
    pub(super) range: Range<usize>,
    /// The number of the error.
    pub(super) number: usize,
    pub(super) replace: &'a str,
}

/// Where in this text the edit applies.
///
/// # Errors
/// What to do about it, where that is not exactly one place.
pub(crate) fn locate(text: &str, rust: &RustSource, edit: &Edit) -> Result<EditPlace, String> {
    let strings: Vec<(Range<usize>, String)> = rust
        .tokens
        .iter()
        .filter_map(|token| {
            let literal: LitStr = syn::parse_str(&token.text).ok()?;
            Some((token.span.byte_range(), literal.value()))
        })
        .collect();
    let Edit { find, within, .. } = edit;
    let (start, part) = match within {
        None => (0, text),
        Some(within) => match text.match_indices(within.as_str()).collect::<Vec<_>>()[..] {
            [(start, part)] => (start, part),
            ref all => return Err(format!("`within` occurs {} times: {within}", all.len())),
        },
    };
    let in_string = |at: usize| strings.iter().any(|(range, _)| range.contains(&at));
    let found = part.match_indices(find.as_str()).map(|(at, _)| start + at);
    let code: Vec<usize> = found.filter(|at| !in_string(*at)).collect();
    let in_scripts: usize =
        strings.iter().map(|(_, value)| value.matches(find.as_str()).count()).sum();
    let scripts = if within.is_some() { 0 } else { in_scripts };
    match (&code[..], scripts) {
        ([at], 0) => Ok(EditPlace::Code(*at..*at + find.len())),
        ([], 1) => Ok(EditPlace::Script),
        _ => Err(format!("`find` occurs {} times, not once: {find}", code.len() + scripts)),
    }
}

/// The text with all choices made at run time.
///
/// # Errors
/// Where two places overlap and neither lies within the other.
pub(super) fn rewrite(text: &str, mut choices: Vec<ErrorChoice<'_>>) -> Result<String, String> {
    choices.sort_by_key(|it| (it.range.start, Reverse(it.range.end), it.number));
    part(text, 0..text.len(), &choices)
}

fn part(
    text: &str,
    range: Range<usize>,
    mut choices: &[ErrorChoice<'_>],
) -> Result<String, String> {
    let mut out = String::new();
    let mut at = range.start;
    while let Some(first) = choices.first() {
        let place = first.range.clone();
        if place.end > range.end {
            return Err(format!("two errors overlap: {}", &text[place]));
        }
        let alike = choices.iter().take_while(|it| it.range == place).count();
        let inside = choices.iter().take_while(|it| it.range.start < place.end).count();
        let sound = part(text, place.clone(), &choices[alike..inside])?;
        out.push_str(&text[at..place.start]);
        let is_statement = sound.trim_end().ends_with([';', '}']);
        let chosen: String = choices[..alike]
            .iter()
            .map(|it| format!("if crate::planted::is({}) {{ {} }} else ", it.number, it.replace))
            .collect();
        let choice = format!("{chosen}{{ {sound} }}");
        out.push_str(&if is_statement { choice } else { format!("({choice})") });
        at = place.end;
        choices = &choices[inside..];
    }
    out.push_str(&text[at..range.end]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, find: &str, within: Option<&str>) -> Result<EditPlace, String> {
        let edit = Edit {
            file: String::new(),
            find: find.to_owned(),
            replace: String::new(),
            within: within.map(str::to_owned),
        };
        locate(text, &RustSource::new(text).unwrap(), &edit)
    }

    #[test]
    fn a_place_is_found_once_in_code_or_in_a_script() {
        let text = "fn a() -> u8 { b() }\nfn c() -> u8 { b() }\nconst D: &str = \"x = 1\\n\\\n  y = b\";\n";
        assert_eq!(place(text, "fn a", None), Ok(EditPlace::Code(0..4)));
        assert_eq!(place(text, "b()", Some("c() -> u8 { b()")), Ok(EditPlace::Code(36..39)));
        assert_eq!(place(text, "1\ny", None), Ok(EditPlace::Script));
        assert!(place(text, "b()", None).unwrap_err().contains("2 times"));
        assert!(place(text, "e", Some("nowhere")).unwrap_err().contains("0 times"));
        assert!(place(text, "nowhere", None).unwrap_err().contains("0 times"));
    }

    #[test]
    fn places_may_be_the_same_and_lie_within_each_other_but_not_cross() {
        let choice = |range, number, replace| ErrorChoice { range, number, replace };
        let all = vec![choice(4..5, 2, "y"), choice(2..8, 0, "z"), choice(4..5, 1, "x")];
        let inner =
            "(if crate::planted::is(1) { x } else if crate::planted::is(2) { y } else { c })";
        assert_eq!(
            rewrite("a(b+c(d));", all).unwrap(),
            format!("a((if crate::planted::is(0) {{ z }} else {{ b+{inner}(d) }}));")
        );
        let crossing = vec![choice(0..3, 0, ""), choice(2..4, 1, "")];
        assert!(rewrite("abcdef", crossing).is_err());
        let statement = vec![choice(0..2, 7, "b();")];
        assert_eq!(
            rewrite("a;c", statement).unwrap(),
            "if crate::planted::is(7) { b(); } else { a; }c"
        );
    }
}
