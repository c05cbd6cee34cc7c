//! Durations and counts as people read them.

const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
const MINUTE_NS: u64 = 60_000_000_000;

/// A duration with three significant digits, in the unit that suits it: `1.25 ms`.
pub fn duration(ns: u64) -> String {
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

/// The same of what may take hours, from an hour on to the minute: `8 h 1 min`.
pub fn long_duration(ns: u64) -> String {
    let minutes = ns / MINUTE_NS;
    match (minutes / 60, minutes % 60) {
        (0, _) => duration(ns),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// A count, with its thousands separated: `12,345`.
pub fn count(number: u64) -> String {
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

/// Of one thing its name, of others the plural in `s`.
pub fn plural(number: u64, one: &str) -> String {
    format!("{one}{}", if number == 1 { "" } else { "s" })
}

/// A count of things, with its thousands separated: `1 client`, `12,345 clients`.
pub fn counted(number: u64, one: &str) -> String {
    format!("{} {}", count(number), plural(number, one))
}

/// A parser's message in words of people who do not write Rust.
pub fn in_words(message: &str) -> String {
    let whole = |least: &str, most: &str| format!("expected a whole number from {least} to {most}");
    let replaced = [
        ("invalid type: ", "wrong kind of value: ".to_owned()),
        ("expected u16", whole("0", "65535")),
        ("expected u32", whole("0", "4294967295")),
        ("expected u64", whole("0", "18446744073709551615")),
        ("expected usize", whole("0", "18446744073709551615")),
        ("expected i32", whole("-2147483648", "2147483647")),
        ("expected i64", whole("-9223372036854775808", "9223372036854775807")),
        ("expected f64", "expected a number".to_owned()),
        ("expected a tuple of size ", "expected a list of ".to_owned()),
        ("invalid length ", "wrong number of values: ".to_owned()),
        ("recursion limit", "it is nested too deeply".to_owned()),
        ("unit variant, expected string only", "expected a name or a table".to_owned()),
    ];
    let text =
        replaced.iter().fold(message.to_owned(), |text, (rust, words)| text.replace(rust, words));
    // The name of the struct is known to nobody.
    let Some((before, after)) = text.split_once("expected struct ") else { return text };
    let after = after.trim_start_matches(|c: char| c.is_alphanumeric());
    format!("{before}expected a table{after}")
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
    fn a_long_duration_is_told_in_hours() {
        for (ns, text) in [
            (1_250_000, "1.25 ms"),
            (3_599_000_000_000, "59 min 59 s"),
            (3_600_000_000_000, "1 h"),
            (28_859_000_000_000, "8 h"),
            (28_860_000_000_000, "8 h 1 min"),
        ] {
            assert_eq!(long_duration(ns), text);
        }
    }

    #[test]
    fn what_the_parser_says_is_told_without_names_of_types() {
        for (said, words) in [
            (
                "invalid type: string \"0ms\", expected struct Strike",
                "wrong kind of value: string \"0ms\", expected a table",
            ),
            (
                "invalid type: unit variant, expected string only",
                "wrong kind of value: expected a name or a table",
            ),
            ("expected struct Strike with 2 elements", "expected a table with 2 elements"),
        ] {
            assert_eq!(in_words(said), words);
        }
    }

    #[test]
    fn one_thing_is_singular() {
        assert_eq!(counted(1, "client"), "1 client");
        assert_eq!(counted(2, "client"), "2 clients");
    }

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
    }
}
