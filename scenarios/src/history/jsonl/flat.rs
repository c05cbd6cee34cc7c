//! A line of a history as JSON: one flat object, strictly.
//!
//! Invariant: it takes what `serde_json` takes for the same fields, in any order and with any blanks
//! and escapes, and refuses what that refuses; a test compares the two. It exists because it is
//! several times as fast, and because it says what is wrong in the terms of a history. Besides, `null`
//! is refused: a field that has nothing to say is left out. Deliberately absent: values within values,
//! which no field has.

use std::borrow::Cow;

use super::Line;
use super::field::{Field, Set};
use crate::history::read::{Flaw, Quoted};
use crate::nearest::nearest;

/// Reads a line, and which fields it has.
pub(super) fn parse(text: &str) -> Result<(Line<'_>, Set), Flaw> {
    let mut cursor = Cursor { text, at: 0 };
    let mut line = Line::default();
    let mut seen = Set::default();
    if cursor.next().is_none() {
        return Err(Flaw::Blank);
    }
    cursor.expect(b'{', "`{`")?;
    if cursor.next() == Some(b'}') {
        cursor.at += 1;
    } else {
        loop {
            cursor.field(&mut line, &mut seen)?;
            match cursor.next() {
                Some(b',') => cursor.at += 1,
                _ => break,
            }
        }
        cursor.expect(b'}', "`,` or `}`")?;
    }
    if cursor.next().is_some() {
        return Err(cursor.no_json("the end of the line"));
    }
    match Field::ALWAYS.into_iter().find(|field| !seen.has(*field)) {
        Some(field) => Err(Flaw::MissingField(field.name())),
        None => Ok((line, seen)),
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The next byte that is not blank, which stays the next.
    fn next(&mut self) -> Option<u8> {
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

    fn no_json(&self, expected: &'static str) -> Flaw {
        match self.peek() {
            None => Flaw::Unfinished,
            Some(_) => Flaw::NotJson { column: self.at + 1, expected },
        }
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Flaw> {
        if self.next() != Some(byte) {
            return Err(self.no_json(expected));
        }
        self.at += 1;
        Ok(())
    }

    /// A field with its value.
    fn field(&mut self, line: &mut Line<'a>, seen: &mut Set) -> Result<(), Flaw> {
        self.expect(b'"', "a field's name in quotes")?;
        let name = self.string()?;
        self.expect(b':', "`:`")?;
        self.next();
        let field = match name.as_bytes() {
            b"at_ns" => self.number(Field::AtNs, &mut line.at_ns)?,
            b"client" => self.number(Field::Client, &mut line.client)?,
            b"acquisition" => self.number(Field::Acquisition, &mut line.acquisition)?,
            b"op" => self.number(Field::Op, &mut line.op)?,
            b"stage" => self.text(Field::Stage, &mut line.stage)?,
            b"what" => self.text(Field::What, &mut line.what)?,
            b"node" => self.number(Field::Node, line.node.insert(0))?,
            b"command" => self.text(Field::Command, line.command.insert("".into()))?,
            b"key" => self.text(Field::Key, line.key.insert("".into()))?,
            b"touch" => self.text(Field::Touch, line.touch.insert("".into()))?,
            b"ttl_ns" => self.number(Field::TtlNs, line.ttl_ns.insert(0))?,
            b"compares" => self.truth(Field::Compares, &mut line.compares)?,
            b"answer" => self.text(Field::Answer, line.answer.insert("".into()))?,
            b"text" => self.text(Field::Text, line.text.insert("".into()))?,
            b"value" => self.number(Field::Value, line.value.insert(0))?,
            b"left" => self.number(Field::Left, line.left.insert(0))?,
            b"until_ns" => self.number(Field::UntilNs, line.until_ns.insert(0))?,
            b"phase" => self.text(Field::Phase, line.phase.insert("".into()))?,
            b"fault" => self.text(Field::Fault, line.fault.insert("".into()))?,
            b"for_ns" => self.number(Field::ForNs, line.for_ns.insert(0))?,
            b"in_hold" => self.truth(Field::InHold, line.in_hold.insert(false))?,
            _ => {
                let nearest = nearest(&name, Field::ALL.map(Field::name));
                return Err(Flaw::UnknownField { field: Quoted::new(&name), nearest });
            }
        };
        if seen.has(field) {
            return Err(Flaw::DuplicateField(field.name()));
        }
        seen.add(field);
        Ok(())
    }

    fn wrong(&self, field: Field, expected: &'static str) -> Flaw {
        match self.peek() {
            None => Flaw::Unfinished,
            Some(_) => Flaw::WrongType { field: field.name(), expected },
        }
    }

    fn number<T: Whole>(&mut self, field: Field, place: &mut T) -> Result<Field, Flaw> {
        let from = self.at;
        match self.whole()?.and_then(|(is_negative, size)| T::of(is_negative, size)) {
            Some(number) => *place = number,
            None => {
                self.at = from;
                return Err(self.wrong(field, T::EXPECTED));
            }
        }
        Ok(field)
    }

    /// A whole number by its sign and size; none where it is too large, or something else stands there.
    fn whole(&mut self) -> Result<Option<(bool, u64)>, Flaw> {
        let is_negative = self.peek() == Some(b'-');
        self.at += usize::from(is_negative);
        let from = self.at;
        let mut size = Some(0_u64);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            let digit = u64::from(digit - b'0');
            size = size.and_then(|size| size.checked_mul(10)?.checked_add(digit));
            self.at += 1;
        }
        let digits = &self.text.as_bytes()[from..self.at];
        match (digits, self.peek()) {
            ([], _) if is_negative => Err(self.no_json("a digit")),
            ([], _) | (_, Some(b'.' | b'e' | b'E')) => Ok(None),
            ([b'0', _, ..], _) => {
                self.at = from + 1;
                Err(self.no_json("no digit after a leading 0"))
            }
            // JSON's minus zero is a fraction.
            ([b'0'], _) if is_negative => Ok(None),
            _ => Ok(size.map(|size| (is_negative, size))),
        }
    }

    fn truth(&mut self, field: Field, place: &mut bool) -> Result<Field, Flaw> {
        let rest = &self.text.as_bytes()[self.at..];
        let (value, word) =
            if rest.first() == Some(&b't') { (true, "true") } else { (false, "false") };
        if !rest.starts_with(word.as_bytes()) {
            if word.as_bytes().starts_with(rest) {
                return Err(Flaw::Unfinished);
            }
            return Err(self.wrong(field, "true or false"));
        }
        self.at += word.len();
        *place = value;
        Ok(field)
    }

    fn text(&mut self, field: Field, place: &mut Cow<'a, str>) -> Result<Field, Flaw> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong(field, "a string"));
        }
        self.at += 1;
        *place = self.string()?;
        Ok(field)
    }

    /// A string whose opening quotes have been passed.
    fn string(&mut self) -> Result<Cow<'a, str>, Flaw> {
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
        let rest = &self.text.as_bytes()[self.at..];
        let plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
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

/// A kind of whole number.
trait Whole: Sized {
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

#[cfg(test)]
mod tests;
