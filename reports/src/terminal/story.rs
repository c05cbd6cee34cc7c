//! A violation told as a story.
//!
//! Invariant: times count from the beginning of the run, as in history.jsonl, so that every step can
//! be looked up there; two steps at different times never show the same time.

use scenarios::result::Invariant;
use scenarios::verdict::{Witness, WitnessStep};

use super::colour::Emphasis;
use super::{Style, Verbosity};
use crate::format::{actor, count, moment, needs_fine, plain};

/// The story of this violation.
pub(super) fn tell(invariant: &Invariant, witness: &Witness, style: Style) -> String {
    let title = format!("{} violated: {}", invariant.level.name(), plain(&invariant.name));
    let which = match witness.occurrences {
        0 | 1 => String::new(),
        many => format!(", the first of {}", count(many)),
    };
    let summary = style.wrap(&plain(&witness.summary), 2);
    let mut text = format!("{}{which}\n  {summary}\n", style.ink(Emphasis::Red, &title));
    text.push_str(&numbered(witness.short_story(), style));
    if style.verbosity >= Verbosity::Verbose && witness.steps.len() > witness.short_story().len() {
        text.push_str("  all that they did:\n");
        text.push_str(&lines(&witness.steps, style));
    }
    text
}

/// The story, its lines numbered so that they can be spoken of.
fn numbered(story: &[WitnessStep], style: Style) -> String {
    let number = |place: usize| format!("{:>4}. ", place + 1);
    table(story, style, &number)
}

fn lines(steps: &[WitnessStep], style: Style) -> String {
    table(steps, style, &|_| " ".repeat(4))
}

fn table(steps: &[WitnessStep], style: Style, before: &dyn Fn(usize) -> String) -> String {
    let times: Vec<u64> = steps.iter().map(|step| step.at_ns).collect();
    let fine = needs_fine(&times);
    let cells = |step: &WitnessStep| {
        [moment(step.at_ns, fine), actor(step.client), plain(&step.text).into_owned()]
    };
    let rows: Vec<[String; 3]> = steps.iter().map(cells).collect();
    let widest = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (when_width, who_width) = (widest(0), widest(1));
    let mut text = String::new();
    for (place, [when, who, what]) in rows.iter().enumerate() {
        let before = before(place);
        let indent = before.len() + when_width + 2 + who_width + 2;
        let when = style.ink(Emphasis::Dim, &format!("{when:>when_width$}"));
        let who = format!("{who:<who_width$}");
        text.push_str(&format!("{before}{when}  {who}  {}\n", style.wrap(what, indent)));
    }
    text
}
