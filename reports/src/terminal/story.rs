//! An incident told as a story.
//!
//! Invariant: it is told once, below each invariant that it violates. Times count from the beginning of the run, as in
//! history.jsonl, so that every step can be looked up there; two steps at different times never show the same time.

use history::verdict::{Witness, WitnessStep};
use scenarios::result::Invariant;

use super::colour::Emphasis;
use super::{Style, Verbosity};
use crate::format::{count, plain, told};
use crate::incident::group::{FindingGroup, groups};

/// The story of this invariant's violation; nothing where it is not violated.
pub fn story(invariant: &Invariant, style: Style) -> String {
    groups(std::slice::from_ref(invariant)).iter().map(|it| tell(it, style)).collect()
}

/// The story of this incident.
pub(super) fn tell(incident: &FindingGroup<'_>, style: Style) -> String {
    let findings = incident.findings.iter();
    let mut text: String = findings.map(|(it, witness)| headline(it, witness, style)).collect();
    let (told, all) = (incident.story(), incident.steps());
    // Its lines are numbered, so that they can be spoken of.
    text.push_str(&table(&told, style, |place| format!("{:>4}. ", place + 1)));
    if style.verbosity >= Verbosity::Verbose && all.len() > told.len() {
        text.push_str("  all that they did:\n");
        text.push_str(&table(&all, style, |_| " ".repeat(4)));
    }
    text
}

/// What is violated, and by what.
fn headline(invariant: &Invariant, witness: &Witness, style: Style) -> String {
    let title = format!("{} violated: {}", invariant.level.name(), plain(&invariant.name));
    let which = match witness.occurrences {
        0 | 1 => String::new(),
        many => format!(", the first of {}", count(many)),
    };
    let summary = style.wrap(&plain(&witness.summary), 2);
    format!("{}{which}\n  {summary}\n", style.ink(Emphasis::Red, &title))
}

fn table(steps: &[WitnessStep], style: Style, before: impl Fn(usize) -> String) -> String {
    let rows: Vec<(String, String, &str)> = told(steps).collect();
    let when_width = rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
    let who_width = rows.iter().map(|row| row.1.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (place, (when, who, what)) in rows.iter().enumerate() {
        let before = before(place);
        let indent = before.len() + when_width + 2 + who_width + 2;
        let when = style.ink(Emphasis::Dim, &format!("{when:>when_width$}"));
        let what = style.wrap(&plain(what), indent);
        text.push_str(&format!("{before}{when}  {who:<who_width$}  {what}\n"));
    }
    text
}
