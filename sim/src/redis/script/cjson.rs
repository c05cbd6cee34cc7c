//! The `cjson` library, as far as scripts use it: `encode`, `decode`, `null`.
//!
//! Invariant: what it writes and the words of its errors are lua-cjson 2.1's with the defaults of
//! Redis; an empty table is `{}`. Deliberately absent: the functions that change those defaults, and
//! numbers that JSON does not have (`0x10`, `inf`), which lua-cjson reads.

use mlua::{Lua, LuaString, Table, Value};

use super::api::lua_fail;
use crate::resp::encode::general;

/// Tables and arrays may be nested so deep; in Redis, 1,000 deep, for which a thread's stack is too
/// small here.
const DEPTH_MAX: usize = 200;

/// The library as a table.
pub(crate) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let encode = lua.create_function(|lua, args: mlua::MultiValue| {
        let [value] = &args.iter().collect::<Vec<_>>()[..] else {
            return Err(lua_fail(lua, "bad argument #1 to 'encode' (expected 1 argument)"));
        };
        let mut text = Vec::new();
        append(lua, value, &mut text, 0)?;
        lua.create_string(&text)
    })?;
    table.set("encode", encode)?;
    let decode = lua.create_function(|lua, args: mlua::MultiValue| {
        let text = match &args.iter().collect::<Vec<_>>()[..] {
            [Value::String(text)] => text.as_bytes().to_vec(),
            [Value::Integer(number)] => number.to_string().into_bytes(),
            [Value::Number(number)] => general(*number, 14).into_bytes(),
            [other] => {
                let got = other.type_name();
                let text = format!("bad argument #1 to 'decode' (string expected, got {got})");
                return Err(lua_fail(lua, &text));
            }
            _ => {
                let text = "bad argument #1 to 'decode' (expected 1 argument)";
                return Err(lua_fail(lua, text));
            }
        };
        let mut reader = Reader { lua, text: &text, at: 0, depth: 0 };
        let value = reader.value()?;
        reader.expect_end()?;
        Ok(value)
    })?;
    table.set("decode", decode)?;
    table.set("null", Value::NULL)?;
    Ok(table)
}

fn append(lua: &Lua, value: &Value, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    let refuse =
        |kind: &str, why: &str| Err(lua_fail(lua, &format!("Cannot serialise {kind}: {why}")));
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        value if *value == Value::NULL => out.extend_from_slice(b"null"),
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Integer(number) => {
            #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are such")]
            out.extend_from_slice(general(*number as f64, 14).as_bytes());
        }
        Value::Number(number) if number.is_finite() => {
            out.extend_from_slice(general(*number, 14).as_bytes());
        }
        Value::Number(_) => return refuse("number", "must not be NaN or Inf"),
        Value::String(text) => append_string(text, out),
        Value::Table(_) if depth >= DEPTH_MAX => {
            let depth = depth + 1;
            return Err(lua_fail(lua, &format!("Cannot serialise, excessive depth ({depth})")));
        }
        Value::Table(table) => match array_length(table)? {
            Length::Sparse => return refuse("table", "excessively sparse array"),
            Length::Array(length) => {
                out.push(b'[');
                for index in 1..=length {
                    if index > 1 {
                        out.push(b',');
                    }
                    append(lua, &table.raw_get(index)?, out, depth + 1)?;
                }
                out.push(b']');
            }
            Length::Object => {
                out.push(b'{');
                let mut first = true;
                for pair in table.pairs::<Value, Value>() {
                    let (key, value) = pair?;
                    if !std::mem::take(&mut first) {
                        out.push(b',');
                    }
                    match key {
                        Value::String(text) => append_string(&text, out),
                        Value::Integer(_) | Value::Number(_) => {
                            out.push(b'"');
                            append(lua, &key, out, depth)?;
                            out.push(b'"');
                        }
                        _ => {
                            let why = "table key must be a number or string";
                            return refuse(key.type_name(), why);
                        }
                    }
                    out.push(b':');
                    append(lua, &value, out, depth + 1)?;
                }
                out.push(b'}');
            }
        },
        other => return refuse(other.type_name(), "type not supported"),
    }
    Ok(())
}

enum Length {
    Object,
    Array(i64),
    Sparse,
}

/// A table is an array if all its keys are whole numbers from 1 on, and not too many are missing.
fn array_length(table: &Table) -> mlua::Result<Length> {
    let (mut longest, mut items) = (0_i64, 0_i64);
    for pair in table.pairs::<Value, Value>() {
        let key = match pair?.0 {
            Value::Integer(key) => key,
            #[expect(clippy::cast_possible_truncation, reason = "a whole number")]
            Value::Number(key) if key.fract() == 0.0 && key < 9e15 => key as i64,
            _ => return Ok(Length::Object),
        };
        if key < 1 {
            return Ok(Length::Object);
        }
        longest = longest.max(key);
        items += 1;
    }
    Ok(match longest {
        0 => Length::Object,
        _ if longest > items * 2 && longest > 10 => Length::Sparse,
        _ => Length::Array(longest),
    })
}

fn append_string(text: &LuaString, out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text.as_bytes().iter() {
        match byte {
            b'"' | b'\\' | b'/' => out.extend_from_slice(&[b'\\', byte]),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..=31 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

struct Reader<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// What stands here, in lua-cjson's names.
    fn found(&mut self) -> &'static str {
        match self.peek() {
            None => "T_END",
            Some(b'{') => "T_OBJ_BEGIN",
            Some(b'}') => "T_OBJ_END",
            Some(b'[') => "T_ARR_BEGIN",
            Some(b']') => "T_ARR_END",
            Some(b':') => "T_COLON",
            Some(b',') => "T_COMMA",
            Some(b'"') => "T_STRING",
            Some(b'0'..=b'9' | b'-') => "T_NUMBER",
            Some(_) if self.starts_with(b"true") || self.starts_with(b"false") => "T_BOOLEAN",
            Some(_) if self.starts_with(b"null") => "T_NULL",
            Some(_) => "invalid token",
        }
    }

    fn starts_with(&self, word: &[u8]) -> bool {
        self.text[self.at..].starts_with(word)
    }

    fn expected(&mut self, what: &str) -> mlua::Error {
        let found = self.found();
        let at = self.at + 1;
        lua_fail(self.lua, &format!("Expected {what} but found {found} at character {at}"))
    }

    fn invalid(&self, found: &str, at: usize) -> mlua::Error {
        let at = at + 1;
        lua_fail(self.lua, &format!("Expected value but found {found} at character {at}"))
    }

    fn expect_end(&mut self) -> mlua::Result<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.expected("the end")) }
    }

    fn value(&mut self) -> mlua::Result<Value> {
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'{' | b'[') => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    let (depth, at) = (self.depth, self.at + 1);
                    let text = format!(
                        "Found too many nested data structures ({depth}) at character {at}"
                    );
                    return Err(lua_fail(self.lua, &text));
                }
                let table = if self.text[self.at] == b'{' { self.object()? } else { self.array()? };
                self.depth -= 1;
                Ok(Value::Table(table))
            }
            Some(b'0'..=b'9' | b'-') => self.number(),
            _ => {
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
        }
    }

    fn number(&mut self) -> mlua::Result<Value> {
        let start = self.at;
        let within = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let length = self.text[start..].iter().take_while(|byte| within(byte)).count();
        let text = std::str::from_utf8(&self.text[start..start + length]).unwrap_or_default();
        let number: f64 = text.parse().map_err(|_| self.invalid("invalid number", start))?;
        self.at += length;
        Ok(Value::Number(number))
    }

    fn array(&mut self) -> mlua::Result<Table> {
        let table = self.lua.create_table()?;
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(table);
        }
        for index in 1.. {
            table.raw_set(index, self.value()?)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.expected("comma or array end")),
            }
        }
        self.at += 1;
        Ok(table)
    }

    fn object(&mut self) -> mlua::Result<Table> {
        let table = self.lua.create_table()?;
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(table);
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.expected("object key string"));
            }
            let key = self.string()?;
            if self.peek() != Some(b':') {
                return Err(self.expected("colon"));
            }
            self.at += 1;
            let value = self.value()?;
            table.raw_set(key, value)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.expected("comma or object end")),
            }
        }
        self.at += 1;
        Ok(table)
    }

    fn string(&mut self) -> mlua::Result<LuaString> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let Some(&byte) = self.text.get(self.at) else {
                return Err(self.invalid("unexpected end of string", self.at));
            };
            self.at += 1;
            match byte {
                b'"' => return self.lua.create_string(&bytes),
                b'\\' => self.escape(&mut bytes)?,
                _ => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> mlua::Result<()> {
        let place = self.at - 1;
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
                let first = self.hex().ok_or_else(|| self.invalid(ESCAPE, place))?;
                let mut code = u32::from(first);
                if (0xD800..0xDC00).contains(&code) {
                    let second = self.starts_with(b"\\u").then(|| {
                        self.at += 2;
                        self.hex()
                    });
                    let low = second.flatten().map(u32::from);
                    let low = low.filter(|low| (0xDC00..0xE000).contains(low));
                    let low = low.ok_or_else(|| self.invalid(ESCAPE, place))?;
                    code = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                }
                let letter = char::from_u32(code).ok_or_else(|| self.invalid(ESCAPE, place))?;
                bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.invalid("invalid escape code", place)),
        });
        Ok(())
    }

    fn hex(&mut self) -> Option<u16> {
        let digits = std::str::from_utf8(self.text.get(self.at..self.at + 4)?).ok()?;
        self.at += 4;
        u16::from_str_radix(digits, 16).ok()
    }
}

const ESCAPE: &str = "invalid unicode escape code";
