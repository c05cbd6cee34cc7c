//! Escapes what is printed, so that it cannot control the terminal.

use std::borrow::Cow;

/// The text with everything escaped that would control a terminal; line breaks and tabs stay.
pub(super) fn plain(text: &str) -> String {
    let lines = text
        .split('\n')
        .map(|line| line.split('\t').map(reports::plain).collect::<Vec<Cow<'_, str>>>().join("\t"));
    lines.collect::<Vec<String>>().join("\n")
}
