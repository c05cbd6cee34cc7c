//! The `bit` library of LuaJIT: operations on 32-bit integers, results signed.
//!
//! Invariant: any number is first wrapped to 32 bits as `bit.tobit` wraps it.

use mlua::{Lua, MultiValue, Table, Value};

use super::api::lua_fail;

/// The library as a table.
pub(crate) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let one = |name: &'static str, operation: fn(i32) -> i32| {
        let function = lua.create_function(move |lua, args: MultiValue| {
            Ok(operation(argument(lua, &args, 0, name)?))
        })?;
        table.set(name, function)
    };
    one("tobit", |value| value)?;
    one("bnot", |value| !value)?;
    one("bswap", i32::swap_bytes)?;
    let fold = |name: &'static str, operation: fn(i32, i32) -> i32| {
        let function = lua.create_function(move |lua, args: MultiValue| {
            let first = argument(lua, &args, 0, name)?;
            (1..args.len())
                .try_fold(first, |sum, at| Ok(operation(sum, argument(lua, &args, at, name)?)))
        })?;
        table.set(name, function)
    };
    fold("band", |a, b| a & b)?;
    fold("bor", |a, b| a | b)?;
    fold("bxor", |a, b| a ^ b)?;
    let shift = |name: &'static str, operation: fn(i32, u32) -> i32| {
        let function = lua.create_function(move |lua, args: MultiValue| {
            let by = argument(lua, &args, 1, name)?.cast_unsigned() & 31;
            Ok(operation(argument(lua, &args, 0, name)?, by))
        })?;
        table.set(name, function)
    };
    shift("lshift", |value, by| value << by)?;
    shift("rshift", |value, by| (value.cast_unsigned() >> by).cast_signed())?;
    shift("arshift", |value, by| value >> by)?;
    shift("rol", i32::rotate_left)?;
    shift("ror", i32::rotate_right)?;
    let tohex = lua.create_function(|lua, args: MultiValue| {
        let value = argument(lua, &args, 0, "tohex")?.cast_unsigned();
        let digits = if args.len() > 1 { argument(lua, &args, 1, "tohex")? } else { 8 };
        let width = usize::try_from(digits.unsigned_abs().min(8)).unwrap_or(8);
        let text = format!("{value:08x}");
        let text = &text[8 - width..];
        Ok(if digits < 0 { text.to_ascii_uppercase() } else { text.to_owned() })
    })?;
    table.set("tohex", tohex)?;
    Ok(table)
}

fn argument(lua: &Lua, args: &MultiValue, at: usize, name: &str) -> mlua::Result<i32> {
    let number = match args.get(at) {
        #[expect(clippy::cast_possible_truncation, reason = "wrapping to 32 bits is the operation")]
        Some(Value::Integer(value)) => return Ok(*value as i32),
        Some(Value::Number(value)) => Some(*value),
        Some(Value::String(text)) => text.to_str().ok().and_then(|text| text.trim().parse().ok()),
        _ => None,
    };
    let Some(number) = number else {
        let got = args.get(at).map_or("no value", |value| value.type_name());
        let at = at + 1;
        return Err(lua_fail(
            lua,
            &format!("bad argument #{at} to '{name}' (number expected, got {got})"),
        ));
    };
    let wrapped = number.round_ties_even().rem_euclid(4_294_967_296.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^32")]
    Ok((wrapped as u32).cast_signed())
}
