//! INCR, DECR, INCRBY, DECRBY.
//!
//! Invariant: a counter changes in place: its expiry stands, and a failed addition changes nothing.

use resp::{ErrorReply, Reply, decimal, integer};

use crate::server::{CommandResult, CommandSpec, Expiry, Request, Server, flag};
use crate::value::StoredValue;

const FLAGS: u32 = flag::WRITE | flag::DENYOOM | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    CommandSpec::keyed("incr", 2, FLAGS, incr).group("string"),
    CommandSpec::keyed("decr", 2, FLAGS, decr).group("string"),
    CommandSpec::keyed("incrby", 3, FLAGS, incrby).group("string"),
    CommandSpec::keyed("decrby", 3, FLAGS, decrby).group("string"),
];

fn incr(server: &mut Server, request: &Request<'_>) -> CommandResult {
    add(server, request, 1)
}

fn decr(server: &mut Server, request: &Request<'_>) -> CommandResult {
    add(server, request, -1)
}

fn incrby(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let delta = decimal(request.args[2]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    add(server, request, delta)
}

fn decrby(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let delta = decimal(request.args[2]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let delta = delta.checked_neg().ok_or(ErrorReply::new("ERR decrement would overflow"))?;
    add(server, request, delta)
}

fn add(server: &mut Server, request: &Request<'_>, delta: i64) -> CommandResult {
    let key = request.args[1];
    let Some(slot) = server.find(request, key) else {
        server.put_at(request, None, key, StoredValue::Str(integer(delta)), Expiry::Never);
        return Ok(Reply::Int(delta));
    };
    let value = server.value_mut(request, slot).as_str_mut()?;
    let before = decimal(value).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let after = before
        .checked_add(delta)
        .ok_or(ErrorReply::new("ERR increment or decrement would overflow"))?;
    *value = integer(after);
    server.changed(request, slot);
    Ok(Reply::Int(after))
}
