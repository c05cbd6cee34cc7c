//! Byte strings of the model, numbers as text, and glob patterns, all as redis-server has them.
//!
//! Invariant: a string of up to 40 bytes (a key, an owner token, a counter) is never on the heap.
//! Floating-point numbers are read as C reads them, hexadecimal ones too.

use smallvec::SmallVec;

use super::strtod::{is_space, strtod};

pub use crate::resp::request::decimal;

/// A byte string: the type of keys, values and replies, and of `picklock::reply::Reply::Bulk`.
pub type Blob = SmallVec<[u8; 40]>;

/// A [`Blob`] of these bytes.
pub fn blob(bytes: &[u8]) -> Blob {
    Blob::from_slice(bytes)
}

/// The integer in decimal.
pub fn integer(value: i64) -> Blob {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b"0123456789"[(rest % 10) as usize];
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    blob(&digits[start..])
}

/// A floating-point number that is all of the text; NaN is none, and nothing is rounded to infinity.
pub fn float(text: &[u8]) -> Option<f64> {
    let read = strtod(text).filter(|read| read.used == text.len() && !is_space(text[0]))?;
    (!read.value.is_nan() && !read.out_of_range).then_some(read.value)
}

/// An end of a range of scores: Redis reads it less strictly, and an empty one is 0.
pub(crate) fn range_end(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let Some(read) = strtod(&text[..end]) else { return (end == 0).then_some(0.0) };
    (read.used == end && !read.value.is_nan()).then_some(read.value)
}

/// Whether an argument is this word, in any case. As in C, a NUL ends the argument.
#[inline]
pub fn is_word(arg: &[u8], word: &str) -> bool {
    match arg.get(word.len()) {
        None | Some(0) => {
            arg.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()))
        }
        Some(_) => false,
    }
}

/// Whether `text` matches the glob `pattern`: `*`, `?`, `[a-z]`, `[^x]` and `\` before a literal.
pub fn glob(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    // The place to come back to: what follows the last star, and what it has not swallowed yet.
    let mut retry: Option<(&[u8], &[u8])> = None;
    let (mut pattern, mut text) = (pattern, text);
    loop {
        match pattern.first() {
            Some(b'*') => {
                pattern = &pattern[1..];
                retry = Some((pattern, text));
                continue;
            }
            None if text.is_empty() => return true,
            Some(_) if !text.is_empty() => {
                if let Some(after) = match_one(pattern, text[0], ignore_case) {
                    pattern = after;
                    text = &text[1..];
                    continue;
                }
            }
            _ => {}
        }
        match &mut retry {
            Some((after_star, left)) if !left.is_empty() => {
                *left = &left[1..];
                (pattern, text) = (after_star, left);
            }
            _ => return false,
        }
    }
}

/// The pattern behind its first element, if that element matches the byte.
fn match_one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<&[u8]> {
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
    let byte = fold(byte);
    match pattern {
        [b'?', after @ ..] => Some(after),
        [b'[', class @ ..] => match_class(class, byte, &fold),
        [b'\\', literal, after @ ..] => (fold(*literal) == byte).then_some(after),
        [literal, after @ ..] => (fold(*literal) == byte).then_some(after),
        [] => None,
    }
}

/// As Redis reads it: a class that is never closed ends with the pattern.
fn match_class<'a>(class: &'a [u8], byte: u8, fold: &dyn Fn(u8) -> u8) -> Option<&'a [u8]> {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => break,
            [b'\\', literal, after @ ..] => {
                found |= fold(*literal) == byte;
                after
            }
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [low, b'-', high, after @ ..] => {
                let (low, high) = (fold(*low.min(high)), fold(*low.max(high)));
                found |= (low..=high).contains(&byte);
                after
            }
            [literal, after @ ..] => {
                found |= fold(*literal) == byte;
                after
            }
        };
    }
    (found != negated).then_some(rest)
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
    fn words_ignore_case_and_end_at_a_nul() {
        assert!(is_word(b"nX", "NX") && is_word(b"NX\0junk", "NX"));
        assert!(!is_word(b"NXX", "NX") && !is_word(b"N", "NX") && !is_word(b"", "NX"));
    }

    #[test]
    fn globs_match_as_redis_matches() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcd", false),
            ("h?llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]t", "hbt", true),
            ("h[c-a]t", "hbt", true),
            ("h\\?", "h?", true),
            ("h\\?", "hx", false),
            ("[abc", "b", true),
            ("", "a", false),
            ("A", "a", false),
        ] {
            let found = glob(pattern.as_bytes(), text.as_bytes(), false);
            assert_eq!(found, expected, "{pattern} {text}");
        }
        assert!(glob(b"MAX*", b"maxmemory", true));
    }
}
