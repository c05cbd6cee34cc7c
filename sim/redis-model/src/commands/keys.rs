//! Keys of any type: DEL, UNLINK, EXISTS, TOUCH, TYPE, RANDOMKEY, DBSIZE, FLUSHDB, FLUSHALL, SELECT.
//!
//! Invariant: UNLINK and ASYNC answer as DEL and SYNC do; when memory is given back cannot be seen.
//! RANDOMKEY answers the same one each time: any is right. Not modelled: SWAPDB, OBJECT, DUMP.

use std::ops::RangeInclusive;

use resp::{ErrorReply, Reply};

use super::arguments::{are_flush_mode, number};

use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};

const READ: u32 = flag::READONLY | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::KEYSPACE.command("del", -2, flag::WRITE, del).keys(1, -1, 1),
    group::KEYSPACE.command("unlink", -2, flag::WRITE | flag::FAST, del).keys(1, -1, 1),
    group::KEYSPACE.command("exists", -2, READ, exists).keys(1, -1, 1),
    group::KEYSPACE.command("touch", -2, READ, exists).keys(1, -1, 1),
    group::KEYSPACE.command("randomkey", 1, flag::READONLY, randomkey),
    group::KEYSPACE.keyed("type", 2, READ, type_),
    group::KEYSPACE.command("dbsize", 1, READ, dbsize),
    group::KEYSPACE_DANGEROUS.command("flushdb", -1, flag::WRITE, flushdb),
    group::KEYSPACE_DANGEROUS.command("flushall", -1, flag::WRITE, flushall),
    group::CONNECTION.command("select", 2, flag::LOADING | flag::STALE | flag::FAST, select),
];

fn del(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let mut deleted = 0;
    for key in &request.args[1..] {
        if let Some(slot) = server.find(request, key) {
            server.remove(request, slot);
            deleted += 1;
        }
    }
    Ok(Reply::Int(deleted))
}

fn exists(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let there = request.args[1..].iter().filter(|key| server.read(request, key).is_some());
    Ok(Reply::count(there.count()))
}

fn type_(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let name = server.read(request, request.args[1]).map(|entry| entry.value.type_name());
    Ok(Reply::status(name.unwrap_or("none")))
}

fn dbsize(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::count(server.db(request).len()))
}

fn flushdb(server: &mut Server, request: &Request<'_>) -> CommandResult {
    flush(server, request, server.db_number(request)..=server.db_number(request))
}

fn flushall(server: &mut Server, request: &Request<'_>) -> CommandResult {
    flush(server, request, 0..=server.options.databases.max(1) - 1)
}

fn flush(
    server: &mut Server,
    request: &Request<'_>,
    databases: RangeInclusive<u16>,
) -> CommandResult {
    if !are_flush_mode(&request.args[1..]) {
        return Err(ErrorReply::SYNTAX);
    }
    databases.for_each(|number| server.flush(number));
    Ok(Reply::Ok)
}

fn randomkey(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let keys: Vec<_> = server.db(request).entries().map(|entry| entry.key.clone()).collect();
    let alive = keys.into_iter().find(|key| server.find(request, key).is_some());
    Ok(alive.map_or(Reply::Nil, Reply::Bulk))
}

fn select(server: &mut Server, request: &Request<'_>) -> CommandResult {
    server.session(request).db = database(server, request.args[1])?;
    Ok(Reply::Ok)
}

/// The database of this number.
pub(super) fn database(server: &Server, text: &[u8]) -> Result<u16, ErrorReply> {
    let index = number(text)?;
    if i32::try_from(index).is_err() {
        return Err(ErrorReply::new(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    let index = u16::try_from(index).ok().filter(|&index| usize::from(index) < server.dbs.len());
    index.ok_or(ErrorReply::new("ERR DB index is out of range"))
}

/// The answer to a subcommand with too many arguments.
pub(super) fn unknown_form(request: &Request<'_>) -> ErrorReply {
    let container = request.args[0].to_ascii_uppercase();
    let text = b"ERR unknown subcommand or wrong number of arguments for '";
    let parts = [&text[..], request.args[1], b"'. Try ", &container, b" HELP."];
    ErrorReply::of(parts.concat())
}
