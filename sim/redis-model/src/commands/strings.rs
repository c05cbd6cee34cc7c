//! Byte strings: GET, GETDEL, GETEX, MGET, MSET, MSETNX, STRLEN, APPEND, GETRANGE, SUBSTR, SETRANGE, and
//! INCR, DECR, INCRBY, DECRBY.
//!
//! Invariant: APPEND, SETRANGE and counters change a value in place and leave its expiry; a failed addition
//! changes nothing. Not modelled: INCRBYFLOAT, whose sums are those of 80 bits.

use resp::{Blob, ErrorReply, Reply, blob, decimal, integer};

use super::arguments::{number, range};
use super::expire_option::{ExpireOptions, For};
use super::set::get as get_value;
use crate::server::{CommandResult, CommandSpec, Expiry, Request, Server, flag, group};
use crate::value::StoredValue;

const READ: u32 = flag::READONLY | flag::FAST;
const WRITE: u32 = flag::WRITE | flag::DENYOOM;
const QUICK: u32 = WRITE | flag::FAST;

/// `proto-max-bulk-len`.
const STRING_MAX_BYTES: usize = 512 * 1024 * 1024;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::STRING.keyed("get", 2, READ, |s, r| get_value(s, r, r.args[1])),
    group::STRING.keyed("getdel", 2, flag::WRITE | flag::FAST, getdel),
    group::STRING.keyed("getex", -2, flag::WRITE | flag::FAST, getex),
    group::STRING.command("mget", -2, READ, mget).keys(1, -1, 1),
    group::STRING
        .command("mset", -3, WRITE, |s, r| set_all(s, r).map(|()| Reply::Ok))
        .keys(1, -1, 2),
    group::STRING.command("msetnx", -3, WRITE, msetnx).keys(1, -1, 2),
    group::STRING.keyed("strlen", 2, READ, strlen),
    group::STRING.keyed("getrange", 4, flag::READONLY, getrange),
    group::STRING.keyed("substr", 4, flag::READONLY, getrange),
    group::STRING.keyed("setrange", 4, WRITE, setrange),
    group::STRING.keyed("append", 3, QUICK, append),
    group::STRING.keyed("incr", 2, QUICK, |s, r| add(s, r, 1)),
    group::STRING.keyed("decr", 2, QUICK, |s, r| add(s, r, -1)),
    group::STRING.keyed("incrby", 3, QUICK, |s, r| add(s, r, number(r.args[2])?)),
    group::STRING.keyed("decrby", 3, QUICK, decrby),
];

fn getdel(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let value = get_value(server, request, request.args[1])?;
    if let Some(slot) = server.find(request, request.args[1]) {
        server.remove(request, slot);
        server.propagate(request, &[b"DEL", request.args[1]]);
    }
    Ok(value)
}

fn getex(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let options = ExpireOptions::parse(&request.args[2..], For::GetEx)?;
    let Some(entry) = server.read(request, request.args[1]) else { return Ok(Reply::Nil) };
    let value = Reply::Bulk(entry.value.get::<Blob>()?.clone());
    let expiring = entry.expires_at_ms.is_some();
    let when = options.when(request)?;
    let Some(slot) = server.find(request, request.args[1]) else { return Ok(value) };
    let absolute = options.expiry.is_some_and(|(unit, _)| unit.is_absolute);
    match when {
        Some(when) if absolute && when <= request.now_ms() && !server.applying => {
            server.remove(request, slot);
            server.propagate(request, &[b"DEL", request.args[1]]);
        }
        Some(when) => {
            server.set_expiry(request, slot, Some(when));
            server.propagate_expiry(request, request.args[1], when, &[]);
        }
        None if options.persist && expiring => {
            server.set_expiry(request, slot, None);
            server.propagate(request, &[b"PERSIST", request.args[1]]);
        }
        None => {}
    }
    Ok(value)
}

fn mget(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let values = request.args[1..].iter().map(|key| {
        let entry = server.read(request, key)?;
        // A key of another type reads as absent here, unlike in GET.
        entry.value.get::<Blob>().ok().cloned()
    });
    Ok(Reply::Array(values.map(|value| value.map_or(Reply::Nil, Reply::Bulk)).collect()))
}

fn msetnx(server: &mut Server, request: &Request<'_>) -> CommandResult {
    if request.args.len().is_multiple_of(2) {
        return Err(ErrorReply::arity(&request.name()));
    }
    let keys = request.args[1..].iter().step_by(2);
    if keys.into_iter().any(|key| server.find(request, key).is_some()) {
        return Ok(Reply::Int(0));
    }
    set_all(server, request)?;
    Ok(Reply::Int(1))
}

fn set_all(server: &mut Server, request: &Request<'_>) -> Result<(), ErrorReply> {
    if request.args.len().is_multiple_of(2) {
        return Err(ErrorReply::arity(&request.name()));
    }
    for pair in request.args[1..].chunks_exact(2) {
        server.put(request, pair[0], StoredValue::Str(blob(pair[1])), Expiry::Never);
    }
    Ok(())
}

fn strlen(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let value = server.read_as::<Blob>(request, request.args[1])?;
    Ok(Reply::count(value.map_or(0, |value| value.len())))
}

const TOO_LONG: ErrorReply =
    ErrorReply::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

/// Changes a string in place, or an empty one that becomes the key's value.
pub(super) fn edit<T>(
    server: &mut Server,
    request: &Request<'_>,
    slot: Option<u32>,
    change: impl FnOnce(&mut Blob) -> T,
) -> Result<T, ErrorReply> {
    server.edit(request, request.args[1], slot, |value| Ok((change(value), true)))
}

fn append(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (slot, before) = measured(server, request)?;
    if slot.is_some() && before + request.args[2].len() > STRING_MAX_BYTES {
        return Err(TOO_LONG);
    }
    edit(server, request, slot, |value| {
        value.extend_from_slice(request.args[2]);
        Reply::count(value.len())
    })
}

/// The slot of the string, and how long it is.
fn measured(
    server: &mut Server,
    request: &Request<'_>,
) -> Result<(Option<u32>, usize), ErrorReply> {
    let slot = server.find_as::<Blob>(request, request.args[1])?;
    let value = slot.map(|slot| server.value::<Blob>(request, slot)).transpose()?;
    Ok((slot, value.map_or(0, |value| value.len())))
}

fn getrange(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (start, end) = (number(request.args[2])?, number(request.args[3])?);
    let value = server.read_as::<Blob>(request, request.args[1])?;
    let value = value.map_or(&[][..], |value| &value[..]);
    Ok(Reply::bulk(&value[span(start, end, value.len())]))
}

/// The places from one to another, both counted from the left, or from the right where negative.
pub(super) fn span(start: i64, end: i64, len: usize) -> std::ops::Range<usize> {
    // Two places from the right in the wrong order are nothing, even where both lie before the value.
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    clamped(start, end, len)
}

/// The same, where an end that lies before the value is its beginning.
pub(super) fn clamped(start: i64, end: i64, len: usize) -> std::ops::Range<usize> {
    let signed = i64::try_from(len).unwrap_or(i64::MAX);
    let from_left = |place: i64| if place < 0 { (place + signed).max(0) } else { place };
    range(from_left(start), from_left(end), len)
}

fn setrange(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let part = request.args[3];
    let offset = number(request.args[2])?;
    let offset =
        usize::try_from(offset).map_err(|_| ErrorReply::new("ERR offset is out of range"))?;
    let (slot, before) = measured(server, request)?;
    if part.is_empty() {
        return Ok(Reply::count(before));
    }
    let end = offset.saturating_add(part.len());
    if end > STRING_MAX_BYTES {
        return Err(TOO_LONG);
    }
    edit(server, request, slot, |value| {
        value.resize(value.len().max(end), 0);
        value[offset..end].copy_from_slice(part);
        Reply::count(value.len())
    })
}

fn decrby(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let delta = number(request.args[2])?;
    let delta = delta.checked_neg().ok_or(ErrorReply::new("ERR decrement would overflow"))?;
    add(server, request, delta)
}

fn add(server: &mut Server, request: &Request<'_>, delta: i64) -> CommandResult {
    let key = request.args[1];
    let Some(slot) = server.find(request, key) else {
        server.put_at(request, None, key, StoredValue::Str(integer(delta)), Expiry::Never);
        return Ok(Reply::Int(delta));
    };
    let value = server.value_mut::<Blob>(request, slot)?;
    let before = decimal(value).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let after = before
        .checked_add(delta)
        .ok_or(ErrorReply::new("ERR increment or decrement would overflow"))?;
    *value = integer(after);
    server.changed(request, slot);
    Ok(Reply::Int(after))
}
