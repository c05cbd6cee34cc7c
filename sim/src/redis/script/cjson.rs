//! The `cjson` library, as far as scripts use it: `encode`, `decode`, `null`.
//!
//! Invariant: what it writes and the words of its errors are lua-cjson 2.1's with the defaults of
//! Redis; an empty table is `{}`. Deliberately absent: the functions that change those defaults, and
//! numbers that JSON does not have (`0x10`, `inf`), which lua-cjson reads.

mod decode;

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
        decode::decode(lua, &text)
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
