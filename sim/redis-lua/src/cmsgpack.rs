//! The `cmsgpack` library: `pack`, `unpack`, `unpack_one`, `unpack_limit`.
//!
//! Invariant: bytes are those of lua-cmsgpack 0.4: the shortest form of a whole number, a float where it
//! loses nothing, a table as an array if its keys are exactly 1 to n. However deep the bytes say they are
//! nested, reading them takes no stack. Not modelled: the `safe` variants.

use mlua::{Lua, MultiValue, Table, Value};

use super::args::{LuaArgs, truncated};
use super::limits::{MEMORY_BYTES, NO_MEMORY, PARTS, RESULTS, TABLE_PARTS};
use crate::error::{lua_fail, lua_fail_nowhere};

/// Deeper tables are packed as nil, as in Redis.
const DEPTH_MAX: usize = 16;

/// The library as a table.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let pack = lua.create_function(|lua, args: MultiValue| {
        if args.is_empty() {
            return Err(lua_fail(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)"));
        }
        let mut writer = MsgpackWriter { out: Vec::new(), parts: 0 };
        args.iter().try_for_each(|value| writer.append(value, 0))?;
        lua.create_string(&writer.out)
    })?;
    table.set("pack", pack)?;
    let unpack = |lua: &Lua, values: MultiValue| {
        let text = LuaArgs::new(lua, &values).text(0)?;
        unpack(lua, &text, 0, 0)
    };
    table.set("unpack", lua.create_function(unpack)?)?;
    let unpack_one = |lua: &Lua, values: MultiValue| {
        let args = LuaArgs::new(lua, &values);
        self::unpack(lua, &args.text(0)?, 1, args.integer_or(1, 0)?)
    };
    table.set("unpack_one", lua.create_function(unpack_one)?)?;
    let unpack_limit = |lua: &Lua, values: MultiValue| {
        let args = LuaArgs::new(lua, &values);
        let (text, limit) = (args.text(0)?, truncated(args.number(1)?));
        self::unpack(lua, &text, limit, args.integer_or(2, 0)?)
    };
    table.set("unpack_limit", lua.create_function(unpack_limit)?)?;
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        table.set(name, text)?;
    }
    Ok(table)
}

/// The values from `offset` on, at most `limit` of them, and first of all where to go on (-1: nowhere);
/// with neither, all values alone.
fn unpack(lua: &Lua, text: &[u8], limit: i64, offset: i64) -> mlua::Result<MultiValue> {
    let length = text.len();
    #[expect(clippy::cast_possible_truncation, reason = "Redis prints it as C's int")]
    let shown = offset as i32;
    let (Ok(count), Ok(start)) = (usize::try_from(limit), usize::try_from(offset)) else {
        // Redis names the length here, and calls it the limit.
        let why =
            format!("Invalid request to unpack with offset of {shown} and limit of {length}.");
        return Err(lua_fail(lua, &why));
    };
    let Some(rest) = text.get(start..) else {
        let why = format!("Start offset {shown} greater than input length {length}.");
        return Err(lua_fail(lua, &why));
    };
    let all = count == 0 && start == 0;
    let mut reader = MsgpackReader { lua, rest };
    let mut values = Vec::new();
    while !reader.rest.is_empty() && (all || values.len() < count) {
        if values.len() >= RESULTS {
            let why = "too many return values at once; use unpack_one or unpack_limit instead.";
            return Err(lua_fail(lua, &format!("stack overflow ({why})")));
        }
        values.push(reader.value()?);
    }
    if !all {
        let next = length - reader.rest.len();
        let next = if reader.rest.is_empty() { -1 } else { i64::try_from(next).unwrap_or(-1) };
        values.insert(0, Value::Integer(next));
    }
    Ok(MultiValue::from_iter(values))
}

struct MsgpackWriter {
    out: Vec<u8>,
    parts: usize,
}

impl MsgpackWriter {
    fn append(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        self.parts += if value.is_table() { TABLE_PARTS } else { 1 };
        if self.out.len() > MEMORY_BYTES || self.parts > PARTS {
            return Err(mlua::Error::MemoryError(NO_MEMORY.to_owned()));
        }
        match value {
            Value::Boolean(value) => self.out.push(if *value { 0xc3 } else { 0xc2 }),
            Value::Integer(value) => whole(*value, &mut self.out),
            Value::Number(value) => number(*value, &mut self.out),
            Value::String(text) => {
                let text = text.as_bytes();
                length(text.len(), (0xa0, 32), &[(0xd9, 1), (0xda, 2), (0xdb, 4)], &mut self.out);
                self.out.extend_from_slice(&text);
            }
            Value::Table(table) if depth < DEPTH_MAX => self.table(table, depth)?,
            // What has no form of its own, and what lies too deep.
            _ => self.out.push(0xc0),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        // The keys are looked at first: there may be more of them than Rust can hold at once.
        let (mut count, mut last, mut places) = (0_i64, 0_i64, true);
        for pair in table.pairs::<Value, Value>() {
            let place = match pair?.0 {
                Value::Integer(key) => Some(key),
                #[expect(clippy::cast_possible_truncation, reason = "a whole number")]
                Value::Number(key) if key.fract() == 0.0 && key < 9e15 => Some(key as i64),
                _ => None,
            };
            places &= place.is_some_and(|place| place >= 1);
            last = last.max(place.unwrap_or(0));
            count += 1;
        }
        let size = usize::try_from(count).unwrap_or(usize::MAX);
        if places && last == count {
            length(size, (0x90, 16), &[(0xdc, 2), (0xdd, 4)], &mut self.out);
            return (1..=count)
                .try_for_each(|index| self.append(&table.raw_get(index)?, depth + 1));
        }
        length(size, (0x80, 16), &[(0xde, 2), (0xdf, 4)], &mut self.out);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.append(&key, depth + 1)?;
            self.append(&value, depth + 1)?;
        }
        Ok(())
    }
}

/// A length in the first byte if it is short enough, or behind one of these bytes.
fn length(length: usize, (short, limit): (u8, usize), forms: &[(u8, usize)], out: &mut Vec<u8>) {
    let bytes = (length as u64).to_be_bytes();
    if length < limit {
        out.push(short | bytes[7]);
        return;
    }
    let fits = |width: usize| length < 1 << (8 * width);
    if let Some(&(kind, width)) = forms.iter().find(|(_, width)| fits(*width)) {
        out.push(kind);
        out.extend_from_slice(&bytes[8 - width..]);
    }
}

fn number(value: f64, out: &mut Vec<u8>) {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "the loss is what is asked about")]
    let (single, integer) = (value as f32, value as i64);
    if value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value) {
        whole(integer, out);
    } else if f64::from(single) == value {
        out.push(0xca);
        out.extend_from_slice(&single.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

fn whole(value: i64, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    let (kind, width) = match value {
        -0x20..=0x7f => return out.push(bytes[7]),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..=-0x21 => (0xd0, 1),
        -0x8000..=-0x81 => (0xd1, 2),
        -0x8000_0000..=-0x8001 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    out.push(kind);
    out.extend_from_slice(&bytes[8 - width..]);
}

struct MsgpackReader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

impl MsgpackReader<'_> {
    fn take(&mut self, count: usize) -> mlua::Result<&[u8]> {
        if count > self.rest.len() {
            return Err(lua_fail(self.lua, "Missing bytes in input."));
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    fn unsigned(&mut self, width: usize) -> mlua::Result<u64> {
        Ok(self.take(width)?.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    fn signed(&mut self, width: usize) -> mlua::Result<i64> {
        let shift = 64 - 8 * width;
        Ok((self.unsigned(width)? << shift).cast_signed() >> shift)
    }

    fn count(&mut self, width: usize) -> mlua::Result<usize> {
        Ok(usize::try_from(self.unsigned(width)?).unwrap_or(usize::MAX))
    }

    /// The next value, with all that is in it.
    fn value(&mut self) -> mlua::Result<Value> {
        let mut open: Vec<PendingTable> = Vec::new();
        let mut stack = 0;
        loop {
            let mut value = match self.one()? {
                One::Plain(value) => value,
                One::Array(left) | One::Map(left) if left == 0 => {
                    Value::Table(self.lua.create_table()?)
                }
                One::Array(left) => {
                    stack += 2;
                    self.deepen(stack, "array")?;
                    let (table, slot) = (self.lua.create_table()?, Destination::Place(1));
                    open.push(PendingTable { table, left, slot });
                    continue;
                }
                One::Map(left) => {
                    stack += 2;
                    self.deepen(stack, "hash")?;
                    let (table, slot) = (self.lua.create_table()?, Destination::Key);
                    open.push(PendingTable { table, left, slot });
                    continue;
                }
            };
            // Whatever it completes is complete too.
            loop {
                let Some(inner) = open.last_mut() else { return Ok(value) };
                match std::mem::replace(&mut inner.slot, Destination::Key) {
                    Destination::Key => {
                        inner.slot = Destination::Value(value);
                        break;
                    }
                    Destination::Place(index) => {
                        inner.table.raw_set(index, value)?;
                        inner.slot = Destination::Place(index + 1);
                    }
                    Destination::Value(Value::Nil) => {
                        return Err(lua_fail_nowhere("table index is nil"));
                    }
                    Destination::Value(Value::Number(key)) if key.is_nan() => {
                        return Err(lua_fail_nowhere("table index is NaN"));
                    }
                    Destination::Value(key) => inner.table.raw_set(key, value)?,
                }
                inner.left -= 1;
                if inner.left > 0 {
                    break;
                }
                let Some(done) = open.pop() else { break };
                stack -= 2;
                value = Value::Table(done.table);
            }
        }
    }

    /// Refuses what has taken so many places of Lua's stack there.
    fn deepen(&self, stack: usize, kind: &str) -> mlua::Result<()> {
        if stack > RESULTS {
            let why = format!("stack overflow (in function mp_decode_to_lua_{kind})");
            return Err(lua_fail(self.lua, &why));
        }
        Ok(())
    }

    fn one(&mut self) -> mlua::Result<One> {
        #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are such")]
        Ok(One::Plain(match self.unsigned(1)? {
            small @ 0..=0x7f => Value::Number(small as f64),
            kind @ 0x80..=0x8f => return Ok(One::Map((kind & 0xf) as usize)),
            kind @ 0x90..=0x9f => return Ok(One::Array((kind & 0xf) as usize)),
            kind @ 0xa0..=0xbf => self.text((kind & 0x1f) as usize)?,
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xca => {
                let bits = u32::try_from(self.unsigned(4)?).unwrap_or_default();
                Value::Number(f64::from(f32::from_bits(bits)))
            }
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            // What takes all 64 bits is read as signed, as there.
            kind @ 0xcc..=0xcf => {
                Value::Number(self.unsigned(1 << (kind - 0xcc))?.cast_signed() as f64)
            }
            kind @ 0xd0..=0xd3 => Value::Number(self.signed(1 << (kind - 0xd0))? as f64),
            kind @ 0xd9..=0xdb => {
                let count = self.count(1 << (kind - 0xd9))?;
                self.text(count)?
            }
            kind @ (0xdc | 0xdd) => return Ok(One::Array(self.count(2 << (kind - 0xdc))?)),
            kind @ (0xde | 0xdf) => return Ok(One::Map(self.count(2 << (kind - 0xde))?)),
            negative @ 0xe0..=0xff => Value::Number(negative as f64 - 256.0),
            _ => return Err(lua_fail(self.lua, "Bad data format in input.")),
        }))
    }

    fn text(&mut self, count: usize) -> mlua::Result<Value> {
        let lua = self.lua;
        Ok(Value::String(lua.create_string(self.take(count)?)?))
    }
}

/// What the next bytes are: a value, or the beginning of a table of so many items.
enum One {
    Plain(Value),
    Array(usize),
    Map(usize),
}

/// A table whose items are still to come.
struct PendingTable {
    table: Table,
    left: usize,
    slot: Destination,
}

/// Where the next value goes.
enum Destination {
    Place(usize),
    Key,
    /// It is this key's.
    Value(Value),
}
