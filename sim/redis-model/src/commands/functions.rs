//! FUNCTION LOAD, DELETE, FLUSH, LIST, STATS, KILL, and FCALL, FCALL_RO.
//!
//! Invariant: a function is known from FUNCTION LOAD until its library is replaced or deleted, or the
//! server restarts. Not modelled: DUMP and RESTORE, whose bytes are redis-server's own. Functions run in
//! `crate::script`.

use resp::{Blob, ErrorReply, Reply, glob, is_word};

use super::arguments::are_flush_mode;
use super::keys::unknown_form;
use super::scripting::{EVAL, EVAL_RO, kill};
use crate::libraries::{Function, Library, function_count};
use crate::server::{CommandResult, CommandSpec, Execution, Request, Server, flag, group};

const fn call(name: &'static str, flags: u32, read_only: bool) -> CommandSpec {
    group::SCRIPTING.run(name, -3, flags, Execution::Function { read_only }).counted_keys(2)
}

pub(crate) const SPECS: &[CommandSpec] = &[
    call("fcall", EVAL, false),
    call("fcall_ro", EVAL_RO, true),
    CommandSpec::container("function", SUBCOMMANDS),
];

const LOAD: u32 = flag::WRITE | flag::DENYOOM | flag::NOSCRIPT;

const SUBCOMMANDS: &[CommandSpec] = &[
    group::SCRIPTING.run("load", -3, LOAD, Execution::LoadLibrary),
    group::SCRIPTING.command("delete", 3, flag::WRITE | flag::NOSCRIPT, delete),
    group::SCRIPTING.command("flush", -2, flag::WRITE | flag::NOSCRIPT, flush),
    group::SCRIPTING.command("list", -2, flag::NOSCRIPT, list),
    group::SCRIPTING.command("stats", 2, flag::NOSCRIPT | flag::ALLOW_BUSY, stats),
    group::SCRIPTING.command("kill", 2, flag::NOSCRIPT | flag::ALLOW_BUSY, kill),
];

/// The code of a FUNCTION LOAD, and whether it may replace a library.
pub(crate) fn code_of<'a>(args: &[&'a [u8]]) -> Result<(&'a [u8], bool), ErrorReply> {
    let (code, options) = args[2..].split_last().ok_or(ErrorReply::SYNTAX)?;
    match options.iter().find(|option| !is_word(option, "REPLACE")) {
        Some(option) => Err(unknown("option given:", option)),
        None => Ok((code, !options.is_empty())),
    }
}

fn unknown(what: &str, word: &[u8]) -> ErrorReply {
    let text = format!("ERR Unknown {what} {}", String::from_utf8_lossy(word));
    ErrorReply::of(text)
}

fn delete(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let removed = server.libraries.remove(request.args[2]);
    removed.map(|_| Reply::Ok).ok_or(ErrorReply::new("ERR Library not found"))
}

fn flush(server: &mut Server, request: &Request<'_>) -> CommandResult {
    if request.args.len() > 3 {
        return Err(unknown_form(request));
    }
    if !are_flush_mode(&request.args[2..]) {
        return Err(ErrorReply::new("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    server.libraries.clear();
    server.compiled_is_stale = true;
    Ok(Reply::Ok)
}

fn list(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (mut with_code, mut pattern) = (false, None);
    let mut words = request.args[2..].iter();
    while let Some(word) = words.next() {
        if !with_code && is_word(word, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && is_word(word, "LIBRARYNAME") {
            let given = words.next();
            pattern =
                Some(*given.ok_or(ErrorReply::new("ERR library name argument was not given"))?);
        } else {
            return Err(unknown("argument", word));
        }
    }
    let wanted = |name: &Blob| pattern.is_none_or(|pattern| glob(pattern, name, true));
    let libraries = server.libraries.iter().filter(|(name, _)| wanted(name));
    Ok(Reply::Array(libraries.map(|(name, library)| about(name, library, with_code)).collect()))
}

fn about(name: &Blob, library: &Library, with_code: bool) -> Reply {
    let function = |function: &Function| {
        Reply::map([
            ("name", Reply::Bulk(function.name.clone())),
            ("description", Reply::bulk_or_nil(function.description.as_ref())),
            ("flags", Reply::Set(function.flags.iter().map(Reply::status).collect())),
        ])
    };
    let functions = library.functions.iter().map(function).collect();
    let about = [
        ("library_name", Reply::Bulk(name.clone())),
        ("engine", Reply::bulk("LUA")),
        ("functions", Reply::Array(functions)),
    ];
    let code = with_code.then(|| ("library_code", Reply::bulk(&library.code)));
    Reply::map(about.into_iter().chain(code))
}

fn stats(server: &mut Server, _request: &Request<'_>) -> CommandResult {
    let counts = Reply::map([
        ("libraries_count", Reply::count(server.libraries.len())),
        ("functions_count", Reply::count(function_count(&server.libraries))),
    ]);
    Ok(Reply::map([("running_script", Reply::Nil), ("engines", Reply::map([("LUA", counts)]))]))
}
