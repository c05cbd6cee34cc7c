//! Errors that Rust raises in Lua.
//!
//! Invariant: an error that a library raises reads as Lua's own do: its text begins with the place of the
//! call, where there is one.

use mlua::{Lua, Value};

/// An error on its way from Rust to whoever catches it in Lua.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", String::from_utf8_lossy(.text))]
pub struct LuaError {
    /// The text.
    pub text: Vec<u8>,
    /// A command has failed, and INFO has counted it already.
    pub counted: bool,
    /// Lua's own libraries raise a string, those of Redis a table.
    pub plain: bool,
}

impl LuaError {
    /// A string as it is.
    pub fn plain(text: Vec<u8>) -> Self {
        Self { text, counted: false, plain: true }
    }
}

/// Where the value is kept while the error is on its way.
const THROWN: &str = "thrown";

/// An error that is any value of Lua: a table that a script has thrown.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("an error that is no text")]
pub struct ThrownValue;

impl ThrownValue {
    /// The error; there is one at a time, for nothing runs before it is caught.
    pub(crate) fn throw(lua: &Lua, value: Value) -> mlua::Error {
        lua.set_named_registry_value(THROWN, value)
            .map_or_else(|error| error, |()| mlua::Error::external(Self))
    }

    /// The value.
    pub fn caught(lua: &Lua) -> mlua::Result<Value> {
        let value = lua.named_registry_value(THROWN)?;
        lua.unset_named_registry_value(THROWN)?;
        Ok(value)
    }
}

/// An error as Lua's own libraries raise it: a string that begins with the place of the call.
pub fn lua_fail(lua: &Lua, text: &str) -> mlua::Error {
    let place = lua.inspect_stack(1, |frame| {
        let source = frame.source().short_src.unwrap_or_default().into_owned();
        frame.current_line().map(|line| format!("{source}:{line}: "))
    });
    let text = format!("{}{text}", place.flatten().unwrap_or_default()).into_bytes();
    mlua::Error::external(LuaError::plain(text))
}

/// The same without a place, as Lua raises what no function is to blame for.
pub(crate) fn lua_fail_nowhere(text: &str) -> mlua::Error {
    mlua::Error::external(LuaError::plain(text.into()))
}
