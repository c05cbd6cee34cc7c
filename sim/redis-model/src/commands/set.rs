//! SET and its older relatives: SETNX, SETEX, PSETEX, GETSET.
//!
//! Invariant: a write takes any expiry away unless KEEPTTL or a new one is given; a refused NX or XX
//! touches nothing.

use resp::{Blob, ErrorReply, Reply, blob, is_word};
use scenarios::topology::Software;

use super::expire_option::{Comparison, ExpireOptions, ExpireUnit, For, expires_at_ms};
use crate::server::notify::event;
use crate::server::{CommandResult, CommandSpec, Expiry, Request, Server, flag, group};
use crate::value::StoredValue;

const WRITE: u32 = flag::WRITE | flag::DENYOOM;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::STRING.keyed("set", -3, WRITE, set),
    group::STRING.keyed("setnx", 3, WRITE | flag::FAST, setnx),
    group::STRING.keyed("setex", 4, WRITE, |s, r| set_for(s, r, ExpireUnit::EX)),
    group::STRING.keyed("psetex", 4, WRITE, |s, r| set_for(s, r, ExpireUnit::PX)),
    group::STRING.keyed("getset", 3, WRITE | flag::FAST, getset),
];

fn set(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (key, value) = (request.args[1], request.args[2]);
    let software = server.options.software;
    let options = ExpireOptions::parse(&request.args[3..], For::Set(software))?;
    let when = options.when(request)?;
    let before = if options.get { Some(get(server, request, key)?) } else { None };
    let slot = server.find(request, key);
    if software == Software::Redis84 && options.compared.is_some() && slot.is_some() {
        // There, comparing is reading.
        server.stats.hits += 1;
    }
    let refused = match slot {
        Some(slot) => {
            let holds = |wanted: Comparison<'_>| match &server.db(request).at(slot).value {
                StoredValue::Str(held) => Ok(wanted.holds(held)),
                _ => Err(ErrorReply::WRONG_TYPE),
            };
            options.only_if_absent || !options.compared.map_or(Ok(true), holds)?
        }
        None => options.only_if_present || options.compared.is_some_and(|it| it.equal),
    };
    if refused {
        return Ok(before.unwrap_or(Reply::Nil));
    }
    let expiry = match when {
        Some(when) => Expiry::At(when),
        None if options.keep_ttl => Expiry::Keep,
        None => Expiry::Never,
    };
    server.put_at(request, slot, key, StoredValue::Str(blob(value)), expiry);
    if when.is_some() {
        server.notify(server.db_number(request), key, event::GENERIC, "expire");
    }
    // Later servers propagate a SET with PXAT unchanged, because it has a point in time already.
    let as_it_came =
        software != Software::Redis70 && matches!(options.expiry, Some((ExpireUnit::PXAT, _)));
    if let Some(when) = when {
        if !as_it_came {
            server.propagate_set(request, key, value, when);
        }
    } else if options.get {
        let rest = request.args[3..].iter().filter(|arg| !is_word(arg, "GET"));
        let args: Vec<&[u8]> = request.args[..3].iter().chain(rest).copied().collect();
        server.propagate(request, &args);
    }
    Ok(before.unwrap_or(Reply::Ok))
}

fn setnx(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (key, value) = (request.args[1], request.args[2]);
    if server.find(request, key).is_some() {
        return Ok(Reply::Int(0));
    }
    server.put_at(request, None, key, StoredValue::Str(blob(value)), Expiry::Never);
    Ok(Reply::Int(1))
}

fn set_for(server: &mut Server, request: &Request<'_>, unit: ExpireUnit) -> CommandResult {
    let when = expires_at_ms(unit, request.args[2], request)?;
    let value = StoredValue::Str(blob(request.args[3]));
    server.put(request, request.args[1], value, Expiry::At(when));
    server.notify(server.db_number(request), request.args[1], event::GENERIC, "expire");
    server.propagate_set(request, request.args[1], request.args[3], when);
    Ok(Reply::Ok)
}

fn getset(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (key, value) = (request.args[1], request.args[2]);
    let before = get(server, request, key)?;
    server.put(request, key, StoredValue::Str(blob(value)), Expiry::Never);
    server.propagate(request, &[b"SET", key, value]);
    Ok(before)
}

/// What GET answers.
pub(super) fn get(server: &mut Server, request: &Request<'_>, key: &[u8]) -> CommandResult {
    let value = server.read_as::<Blob>(request, key)?;
    Ok(Reply::bulk_or_nil(value))
}
