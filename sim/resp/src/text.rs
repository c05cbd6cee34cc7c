//! Byte strings, words and glob patterns, as redis-server has them.
//!
//! Invariant: a string of up to 40 bytes (a key, an owner token, a counter) is never on the heap.

use smallvec::SmallVec;

/// A byte string: the type of keys, values and replies, and of `picklock::reply::Reply::Bulk`.
pub type Blob = SmallVec<[u8; 40]>;

/// A [`Blob`] of these bytes.
pub fn blob(bytes: &[u8]) -> Blob {
    Blob::from_slice(bytes)
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

/// The argument as C prints it: up to its first NUL.
pub fn until_nul(arg: &[u8]) -> &[u8] {
    arg.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Whether `text` matches the glob `pattern`: `*`, `?`, `[a-z]`, `[^x]` and `\` before a literal. As in redis-server,
/// no star matches a text that is empty.
pub fn glob(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
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
    fn words_ignore_case_and_end_at_a_nul() {
        assert!(is_word(b"nX", "NX") && is_word(b"NX\0junk", "NX"));
        assert!(!is_word(b"NXX", "NX") && !is_word(b"N", "NX") && !is_word(b"", "NX"));
    }

    #[test]
    fn globs_match_as_redis_matches() {
        for (pattern, text, expected) in [
            ("*", "", false),
            ("**", "", false),
            ("", "", true),
            ("a*", "a", true),
            ("a**", "a", true),
            ("*a*", "a", true),
            ("*?", "a", true),
            ("?*", "a", true),
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
