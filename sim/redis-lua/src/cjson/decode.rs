//! Reading JSON as lua-cjson reads it.
//!
//! Invariant: what is no JSON is refused in lua-cjson's words, with the place where it was met.

use mlua::{Lua, LuaString, Table, Value};
use resp::{strtod, until_nul};

use super::DEPTH_MAX;
use crate::error::lua_fail;

/// The value that a text stands for.
pub(super) fn decode(lua: &Lua, text: &[u8]) -> mlua::Result<Value> {
    if let [0, _, ..] | [_, 0, ..] = text {
        return Err(lua_fail(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let text = until_nul(text);
    let mut reader = JsonReader { lua, text, at: 0, open: Vec::new() };
    let value = reader.value()?;
    reader.expect_end()?;
    Ok(value)
}

/// What stands where something else should, in lua-cjson's names, and where.
type FoundToken = (&'static str, usize);

struct JsonReader<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    open: Vec<OpenValue>,
}

/// A table that has not been read to its end, and where the next value goes.
enum OpenValue {
    Array(Table, usize),
    Object(Table, LuaString),
}

impl JsonReader<'_> {
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// What stands here. A string or number is read first, for it may be none.
    fn found(&mut self) -> FoundToken {
        let next = self.peek();
        let at = self.at;
        let name = match next {
            None => "T_END",
            Some(b'{') => "T_OBJ_BEGIN",
            Some(b'}') => "T_OBJ_END",
            Some(b'[') => "T_ARR_BEGIN",
            Some(b']') => "T_ARR_END",
            Some(b':') => "T_COLON",
            Some(b',') => "T_COMMA",
            Some(b'"') => return self.string().err().unwrap_or(("T_STRING", at)),
            Some(_) if self.at_number() => {
                return self.number().err().unwrap_or(("T_NUMBER", at));
            }
            Some(_) if self.starts_with(b"true") || self.starts_with(b"false") => "T_BOOLEAN",
            Some(_) if self.starts_with(b"null") => "T_NULL",
            Some(_) => "invalid token",
        };
        (name, at)
    }

    fn starts_with(&self, word: &[u8]) -> bool {
        self.text[self.at..].starts_with(word)
    }

    fn expected(&mut self, what: &str) -> mlua::Error {
        let found = self.found();
        self.refused(what, found)
    }

    fn refused(&self, what: &str, (found, at): FoundToken) -> mlua::Error {
        let at = at + 1;
        lua_fail(self.lua, &format!("Expected {what} but found {found} at character {at}"))
    }

    fn expect_end(&mut self) -> mlua::Result<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.expected("the end")) }
    }

    /// The next value, with all that is in it.
    fn value(&mut self) -> mlua::Result<Value> {
        loop {
            let mut value = match self.peek() {
                Some(kind @ (b'{' | b'[')) => {
                    if self.begin(kind == b'{')? {
                        continue;
                    }
                    Value::Table(self.lua.create_table()?)
                }
                _ => self.plain()?,
            };
            // Whatever it completes is complete too.
            loop {
                let more = match self.open.last_mut() {
                    None => return Ok(value),
                    Some(OpenValue::Array(table, index)) => {
                        table.raw_set(*index, value)?;
                        *index += 1;
                        self.goes_on(b']', "comma or array end")?
                    }
                    Some(OpenValue::Object(table, key)) => {
                        table.raw_set(&*key, value)?;
                        self.goes_on(b'}', "comma or object end")?
                    }
                };
                if more {
                    if let Some(OpenValue::Object(..)) = self.open.last() {
                        let next = self.key()?;
                        if let Some(OpenValue::Object(_, key)) = self.open.last_mut() {
                            *key = next;
                        }
                    }
                    break;
                }
                value = match self.open.pop() {
                    Some(OpenValue::Array(table, _) | OpenValue::Object(table, _)) => {
                        Value::Table(table)
                    }
                    None => return Err(self.expected("value")),
                };
            }
        }
    }

    /// Reads the beginning of a table; false where it is its end, too.
    fn begin(&mut self, is_object: bool) -> mlua::Result<bool> {
        let (depth, at) = (self.open.len() + 1, self.at + 1);
        if depth > DEPTH_MAX {
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(lua_fail(self.lua, &text));
        }
        self.at += 1;
        if self.peek() == Some(if is_object { b'}' } else { b']' }) {
            self.at += 1;
            return Ok(false);
        }
        let open = match is_object {
            true => {
                let key = self.key()?;
                OpenValue::Object(self.lua.create_table()?, key)
            }
            false => OpenValue::Array(self.lua.create_table()?, 1),
        };
        self.open.push(open);
        Ok(true)
    }

    /// The key of an object's next value.
    fn key(&mut self) -> mlua::Result<LuaString> {
        let expected = "object key string";
        if self.peek() != Some(b'"') {
            return Err(self.expected(expected));
        }
        let key = self.string().map_err(|found| self.refused(expected, found))?;
        let key = self.lua.create_string(key)?;
        if self.peek() != Some(b':') {
            return Err(self.expected("colon"));
        }
        self.at += 1;
        Ok(key)
    }

    /// Whether another value follows in the table.
    fn goes_on(&mut self, end: u8, expected: &str) -> mlua::Result<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.expected(expected)),
        }
    }

    fn plain(&mut self) -> mlua::Result<Value> {
        match self.peek() {
            Some(b'"') => {
                let text = self.string().map_err(|found| self.refused("value", found))?;
                return Ok(Value::String(self.lua.create_string(text)?));
            }
            Some(_) if self.at_number() => {
                let number = self.number().map_err(|found| self.refused("value", found))?;
                return Ok(Value::Number(number));
            }
            _ => {}
        }
        for (word, value) in [
            (&b"true"[..], Value::Boolean(true)),
            (b"false", Value::Boolean(false)),
            (b"null", Value::NULL),
        ] {
            if self.starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.expected("value"))
    }

    /// Whether C takes what stands here for the beginning of a number; JSON has fewer.
    fn at_number(&self) -> bool {
        let rest = &self.text[self.at..];
        let word = rest.get(..3).map(<[u8]>::to_ascii_lowercase);
        matches!(rest.first(), Some(b'0'..=b'9' | b'-' | b'+'))
            || matches!(word.as_deref(), Some(b"inf" | b"nan"))
    }

    fn number(&mut self) -> Result<f64, FoundToken> {
        let read = strtod(&self.text[self.at..]).ok_or(("invalid number", self.at))?;
        self.at += read.used;
        Ok(read.value)
    }

    fn string(&mut self) -> Result<Vec<u8>, FoundToken> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let Some(&byte) = self.text.get(self.at) else {
                return Err(("unexpected end of string", self.at));
            };
            self.at += 1;
            match byte {
                b'"' => return Ok(bytes),
                b'\\' => self.escape(&mut bytes)?,
                _ => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), FoundToken> {
        let place = self.at - 1;
        let invalid = ("invalid unicode escape code", place);
        let letter = self.text.get(self.at).copied();
        self.at += 1;
        bytes.push(match letter {
            Some(letter @ (b'"' | b'\\' | b'/')) => letter,
            Some(b'b') => 8,
            Some(b't') => 9,
            Some(b'n') => 10,
            Some(b'f') => 12,
            Some(b'r') => 13,
            Some(b'u') => {
                let first = self.hex().ok_or(invalid)?;
                let mut code = u32::from(first);
                if (0xD800..0xDC00).contains(&code) {
                    let second = self.starts_with(b"\\u").then(|| {
                        self.at += 2;
                        self.hex()
                    });
                    let low = second.flatten().map(u32::from);
                    let low = low.filter(|low| (0xDC00..0xE000).contains(low));
                    let low = low.ok_or(invalid)?;
                    code = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                }
                let letter = char::from_u32(code).ok_or(invalid)?;
                bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(("invalid escape code", place)),
        });
        Ok(())
    }

    fn hex(&mut self) -> Option<u16> {
        let digits = std::str::from_utf8(self.text.get(self.at..self.at + 4)?).ok()?;
        self.at += 4;
        u16::from_str_radix(digits, 16).ok()
    }
}
