//! Hashes: HSET, HMSET, HSETNX, HGET, HMGET, HGETALL, HKEYS, HVALS, HDEL, HEXISTS, HLEN, HSTRLEN, HINCRBY.
//!
//! Invariant: fields are answered in the order in which they were first written, as Redis answers those of
//! a small hash (up to 128 fields of up to 64 bytes). Not modelled: the other order of large hashes,
//! HINCRBYFLOAT.

use resp::{Blob, ErrorReply, Reply, blob, decimal, integer};

use crate::server::{CommandResult, CommandSpec, Expiry, Request, Server, flag};
use crate::value::StoredValue;

const READ: u32 = flag::READONLY | flag::FAST;
const WRITE: u32 = flag::WRITE | flag::DENYOOM | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    CommandSpec::keyed("hset", -4, WRITE, hset).group("hash"),
    CommandSpec::keyed("hmset", -4, WRITE, hmset).group("hash"),
    CommandSpec::keyed("hstrlen", 3, READ, hstrlen).group("hash"),
    CommandSpec::keyed("hsetnx", 4, WRITE, hsetnx).group("hash"),
    CommandSpec::keyed("hget", 3, READ, hget).group("hash"),
    CommandSpec::keyed("hmget", -3, READ, hmget).group("hash"),
    CommandSpec::keyed("hgetall", 2, flag::READONLY, hgetall).group("hash"),
    CommandSpec::keyed("hkeys", 2, flag::READONLY, hkeys).group("hash"),
    CommandSpec::keyed("hvals", 2, flag::READONLY, hvals).group("hash"),
    CommandSpec::keyed("hdel", -3, flag::WRITE | flag::FAST, hdel).group("hash"),
    CommandSpec::keyed("hexists", 3, READ, hexists).group("hash"),
    CommandSpec::keyed("hlen", 2, READ, hlen).group("hash"),
    CommandSpec::keyed("hincrby", 4, WRITE, hincrby).group("hash"),
];

type Fields = Vec<(Blob, Blob)>;

fn field<'f>(fields: &'f Fields, name: &[u8]) -> Option<&'f Blob> {
    fields.iter().find(|(field, _)| &field[..] == name).map(|(_, value)| value)
}

/// Writes fields; how many of them are new.
fn write(
    server: &mut Server,
    request: &Request<'_>,
    slot: Option<u32>,
    pairs: &[(&[u8], &[u8])],
) -> Result<i64, ErrorReply> {
    let mut fresh = Vec::new();
    let fields = match slot {
        Some(slot) => server.value_mut(request, slot).as_hash_mut()?,
        None => &mut fresh,
    };
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
    match slot {
        Some(slot) => server.changed(request, slot),
        None => {
            server.put_at(request, None, request.args[1], StoredValue::Hash(fresh), Expiry::Never);
        }
    }
    Ok(added)
}

fn hmset(server: &mut Server, request: &Request<'_>) -> CommandResult {
    set_all(server, request, "hmset").map(|_| Reply::Ok)
}

fn hset(server: &mut Server, request: &Request<'_>) -> CommandResult {
    set_all(server, request, "hset").map(Reply::Int)
}

fn set_all(server: &mut Server, request: &Request<'_>, command: &str) -> Result<i64, ErrorReply> {
    if request.args.len() % 2 == 1 {
        return Err(ErrorReply::arity(command));
    }
    let slot = server.find_as(request, request.args[1], StoredValue::as_hash)?;
    let pairs: Vec<_> = request.args[2..].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    write(server, request, slot, &pairs)
}

fn hsetnx(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (name, value) = (request.args[2], request.args[3]);
    let slot = server.find_as(request, request.args[1], StoredValue::as_hash)?;
    if let Some(slot) = slot
        && field(server.db(request).at(slot).value.as_hash()?, name).is_some()
    {
        return Ok(Reply::Int(0));
    }
    write(server, request, slot, &[(name, value)])?;
    Ok(Reply::Int(1))
}

fn hget(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let value = server
        .read_as(request, request.args[1], StoredValue::as_hash)?
        .and_then(|fields| field(fields, request.args[2]));
    Ok(value.map_or(Reply::Nil, |value| Reply::Bulk(value.clone())))
}

fn hmget(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let fields = server.read_as(request, request.args[1], StoredValue::as_hash)?;
    let one = |name: &&[u8]| {
        let value = fields.and_then(|fields| field(fields, name));
        value.map_or(Reply::Nil, |value| Reply::Bulk(value.clone()))
    };
    Ok(Reply::Array(request.args[2..].iter().map(one).collect()))
}

fn hgetall(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let fields = server
        .read_as(request, request.args[1], StoredValue::as_hash)?
        .map_or(&[][..], Vec::as_slice);
    let flat = fields.iter().flat_map(|(name, value)| [name.clone(), value.clone()]);
    Ok(Reply::Map(flat.map(Reply::Bulk).collect()))
}

fn hkeys(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let fields = server
        .read_as(request, request.args[1], StoredValue::as_hash)?
        .map_or(&[][..], Vec::as_slice);
    Ok(Reply::Array(fields.iter().map(|(name, _)| Reply::Bulk(name.clone())).collect()))
}

fn hvals(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let fields = server
        .read_as(request, request.args[1], StoredValue::as_hash)?
        .map_or(&[][..], Vec::as_slice);
    Ok(Reply::Array(fields.iter().map(|(_, value)| Reply::Bulk(value.clone())).collect()))
}

fn hdel(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let Some(slot) = server.find_as(request, request.args[1], StoredValue::as_hash)? else {
        return Ok(Reply::Int(0));
    };
    let fields = server.value_mut(request, slot).as_hash_mut()?;
    let before = fields.len();
    fields.retain(|(field, _)| !request.args[2..].contains(&&field[..]));
    let deleted = before - fields.len();
    if deleted > 0 {
        server.elements_removed(request, slot);
    }
    Ok(Reply::count(deleted))
}

fn hexists(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let there = server
        .read_as(request, request.args[1], StoredValue::as_hash)?
        .and_then(|fields| field(fields, request.args[2]));
    Ok(Reply::Int(i64::from(there.is_some())))
}

fn hlen(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::count(
        server.read_as(request, request.args[1], StoredValue::as_hash)?.map_or(0, Vec::len),
    ))
}

fn hstrlen(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let fields = server.read_as(request, request.args[1], StoredValue::as_hash)?;
    let value = fields.and_then(|fields| field(fields, request.args[2]));
    Ok(Reply::count(value.map_or(0, |value| value.len())))
}

fn hincrby(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let delta = decimal(request.args[3]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let slot = server.find_as(request, request.args[1], StoredValue::as_hash)?;
    let before = match slot {
        Some(slot) => field(server.db(request).at(slot).value.as_hash()?, request.args[2]),
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
