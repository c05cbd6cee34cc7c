//! The `cmsgpack` library: `pack` and `unpack`.
//!
//! Invariant: bytes are those of lua-cmsgpack 0.4: the shortest form of a whole number, a float where
//! it loses nothing, a table as an array if its keys are exactly 1 to n. Deliberately absent:
//! `unpack_one`, `unpack_limit`, and the `safe` variants.

use mlua::{Lua, MultiValue, Table, Value};

use super::api::lua_fail;

/// Deeper tables are packed as nil, as in Redis.
const DEPTH_MAX: usize = 16;

/// The library as a table.
pub(crate) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let pack = lua.create_function(|lua, args: MultiValue| {
        if args.is_empty() {
            return Err(lua_fail(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)"));
        }
        let mut bytes = Vec::new();
        args.iter().try_for_each(|value| append(value, &mut bytes, 0))?;
        lua.create_string(&bytes)
    })?;
    table.set("pack", pack)?;
    let unpack = lua.create_function(|lua, args: MultiValue| {
        let Some(Value::String(text)) = args.front() else {
            let got = args.front().map_or("no value", |value| value.type_name());
            let text = format!("bad argument #1 to 'unpack' (string expected, got {got})");
            return Err(lua_fail(lua, &text));
        };
        let text = text.as_bytes();
        let mut reader = Reader { lua, rest: &text };
        let mut values = Vec::new();
        while !reader.rest.is_empty() {
            values.push(reader.value()?);
        }
        Ok(MultiValue::from_iter(values))
    })?;
    table.set("unpack", unpack)?;
    Ok(table)
}

fn append(value: &Value, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    match value {
        Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Integer(value) => whole(*value, out),
        Value::Number(value) => number(*value, out),
        Value::String(text) => {
            let text = text.as_bytes();
            length(text.len(), (0xa0, 32), &[(0xd9, 1), (0xda, 2), (0xdb, 4)], out);
            out.extend_from_slice(&text);
        }
        Value::Table(table) if depth < DEPTH_MAX => append_table(table, out, depth)?,
        // What has no form of its own, and what lies too deep.
        _ => out.push(0xc0),
    }
    Ok(())
}

fn append_table(table: &Table, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    let pairs: Vec<(Value, Value)> = table.pairs().collect::<mlua::Result<_>>()?;
    #[expect(clippy::cast_precision_loss, reason = "tables are not so long")]
    let is_place = |key: &Value| match key {
        Value::Integer(key) => *key >= 1,
        Value::Number(key) => key.fract() == 0.0 && (1.0..=pairs.len() as f64).contains(key),
        _ => false,
    };
    let count = i64::try_from(pairs.len()).unwrap_or(i64::MAX);
    let within = |key: &Value| !matches!(key, Value::Integer(key) if *key > count);
    if pairs.iter().all(|(key, _)| is_place(key) && within(key)) {
        length(pairs.len(), (0x90, 16), &[(0xdc, 2), (0xdd, 4)], out);
        return (1..=count).try_for_each(|index| append(&table.raw_get(index)?, out, depth + 1));
    }
    length(pairs.len(), (0x80, 16), &[(0xde, 2), (0xdf, 4)], out);
    for (key, value) in &pairs {
        append(key, out, depth + 1)?;
        append(value, out, depth + 1)?;
    }
    Ok(())
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

struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

impl Reader<'_> {
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

    fn value(&mut self) -> mlua::Result<Value> {
        #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are such")]
        Ok(match self.unsigned(1)? {
            small @ 0..=0x7f => Value::Number(small as f64),
            kind @ 0x80..=0x8f => self.map((kind & 0xf) as usize)?,
            kind @ 0x90..=0x9f => self.array((kind & 0xf) as usize)?,
            kind @ 0xa0..=0xbf => self.text((kind & 0x1f) as usize)?,
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xca => {
                let bits = u32::try_from(self.unsigned(4)?).unwrap_or_default();
                Value::Number(f64::from(f32::from_bits(bits)))
            }
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            kind @ 0xcc..=0xcf => Value::Number(self.unsigned(1 << (kind - 0xcc))? as f64),
            kind @ 0xd0..=0xd3 => Value::Number(self.signed(1 << (kind - 0xd0))? as f64),
            kind @ (0xc4..=0xc6 | 0xd9..=0xdb) => {
                let base = if kind < 0xd0 { 0xc4 } else { 0xd9 };
                let count = self.count(1 << (kind - base))?;
                self.text(count)?
            }
            kind @ (0xdc | 0xdd) => {
                let count = self.count(2 << (kind - 0xdc))?;
                self.array(count)?
            }
            kind @ (0xde | 0xdf) => {
                let count = self.count(2 << (kind - 0xde))?;
                self.map(count)?
            }
            negative @ 0xe0..=0xff => Value::Number(negative as f64 - 256.0),
            _ => return Err(lua_fail(self.lua, "Bad data format in input.")),
        })
    }

    fn text(&mut self, count: usize) -> mlua::Result<Value> {
        let lua = self.lua;
        Ok(Value::String(lua.create_string(self.take(count)?)?))
    }

    fn array(&mut self, count: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for index in 1..=count {
            table.raw_set(index, self.value()?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let (key, value) = (self.value()?, self.value()?);
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
