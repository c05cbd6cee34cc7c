//! EVAL, EVALSHA, their read-only forms, and SCRIPT LOAD, EXISTS, FLUSH.
//!
//! Invariant: a script is known to EVALSHA from its first EVAL or LOAD until SCRIPT FLUSH or a restart. Not
//! modelled: SCRIPT DEBUG, SCRIPT SHOW. Scripts run in `crate::script`.

use resp::{ErrorReply, Reply, decimal};

use super::arguments::are_flush_mode;
use crate::server::{CommandResult, CommandSpec, Execution, Request, Server, flag, group};

pub(super) const EVAL: u32 = ANY | flag::MAY_REPLICATE;
pub(super) const EVAL_RO: u32 = ANY | flag::READONLY;
const ANY: u32 = flag::NOSCRIPT | flag::STALE | flag::SKIP_MONITOR | flag::NO_MANDATORY_KEYS;

const fn eval(name: &'static str, flags: u32, by_digest: bool, read_only: bool) -> CommandSpec {
    let run = Execution::Eval { by_digest, read_only };
    group::SCRIPTING.run(name, -3, flags, run).counted_keys(2)
}

pub(crate) const SPECS: &[CommandSpec] = &[
    eval("eval", EVAL, false, false),
    eval("evalsha", EVAL, true, false),
    eval("eval_ro", EVAL_RO, false, true),
    eval("evalsha_ro", EVAL_RO, true, true),
    CommandSpec::container("script", SUBCOMMANDS),
];

const SUBCOMMANDS: &[CommandSpec] = &[
    group::SCRIPTING.run("load", 3, flag::NOSCRIPT | flag::STALE, Execution::Load),
    group::SCRIPTING.command("exists", -3, flag::NOSCRIPT, exists),
    group::SCRIPTING.command("flush", -2, flag::NOSCRIPT, flush),
    group::SCRIPTING.command("kill", 2, flag::NOSCRIPT | flag::ALLOW_BUSY, kill),
];

fn exists(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let known = |digest: &&[u8]| {
        let digest = <[u8; 40]>::try_from(digest.to_ascii_lowercase()).ok();
        Reply::Int(i64::from(digest.is_some_and(|digest| server.scripts.contains(&digest))))
    };
    Ok(Reply::Array(request.args[2..].iter().map(known).collect()))
}

fn flush(server: &mut Server, request: &Request<'_>) -> CommandResult {
    if !are_flush_mode(&request.args[2..]) {
        return Err(ErrorReply::new("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    server.scripts.clear();
    server.compiled_is_stale = true;
    Ok(Reply::Ok)
}

pub(super) fn kill(_server: &mut Server, _request: &Request<'_>) -> CommandResult {
    // A script never runs while another command does.
    Err(ErrorReply::new("NOTBUSY No scripts in execution right now."))
}

/// Some of a request's arguments.
type ArgSlice<'a, 'b> = &'b [&'a [u8]];

/// The keys and the arguments of an EVAL or FCALL, which have words of their own for a count that is no
/// number.
pub(crate) fn keys_and_args<'a, 'b>(
    args: ArgSlice<'a, 'b>,
    no_number: ErrorReply,
) -> Result<(ArgSlice<'a, 'b>, ArgSlice<'a, 'b>), ErrorReply> {
    let count = decimal(args[2]).ok_or(no_number)?;
    let rest = &args[3..];
    if count > i64::try_from(rest.len()).unwrap_or(i64::MAX) {
        return Err(ErrorReply::new("ERR Number of keys can't be greater than number of args"));
    }
    let count = usize::try_from(count)
        .map_err(|_| ErrorReply::new("ERR Number of keys can't be negative"))?;
    Ok(rest.split_at(count))
}
