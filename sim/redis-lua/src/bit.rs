//! The `bit` library of LuaJIT: operations on 32-bit integers, results signed.
//!
//! Invariant: any number is first wrapped to 32 bits as `bit.tobit` wraps it.

use mlua::{Lua, MultiValue, Table};

use super::args::LuaArgs;

/// The library as a table.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let one = |name: &'static str, operation: fn(i32) -> i32| {
        let function = lua.create_function(move |lua, values: MultiValue| {
            Ok(operation(argument(&LuaArgs::new(lua, &values), 0)?))
        })?;
        table.set(name, function)
    };
    one("tobit", |value| value)?;
    one("bnot", |value| !value)?;
    one("bswap", i32::swap_bytes)?;
    let fold = |name: &'static str, operation: fn(i32, i32) -> i32| {
        let function = lua.create_function(move |lua, values: MultiValue| {
            let args = LuaArgs::new(lua, &values);
            let first = argument(&args, 0)?;
            // Read from the last one on, as there: the first that is refused is the one that is named.
            let mut rest = (1..values.len()).rev();
            rest.try_fold(first, |sum, at| Ok(operation(sum, argument(&args, at)?)))
        })?;
        table.set(name, function)
    };
    fold("band", |a, b| a & b)?;
    fold("bor", |a, b| a | b)?;
    fold("bxor", |a, b| a ^ b)?;
    let shift = |name: &'static str, operation: fn(i32, u32) -> i32| {
        let function = lua.create_function(move |lua, values: MultiValue| {
            let args = LuaArgs::new(lua, &values);
            let value = argument(&args, 0)?;
            Ok(operation(value, argument(&args, 1)?.cast_unsigned() & 31))
        })?;
        table.set(name, function)
    };
    shift("lshift", |value, by| value << by)?;
    shift("rshift", |value, by| (value.cast_unsigned() >> by).cast_signed())?;
    shift("arshift", |value, by| value >> by)?;
    shift("rol", i32::rotate_left)?;
    shift("ror", i32::rotate_right)?;
    let tohex = lua.create_function(|lua, values: MultiValue| {
        let args = LuaArgs::new(lua, &values);
        let value = argument(&args, 0)?.cast_unsigned();
        let digits = if values.len() > 1 { argument(&args, 1)? } else { 8 };
        let width = usize::try_from(digits.unsigned_abs().min(8)).unwrap_or(8);
        let text = format!("{value:08x}");
        let text = &text[8 - width..];
        Ok(if digits < 0 { text.to_ascii_uppercase() } else { text.to_owned() })
    })?;
    table.set("tohex", tohex)?;
    Ok(table)
}

/// The low half of the sum with 2^52 + 2^51, as the library wraps: exact below 2^51, and as odd as there
/// beyond.
fn argument(args: &LuaArgs<'_>, at: usize) -> mlua::Result<i32> {
    const WRAP: f64 = 6_755_399_441_055_744.0;
    let bits = (args.number(at)? + WRAP).to_bits();
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
    Ok((bits as u32).cast_signed())
}
