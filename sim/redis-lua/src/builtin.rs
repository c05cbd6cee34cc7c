//! Functions that stand for some of Lua's own and are written in Lua, in the chunk [`CHUNK`].
//!
//! Invariant: to a script they are functions of C. They are called from where it calls them, by a tail call
//! too, and an error of their own names that place and the name by which they were called.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Value};

use crate::args::LuaArgs;
use crate::error::{LuaError, ThrownValue, lua_fail};
use crate::limits::{NO_MEMORY, STACK_BYTES};

/// The name of their chunk, with which their own errors begin.
pub const CHUNK: &str = "sandbox";

/// How much of the thread's stack a script has taken.
///
/// Lua bounds how deep a coroutine calls C, but not how deep coroutines resume one another.
#[derive(Debug, Default)]
pub struct StackDepth(Cell<usize>);

impl StackDepth {
    /// A script begins here.
    pub fn start(&self) {
        self.0.set(here());
    }

    /// Whether it has taken all that it may.
    pub fn is_spent(&self) -> bool {
        self.0.get().abs_diff(here()) > STACK_BYTES
    }
}

/// About where the stack ends now.
#[inline(never)]
fn here() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&local)).addr()
}

/// What makes such a function of one that is written in Lua.
pub fn maker(lua: &Lua, depth: &Rc<StackDepth>) -> mlua::Result<Function> {
    let pcall: Function = lua.globals().get("pcall")?;
    let depth = Rc::clone(depth);
    lua.create_function(move |lua, body: Function| {
        let (pcall, depth) = (pcall.clone(), Rc::clone(&depth));
        lua.create_function(move |lua, args: MultiValue| {
            if depth.is_spent() {
                return Err(lua_fail(lua, "C stack overflow"));
            }
            let mut answer: MultiValue = pcall.call((&body, args))?;
            match answer.pop_front() {
                Some(Value::Boolean(true)) => Ok(answer),
                _ => Err(raised(lua, answer.pop_front().unwrap_or(Value::Nil))),
            }
        })
    })
}

/// The error that was caught, on its way to the caller.
fn raised(lua: &Lua, error: Value) -> mlua::Error {
    match error {
        Value::Error(error) => *error,
        Value::String(text) if text.as_bytes() == NO_MEMORY.as_bytes() => {
            mlua::Error::MemoryError(NO_MEMORY.to_owned())
        }
        Value::String(text) => {
            let text = text.as_bytes();
            match own(&text) {
                Some(text) => own_error(lua, text),
                None => mlua::Error::external(LuaError::plain(text.to_vec())),
            }
        }
        value => ThrownValue::throw(lua, value),
    }
}

/// The text of an error that arose in [`CHUNK`], without its place there.
fn own(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    let (line, text) = text.strip_prefix(CHUNK)?.strip_prefix(':')?.split_once(": ")?;
    line.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}

fn own_error(lua: &Lua, text: &str) -> mlua::Error {
    let bad_argument = || {
        let (number, rest) = text.strip_prefix("bad argument #")?.split_once(" to '")?;
        let why = rest.split_once("' (")?.1.strip_suffix(')')?;
        Some((number.parse::<usize>().ok()?.checked_sub(1)?, why))
    };
    match bad_argument() {
        Some((at, why)) => LuaArgs::new(lua, &MultiValue::new()).bad(at, why),
        None => lua_fail(lua, text),
    }
}
