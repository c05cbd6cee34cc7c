//! Replies as Lua values and Lua values as replies.
//!
//! Invariant: the two conversions are those of redis-server: numbers lose their fraction, a table ends at
//! its first nil, false is nil and true is 1 (in RESP2).

use mlua::{IntoLua, Lua, Table, Value};
use resp::{ErrorReply, Reply, blob, double, general, until_nul};

use crate::args::truncated;
use crate::limits::{NO_MEMORY, PARTS, TABLE_PARTS};

/// Tables nested deeper than this are answered with an error, as Redis does when its stack is full.
const DEPTH_MAX: usize = 500;

/// A reply of `redis.call` as the script sees it. `resp3` is what the script chose with `setresp`.
pub fn to_lua(lua: &Lua, reply: Reply, resp3: bool) -> mlua::Result<Value> {
    match reply {
        Reply::Nil | Reply::NilArray if resp3 => Ok(Value::Nil),
        Reply::Nil | Reply::NilArray => Ok(Value::Boolean(false)),
        Reply::Int(value) => number(value).into_lua(lua),
        Reply::Bulk(bytes) => lua.create_string(&bytes)?.into_lua(lua),
        Reply::Ok => field(lua, "ok", lua.create_string("OK")?),
        Reply::Status(text) => field(lua, "ok", lua.create_string(&text)?),
        Reply::Error(fail) => error_table(lua, fail.text(), true)?.into_lua(lua),
        Reply::Array(parts) | Reply::Push(parts) | Reply::Burst(parts) => list(lua, parts, resp3),
        Reply::Map(parts) if !resp3 => list(lua, parts, resp3),
        Reply::Map(parts) => {
            let map = lua.create_table()?;
            let mut parts = parts.into_iter();
            while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
                map.raw_set(to_lua(lua, key, resp3)?, to_lua(lua, value, resp3)?)?;
            }
            field(lua, "map", map)
        }
        Reply::Set(parts) if !resp3 => list(lua, parts, resp3),
        Reply::Set(parts) => {
            let set = lua.create_table()?;
            for part in parts {
                set.raw_set(to_lua(lua, part, resp3)?, true)?;
            }
            field(lua, "set", set)
        }
        Reply::Double(value) if resp3 => field(lua, "double", value),
        Reply::Double(value) => lua.create_string(double(value))?.into_lua(lua),
        Reply::Bool(value) if resp3 => Ok(Value::Boolean(value)),
        Reply::Bool(value) => Ok(Value::Integer(i64::from(value))),
        Reply::BigNumber(digits) if resp3 => field(lua, "big_number", lua.create_string(&digits)?),
        Reply::Verbatim(text) if resp3 => {
            let parts = lua.create_table()?;
            parts.raw_set("format", "txt")?;
            parts.raw_set("string", lua.create_string(&text)?)?;
            field(lua, "verbatim_string", parts)
        }
        Reply::BigNumber(text) | Reply::Verbatim(text) => lua.create_string(&text)?.into_lua(lua),
    }
}

/// An error as `redis.pcall` returns it. `counted`: INFO has counted it already.
pub fn error_table(lua: &Lua, text: &[u8], counted: bool) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("err", lua.create_string(text)?)?;
    if counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(table)
}

/// Lua 5.1 has only floating-point numbers, so large integers lose their last digits.
fn number(value: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "Redis loses it in the same place")]
    let number = value as f64;
    number
}

fn field(lua: &Lua, name: &str, value: impl IntoLua) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    table.into_lua(lua)
}

fn list(lua: &Lua, parts: Vec<Reply>, resp3: bool) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(parts.len(), 0)?;
    for (index, part) in parts.into_iter().enumerate() {
        table.raw_set(index + 1, to_lua(lua, part, resp3)?)?;
    }
    table.into_lua(lua)
}

/// What a script returned, and the errors in it.
pub struct Returned {
    /// The reply.
    pub reply: Reply,
    /// The texts of the errors in it, and whether INFO has counted each already.
    pub errors: Vec<(Vec<u8>, bool)>,
}

/// A script's result as a reply.
pub fn from_lua(value: &Value, resp3: bool) -> mlua::Result<Returned> {
    let mut walk = ReplyBuilder { resp3, errors: Vec::new(), parts: 0 };
    let reply = walk.reply(value, 0)?;
    Ok(Returned { reply, errors: walk.errors })
}

/// A way through all that a script returned.
struct ReplyBuilder {
    resp3: bool,
    errors: Vec<(Vec<u8>, bool)>,
    /// How many values have been met.
    parts: usize,
}

impl ReplyBuilder {
    fn reply(&mut self, value: &Value, depth: usize) -> mlua::Result<Reply> {
        if depth > DEPTH_MAX {
            let fail = ErrorReply::new("ERR reached lua stack limit");
            self.errors.push((fail.text().to_vec(), false));
            return Ok(Reply::Error(fail));
        }
        self.parts += if value.is_table() { TABLE_PARTS } else { 1 };
        if self.parts > PARTS {
            return Err(mlua::Error::MemoryError(NO_MEMORY.to_owned()));
        }
        Ok(match value {
            Value::String(text) => Reply::bulk(text.as_bytes()),
            Value::Integer(value) => Reply::Int(*value),
            Value::Number(value) => Reply::Int(truncated(*value)),
            Value::Boolean(value) if self.resp3 => Reply::Bool(*value),
            Value::Boolean(true) => Reply::Int(1),
            Value::Table(table) => self.table(table, depth + 1)?,
            _ => Reply::Nil,
        })
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<Reply> {
        Ok(match self.form(table)? {
            TableForm::Whole(reply) => reply,
            TableForm::Map(map) => Reply::Map(self.pairs(&map, depth, true)?),
            TableForm::Set(set) => Reply::Set(self.pairs(&set, depth, false)?),
            TableForm::List => Reply::Array(self.list(table, depth)?),
        })
    }

    /// What a table stands for. Apart from those below, for they call themselves and share the stack.
    fn form(&mut self, table: &Table) -> mlua::Result<TableForm> {
        if let Some(text) = text_field(table, "err")? {
            let counted = table.raw_get("ignore_error_stats_update")?;
            self.errors.push((until_nul(&text).to_vec(), matches!(counted, Value::Boolean(true))));
            // Redis trims an error's end before it makes spaces of its line breaks.
            let text = until_nul(&text);
            let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
            return Ok(TableForm::Whole(Reply::Error(ErrorReply::of(
                &text[..end.map_or(0, |end| end + 1)],
            ))));
        }
        if let Some(text) = text_field(table, "ok")? {
            return Ok(TableForm::Whole(Reply::Status(blob(until_nul(&text)))));
        }
        if let Some(value) = number_of(&table.raw_get("double")?) {
            return Ok(TableForm::Whole(Reply::Double(value)));
        }
        if let Value::Table(map) = table.raw_get("map")? {
            return Ok(TableForm::Map(map));
        }
        if let Value::Table(set) = table.raw_get("set")? {
            return Ok(TableForm::Set(set));
        }
        if let Some(digits) = text_field(table, "big_number")? {
            let digits = digits.iter().map(unbroken).collect();
            return Ok(TableForm::Whole(Reply::BigNumber(digits)));
        }
        if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
            && let Some(text) = text_field(&verbatim, "string")?
            && text_field(&verbatim, "format")?.is_some()
        {
            return Ok(TableForm::Whole(Reply::Verbatim(blob(&text))));
        }
        Ok(TableForm::List)
    }

    fn list(&mut self, table: &Table, depth: usize) -> mlua::Result<Vec<Reply>> {
        let mut parts = Vec::new();
        for index in 1.. {
            match table.raw_get(index)? {
                Value::Nil => break,
                value => parts.push(self.reply(&value, depth)?),
            }
        }
        Ok(parts)
    }

    fn pairs(&mut self, table: &Table, depth: usize, values: bool) -> mlua::Result<Vec<Reply>> {
        let mut parts = Vec::new();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            parts.push(self.reply(&key, depth)?);
            if values {
                parts.push(self.reply(&value, depth)?);
            }
        }
        Ok(parts)
    }
}

/// What a table stands for.
enum TableForm {
    Whole(Reply),
    Map(Table),
    Set(Table),
    List,
}

/// A line break would end the number.
fn unbroken(byte: &u8) -> u8 {
    if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }
}

fn text_field(table: &Table, name: &str) -> mlua::Result<Option<Vec<u8>>> {
    Ok(match table.raw_get(name)? {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        _ => None,
    })
}

fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(number(*value)),
        Value::Number(value) => Some(*value),
        _ => None,
    }
}

/// An argument of `redis.call` that is a number, as text.
pub fn number_text(value: &Value) -> Option<Vec<u8>> {
    number_of(value).map(|value| general(value, 17).into_bytes())
}
