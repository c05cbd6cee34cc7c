//! Errors that Rust raises in Lua.
//!
//! Invariant: an error that a library raises reads as Lua's own do: its text begins with the place of the
//! call, where there is one.

use mlua::Lua;

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

/// An error as Lua's own libraries raise it: a string that begins with the place of the call.
pub fn lua_fail(lua: &Lua, text: &str) -> mlua::Error {
    let place = lua.inspect_stack(1, |frame| {
        let source = frame.source().short_src.unwrap_or_default().into_owned();
        frame.current_line().map(|line| format!("{source}:{line}: "))
    });
    let text = format!("{}{text}", place.flatten().unwrap_or_default()).into_bytes();
    mlua::Error::external(LuaError { text, counted: false, plain: true })
}

/// The same without a place, as Lua raises what no function is to blame for.
pub fn lua_fail_nowhere(text: &str) -> mlua::Error {
    mlua::Error::external(LuaError { text: text.into(), counted: false, plain: true })
}
