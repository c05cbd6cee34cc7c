//! Byte strings: GET, GETDEL, GETEX, MGET, MSET, MSETNX, STRLEN, APPEND.
//!
//! Invariant: APPEND changes a value in place and leaves its expiry. Deliberately absent: GETRANGE,
//! SETRANGE, INCRBYFLOAT, LCS and bit operations.

use super::expire_option::{ExpireOptions, For};
use super::set::get as get_value;
use super::table::{Spec, flag};
use crate::redis::reply::{Answer, Fail, Reply};
use crate::redis::server::{Expiry, Request, Server};
use crate::redis::text::blob;
use crate::redis::value::Value;

const READ: u32 = flag::READONLY | flag::FAST;
const WRITE: u32 = flag::WRITE | flag::DENYOOM;

/// `proto-max-bulk-len`.
const STRING_MAX_BYTES: usize = 512 * 1024 * 1024;

pub(crate) const SPECS: &[Spec] = &[
    Spec::keyed("get", 2, READ, get).group("string"),
    Spec::keyed("getdel", 2, flag::WRITE | flag::FAST, getdel).group("string"),
    Spec::keyed("getex", -2, flag::WRITE | flag::FAST, getex).group("string"),
    Spec::new("mget", -2, READ, mget).keys(1, -1, 1).group("string"),
    Spec::new("mset", -3, WRITE, mset).keys(1, -1, 2).group("string"),
    Spec::new("msetnx", -3, WRITE, msetnx).keys(1, -1, 2).group("string"),
    Spec::keyed("strlen", 2, READ, strlen).group("string"),
    Spec::keyed("append", 3, WRITE | flag::FAST, append).group("string"),
];

fn get(server: &mut Server, request: &Request<'_>) -> Answer {
    get_value(server, request, request.args[1])
}

fn getdel(server: &mut Server, request: &Request<'_>) -> Answer {
    let value = get_value(server, request, request.args[1])?;
    if let Some(slot) = server.find(request, request.args[1]) {
        server.remove(request, slot);
        server.propagate(request, &[b"DEL", request.args[1]]);
    }
    Ok(value)
}

fn getex(server: &mut Server, request: &Request<'_>) -> Answer {
    let options = ExpireOptions::parse(&request.args[2..], For::GetEx)?;
    let Some(entry) = server.read(request, request.args[1]) else { return Ok(Reply::Nil) };
    let value = Reply::Bulk(entry.value.as_str()?.clone());
    let expiring = entry.expires_at_ms.is_some();
    let when = options.when(request.now_ms(), "getex")?;
    let Some(slot) = server.find(request, request.args[1]) else { return Ok(value) };
    let absolute = options.expiry.is_some_and(|(unit, _)| unit.is_absolute());
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

fn mget(server: &mut Server, request: &Request<'_>) -> Answer {
    let values = request.args[1..].iter().map(|key| {
        let entry = server.read(request, key)?;
        // A key of another type reads as absent here, unlike in GET.
        entry.value.as_str().ok().cloned()
    });
    Ok(Reply::Array(values.map(|value| value.map_or(Reply::Nil, Reply::Bulk)).collect()))
}

fn mset(server: &mut Server, request: &Request<'_>) -> Answer {
    set_all(server, request, "mset")?;
    Ok(Reply::Ok)
}

fn msetnx(server: &mut Server, request: &Request<'_>) -> Answer {
    if request.args.len().is_multiple_of(2) {
        return Err(Fail::arity("msetnx"));
    }
    let keys = request.args[1..].iter().step_by(2);
    if keys.into_iter().any(|key| server.find(request, key).is_some()) {
        return Ok(Reply::Int(0));
    }
    set_all(server, request, "msetnx")?;
    Ok(Reply::Int(1))
}

fn set_all(server: &mut Server, request: &Request<'_>, command: &str) -> Result<(), Fail> {
    if request.args.len().is_multiple_of(2) {
        return Err(Fail::arity(command));
    }
    for pair in request.args[1..].chunks_exact(2) {
        server.put(request, pair[0], Value::Str(blob(pair[1])), Expiry::Never);
    }
    Ok(())
}

fn strlen(server: &mut Server, request: &Request<'_>) -> Answer {
    let entry = server.read(request, request.args[1]);
    Ok(length(entry.map_or(Ok(0), |entry| entry.value.as_str().map(|value| value.len()))?))
}

fn append(server: &mut Server, request: &Request<'_>) -> Answer {
    let (key, more) = (request.args[1], request.args[2]);
    let Some(slot) = server.find(request, key) else {
        server.put_at(request, None, key, Value::Str(blob(more)), Expiry::Never);
        return Ok(length(more.len()));
    };
    let value = server.value_mut(request, slot).as_str_mut()?;
    if value.len() + more.len() > STRING_MAX_BYTES {
        return Err(Fail::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    value.extend_from_slice(more);
    let length = length(value.len());
    server.changed(request, slot);
    Ok(length)
}

/// A length as an integer reply.
pub(super) fn length(length: usize) -> Reply {
    Reply::Int(i64::try_from(length).unwrap_or(i64::MAX))
}
