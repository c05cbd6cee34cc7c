//! Numbers and texts as people read them.
//!
//! Invariant: what comes out holds no control character, whatever a server or a scenario file put in, so
//! that no report can steer a terminal.

use std::borrow::Cow;

pub(crate) use scenarios::format::{count, duration};

/// A time of the run in milliseconds, to the microsecond: `12.345 ms`; `fine`: to the nanosecond.
pub(crate) fn moment(at_ns: u64, fine: bool) -> String {
    let (ms, rest_ns) = (at_ns / 1_000_000, at_ns % 1_000_000);
    if fine { format!("{ms}.{rest_ns:06} ms") } else { format!("{ms}.{:03} ms", rest_ns / 1000) }
}

/// Whether two different times of these would look the same to the microsecond.
pub(crate) fn needs_fine(times_ns: &[u64]) -> bool {
    let looks_same = |pair: &[u64]| pair[0] != pair[1] && pair[0] / 1000 == pair[1] / 1000;
    times_ns.windows(2).any(looks_same)
}

/// A count of things: `1 client`, `2 clients`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// The text with everything escaped that would act rather than be read: control characters, line
/// breaks, marks that turn the direction of writing.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
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

/// Whose a step of a witness is.
pub(crate) fn actor(client: u32) -> String {
    if client == 0 { "the run".to_owned() } else { format!("client {client}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_apart() {
        assert_eq!(moment(12_345_678, false), "12.345 ms");
        assert_eq!(moment(12_345_678, true), "12.345678 ms");
        assert!(needs_fine(&[1000, 1001]));
        assert!(!needs_fine(&[1000, 1000, 2000]));
    }

    #[test]
    fn one_thing_is_singular() {
        assert_eq!(counted(1, "client", "clients"), "1 client");
        assert_eq!(counted(2, "client", "clients"), "2 clients");
    }

    #[test]
    fn what_would_act_is_escaped() {
        assert_eq!(plain("a lock: 锁 \u{1F512}"), "a lock: 锁 \u{1F512}");
        assert_eq!(plain("a\u{1b}[31m\nb\u{9b}\u{202e}"), "a\\u{1b}[31m\\nb\\u{9b}\\u{202e}");
    }
}
