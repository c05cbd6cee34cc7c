//! Rates and times of a tuning as people read them.

use scenarios::span::Span;

/// Rates below once in this many years are not printed.
const NEVER_YEARS: f64 = 1e6;
/// The text of a rate that is too low to matter.
pub const NEVER: &str = "rarer than 1 in a million years";
const YEAR_DAYS: f64 = 365.25;

/// A rate: `3.1 a day`, `2 a year`, `1 in 40 years`.
pub fn often(per_day: f64) -> String {
    let per_year = per_day * YEAR_DAYS;
    match () {
        () if per_day >= 1.0 => format!("{} a day", figure(per_day)),
        () if per_year >= 1.0 => format!("{} a year", figure(per_year)),
        () if per_year * NEVER_YEARS >= 1.0 => format!("1 in {} years", figure(1.0 / per_year)),
        () => NEVER.to_owned(),
    }
}

/// An upper bound of a rate.
pub fn at_most(per_day: f64) -> String {
    let text = often(per_day);
    if text == NEVER { text } else { format!("at most {text}") }
}

/// A number with two significant digits, thousands separated.
fn figure(number: f64) -> String {
    if number < 10.0 {
        let text = format!("{number:.1}");
        return text.strip_suffix(".0").map_or(text.clone(), str::to_owned);
    }
    let digits = number.log10().floor() - 1.0;
    let unit = 10_f64.powf(digits);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above zero, and it saturates"
    )]
    let rounded = ((number / unit).round() * unit).round() as u64;
    scenarios::format::count(rounded)
}

/// A duration in the unit that suits it, from a day on to the hour: a year is as long as one on the command line.
pub fn time(span: Span) -> String {
    const YEAR_H: u64 = 8_766;
    let hours = span.0.as_secs() / 3_600;
    let parts = [(hours / YEAR_H, "y"), (hours % YEAR_H / 24, "d"), (hours % YEAR_H % 24, "h")];
    if hours >= 24 {
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        return parts
            .map(|(number, unit)| format!("{number} {unit}"))
            .collect::<Vec<_>>()
            .join(" ");
    }
    let ns = u64::try_from(span.0.as_nanos()).unwrap_or(u64::MAX);
    let text = scenarios::format::long_duration(ns);
    // Whole ones need no decimals.
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let short = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{short} {unit}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_and_times_have_the_unit_that_suits_them() {
        for (per_day, text) in [
            (12_345.0, "12,000 a day"),
            (1.0, "1 a day"),
            (0.99, "360 a year"),
            (2.5 / 365.25, "2.5 a year"),
            (1.0 / 365.25 / 40.0, "1 in 40 years"),
            (1e-12, "rarer than 1 in a million years"),
            (0.0, "rarer than 1 in a million years"),
        ] {
            assert_eq!(often(per_day), text);
        }
        assert_eq!(time(Span(Duration::from_secs(5))), "5 s");
        assert_eq!(time(Span(Duration::from_millis(1_250))), "1.25 s");
        assert_eq!(time(Span(Duration::from_secs(600))), "10 min");
        assert_eq!(time(Span(Duration::from_secs(3_599))), "59 min 59 s");
        assert_eq!(time(Span(Duration::from_secs(3_600))), "1 h");
        assert_eq!(time(Span(Duration::from_secs(5_400))), "1 h 30 min");
        // Both sides of a day and of a year.
        assert_eq!(time(Span(Duration::from_secs(86_399))), "23 h 59 min");
        for text in ["1 d", "1 d 1 h", "365 d 5 h", "1 y"] {
            assert_eq!(text.parse().map(time), Ok(text.to_owned()));
        }
        assert_eq!(time(Span(Duration::from_secs(2 * 31_557_600 - 1))), "1 y 365 d 5 h");
    }
}
