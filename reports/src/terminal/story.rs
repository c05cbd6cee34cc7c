//! A violation told as a story.
//!
//! Invariant: times count from the beginning of the run, as in history.jsonl, so that every step can
//! be looked up there; two steps at different times never show the same time.

use scenarios::result::Invariant;
use scenarios::verdict::Witness;

use super::Style;
use super::ink::Ink;
use crate::format::{actor, count, moment, needs_fine, plain};

/// The story of this violation.
pub(super) fn tell(invariant: &Invariant, witness: &Witness, style: Style) -> String {
    let title = format!("{} violated: {}", invariant.level.name(), plain(&invariant.name));
    let which = match witness.occurrences {
        0 | 1 => String::new(),
        many => format!(", the first of {}", count(many)),
    };
    let summary = style.wrap(&plain(&witness.summary), 2);
    let mut text = format!("{}{which}\n  {summary}\n", style.ink(Ink::Red, &title));
    let times: Vec<u64> = witness.steps.iter().map(|step| step.at_ns).collect();
    let fine = needs_fine(&times);
    let steps: Vec<[String; 3]> = witness
        .steps
        .iter()
        .map(|step| [moment(step.at_ns, fine), actor(step.client), plain(&step.text).into_owned()])
        .collect();
    let widest = |column: usize| steps.iter().map(|step| step[column].len()).max().unwrap_or(0);
    let (when_width, who_width) = (widest(0), widest(1));
    for [when, who, what] in &steps {
        let indent = 4 + when_width + 2 + who_width + 2;
        let when = style.ink(Ink::Dim, &format!("{when:>when_width$}"));
        let who = format!("{who:<who_width$}");
        text.push_str(&format!("    {when}  {who}  {}\n", style.wrap(what, indent)));
    }
    text
}
