//! Numbers as Redis reads and writes them.
//!
//! Invariant: integers are read strictly, floating-point numbers as C reads them, hexadecimal ones too.

use crate::strtod::{is_space, strtod};
use crate::text::{Blob, blob};

/// A decimal integer as Redis reads one: no plus sign, no leading zero, no blank.
pub fn decimal(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !matches!(digits, [b'1'..=b'9', ..]) {
        return (text == b"0").then_some(0);
    }
    let is_negative = digits.len() < text.len();
    digits.iter().try_fold(0_i64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        let signed = if is_negative { -i64::from(digit) } else { i64::from(digit) };
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(signed)
    })
}

/// The integer in decimal.
pub fn integer(value: i64) -> Blob {
    blob(itoa::Buffer::new().format(value).as_bytes())
}

/// A floating-point number that is all of the text; NaN is none, and nothing is rounded to infinity.
pub fn float(text: &[u8]) -> Option<f64> {
    let read = strtod(text).filter(|read| read.used == text.len() && !is_space(text[0]))?;
    (!read.value.is_nan() && !read.out_of_range).then_some(read.value)
}

/// An end of a range of scores: Redis reads it less strictly, and an empty one is 0.
pub fn range_end(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let Some(read) = strtod(&text[..end]) else { return (end == 0).then_some(0.0) };
    (read.used == end && !read.value.is_nan()).then_some(read.value)
}

/// A floating-point number as `%.17g` prints it, which is how redis-server 7.0 writes doubles.
pub fn double(value: f64) -> String {
    general(value, 17)
}

/// C's `%.{digits}g`.
pub fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf".into() } else { "inf".into() };
    }
    let scientific = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let digits = i64::try_from(digits).unwrap_or(17);
    if exponent < -4 || exponent >= digits {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let places = usize::try_from(digits - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.places$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_print_at_both_ends() {
        for value in [0, 7, -1, i64::MAX, i64::MIN] {
            assert_eq!(&integer(value)[..], value.to_string().as_bytes());
            assert_eq!(decimal(&integer(value)), Some(value));
        }
    }

    #[test]
    fn floats_are_whole_texts_and_never_rounded_to_infinity() {
        assert_eq!(float(b"-1.5e3"), Some(-1500.0));
        assert_eq!(float(b"-inf"), Some(f64::NEG_INFINITY));
        assert_eq!((float(b"0x1p-1"), range_end(b" 0x10")), (Some(0.5), Some(16.0)));
        assert_eq!((range_end(b""), range_end(b"1 "), range_end(b"nan")), (Some(0.0), None, None));
        for text in ["", " 1", "1 ", "nan", "1e400", "1e-400", "0x", "x"] {
            assert_eq!(float(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn doubles_print_as_c_prints_them() {
        for (value, digits, text) in [
            (0.0, 17, "0"),
            (0.1, 17, "0.10000000000000001"),
            (1e17, 17, "1e+17"),
            (1e15, 14, "1e+15"),
            (1.5, 14, "1.5"),
            (-1e-5, 14, "-1e-05"),
            (0.0001, 14, "0.0001"),
            (123_456_789.0, 14, "123456789"),
        ] {
            assert_eq!(general(value, digits), text);
        }
    }
}
