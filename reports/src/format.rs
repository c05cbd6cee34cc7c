//! Numbers and texts as people read them.
//!
//! Invariant: what comes out holds no control character, whatever a server or a scenario file put in, so
//! that no report can steer a terminal.

use std::borrow::Cow;

const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
const MINUTE_NS: u64 = 60_000_000_000;

/// A duration with three significant digits, in the unit that suits it: `1.25 ms`.
pub(crate) fn duration(ns: u64) -> String {
    for (unit, per) in UNITS {
        let value = ns as f64 / per;
        let limit = if unit == "s" { 60.0 } else { 999.5 };
        if value < limit {
            let decimals = match value {
                _ if unit == "ns" || value >= 99.95 => 0,
                _ if value >= 9.995 => 1,
                _ => 2,
            };
            return format!("{value:.decimals$} {unit}");
        }
    }
    let (minutes, rest_s) = (ns / MINUTE_NS, ns % MINUTE_NS / 1_000_000_000);
    if rest_s == 0 { format!("{minutes} min") } else { format!("{minutes} min {rest_s} s") }
}

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

/// A count, its thousands set apart: `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
    fn a_duration_has_the_unit_that_suits_it() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1000, "1.00 µs"),
            (12_340, "12.3 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (1_254_000, "1.25 ms"),
            (99_940_000, "99.9 ms"),
            (99_960_000, "100 ms"),
            (2_000_000_000, "2.00 s"),
            (59_900_000_000, "59.9 s"),
            (60_000_000_000, "1 min"),
            (605_000_000_000, "10 min 5 s"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn moments_are_told_apart() {
        assert_eq!(moment(12_345_678, false), "12.345 ms");
        assert_eq!(moment(12_345_678, true), "12.345678 ms");
        assert!(needs_fine(&[1000, 1001]));
        assert!(!needs_fine(&[1000, 1000, 2000]));
    }

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(counted(1, "client", "clients"), "1 client");
        assert_eq!(counted(2, "client", "clients"), "2 clients");
    }

    #[test]
    fn what_would_act_is_escaped() {
        assert_eq!(plain("a lock: 锁 \u{1F512}"), "a lock: 锁 \u{1F512}");
        assert_eq!(plain("a\u{1b}[31m\nb\u{9b}\u{202e}"), "a\\u{1b}[31m\\nb\\u{9b}\\u{202e}");
    }
}
