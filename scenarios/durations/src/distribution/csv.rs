//! Counted durations as CSV.
//!
//! Each line is a value and how often it came, or a value alone, which came once. The unit stands
//! behind the value (`1.5ms`), or at the end of the column's name (`value_us,count`), or beside the
//! file's name in the scenario. Lines that begin with `#` are comments.
//!
//! Invariant: every line counts or is refused with its number.

use std::time::Duration;

use super::error::LineError;
use super::measured::{Bucket, TimeUnit, lines};
use super::portable::rounded;
use crate::span::{MOST, Span, SpanError};

/// What was counted; or the line, from 1, that cannot be understood.
pub(super) fn parse(
    bytes: &[u8],
    unit: Option<TimeUnit>,
) -> Result<Vec<Bucket>, (usize, LineError)> {
    let mut unit = unit;
    let mut counts = Vec::new();
    let mut first = true;
    // Spreadsheets begin their UTF-8 with a byte order mark.
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    // A file without names of columns may have them.
    let mut has_counts = true;
    for (number, line) in lines(bytes) {
        let line = line.map_err(|why| (number, why))?;
        if line.starts_with('#') {
            continue;
        }
        let columns: Vec<&str> = line.split([',', ';', '\t']).map(str::trim).collect();
        let (value, count) = match columns[..] {
            [value] => (value, None),
            [value, count] => (value, Some(count)),
            _ => return Err((number, LineError::Columns(columns.len()))),
        };
        // Names of columns begin with a letter, and what is counted with a digit or a sign.
        if std::mem::take(&mut first) && is_name(value) && count.is_none_or(is_name) {
            let named = value.rsplit(['_', ' ']).next().and_then(|last| last.parse().ok());
            unit = unit.or(named);
            has_counts = count.is_some();
            continue;
        }
        // `1,5` with a decimal comma would be 1, counted five times.
        if count.is_some() && !has_counts {
            return Err((number, LineError::Unnamed));
        }
        let bucket = parse_value(value, unit).and_then(|value| {
            let count = count.map_or(Ok(1), |count| {
                count.parse().map_err(|_| LineError::Count(count.to_owned()))
            })?;
            Ok(Bucket { value, count })
        });
        counts.push(bucket.map_err(|why| (number, why))?);
    }
    Ok(counts)
}

fn is_name(column: &str) -> bool {
    let not_a_number = column.parse::<f64>().is_err();
    not_a_number && column.starts_with(|c: char| c.is_alphabetic() || c == '"')
}

fn parse_value(text: &str, unit: Option<TimeUnit>) -> Result<Span, LineError> {
    let Ok(number) = text.parse::<f64>() else {
        return text.parse::<Span>().map_err(|why| match why {
            SpanError::Negative => LineError::Negative(text.to_owned()),
            SpanError::TooLong => LineError::TooLong(text.to_owned()),
            SpanError::Unit | SpanError::Other => LineError::Value(text.to_owned()),
        });
    };
    if number.is_nan() {
        return Err(LineError::Value(text.to_owned()));
    }
    if number < 0.0 {
        return Err(LineError::Negative(text.to_owned()));
    }
    let unit = unit.ok_or_else(|| LineError::UnitMissing(text.to_owned()))?;
    let span = Duration::from_nanos(rounded(number * f64::from(unit.in_ns())));
    if span > MOST { Err(LineError::TooLong(text.to_owned())) } else { Ok(Span(span)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Vec<(u64, u64)> {
        let buckets = parse(text.as_bytes(), None).unwrap();
        buckets.iter().map(|it| (picklock::time::span_ns(it.value.0), it.count)).collect()
    }

    #[test]
    fn the_unit_stands_with_the_value_or_in_the_columns_name() {
        let expected = [(1_500, 3), (2_000_000, 1)];
        assert_eq!(counts("1500ns,3\n2ms,1\n"), expected);
        assert_eq!(counts("value_us,count\n1.5,3\n2000,1"), expected);
        assert_eq!(counts("\u{feff}value_us,count\n1.5,3\n2000,1"), expected);
        assert_eq!(counts("# by hand\r\n\r\nlatency_ms;count\r\n0.0015;3\r\n2;1\r\n"), expected);
        assert_eq!(counts("s\n0.0000015\n0.002"), [(1_500, 1), (2_000_000, 1)]);
        let given = parse(b"1.5,3\n2000,1\n", Some(TimeUnit::Us)).unwrap();
        assert_eq!(given.len(), 2);
    }

    #[test]
    fn what_cannot_be_understood_is_named_with_its_line() {
        let text = |text: &str| text.to_owned();
        for (csv, line, why) in [
            ("value_us,count\n1,1\nNaN,1", 3, LineError::Value(text("NaN"))),
            ("value_us,count\n-1,1", 2, LineError::Negative(text("-1"))),
            ("1ms,1\n-1ms,1", 2, LineError::Negative(text("-1ms"))),
            ("1ms,1\n5,1", 2, LineError::UnitMissing(text("5"))),
            ("value,count\n5,1", 2, LineError::UnitMissing(text("5"))),
            ("1ms,1\n2ms,-1", 2, LineError::Count(text("-1"))),
            ("1ms,1\n2ms,1.5", 2, LineError::Count(text("1.5"))),
            ("1ms,1\n\n2ms,1,7", 3, LineError::Columns(3)),
            ("value_ms\n1,5", 2, LineError::Unnamed),
            ("value_s,count\n1e30,1", 2, LineError::TooLong(text("1e30"))),
            ("value_s,count\ninf,1", 2, LineError::TooLong(text("inf"))),
            ("value_us,count\nsoon,1", 2, LineError::Value(text("soon"))),
        ] {
            assert_eq!(parse(csv.as_bytes(), None), Err((line, why)), "{csv}");
        }
        assert_eq!(parse(b"1ms\n\xff\n", None), Err((2, LineError::Text)));
    }
}
