//! Hashes: HSET, HMSET, HSETNX, HGET, HMGET, HGETALL, HKEYS, HVALS, HDEL, HEXISTS, HLEN, HSTRLEN, HINCRBY.
//!
//! Invariant: fields are answered in the order in which they were first written, as Redis answers those of
//! a small hash (up to 128 fields of up to 64 bytes). Not modelled: the other order of large hashes,
//! HINCRBYFLOAT.

use resp::{Blob, ErrorReply, Reply, blob, decimal, integer};

use super::arguments::number;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};
use crate::value::Fields;

const READ: u32 = flag::READONLY | flag::FAST;
const WRITE: u32 = flag::WRITE | flag::DENYOOM | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::HASH.keyed("hset", -4, WRITE, |s, r| set_all(s, r).map(Reply::Int)),
    group::HASH.keyed("hmset", -4, WRITE, |s, r| set_all(s, r).map(|_| Reply::Ok)),
    group::HASH.keyed("hstrlen", 3, READ, hstrlen),
    group::HASH.keyed("hsetnx", 4, WRITE, hsetnx),
    group::HASH.keyed("hget", 3, READ, hget),
    group::HASH.keyed("hmget", -3, READ, hmget),
    group::HASH.keyed("hgetall", 2, flag::READONLY, hgetall),
    group::HASH.keyed("hkeys", 2, flag::READONLY, hkeys),
    group::HASH.keyed("hvals", 2, flag::READONLY, hvals),
    group::HASH.keyed("hdel", -3, flag::WRITE | flag::FAST, hdel),
    group::HASH.keyed("hexists", 3, READ, hexists),
    group::HASH.keyed("hlen", 2, READ, hlen),
    group::HASH.keyed("hincrby", 4, WRITE, hincrby),
];

fn field<'f>(fields: &'f [(Blob, Blob)], name: &[u8]) -> Option<&'f Blob> {
    fields.iter().find(|(field, _)| &field[..] == name).map(|(_, value)| value)
}

/// The fields of the hash that a request names first; nowhere are none.
fn fields<'s>(
    server: &'s mut Server,
    request: &Request<'_>,
) -> Result<&'s [(Blob, Blob)], ErrorReply> {
    Ok(server.read_as::<Fields>(request, request.args[1])?.map_or(&[], Vec::as_slice))
}

/// Writes fields; how many of them are new.
fn write(
    server: &mut Server,
    request: &Request<'_>,
    slot: Option<u32>,
    pairs: &[(&[u8], &[u8])],
) -> Result<i64, ErrorReply> {
    server.edit(request, request.args[1], slot, |fields: &mut Fields| {
        let mut added = 0;
        for &(name, value) in pairs {
            match fields.iter_mut().find(|(field, _)| &field[..] == name) {
                Some((_, before)) => *before = blob(value),
                None => {
                    fields.push((blob(name), blob(value)));
                    added += 1;
                }
            }
        }
        Ok((added, true))
    })
}

fn set_all(server: &mut Server, request: &Request<'_>) -> Result<i64, ErrorReply> {
    if request.args.len() % 2 == 1 {
        return Err(ErrorReply::arity(&request.name()));
    }
    let slot = server.find_as::<Fields>(request, request.args[1])?;
    let pairs: Vec<_> = request.args[2..].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    write(server, request, slot, &pairs)
}

fn hsetnx(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (name, value) = (request.args[2], request.args[3]);
    let slot = server.find_as::<Fields>(request, request.args[1])?;
    if let Some(slot) = slot
        && field(server.value::<Fields>(request, slot)?, name).is_some()
    {
        return Ok(Reply::Int(0));
    }
    write(server, request, slot, &[(name, value)])?;
    Ok(Reply::Int(1))
}

fn hget(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let value = field(fields(server, request)?, request.args[2]);
    Ok(Reply::bulk_or_nil(value))
}

fn hmget(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let fields = fields(server, request)?;
    let one = |name: &&[u8]| Reply::bulk_or_nil(field(fields, name));
    Ok(Reply::Array(request.args[2..].iter().map(one).collect()))
}

fn hgetall(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let flat = fields(server, request)?.iter().flat_map(|(name, value)| [name, value]);
    Ok(Reply::Map(flat.map(Reply::bulk).collect()))
}

fn hkeys(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::Array(fields(server, request)?.iter().map(|(name, _)| Reply::bulk(name)).collect()))
}

fn hvals(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::Array(fields(server, request)?.iter().map(|(_, value)| Reply::bulk(value)).collect()))
}

fn hdel(server: &mut Server, request: &Request<'_>) -> CommandResult {
    server.take_out(request, |fields: &mut Fields| {
        let before = fields.len();
        fields.retain(|(field, _)| !request.args[2..].contains(&&field[..]));
        before - fields.len()
    })
}

fn hexists(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let there = field(fields(server, request)?, request.args[2]).is_some();
    Ok(Reply::Int(i64::from(there)))
}

fn hlen(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::count(fields(server, request)?.len()))
}

fn hstrlen(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let value = field(fields(server, request)?, request.args[2]);
    Ok(Reply::count(value.map_or(0, |value| value.len())))
}

fn hincrby(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let delta = number(request.args[3])?;
    let slot = server.find_as::<Fields>(request, request.args[1])?;
    let before = match slot {
        Some(slot) => field(server.value::<Fields>(request, slot)?, request.args[2]),
        None => None,
    };
    let before = before
        .map_or(Some(0), |value| decimal(value))
        .ok_or(ErrorReply::new("ERR hash value is not an integer"))?;
    let after = before
        .checked_add(delta)
        .ok_or(ErrorReply::new("ERR increment or decrement would overflow"))?;
    write(server, request, slot, &[(request.args[2], &integer(after))])?;
    Ok(Reply::Int(after))
}
