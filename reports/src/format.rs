//! Numbers and texts as people read them.
//!
//! Invariant: what comes out holds no control character, whatever a server or a scenario file put in, so
//! that no report can steer a terminal.

use std::borrow::Cow;

use history::verdict::WitnessStep;

pub(crate) use scenarios::format::{count, counted, duration, long_duration};

/// A time of the run in milliseconds, to the microsecond: `12.345 ms`.
pub(crate) fn moment(at_ns: u64) -> String {
    format!("{}.{:03} ms", at_ns / 1_000_000, at_ns % 1_000_000 / 1000)
}

/// The same to the tenth, without the unit, for pictures: `1,234.5`.
pub(crate) fn milliseconds(at_ns: u64) -> String {
    let tenths = at_ns.saturating_add(50_000) / 100_000;
    format!("{}.{}", count(tenths / 10), tenths % 10)
}

/// When each step of a witness was, whose it is, if anybody's, and what happened.
pub(crate) fn told(steps: &[WitnessStep]) -> impl Iterator<Item = (String, String, &str)> {
    let actor = |step: &WitnessStep| match step.client {
        _ if step.is_gap() => String::new(),
        0 => "the run".to_owned(),
        client => format!("client {client}"),
    };
    steps.iter().map(move |it| (moment(it.at_ns), actor(it), it.text.as_str()))
}

/// The text with everything escaped that would act rather than be read: control characters, line
/// breaks, marks that turn the direction of writing.
pub fn plain(text: &str) -> Cow<'_, str> {
    let acts =
        |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// The same of a text whose line breaks and tabs stay, for a terminal.
pub fn plain_lines(text: &str) -> String {
    let lines = text
        .split('\n')
        .map(|line| line.split('\t').map(plain).collect::<Vec<Cow<'_, str>>>().join("\t"));
    lines.collect::<Vec<String>>().join("\n")
}

/// The same for Markdown, in which nothing of it is HTML.
pub fn in_markdown(text: &str) -> String {
    plain(text).replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_does_what_is_left_out() {
        let evicts = WitnessStep { at_ns: 1, client: 0, text: "evicts".to_owned() };
        let steps = [evicts, WitnessStep::gap(2, 3)];
        let told: Vec<_> = told(&steps).map(|(_, who, what)| (who, what)).collect();
        let expected = [("the run", "evicts"), ("", "3 steps left out")];
        assert_eq!(told, expected.map(|(who, what)| (who.to_owned(), what)));
    }

    #[test]
    fn moments_have_three_decimals_however_close_they_are() {
        let step = |at_ns| WitnessStep { at_ns, client: 0, text: String::new() };
        let told: Vec<_> = told(&[step(37_241_186), step(37_241_187)]).map(|it| it.0).collect();
        assert_eq!(told, ["37.241 ms", "37.241 ms"]);
    }

    #[test]
    fn what_would_act_is_escaped() {
        assert_eq!(plain("a lock: 锁 \u{1F512}"), "a lock: 锁 \u{1F512}");
        assert_eq!(plain("a\u{1b}[31m\nb\u{9b}\u{202e}"), "a\\u{1b}[31m\\nb\\u{9b}\\u{202e}");
        assert_eq!(plain_lines("a\u{1b}\nb\tc"), "a\\u{1b}\nb\tc");
    }
}
