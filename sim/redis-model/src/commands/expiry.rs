//! EXPIRE and its relatives, TTL and its relatives, PERSIST.
//!
//! Invariant: a time that has already passed deletes the key at once, as an EXPIRE of 0 does.

use resp::{ErrorReply, Reply, decimal, is_word, until_nul};

use super::expire_option::invalid_expire_time;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag};

const WRITE: u32 = flag::WRITE | flag::FAST;
const READ: u32 = flag::READONLY | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    CommandSpec::keyed("expire", -3, WRITE, expire).group("keyspace"),
    CommandSpec::keyed("pexpire", -3, WRITE, pexpire).group("keyspace"),
    CommandSpec::keyed("expireat", -3, WRITE, expireat).group("keyspace"),
    CommandSpec::keyed("pexpireat", -3, WRITE, pexpireat).group("keyspace"),
    CommandSpec::keyed("ttl", 2, READ, ttl).group("keyspace"),
    CommandSpec::keyed("pttl", 2, READ, pttl).group("keyspace"),
    CommandSpec::keyed("expiretime", 2, READ, expiretime).group("keyspace"),
    CommandSpec::keyed("pexpiretime", 2, READ, pexpiretime).group("keyspace"),
    CommandSpec::keyed("persist", 2, WRITE, persist).group("keyspace"),
];

fn expire(server: &mut Server, request: &Request<'_>) -> CommandResult {
    expire_at(server, request, request.now_ms(), 1000, "expire")
}

fn pexpire(server: &mut Server, request: &Request<'_>) -> CommandResult {
    expire_at(server, request, request.now_ms(), 1, "pexpire")
}

fn expireat(server: &mut Server, request: &Request<'_>) -> CommandResult {
    expire_at(server, request, 0, 1000, "expireat")
}

fn pexpireat(server: &mut Server, request: &Request<'_>) -> CommandResult {
    expire_at(server, request, 0, 1, "pexpireat")
}

/// Under which condition an expiry is set.
#[derive(Clone, Copy, Default)]
struct Condition {
    none_before: bool,
    some_before: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    fn parse(args: &[&[u8]]) -> Result<Self, ErrorReply> {
        let mut condition = Self::default();
        for arg in args {
            match () {
                () if is_word(arg, "NX") => condition.none_before = true,
                () if is_word(arg, "XX") => condition.some_before = true,
                () if is_word(arg, "GT") => condition.later = true,
                () if is_word(arg, "LT") => condition.earlier = true,
                () => {
                    return Err(ErrorReply::of(
                        [b"ERR Unsupported option ", until_nul(arg)].concat(),
                    ));
                }
            }
        }
        if condition.none_before && (condition.some_before || condition.later || condition.earlier)
        {
            return Err(ErrorReply::new(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if condition.later && condition.earlier {
            return Err(ErrorReply::new(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(condition)
    }

    /// A key without expiry counts as one that expires after all others.
    fn holds(self, before: Option<i64>, when: i64) -> bool {
        (!self.none_before || before.is_none())
            && (!self.some_before || before.is_some())
            && (!self.later || before.is_some_and(|before| when > before))
            && (!self.earlier || before.is_none_or(|before| when < before))
    }
}

fn expire_at(
    server: &mut Server,
    request: &Request<'_>,
    base_ms: i64,
    unit_ms: i64,
    command: &str,
) -> CommandResult {
    let condition = Condition::parse(&request.args[3..])?;
    let value = decimal(request.args[2]).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let when = value
        .checked_mul(unit_ms)
        .and_then(|span_ms| span_ms.checked_add(base_ms))
        .ok_or_else(|| invalid_expire_time(command))?;
    let Some(slot) = server.find(request, request.args[1]) else { return Ok(Reply::Int(0)) };
    if !condition.holds(server.db(request).at(slot).expires_at_ms, when) {
        return Ok(Reply::Int(0));
    }
    if when <= request.now_ms() && !server.applying {
        server.remove(request, slot);
        server.propagate(request, &[b"DEL", request.args[1]]);
    } else {
        server.set_expiry(request, slot, Some(when));
        server.propagate_expiry(request, request.args[1], when, &request.args[3..]);
    }
    Ok(Reply::Int(1))
}

fn ttl(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::Int(remaining(server, request, request.now_ms(), 1000)))
}

fn pttl(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::Int(remaining(server, request, request.now_ms(), 1)))
}

fn expiretime(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::Int(remaining(server, request, 0, 1000)))
}

fn pexpiretime(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::Int(remaining(server, request, 0, 1)))
}

/// -2: no key, -1: no expiry.
fn remaining(server: &mut Server, request: &Request<'_>, since_ms: i64, unit_ms: i64) -> i64 {
    match server.read(request, request.args[1]).map(|entry| entry.expires_at_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(when)) => {
            let ms = when.saturating_sub(since_ms).max(0);
            // Redis rounds to the nearest second.
            if unit_ms == 1 { ms } else { ms.saturating_add(unit_ms / 2) / unit_ms }
        }
    }
}

fn persist(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let Some(slot) = server.find(request, request.args[1]) else { return Ok(Reply::Int(0)) };
    if server.db(request).at(slot).expires_at_ms.is_none() {
        return Ok(Reply::Int(0));
    }
    server.set_expiry(request, slot, None);
    Ok(Reply::Int(1))
}
