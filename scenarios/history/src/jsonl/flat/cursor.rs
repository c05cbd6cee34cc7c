//! What JSON is made of: strings, whole numbers, true and false, and what stands between them.
//!
//! Invariant: it goes forward only, and never past what it has understood; what is wrong is said with
//! the column.

use std::borrow::Cow;

use super::super::field::Field;
use crate::flaw::Flaw;

/// A whole number of so few digits is not too large for 64 bits.
pub(in super::super) const DIGITS_SURE: usize = 19;

/// A place in a text.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    /// At its beginning.
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte that is not blank, which stays the next.
    pub(super) fn next(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                next => return next,
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn no_json(&self, expected: &'static str) -> Flaw {
        match self.peek() {
            None => Flaw::Unfinished,
            Some(_) => Flaw::NotJson { column: self.at + 1, expected },
        }
    }

    pub(super) fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Flaw> {
        if self.next() != Some(byte) {
            return Err(self.no_json(expected));
        }
        self.at += 1;
        Ok(())
    }

    pub(super) fn comma(&mut self) -> bool {
        let is_there = self.next() == Some(b',');
        self.at += usize::from(is_there);
        is_there
    }

    pub(super) fn wrong(&self, field: Field, expected: &'static str) -> Flaw {
        match self.peek() {
            None => Flaw::Unfinished,
            Some(_) => Flaw::WrongType { field: field.name(), expected },
        }
    }

    pub(super) fn number<T: Whole>(&mut self, field: Field) -> Result<T, Flaw> {
        let (from, (length, size)) = (self.at, self.digits());
        let digits = &self.text.as_bytes()[from..];
        let is_plain = match digits.get(length) {
            Some(b'.' | b'e' | b'E') => false,
            _ => (1..=DIGITS_SURE).contains(&length) && (digits[0] != b'0' || length == 1),
        };
        let whole = if is_plain {
            self.at += length;
            Some((false, size))
        } else {
            self.whole()?
        };
        whole.and_then(|(is_negative, size)| T::of(is_negative, size)).ok_or_else(|| {
            self.at = from;
            self.wrong(field, T::EXPECTED)
        })
    }

    /// How many digits stand there, and what they say where they are few enough.
    fn digits(&self) -> (usize, u64) {
        let (mut length, mut size) = (0, 0_u64);
        for byte in &self.text.as_bytes()[self.at..] {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            size = size.wrapping_mul(10).wrapping_add(u64::from(digit));
            length += 1;
        }
        (length, size)
    }

    /// A whole number by its sign and size; none where it is too large, or something else stands there.
    fn whole(&mut self) -> Result<Option<(bool, u64)>, Flaw> {
        let is_negative = self.peek() == Some(b'-');
        self.at += usize::from(is_negative);
        let from = self.at;
        let (length, size) = self.digits();
        self.at += length;
        let digits = &self.text.as_bytes()[from..self.at];
        match (digits, self.peek()) {
            ([], _) if is_negative => Err(self.no_json("a digit")),
            ([], _) | (_, Some(b'.' | b'e' | b'E')) => Ok(None),
            ([b'0', _, ..], _) => {
                self.at = from + 1;
                Err(self.no_json("no digit after a leading 0"))
            }
            // JSON's minus zero is a fraction, and its plain one is not read here.
            ([b'0'], _) => Ok(None),
            _ if digits.len() > DIGITS_SURE => {
                Ok(self.text[from..self.at].parse().ok().map(|size| (is_negative, size)))
            }
            _ => Ok(Some((is_negative, size))),
        }
    }

    pub(super) fn truth(&mut self, field: Field) -> Result<bool, Flaw> {
        let rest = &self.text.as_bytes()[self.at..];
        let value = rest.first() == Some(&b't');
        let word: &[u8] = if value { b"true" } else { b"false" };
        if !rest.starts_with(word) {
            if word.starts_with(rest) {
                return Err(Flaw::Unfinished);
            }
            return Err(self.wrong(field, "true or false"));
        }
        self.at += word.len();
        Ok(value)
    }

    pub(super) fn text(&mut self, field: Field) -> Result<Cow<'a, str>, Flaw> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong(field, "a string"));
        }
        self.at += 1;
        self.string()
    }

    /// A string whose opening quotes have been passed.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Flaw> {
        let from = self.at;
        self.plain();
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(&self.text[from..self.at - 1]));
        }
        let mut whole = String::new();
        let mut from = from;
        loop {
            whole.push_str(&self.text[from..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(whole));
                }
                Some(b'\\') => {
                    self.at += 1;
                    whole.push(self.escape()?);
                }
                _ => return Err(self.no_json("an escape instead of a control character")),
            }
            from = self.at;
            self.plain();
        }
    }

    /// Goes on to what has a meaning within a string, or to the end.
    fn plain(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(eight) = bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            if let Some(place) = meaningful(u64::from_le_bytes(*eight)) {
                self.at += place;
                return;
            }
            self.at += eight.len();
        }
        let plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
        let rest = &bytes[self.at..];
        self.at += rest.iter().position(|byte| !plain(byte)).unwrap_or(rest.len());
    }

    /// What an escape stands for, its backslash passed.
    fn escape(&mut self) -> Result<char, Flaw> {
        let escaped = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.no_json("an escape of JSON")),
        };
        self.at += 1;
        Ok(escaped)
    }

    fn unicode(&mut self) -> Result<char, Flaw> {
        const LONE: &str = "the other half of a surrogate pair";
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).ok_or_else(|| self.no_json(LONE));
        }
        for byte in [b'\\', b'u'] {
            if self.peek() != Some(byte) {
                return Err(self.no_json(LONE));
            }
            self.at += 1;
        }
        let second = self.hex()?;
        if !(0xdc00..0xe000).contains(&second) {
            return Err(self.no_json(LONE));
        }
        let both = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        char::from_u32(both).ok_or_else(|| self.no_json(LONE))
    }

    fn hex(&mut self) -> Result<u32, Flaw> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            value = 16 * value + digit.ok_or_else(|| self.no_json("a hexadecimal digit"))?;
            self.at += 1;
        }
        Ok(value)
    }
}

/// The place, among eight bytes, of the first that is a quote, a backslash or a control character.
fn meaningful(eight: u64) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    // Subtracting borrows from a byte's highest bit where the byte is less. A borrow may go on into
    // the bytes behind, so only the first is right, which is all that is asked for.
    let below = |bytes: u64, least: u64| bytes.wrapping_sub(ONES * least) & !bytes & HIGHS;
    let is = |byte: u8| below(eight ^ (ONES * u64::from(byte)), 1);
    let found = below(eight, u64::from(b' ')) | is(b'"') | is(b'\\');
    if found == 0 { None } else { Some(found.trailing_zeros() as usize / 8) }
}

/// A kind of whole number.
pub(super) trait Whole: Sized {
    const EXPECTED: &'static str;

    fn of(is_negative: bool, size: u64) -> Option<Self>;
}

impl Whole for u64 {
    const EXPECTED: &'static str = "a whole number from 0 to 18446744073709551615";

    fn of(is_negative: bool, size: u64) -> Option<Self> {
        (!is_negative).then_some(size)
    }
}

impl Whole for u32 {
    const EXPECTED: &'static str = "a whole number from 0 to 4294967295";

    fn of(is_negative: bool, size: u64) -> Option<Self> {
        if is_negative { None } else { size.try_into().ok() }
    }
}

impl Whole for u16 {
    const EXPECTED: &'static str = "a whole number from 0 to 65535";

    fn of(is_negative: bool, size: u64) -> Option<Self> {
        if is_negative { None } else { size.try_into().ok() }
    }
}

impl Whole for i64 {
    const EXPECTED: &'static str =
        "a whole number from -9223372036854775808 to 9223372036854775807";

    fn of(is_negative: bool, size: u64) -> Option<Self> {
        if is_negative { 0_i64.checked_sub_unsigned(size) } else { size.try_into().ok() }
    }
}
