//! The `cjson` library, as far as scripts use it: `encode`, `decode`, `null`.
//!
//! Invariant: what it writes and the words of its errors are lua-cjson 2.1's with the defaults of Redis; an
//! empty table is `{}`. Not modelled: the functions that change those defaults.

mod decode;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::args::{LuaArgs, text_of};
use super::limits::{MEMORY_BYTES, NO_MEMORY, PARTS, TABLE_PARTS};
use crate::error::lua_fail;

/// Tables and arrays may be nested so deep, as in Redis. They are walked without recursion, for a thread's
/// stack may be small here.
const DEPTH_MAX: usize = 1_000;

/// The library as a table. `next` is Lua's own.
pub fn library(lua: &Lua, next: Function) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let encode = lua.create_function(move |lua, mut values: MultiValue| {
        let value = only(lua, &mut values)?;
        let mut writer =
            JsonWriter { lua, next: &next, out: Vec::new(), open: Vec::new(), parts: 0 };
        writer.write(value)?;
        lua.create_string(&writer.out)
    })?;
    table.set("encode", encode)?;
    let decode = lua.create_function(|lua, mut values: MultiValue| {
        let values = MultiValue::from_iter([only(lua, &mut values)?]);
        decode::decode(lua, &LuaArgs::new(lua, &values).text(0)?)
    })?;
    table.set("decode", decode)?;
    table.set("null", Value::NULL)?;
    table.set("_NAME", "cjson")?;
    table.set("_VERSION", "2.1.0")?;
    Ok(table)
}

/// The one argument.
fn only(lua: &Lua, values: &mut MultiValue) -> mlua::Result<Value> {
    match (values.len(), values.pop_front()) {
        (1, Some(value)) => Ok(value),
        _ => Err(LuaArgs::new(lua, values).bad(0, "expected 1 argument")),
    }
}

/// A table that has not been written to its end.
enum OpenTable {
    Array { table: Table, written: i64, length: i64 },
    Object { table: Table, key: Value },
}

struct JsonWriter<'a> {
    lua: &'a Lua,
    next: &'a Function,
    out: Vec<u8>,
    open: Vec<OpenTable>,
    parts: usize,
}

impl JsonWriter<'_> {
    fn write(&mut self, value: Value) -> mlua::Result<()> {
        self.begin(value)?;
        while let Some(open) = self.open.last_mut() {
            if self.out.len() > MEMORY_BYTES || self.parts > PARTS {
                return Err(mlua::Error::MemoryError(NO_MEMORY.to_owned()));
            }
            let value = match open {
                OpenTable::Array { written, length, .. } if written == length => {
                    self.out.push(b']');
                    self.open.pop();
                    continue;
                }
                OpenTable::Array { table, written, .. } => {
                    if *written > 0 {
                        self.out.push(b',');
                    }
                    *written += 1;
                    table.raw_get(*written)?
                }
                OpenTable::Object { table, key } => {
                    let first = key.is_nil();
                    let before = std::mem::replace(key, Value::Nil);
                    let (next, value): (Value, Value) = self.next.call((&*table, before))?;
                    if next.is_nil() {
                        self.out.push(b'}');
                        self.open.pop();
                        continue;
                    }
                    let text = text_of(&next);
                    let kind = next.type_name();
                    *key = next;
                    if !first {
                        self.out.push(b',');
                    }
                    match text {
                        Some(text) => append_string(&text, &mut self.out),
                        None => {
                            return self.refuse(kind, "table key must be a number or string");
                        }
                    }
                    self.out.push(b':');
                    value
                }
            };
            self.begin(value)?;
        }
        Ok(())
    }

    fn refuse(&self, kind: &str, why: &str) -> mlua::Result<()> {
        Err(lua_fail(self.lua, &format!("Cannot serialise {kind}: {why}")))
    }

    /// Writes a value, of a table only the beginning.
    fn begin(&mut self, value: Value) -> mlua::Result<()> {
        self.parts += if value.is_table() { TABLE_PARTS } else { 1 };
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            value if value == Value::NULL => self.out.extend_from_slice(b"null"),
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Number(number) if !number.is_finite() => {
                return self.refuse("number", "must not be NaN or Inf");
            }
            Value::Integer(_) | Value::Number(_) => {
                self.out.extend_from_slice(&text_of(&value).unwrap_or_default());
            }
            Value::String(text) => append_string(&text.as_bytes(), &mut self.out),
            Value::Table(_) if self.open.len() >= DEPTH_MAX => {
                let depth = self.open.len() + 1;
                let text = format!("Cannot serialise, excessive nesting ({depth})");
                return Err(lua_fail(self.lua, &text));
            }
            Value::Table(table) => match array_length(&table)? {
                Length::Sparse => return self.refuse("table", "excessively sparse array"),
                Length::Array(length) => {
                    self.out.push(b'[');
                    self.open.push(OpenTable::Array { table, written: 0, length });
                }
                Length::Object => {
                    self.out.push(b'{');
                    self.open.push(OpenTable::Object { table, key: Value::Nil });
                }
            },
            other => return self.refuse(other.type_name(), "type not supported"),
        }
        Ok(())
    }
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

fn append_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
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
