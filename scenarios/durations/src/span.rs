//! Durations as people write them: `500ms`, `2s`, `1m 30s`.
//!
//! Invariant: what is printed reads back as the same duration.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The longest duration that is taken: a year, as it is read (365.25 days).
pub const MOST: Duration = Duration::from_secs(31_557_600);

/// A duration in a scenario file or on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// In nanoseconds.
    pub fn ns(self) -> u64 {
        picklock::time::span_ns(self.0)
    }

    /// So many times as long: a nanosecond at least where it is not nothing, and a year at most.
    ///
    /// # Panics
    /// Where `by` is no number, or negative.
    #[must_use]
    pub fn stretched(self, by: f64) -> Self {
        assert!(by >= 0.0, "{by} times as long");
        let most = MOST.as_secs_f64();
        let spanned = Duration::from_secs_f64((self.0.as_secs_f64() * by).min(most));
        let least = Duration::from_nanos(u64::from(!self.0.is_zero()));
        Self(spanned.max(least))
    }
}

/// A duration as people say it, with three digits.
pub fn rounded(ns: u64) -> String {
    let units = [(1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s")];
    for (unit_ns, unit) in units {
        for (digits, ten) in [(2, 100), (1, 10), (0, 1)] {
            let number = (u128::from(ns) * ten + unit_ns / 2) / unit_ns;
            if number >= 1_000 && (unit, digits) != ("s", 0) {
                continue;
            }
            let (whole, part) = (number / ten, number % ten);
            return match digits {
                _ if u128::from(ns) % unit_ns == 0 => format!("{whole} {unit}"),
                0 => format!("{whole} {unit}"),
                _ => format!("{whole}.{part:0digits$} {unit}"),
            };
        }
    }
    unreachable!("seconds are the last")
}

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// It begins with a minus sign.
    #[error("a duration cannot be negative")]
    Negative,
    /// It is a bare number.
    #[error("the unit is missing: write it as in `500ms` or `2s`")]
    Unit,
    /// It is beyond all use.
    #[error("too long: a year is the most")]
    TooLong,
    /// It is something else.
    #[error("not a duration: write it as in `500ms` or `2s`")]
    Other,
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let text = text.trim();
        if text.starts_with('-') {
            return Err(SpanError::Negative);
        }
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return Err(SpanError::Unit);
        }
        match humantime::parse_duration(text) {
            Ok(span) if span > MOST => Err(SpanError::TooLong),
            Ok(span) => Ok(Self(span)),
            Err(humantime::DurationError::NumberOverflow) => Err(SpanError::TooLong),
            Err(_) => Err(SpanError::Other),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsText;
        impl Visitor<'_> for AsText {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"500ms\"")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(|error| E::custom(format!("{text:?}: {error}")))
            }
        }
        deserializer.deserialize_str(AsText).map_err(D::Error::custom)
    }
}

/// How far a clock is put forward (`5s`) or back (`-5s`), in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shift(pub i64);

impl FromStr for Shift {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let (sign, span) = match text.trim().strip_prefix('-') {
            Some(rest) => (-1, rest.parse::<Span>()?),
            None => (1, text.parse::<Span>()?),
        };
        // A year of nanoseconds fits.
        let ns = i64::try_from(span.0.as_nanos()).map_err(|_| SpanError::TooLong)?;
        Ok(Self(sign * ns))
    }
}

impl fmt::Display for Shift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", Span(Duration::from_nanos(self.0.unsigned_abs())))
    }
}

impl Serialize for Shift {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Shift {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed_alike() {
        for (text, ms) in [("500ms", 500), ("2s", 2000), ("1m 30s", 90_000), ("0", 0), ("0s", 0)] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_millis(ms));
            assert_eq!(span.to_string().parse(), Ok(span));
        }
    }

    #[test]
    fn a_shift_goes_either_way() {
        for (text, ns) in [("5ms", 5_000_000), ("-1s", -1_000_000_000), ("0", 0)] {
            let shift: Shift = text.parse().unwrap();
            assert_eq!(shift.0, ns);
            assert_eq!(shift.to_string().parse(), Ok(shift));
        }
        assert_eq!("--1s".parse::<Shift>(), Err(SpanError::Negative));
        assert_eq!("-5".parse::<Shift>(), Err(SpanError::Unit));
    }

    #[test]
    fn what_is_no_duration_is_told_apart() {
        let refusal = |text: &str| text.parse::<Span>().unwrap_err();
        assert_eq!(refusal("-1s"), SpanError::Negative);
        assert_eq!(refusal("500"), SpanError::Unit);
        assert_eq!(refusal("99999999999999999999s"), SpanError::TooLong);
        assert_eq!(refusal("18446744073709551615y"), SpanError::TooLong);
        assert_eq!(refusal("1y 1ns"), SpanError::TooLong);
        assert_eq!("1y".parse(), Ok(Span(MOST)), "both sides of the boundary");
        assert_eq!(refusal("soon"), SpanError::Other);
        assert_eq!(refusal(""), SpanError::Other);
    }

    #[test]
    fn a_span_is_stretched_within_what_spans_can_be() {
        let ms = |ms| Span(Duration::from_millis(ms));
        assert_eq!(
            (ms(5).stretched(2.5), ms(5).stretched(0.2)),
            (Span(Duration::from_micros(12_500)), ms(1))
        );
        assert_eq!(ms(0).stretched(3.0), ms(0), "nothing stays nothing");
        assert_eq!(ms(1).stretched(1e-9), Span(Duration::from_nanos(1)), "and something something");
        assert_eq!(Span(MOST).stretched(2.0), Span(MOST));
    }

    #[test]
    fn spans_are_told_with_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 µs"),
            (1_234, "1.23 µs"),
            (9_994_999, "9.99 ms"),
            (9_995_000, "10.0 ms"),
            (12_355_678, "12.4 ms"),
            (787_600_000, "788 ms"),
            (999_500_000, "1.00 s"),
            (1_000_000_000, "1 s"),
            (61_050_000_000, "61.1 s"),
        ] {
            assert_eq!(rounded(ns), text);
        }
    }
}
