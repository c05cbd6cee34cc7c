//! Texts of pictures: times, and long texts in lines.
//!
//! Invariant: a line is no wider than it may be.

use crate::chart::ChartError;
use crate::chart::font::Type;
use crate::format::count;

/// A time of the run in milliseconds, to the tenth.
pub(super) fn milliseconds(at_ns: u64) -> String {
    let tenths = at_ns.saturating_add(50_000) / 100_000;
    format!("{}.{}", count(tenths / 10), tenths % 10)
}

/// The text in lines of this width, at most so many; the last is cut short.
pub(super) fn wrapped(
    face: Type,
    text: &str,
    width: f64,
    most: usize,
) -> Result<Vec<String>, ChartError> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match longer {
            Some(longer) if lines.len() == most || face.width(&longer)? <= width => {
                *lines.last_mut().expect("it was just looked at") = longer;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| face.fit(line, width)).collect()
}
