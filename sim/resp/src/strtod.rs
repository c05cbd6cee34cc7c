//! Floating-point numbers as C's `strtod` reads them, which both redis-server and Lua ask.
//!
//! Invariant: the longest beginning of the text that is a number is read: decimal or hexadecimal, `inf`,
//! `infinity`, `nan`, in any case, behind blanks and a sign.

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strtod {
    /// The number.
    pub value: f64,
    /// So many bytes of the text.
    pub used: usize,
    /// The number as written is beyond what a float can hold, so its value is infinite or zero.
    pub out_of_range: bool,
}

/// Reads the beginning of the text; nothing where no number stands there.
pub fn strtod(text: &[u8]) -> Option<Strtod> {
    let blanks = text.iter().take_while(|byte| is_space(**byte)).count();
    let (negative, sign) = match text.get(blanks) {
        Some(b'-') => (true, 1),
        Some(b'+') => (false, 1),
        _ => (false, 0),
    };
    let start = blanks + sign;
    let (value, length, out_of_range) = unsigned(&text[start..])?;
    let value = if negative { -value } else { value };
    Some(Strtod { value, used: start + length, out_of_range })
}

/// C's `isspace`.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn unsigned(text: &[u8]) -> Option<(f64, usize, bool)> {
    let is = |word: &[u8]| text.get(..word.len()).is_some_and(|at| at.eq_ignore_ascii_case(word));
    if is(b"infinity") || is(b"inf") {
        return Some((f64::INFINITY, if is(b"infinity") { 8 } else { 3 }, false));
    }
    if is(b"nan") {
        let inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let more = match &text[3..] {
            [b'(', rest @ ..] => {
                let inside = rest.iter().take_while(|byte| inner(byte)).count();
                if rest.get(inside) == Some(&b')') { inside + 2 } else { 0 }
            }
            _ => 0,
        };
        return Some((f64::NAN, 3 + more, false));
    }
    if is(b"0x")
        && let Some(found) = hexadecimal(&text[2..])
    {
        return Some((found.0, found.1 + 2, found.2));
    }
    let mantissa = mantissa(text, u8::is_ascii_digit)?;
    let length = mantissa + exponent(&text[mantissa..], b'e').1;
    let value: f64 = std::str::from_utf8(&text[..length]).ok()?.parse().ok()?;
    let nonzero = text[..mantissa].iter().any(|byte| matches!(byte, b'1'..=b'9'));
    Some((value, length, value.is_infinite() || (value == 0.0 && nonzero)))
}

/// How many bytes digits and a point take, if there is a digit.
fn mantissa(text: &[u8], is_digit: fn(&u8) -> bool) -> Option<usize> {
    let whole = text.iter().take_while(|byte| is_digit(byte)).count();
    let (point, places) = match text.get(whole) {
        Some(b'.') => (1, text[whole + 1..].iter().take_while(|byte| is_digit(byte)).count()),
        _ => (0, 0),
    };
    (whole + places > 0).then_some(whole + point + places)
}

/// The exponent behind this letter and how many bytes it takes; zero and none where there is none.
fn exponent(text: &[u8], letter: u8) -> (i64, usize) {
    if !text.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&letter)) {
        return (0, 0);
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    let digits = &text[1 + sign..];
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return (0, 0);
    }
    let add = |sum: i64, digit: &u8| (sum * 10 + i64::from(digit - b'0')).min(1 << 40);
    let value = digits[..count].iter().fold(0, add);
    (if text[1] == b'-' { -value } else { value }, 1 + sign + count)
}

fn hexadecimal(text: &[u8]) -> Option<(f64, usize, bool)> {
    let length = mantissa(text, u8::is_ascii_hexdigit)?;
    let (mut bits, mut power, mut after_point) = (0_u64, 0_i64, false);
    for &byte in &text[..length] {
        let Some(digit) = char::from(byte).to_digit(16) else {
            after_point = true;
            continue;
        };
        if bits >> 58 == 0 {
            bits = bits << 4 | u64::from(digit);
            power -= if after_point { 4 } else { 0 };
        } else {
            // Too many digits to hold: what is lost decides only how a half is rounded.
            bits |= u64::from(digit != 0);
            power += if after_point { 0 } else { 4 };
        }
    }
    let (written, more) = exponent(&text[length..], b'p');
    #[expect(clippy::cast_precision_loss, reason = "rounding to the nearest is what is asked for")]
    let mantissa = bits as f64;
    let value = scaled(mantissa, power + written);
    Some((value, length + more, value.is_infinite() || (value == 0.0 && bits != 0)))
}

/// `value * 2^power`, in steps that neither overflow nor vanish too early.
fn scaled(mut value: f64, mut power: i64) -> f64 {
    const STEP: i64 = 1_000;
    while power > STEP && value != 0.0 && value.is_finite() {
        value *= 2_f64.powi(1_000);
        power -= STEP;
    }
    while power < -STEP && value != 0.0 {
        value *= 2_f64.powi(-1_000);
        power += STEP;
    }
    value * 2_f64.powi(i32::try_from(power.clamp(-STEP, STEP)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_number_is_read() {
        for (text, value, used) in [
            ("12x", 12.0, 2),
            ("1e", 1.0, 1),
            ("1e+5", 100_000.0, 4),
            (" +.5.", 0.5, 4),
            ("5.", 5.0, 2),
            ("0x10", 16.0, 4),
            ("-0x.8p1", -1.0, 7),
            ("0x", 0.0, 1),
            ("0xp1", 0.0, 1),
            ("0x1p-1074", f64::from_bits(1), 9),
            ("Infinityx", f64::INFINITY, 8),
            ("-infi", f64::NEG_INFINITY, 4),
        ] {
            let read = strtod(text.as_bytes()).expect(text);
            assert_eq!((read.value, read.used, read.out_of_range), (value, used, false), "{text}");
        }
        assert!(strtod(b"nan(1)").is_some_and(|read| read.value.is_nan() && read.used == 6));
        for text in ["", ".", "-", "e5", "+ 1"] {
            assert_eq!(strtod(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_no_float_can_hold_is_said_to_be_out_of_range() {
        for text in ["1e400", "1e-400", "0x1p99999", "0x1p-99999"] {
            assert!(strtod(text.as_bytes()).is_some_and(|read| read.out_of_range), "{text}");
        }
        for text in ["0", "-0.0e-999", "inf", "1e-320"] {
            assert!(strtod(text.as_bytes()).is_some_and(|read| !read.out_of_range), "{text}");
        }
    }
}
