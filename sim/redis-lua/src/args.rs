//! The arguments of library functions, as Lua's own `luaL_check…` reads them.
//!
//! Invariant: a number stands for its text and a text that is a number for the number; whatever else is
//! met is refused in Lua's words, with the place of the call.

use std::borrow::Cow;

use mlua::{Lua, MultiValue, Value};
use resp::{general, is_space, strtod, until_nul};

use crate::error::lua_fail;

/// What a function was called with.
pub struct LuaArgs<'a> {
    /// Where it was called.
    pub lua: &'a Lua,
    /// The arguments.
    pub values: &'a MultiValue,
    /// What errors call an argument that is missing.
    pub missing: &'static str,
}

impl<'a> LuaArgs<'a> {
    /// The arguments of the call that is being answered.
    pub fn new(lua: &'a Lua, values: &'a MultiValue) -> Self {
        Self { lua, values, missing: "no value" }
    }

    /// The error that argument `at` (from 0) is not what it should be, with the name by which the function was
    /// called.
    pub fn bad(&self, at: usize, why: &str) -> mlua::Error {
        let named = self.lua.inspect_stack(0, |frame| {
            let names = frame.names();
            let name = names.name.map_or_else(|| "?".to_owned(), Cow::into_owned);
            (name, names.name_what == Some("method"))
        });
        let (name, is_method) = named.unwrap_or_else(|| ("?".to_owned(), false));
        // What a method is called on is none of its arguments.
        let text = match at + usize::from(!is_method) {
            0 => format!("calling '{name}' on bad self ({why})"),
            number => format!("bad argument #{number} to '{name}' ({why})"),
        };
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

    /// A number as C's `int`.
    pub fn int(&self, at: usize) -> mlua::Result<i32> {
        self.values.get(at).and_then(int_of).ok_or_else(|| self.expected(at, "number"))
    }

    /// A number that may be left out, without its fraction.
    pub(crate) fn integer_or(&self, at: usize, default: i64) -> mlua::Result<i64> {
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

/// A number as C's `int`: what does not fit loses its high bits.
pub fn int_of(value: &Value) -> Option<i32> {
    #[expect(clippy::cast_possible_truncation, reason = "as there")]
    number_of(value).map(|number| truncated(number) as i32)
}

/// As the processor converts: what does not fit becomes the smallest integer.
pub fn truncated(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}
