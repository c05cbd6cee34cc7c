//! Compiling and running scripts.
//!
//! Invariant: a script leaves nothing behind in Lua: its globals are sealed, KEYS and ARGV are new
//! tables, and its time stands still while it runs. A script that does not end is stopped when its budget of
//! instructions is spent. If an error table lacks `err`, redis-server 7.0.15 crashes; here the answer is an error.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{
    Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, Variadic, VmState,
};
use redis_lua::args::int_of;
use redis_lua::convert::{error_table, from_lua};
use redis_lua::random::Drand48;
use redis_lua::{bit, builtin, cjson, cmsgpack, limits, structs};
use resp::{ErrorReply, ProtocolVersion, Reply, until_nul};
use rustc_hash::{FxHashMap, FxHashSet};

use super::api::{self, ScriptRun, ScriptShared};
use super::native::{self, ScriptDigest, digest};
use super::shebang::Shebang;
use crate::server::admission::WriteRefusal;
use crate::server::{SCRIPT_SESSION, Server};
use crate::stats::ErrorCount;

/// How often the budget is looked at.
const HOOK_INSTRUCTIONS: u32 = 1000;

/// The answer where no script has this digest.
pub(crate) const NO_SCRIPT: ErrorReply =
    ErrorReply::new("NOSCRIPT No matching script. Please use EVAL.");

/// One EVAL.
pub(crate) struct Invocation<'a> {
    pub(crate) now_us: i64,
    /// The session that asked: its database is the script's.
    pub(crate) session: u32,
    /// The script, or its digest.
    pub(crate) body: &'a [u8],
    pub(crate) by_digest: bool,
    pub(crate) read_only: bool,
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) args: &'a [&'a [u8]],
}

/// Lua, and the scripts compiled in it. They outlive a reset of the model, and SCRIPT FLUSH until the
/// next one is compiled: whether EVALSHA knows them is the server's to say.
pub(crate) struct Engine {
    pub(super) lua: Lua,
    pub(super) shared: Rc<ScriptShared>,
    compiled: FxHashMap<ScriptDigest, Shebang>,
    /// The scripts by their digests. Rust can hold only some thousand values of Lua at once.
    functions: Table,
    /// The libraries that are compiled, by the digests of their code.
    pub(super) libraries: FxHashSet<ScriptDigest>,
    /// Their functions, by that digest and their names.
    pub(super) callbacks: Table,
    load_text: Function,
    run_no_key: Function,
    run_one_key: Function,
    run_keys: Function,
    pub(super) load_functions: Function,
    pub(super) run_function: Function,
}

impl Engine {
    pub(crate) fn new(server: Rc<RefCell<Server>>) -> Self {
        // Lua fails to start only where memory is out.
        Self::start(server).expect("Lua starts")
    }

    fn start(server: Rc<RefCell<Server>>) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        // pcall is wrapped by the sandbox; the one below must be Lua's own, as in Redis.
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
        let budget = server.borrow().options.script_budget_instructions;
        let shared = Rc::new(ScriptShared::new(server));
        let host = lua.create_table()?;
        host.set("redis", api::library(&lua, &shared)?)?;
        host.set("bit", bit::library(&lua)?)?;
        host.set("cjson", cjson::library(&lua, lua.globals().get("next")?)?)?;
        host.set("cmsgpack", cmsgpack::library(&lua)?)?;
        host.set("struct", structs::library(&lua)?)?;
        api::random(&lua, &shared, &host)?;
        let converting = Rc::clone(&shared);
        let convert =
            lua.create_function(move |lua, error: Value| api::convert(lua, &converting, error))?;
        host.set("convert", convert)?;
        let last = lua.create_function(|lua, error: Value| api::convert_last(lua, error))?;
        host.set("final", last)?;
        let checking = Rc::clone(&shared);
        let check = lua.create_function(move |_, ()| match checking.run.get().killed {
            true => Err(ended(budget)),
            false => Ok(()),
        })?;
        host.set("check", check)?;
        host.set("where", lua.create_function(|lua, ()| Ok(line(lua)))?)?;
        host.set("builtin", builtin::maker(&lua, &shared.depth)?)?;
        let depth = Rc::clone(&shared.depth);
        host.set("is_deep", lua.create_function(move |_, ()| Ok(depth.is_spent()))?)?;
        host.set("int", lua.create_function(|_, value: Value| Ok(int_of(&value)))?)?;
        host.set("results", limits::RESULTS)?;
        host.set("pattern_items", limits::PATTERN_ITEMS)?;
        let name = format!("={}", builtin::CHUNK);
        let prelude = lua.load(include_str!("sandbox.lua")).set_name(name);
        let functions: (Table, Function, Function, Function, Function, Function, Function) =
            prelude.call(host)?;
        let (globals, load_text, run_no_key, run_one_key, run_keys, load_functions, run_function) =
            functions;
        lua.set_globals(globals)?;
        let counting = Rc::clone(&shared);
        lua.set_global_hook(
            HookTriggers::new().every_nth_instruction(HOOK_INSTRUCTIONS),
            move |_, _| {
                counting.note(|run| run.instructions += u64::from(HOOK_INSTRUCTIONS));
                if counting.run.get().instructions <= budget {
                    return Ok(VmState::Continue);
                }
                counting.note(|run| run.killed = true);
                Err(ended(budget))
            },
        )?;
        lua.set_memory_limit(limits::MEMORY_BYTES)?;
        Ok(Self {
            shared,
            compiled: FxHashMap::default(),
            functions: lua.create_table()?,
            libraries: FxHashSet::default(),
            callbacks: lua.create_table()?,
            load_text,
            run_no_key,
            run_one_key,
            run_keys,
            load_functions,
            run_function,
            lua,
        })
    }

    /// As after a start of the server.
    pub(crate) fn reset(&mut self) {
        self.shared.random.set(Drand48::START);
    }

    /// Compiles a script, if it is new.
    pub(crate) fn load(&mut self, body: &[u8]) -> Result<ScriptDigest, ErrorReply> {
        self.drop_flushed().map_err(|error| api::error_reply_of(&error))?;
        let digest = digest(body);
        if !self.compiled.contains_key(&digest) {
            let (shebang, code) = Shebang::split(body)?;
            let function = self.compile(code, "@user_script").map_err(|why| {
                ErrorReply::of([b"ERR Error compiling script (new function): ", &why[..]].concat())
            })?;
            let name = self.lua.create_string(digest);
            let kept = name.and_then(|name| self.functions.raw_set(name, function));
            kept.map_err(|error| api::error_reply_of(&error))?;
            self.compiled.insert(digest, shebang);
        }
        Ok(digest)
    }

    /// Compiles code, or says why not. Lua does it itself: an error of mlua would lose bytes that are no UTF-8.
    pub(super) fn compile(&self, code: &[u8], name: &str) -> Result<Function, Vec<u8>> {
        let loaded =
            self.lua.create_string(code).and_then(|code| self.load_text.call((code, name)));
        match loaded {
            Ok((Value::Function(function), _)) => Ok(function),
            Ok((_, Value::String(why))) => Err(why.as_bytes().to_vec()),
            Ok(_) => unreachable!("loadstring gives a function, or says why not"),
            Err(error) => Err(api::message(&error).into_bytes()),
        }
    }

    /// Before something is compiled: gives back what a FLUSH has made the server forget. What it knows
    /// stays, with the locals of its libraries.
    pub(super) fn drop_flushed(&mut self) -> mlua::Result<()> {
        let server = &mut *self.shared.server.borrow_mut();
        if !std::mem::take(&mut server.compiled_is_stale) {
            return Ok(());
        }
        let (known, libraries) = (&server.scripts, &server.libraries);
        for digest in self.compiled.extract_if(|digest, _| !known.contains(digest)) {
            self.functions.raw_remove(self.lua.create_string(digest.0)?)?;
        }
        let is_library =
            |digest: &ScriptDigest| libraries.iter().any(|(_, it)| it.digest == *digest);
        self.libraries.retain(is_library);
        let callbacks = self.lua.create_table()?;
        for pair in self.callbacks.pairs::<LuaString, Value>() {
            let (key, callback) = pair?;
            let digest = ScriptDigest::try_from(&key.as_bytes()[..40]);
            if digest.is_ok_and(|digest| self.libraries.contains(&digest)) {
                callbacks.raw_set(key, callback)?;
            }
        }
        self.callbacks = callbacks;
        self.lua.gc_collect()
    }

    /// Runs a script. With the reply come the errors in it.
    pub(crate) fn run(&mut self, call: &Invocation<'_>) -> (Reply, ErrorCount) {
        match self.prepare(call) {
            Ok((digest, shebang)) => {
                let run = ScriptRun {
                    now_us: call.now_us,
                    read_only: call.read_only || shebang.no_writes,
                    allow_oom: shebang.allow_oom,
                    ..ScriptRun::default()
                };
                self.begin(call.session, run);
                let outcome = self.invoke(call, &digest);
                self.end(outcome, (&digest, "user_script"))
            }
            Err(fail) => refused(fail),
        }
    }

    fn prepare(&mut self, call: &Invocation<'_>) -> Result<(ScriptDigest, Shebang), ErrorReply> {
        let digest = if call.by_digest {
            let digest = ScriptDigest::try_from(&call.body.to_ascii_lowercase()[..]);
            let known =
                |digest: &ScriptDigest| self.shared.server.borrow().scripts.contains(digest);
            let digest = digest.ok().filter(known).ok_or(NO_SCRIPT)?;
            // A script known by its text has never been compiled until it is needed.
            if !self.compiled.contains_key(&digest)
                && let Some(text) = native::text_of(&digest)
            {
                self.load(text.as_bytes())?;
            }
            digest
        } else {
            let digest = self.load(call.body)?;
            self.shared.server.borrow_mut().scripts.insert(digest);
            digest
        };
        let shebang = self.compiled[&digest];
        if shebang.present {
            self.check_promises(call.read_only, shebang.no_writes, shebang.allow_oom)?;
        }
        Ok((digest, shebang))
    }

    /// Whether a script that promises this may run by a command that is read-only or not, and in the
    /// state of the server.
    pub(super) fn check_promises(
        &self,
        read_only: bool,
        no_writes: bool,
        allow_oom: bool,
    ) -> Result<(), ErrorReply> {
        if read_only && !no_writes {
            return Err(ErrorReply::new(
                "ERR Can not execute a script with write flag using *_ro command.",
            ));
        }
        match self.shared.server.borrow().refusing() {
            Some(WriteRefusal::OutOfMemory) if allow_oom => Ok(()),
            Some(refusal) if !no_writes => Err(refusal.error()),
            _ => Ok(()),
        }
    }

    /// Resets the state that a script's commands read.
    pub(super) fn begin(&self, session: u32, run: ScriptRun) {
        self.shared.run.set(run);
        self.shared.depth.start();
        let mut server = self.shared.server.borrow_mut();
        let db = server.sessions[session as usize].db;
        let session = &mut server.sessions[SCRIPT_SESSION as usize];
        (session.db, session.protocol) = (db, ProtocolVersion::Resp2);
    }

    fn invoke(&self, call: &Invocation<'_>, digest: &ScriptDigest) -> mlua::Result<(bool, Value)> {
        let script: Function = self.functions.raw_get(self.lua.create_string(digest)?)?;
        match (call.keys, call.args) {
            ([], args) if args.len() <= ON_STACK => {
                self.run_no_key.call((script, self.on_stack(args)?))
            }
            ([key], args) if args.len() <= ON_STACK => {
                let key = self.lua.create_string(key)?;
                self.run_one_key.call((script, key, self.on_stack(args)?))
            }
            (keys, args) => self.run_keys.call((script, self.list(keys)?, self.list(args)?)),
        }
    }

    /// The answer, and the errors in it. `script` is its name in errors, and that of its chunk.
    pub(super) fn end(
        &self,
        outcome: mlua::Result<(bool, Value)>,
        script: (&[u8], &str),
    ) -> (Reply, ErrorCount) {
        let answer = self.answer(outcome, script);
        let answer = answer.unwrap_or_else(|error| refused(api::error_reply_of(&error)));
        if self.lua.used_memory() > limits::COLLECT_BYTES {
            // What cannot be collected now will be later.
            let _ = self.lua.gc_collect();
        }
        answer
    }

    fn answer(
        &self,
        outcome: mlua::Result<(bool, Value)>,
        script: (&[u8], &str),
    ) -> mlua::Result<(Reply, ErrorCount)> {
        let table = |error: &mlua::Error| api::as_table(&self.lua, error);
        match outcome {
            Ok((true, value)) => {
                let returned = from_lua(&value, self.shared.run.get().resp3)?;
                Ok((returned.reply, ErrorCount::of(&returned.errors)))
            }
            Ok((false, Value::Table(error))) => failure(&error, script),
            // The handler itself has failed: the script was ended, or the stack is full.
            Ok((false, Value::Error(error))) => failure(&table(&error)?, script),
            Ok((false, other)) => {
                failure(&error_table(&self.lua, describe(&other).as_bytes(), false)?, script)
            }
            Err(error) => failure(&table(&error)?, script),
        }
    }

    fn on_stack(&self, texts: &[&[u8]]) -> mlua::Result<Variadic<LuaString>> {
        texts.iter().map(|text| self.lua.create_string(text)).collect()
    }

    /// The texts as a table; there may be more of them than Rust can hold.
    pub(super) fn list(&self, texts: &[&[u8]]) -> mlua::Result<Table> {
        let list = self.lua.create_table_with_capacity(texts.len(), 0)?;
        for (index, text) in texts.iter().enumerate() {
            list.raw_set(index + 1, self.lua.create_string(text)?)?;
        }
        Ok(list)
    }
}

/// So many arguments are handed over one by one, more in a table.
const ON_STACK: usize = 16;

/// The answer for an error that the script has not caught.
fn failure(error: &Table, (name, chunk): (&[u8], &str)) -> mlua::Result<(Reply, ErrorCount)> {
    let mut text = match error.raw_get("err")? {
        Value::String(text) => until_nul(&text.as_bytes()).to_vec(),
        _ => b"ERR unknown error".to_vec(),
    };
    if let Value::Integer(line) = error.raw_get("line")? {
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(name);
        text.extend_from_slice(format!(", on @{chunk}:{line}.").as_bytes());
    }
    let counted = matches!(error.raw_get("ignore_error_stats_update")?, Value::Boolean(true));
    let mut errors = ErrorCount::default();
    errors.add(&text, counted);
    Ok((Reply::Error(ErrorReply::of(text)), errors))
}

/// The answer where nothing was run.
pub(crate) fn refused(fail: ErrorReply) -> (Reply, ErrorCount) {
    let reply = Reply::Error(fail);
    let errors = ErrorCount::from(&reply);
    (reply, errors)
}

fn describe(value: &Value) -> String {
    match value {
        Value::String(text) => format!("ERR {}", text.to_string_lossy()),
        other => format!("ERR {}", other.type_name()),
    }
}

fn ended(budget: u64) -> mlua::Error {
    api::fail(format!("Script ended after {budget} instructions"))
}

/// The line that the script has come to.
fn line(lua: &Lua) -> Option<usize> {
    for level in 0.. {
        let line = lua.inspect_stack(level, |frame| {
            let of_script = frame
                .source()
                .source
                .is_some_and(|source| matches!(&*source, "@user_script" | "@user_function"));
            of_script.then(|| frame.current_line())
        })?;
        if let Some(line) = line {
            return line;
        }
    }
    None
}
