//! The arguments of library functions, as Lua's own `luaL_check…` reads them.
//!
//! Invariant: a number stands for its text and a text that is a number for the number; whatever else is
//! met is refused in Lua's words, with the place of the call.

use mlua::{Lua, MultiValue, Value};
use resp::{general, is_space, strtod, until_nul};

use crate::error::lua_fail;

/// What a function was called with.
pub struct LuaArgs<'a> {
    /// Where it was called.
    pub lua: &'a Lua,
    /// The arguments.
    pub values: &'a MultiValue,
    /// The function's name in errors.
    pub function: &'static str,
    /// What errors call an argument that is missing.
    pub missing: &'static str,
}

impl<'a> LuaArgs<'a> {
    /// The arguments of a call of this function.
    pub fn new(lua: &'a Lua, values: &'a MultiValue, function: &'static str) -> Self {
        Self { lua, values, function, missing: "no value" }
    }

    /// The error that argument `at` (from 0) is not what it should be.
    pub fn bad(&self, at: usize, why: &str) -> mlua::Error {
        let text = format!("bad argument #{} to '{}' ({why})", at + 1, self.function);
        lua_fail(self.lua, &text)
    }

    fn expected(&self, at: usize, kind: &str) -> mlua::Error {
        let got = match self.values.get(at) {
            Some(Value::LightUserData(_)) => "userdata",
            Some(value) => value.type_name(),
            None => self.missing,
        };
        self.bad(at, &format!("{kind} expected, got {got}"))
    }

    /// A text.
    pub fn text(&self, at: usize) -> mlua::Result<Vec<u8>> {
        self.values.get(at).and_then(text_of).ok_or_else(|| self.expected(at, "string"))
    }

    /// A number.
    pub fn number(&self, at: usize) -> mlua::Result<f64> {
        self.values.get(at).and_then(number_of).ok_or_else(|| self.expected(at, "number"))
    }

    /// A number that may be left out, without its fraction.
    pub fn integer_or(&self, at: usize, default: i64) -> mlua::Result<i64> {
        match self.values.get(at) {
            None | Some(Value::Nil) => Ok(default),
            Some(_) => Ok(truncated(self.number(at)?)),
        }
    }
}

/// What `tostring` makes of a text or a number.
pub fn text_of(value: &Value) -> Option<Vec<u8>> {
    Some(match value {
        Value::String(text) => text.as_bytes().to_vec(),
        number => general(number_of(number)?, 14).into_bytes(),
    })
}

/// What `tonumber` makes of a number or a text.
pub fn number_of(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "Lua's numbers are such")]
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => {
            let text = text.as_bytes();
            let text = until_nul(&text);
            let read = strtod(text)?;
            text[read.used..].iter().all(|byte| is_space(*byte)).then_some(read.value)
        }
        _ => None,
    }
}

/// As the processor converts: what does not fit becomes the smallest integer.
pub fn truncated(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}
