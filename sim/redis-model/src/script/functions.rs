//! FUNCTION LOAD and FCALL: libraries of functions, compiled and run.
//!
//! Invariant: what is compiled can be thrown away at any time: it is compiled again from the library's
//! code when one of its functions is called. Its locals are then as new.

use mlua::{Table, Value};
use resp::{Blob, ErrorReply, Reply, blob};

use super::api::{self, ScriptRun};
use super::engine::{Engine, refused};
use super::native::{ScriptDigest, digest};
use super::shebang::{Shebang, first_line, unexpected};
use crate::commands::scripting::keys_and_args;
use crate::libraries::{self, FLAGS, Function, Library};
use crate::server::Request;
use crate::stats::ErrorCount;

const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and \
                        must be at least one character long";

impl Engine {
    /// FUNCTION LOAD: the library's name.
    pub(crate) fn load_library(&mut self, code: &[u8], replace: bool) -> Result<Blob, ErrorReply> {
        let (name, _) = head(code)?;
        if !replace && self.shared.server.borrow().libraries.contains_key(&name) {
            let name = String::from_utf8_lossy(&name).into_owned();
            return Err(ErrorReply::of(format!("ERR Library '{name}' already exists")));
        }
        let functions = self.compile_library(code)?;
        if functions.is_empty() {
            return Err(ErrorReply::new("ERR No functions registered"));
        }
        let server = &mut *self.shared.server.borrow_mut();
        let taken = |function: &&Function| {
            libraries::find(&server.libraries, &function.name, Some(&name)).is_some()
        };
        if let Some(function) = functions.iter().find(taken) {
            let function = String::from_utf8_lossy(&function.name).into_owned();
            return Err(ErrorReply::of(format!("ERR Function {function} already exists")));
        }
        let library = Library { code: code.to_vec(), digest: digest(code), functions };
        server.libraries.insert(name.clone(), library);
        Ok(name)
    }

    /// FCALL. With the reply come the errors in it.
    pub(crate) fn call_function(
        &mut self,
        request: &Request<'_>,
        read_only: bool,
    ) -> (Reply, ErrorCount) {
        self.try_function(request, read_only).unwrap_or_else(refused)
    }

    fn try_function(
        &mut self,
        request: &Request<'_>,
        read_only: bool,
    ) -> Result<(Reply, ErrorCount), ErrorReply> {
        let found = {
            let server = self.shared.server.borrow();
            let found = libraries::find(&server.libraries, request.args[1], None);
            found.map(|(library, function)| {
                let code =
                    (!self.libraries.contains(&library.digest)).then(|| library.code.clone());
                (library.digest, function.clone(), code)
            })
        };
        let (digest, function, code) = found.ok_or(ErrorReply::new("ERR Function not found"))?;
        let no_number = ErrorReply::new("ERR Bad number of keys provided");
        let (keys, args) = keys_and_args(request.args, no_number)?;
        let (no_writes, allow_oom) = (function.has("no-writes"), function.has("allow-oom"));
        self.check_promises(read_only, no_writes, allow_oom)?;
        if let Some(code) = code {
            self.compile_library(&code)?;
        }
        let run = ScriptRun {
            now_us: request.now_us,
            read_only: read_only || no_writes,
            allow_oom,
            ..ScriptRun::default()
        };
        self.begin(request.session, run);
        let key = place(&digest, &function.name);
        let outcome = self
            .lua
            .create_string(key)
            .and_then(|key| self.callbacks.raw_get::<Value>(key))
            .and_then(|callback| {
                self.run_function.call((callback, self.list(keys)?, self.list(args)?))
            });
        Ok(self.end(outcome, (&function.name, "user_function")))
    }

    /// Runs a library's code, which registers its functions.
    fn compile_library(&mut self, code: &[u8]) -> Result<Vec<Function>, ErrorReply> {
        let (_, body) = head(code)?;
        self.drop_flushed().map_err(|error| api::error_reply_of(&error))?;
        let digest = digest(code);
        let function = self.compile(body, "@user_function").map_err(|why| {
            ErrorReply::of([b"ERR Error compiling function: ", &why[..]].concat())
        })?;
        self.begin(0, ScriptRun::default());
        let failed =
            |text: &[u8]| ErrorReply::of([b"ERR Error registering functions: ", text].concat());
        let odd = |error: mlua::Error| failed(api::message(&error).as_bytes());
        let (done, result): (bool, Value) = self.load_functions.call(function).map_err(odd)?;
        match (done, result) {
            (true, Value::Table(registered)) => {
                let functions = self.register(&digest, &registered).map_err(odd)?;
                self.libraries.insert(digest);
                Ok(functions)
            }
            (_, Value::Table(error)) => match error.raw_get("err") {
                Ok(Value::String(text)) => Err(failed(&text.as_bytes())),
                _ => Err(failed(b"ERR unknown error")),
            },
            (_, Value::Error(error)) => Err(odd(*error)),
            (_, Value::String(text)) => Err(failed(&[b"ERR ", &text.as_bytes()[..]].concat())),
            _ => Err(failed(b"ERR unknown error")),
        }
    }

    fn register(&self, digest: &ScriptDigest, registered: &Table) -> mlua::Result<Vec<Function>> {
        let mut functions = Vec::new();
        for entry in registered.sequence_values::<Table>() {
            let entry = entry?;
            let text = |name: &str| -> mlua::Result<Option<Blob>> {
                Ok(match entry.raw_get(name)? {
                    Value::String(text) => Some(blob(&text.as_bytes())),
                    _ => None,
                })
            };
            let name = text("name")?.unwrap_or_default();
            let callback: Value = entry.raw_get("callback")?;
            self.callbacks.raw_set(self.lua.create_string(place(digest, &name))?, callback)?;
            let given: Table = entry.raw_get("flags")?;
            let mut flags = Vec::new();
            for flag in FLAGS {
                if given.raw_get::<bool>(flag)? {
                    flags.push(flag);
                }
            }
            functions.push(Function { name, description: text("description")?, flags });
        }
        Ok(functions)
    }
}

/// Under what a function is kept.
fn place(digest: &ScriptDigest, name: &[u8]) -> Vec<u8> {
    [&digest[..], name].concat()
}

/// The library's name, and its code from the end of its first line on.
fn head(code: &[u8]) -> Result<(Blob, &[u8]), ErrorReply> {
    if !code.starts_with(b"#!") {
        return Err(ErrorReply::new("ERR Missing library metadata"));
    }
    let invalid = ErrorReply::new("ERR Invalid library metadata");
    let (words, body) = first_line(code).ok_or(invalid.clone())?;
    let (engine, words) = words.split_first().ok_or(invalid)?;
    let mut name = None;
    for word in words {
        match word.split_at_checked(b"name=".len()) {
            Some((key, given)) if key.eq_ignore_ascii_case(b"name=") => {
                if name.replace(given).is_some() {
                    return Err(ErrorReply::new(
                        "ERR Invalid metadata value, name argument was given multiple times",
                    ));
                }
            }
            _ => return Err(unexpected("ERR Invalid metadata value given: ", word)),
        }
    }
    let name = name.ok_or(ErrorReply::new("ERR Library name was not given"))?;
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if name.is_empty() || !name.iter().all(fits) {
        return Err(ErrorReply::new(BAD_NAME));
    }
    let engine = &engine[b"#!".len()..];
    if !engine.eq_ignore_ascii_case(Shebang::ENGINE) {
        let text = [b"ERR Engine '", engine, b"' not found"].concat();
        return Err(ErrorReply::of(text));
    }
    Ok((blob(name), body))
}
