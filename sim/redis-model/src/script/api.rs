//! The functions a script calls: `redis.call` and the rest of the `redis` table, and `math.random`.
//!
//! Invariant: a command inside a script meets the checks that redis-server makes there, in its order and
//! words, and is counted as any other. Not modelled: `redis.acl_check_cmd`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{IntoLua, Lua, LuaString, MultiValue, Table, Value};
use redis_lua::args::{LuaArgs, number_of, text_of, truncated};
use redis_lua::builtin::StackDepth;
use redis_lua::convert::{error_table, number_text, to_lua};
use redis_lua::error::{LuaError, ThrownValue, lua_fail};
use redis_lua::limits::NO_MEMORY;
use redis_lua::random::Drand48;
use resp::{ErrorReply, ProtocolVersion, Reply};
use smallvec::SmallVec;

use crate::commands::table::TABLE;
use crate::server::admission::WriteRefusal;
use crate::server::{Execution, Lookup, Request, SCRIPT_SESSION, Server, flag};

/// An error of the `redis` library itself: `ERR …`.
pub(crate) fn fail(text: impl AsRef<str>) -> mlua::Error {
    let text = format!("ERR {}", text.as_ref()).into_bytes();
    mlua::Error::external(LuaError { text, counted: false, plain: false })
}

/// What the functions share with the engine while a script runs.
pub(crate) struct ScriptShared {
    pub(crate) server: Rc<RefCell<Server>>,
    pub(crate) random: Cell<Drand48>,
    pub(crate) run: Cell<ScriptRun>,
    pub(crate) depth: Rc<StackDepth>,
}

/// What a script may do, and what it has done.
#[derive(Clone, Copy, Default)]
pub(crate) struct ScriptRun {
    pub(crate) now_us: i64,
    pub(crate) read_only: bool,
    pub(crate) allow_oom: bool,
    pub(crate) wrote: bool,
    pub(crate) resp3: bool,
    /// Instructions run so far, in steps of the hook.
    pub(crate) instructions: u64,
    /// The budget is spent or memory is out: no error may be caught any more.
    pub(crate) killed: bool,
}

impl ScriptShared {
    pub(crate) fn new(server: Rc<RefCell<Server>>) -> Self {
        let random = Cell::new(Drand48::START);
        Self { server, random, run: Cell::default(), depth: Rc::default() }
    }

    /// Notes something of the script that runs.
    pub(crate) fn note(&self, change: impl FnOnce(&mut ScriptRun)) {
        let mut run = self.run.get();
        change(&mut run);
        self.run.set(run);
    }

    /// What the script has chosen with `setresp`: some commands answer in another form.
    fn set_protocol(&self, resp3: bool) {
        self.note(|run| run.resp3 = resp3);
        let protocol = if resp3 { ProtocolVersion::Resp3 } else { ProtocolVersion::Resp2 };
        self.server.borrow_mut().sessions[SCRIPT_SESSION as usize].protocol = protocol;
    }

    /// One command of a script. The error is already counted.
    fn dispatch(&self, args: &[&[u8]]) -> Reply {
        let server = &mut *self.server.borrow_mut();
        let command = match TABLE.find_for(server.options.software, args) {
            Lookup::Command(command) => command,
            Lookup::Unknown | Lookup::UnknownSubcommand => {
                let fail = ErrorReply::new("ERR Unknown Redis command called from script");
                server.stats.rejected(None, &fail);
                return Reply::Error(fail);
            }
        };
        if let Some(fail) = self.refusal(server, command, args.len()) {
            server.stats.rejected(Some(command), &fail);
            return Reply::Error(fail);
        }
        let spec = TABLE.spec(command);
        if spec.has(flag::WRITE) {
            self.note(|run| run.wrote = true);
        }
        let Execution::Plain(handler) = spec.run else { unreachable!("the others are noscript") };
        let request = Request { now_us: self.run.get().now_us, session: SCRIPT_SESSION, args };
        server.run_handler(command, handler, &request)
    }

    fn refusal(&self, server: &Server, command: u16, args: usize) -> Option<ErrorReply> {
        let spec = TABLE.spec(command);
        let text = if !spec.takes(args) {
            "ERR Wrong number of args calling Redis command from script"
        } else if spec.has(flag::NOSCRIPT) {
            "ERR This Redis command is not allowed from script"
        } else if spec.has(flag::WRITE | flag::MAY_REPLICATE) && self.run.get().read_only {
            "ERR Write commands are not allowed from read-only scripts."
        } else {
            // Once a script has written, memory no longer stops it: it must not end half-way.
            let free = self.run.get().wrote || self.run.get().allow_oom;
            let refusal = server.refusing()?;
            let refuses = match refusal {
                WriteRefusal::ReadOnly => spec.has(flag::WRITE),
                WriteRefusal::OutOfMemory => spec.has(flag::DENYOOM) && !free,
            };
            return refuses.then(|| refusal.error());
        };
        Some(ErrorReply::new(text))
    }
}

/// What a caught error is to the script: a table, where it came from Rust.
pub(crate) fn convert(lua: &Lua, shared: &ScriptShared, error: Value) -> mlua::Result<Value> {
    if matches!(&error, Value::String(text) if text.as_bytes() == NO_MEMORY.as_bytes()) {
        // Caught, it would be tried again and again, and each time takes long.
        shared.note(|run| run.killed = true);
        return Err(mlua::Error::MemoryError(NO_MEMORY.to_owned()));
    }
    let Value::Error(error) = error else { return Ok(error) };
    if shared.run.get().killed {
        return Err(*error);
    }
    seen(lua, &error)
}

/// As [`convert`], where nothing may be raised any more.
pub(crate) fn convert_last(lua: &Lua, error: Value) -> mlua::Result<Value> {
    match error {
        Value::Error(error) => seen(lua, &error),
        other => Ok(other),
    }
}

fn seen(lua: &Lua, error: &mlua::Error) -> mlua::Result<Value> {
    match error.downcast_ref::<LuaError>() {
        Some(raised) if raised.plain => lua.create_string(&raised.text)?.into_lua(lua),
        None if error.downcast_ref::<ThrownValue>().is_some() => ThrownValue::caught(lua),
        _ => as_table(lua, error)?.into_lua(lua),
    }
}

/// An error that came from Rust, as the table that Redis would have raised.
pub(crate) fn as_table(lua: &Lua, error: &mlua::Error) -> mlua::Result<Table> {
    match error.downcast_ref::<LuaError>() {
        Some(raised) => error_table(lua, &raised.text, raised.counted),
        None => error_table(lua, format!("ERR {}", message(error)).as_bytes(), false),
    }
}

/// An error's text for a client, which the library's own tells too much to.
pub(crate) fn message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => message(cause),
        mlua::Error::MemoryError(_) => NO_MEMORY.to_owned(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::StackError => "stack overflow".to_owned(),
        other => other.to_string(),
    }
}

/// The same as the answer of a command.
pub(crate) fn error_reply_of(error: &mlua::Error) -> ErrorReply {
    ErrorReply::of(format!("ERR {}", message(error)))
}

/// The `redis` table.
pub(crate) fn library(lua: &Lua, shared: &Rc<ScriptShared>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, raise) in [("call", true), ("pcall", false)] {
        let shared = Rc::clone(shared);
        let call =
            lua.create_function(move |lua, args: MultiValue| match command(&shared, &args) {
                Ok(Reply::Error(fail)) if raise => {
                    let text = fail.text().to_vec();
                    Err(mlua::Error::external(LuaError { text, counted: true, plain: false }))
                }
                Ok(reply) => to_lua(lua, reply, shared.run.get().resp3),
                Err(error) if raise => Err(error),
                Err(error) => as_table(lua, &error)?.into_lua(lua),
            })?;
        table.set(name, call)?;
    }
    table.set("error_reply", lua.create_function(error_reply)?)?;
    table.set("status_reply", lua.create_function(status_reply)?)?;
    table.set("sha1hex", lua.create_function(sha1hex)?)?;
    table.set("log", lua.create_function(log)?)?;
    let setresp_shared = Rc::clone(shared);
    let setresp = move |_: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(fail("redis.setresp() requires one argument."));
        }
        match args.front().and_then(number_of).map(truncated) {
            Some(version @ (2 | 3)) => setresp_shared.set_protocol(version == 3),
            _ => return Err(fail("RESP version must be 2 or 3.")),
        }
        Ok(())
    };
    table.set("setresp", lua.create_function(setresp)?)?;
    table.set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    table.set("set_repl", lua.create_function(set_repl)?)?;
    table.set("breakpoint", lua.create_function(|_, ()| Ok(false))?)?;
    table.set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
        ("REDIS_VERSION_NUM", 0x0007_000F),
    ] {
        table.set(name, value)?;
    }
    table.set("REDIS_VERSION", "7.0.15")?;
    Ok(table)
}

fn command(shared: &ScriptShared, args: &MultiValue) -> mlua::Result<Reply> {
    if args.is_empty() {
        return Err(fail("Please specify at least one argument for this redis lib call"));
    }
    let mut owned: SmallVec<[Vec<u8>; 8]> = SmallVec::new();
    let mut texts: SmallVec<[_; 8]> = SmallVec::new();
    for arg in args {
        match arg {
            Value::String(text) => texts.push(Some(text.as_bytes())),
            number => {
                let text = number_text(number).ok_or_else(|| {
                    fail("Lua redis lib command arguments must be strings or integers")
                })?;
                owned.push(text);
                texts.push(None);
            }
        }
    }
    let mut numbers = owned.iter();
    let args: SmallVec<[&[u8]; 8]> = texts
        .iter()
        .map(|text| match text {
            Some(text) => text.as_ref(),
            None => numbers.next().map_or(&[][..], Vec::as_slice),
        })
        .collect();
    Ok(shared.dispatch(&args))
}

fn only_string(args: &MultiValue) -> Option<&LuaString> {
    match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => Some(text),
        _ => None,
    }
}

const WRONG_ARGUMENTS: &[u8] = b"ERR wrong number or type of arguments";

fn error_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Table> {
    let Some(text) = only_string(&args) else { return error_table(lua, WRONG_ARGUMENTS, false) };
    let text = text.as_bytes();
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    // A text of one word has no code, so it gets one.
    let space = text.iter().position(|&byte| byte == b' ');
    let (code, text) = space.map_or((&b"ERR"[..], text), |at| (&text[..at], &text[at + 1..]));
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = text.iter().position(|byte| !is_break(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_break(byte)).map_or(start, |last| last + 1);
    error_table(lua, &[code, b" ", &text[start..end]].concat(), false)
}

fn status_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Table> {
    let Some(text) = only_string(&args) else { return error_table(lua, WRONG_ARGUMENTS, false) };
    let table = lua.create_table()?;
    table.raw_set("ok", text)?;
    Ok(table)
}

fn sha1hex(_lua: &Lua, args: MultiValue) -> mlua::Result<String> {
    if args.len() != 1 {
        return Err(fail("wrong number of arguments"));
    }
    let hex = |bytes: &[u8]| sha1_smol::Sha1::from(bytes).digest().to_string();
    Ok(hex(&args.front().and_then(text_of).unwrap_or_default()))
}

fn log(_lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        return Err(fail("redis.log() requires two arguments or more."));
    }
    match args.front().and_then(number_of).map(truncated) {
        Some(0..=3) => Ok(()),
        Some(_) => Err(fail("Invalid debug level.")),
        None => Err(fail("First argument must be a number (log level).")),
    }
}

fn set_repl(_lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(fail("redis.set_repl() requires two arguments."));
    }
    // What is no number is none of the flags.
    match args.front().and_then(number_of).map_or(0, truncated) {
        0..=3 => Ok(()),
        _ => Err(fail(
            "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        )),
    }
}

/// `math.random` and `math.randomseed`.
pub(crate) fn random(lua: &Lua, shared: &Rc<ScriptShared>, table: &Table) -> mlua::Result<()> {
    let (for_draws, for_seed) = (Rc::clone(shared), Rc::clone(shared));
    let random = move |lua: &Lua, args: MultiValue| {
        let mut generator = for_draws.random.get();
        let unit = generator.unit();
        for_draws.random.set(generator);
        let args = LuaArgs::new(lua, &args);
        let (low, high) = match args.values.len() {
            0 => return Ok(unit),
            1 => (1, args.int(0)?),
            2 => (args.int(0)?, args.int(1)?),
            _ => return Err(lua_fail(lua, "wrong number of arguments")),
        };
        if low > high {
            return Err(args.bad(args.values.len() - 1, "interval is empty"));
        }
        let count = high.wrapping_sub(low).wrapping_add(1);
        Ok((unit * f64::from(count)).floor() + f64::from(low))
    };
    let seed = move |lua: &Lua, args: MultiValue| {
        let seed = LuaArgs::new(lua, &args).int(0)?;
        for_seed.random.set(Drand48::new(seed.cast_unsigned()));
        Ok(())
    };
    table.set("random", lua.create_function(random)?)?;
    table.set("randomseed", lua.create_function(seed)?)
}
