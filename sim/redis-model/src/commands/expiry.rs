//! EXPIRE and its relatives, TTL and its relatives, PERSIST.
//!
//! Invariant: a time that has already passed deletes the key at once, as an EXPIRE of 0 does.

use resp::{ErrorReply, Reply, is_word, until_nul};

use super::arguments::number;
use super::expire_option::invalid_expire_time;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};

const WRITE: u32 = flag::WRITE | flag::FAST;
const READ: u32 = flag::READONLY | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::KEYSPACE.keyed("expire", -3, WRITE, |s, r| expire_at(s, r, r.now_ms(), 1000)),
    group::KEYSPACE.keyed("pexpire", -3, WRITE, |s, r| expire_at(s, r, r.now_ms(), 1)),
    group::KEYSPACE.keyed("expireat", -3, WRITE, |s, r| expire_at(s, r, 0, 1000)),
    group::KEYSPACE.keyed("pexpireat", -3, WRITE, |s, r| expire_at(s, r, 0, 1)),
    group::KEYSPACE.keyed("ttl", 2, READ, |s, r| remaining(s, r, r.now_ms(), 1000)),
    group::KEYSPACE.keyed("pttl", 2, READ, |s, r| remaining(s, r, r.now_ms(), 1)),
    group::KEYSPACE.keyed("expiretime", 2, READ, |s, r| remaining(s, r, 0, 1000)),
    group::KEYSPACE.keyed("pexpiretime", 2, READ, |s, r| remaining(s, r, 0, 1)),
    group::KEYSPACE.keyed("persist", 2, WRITE, persist),
];

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
            match arg {
                arg if is_word(arg, "NX") => condition.none_before = true,
                arg if is_word(arg, "XX") => condition.some_before = true,
                arg if is_word(arg, "GT") => condition.later = true,
                arg if is_word(arg, "LT") => condition.earlier = true,
                arg => {
                    let text = [b"ERR Unsupported option ", until_nul(arg)].concat();
                    return Err(ErrorReply::of(text));
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
) -> CommandResult {
    let condition = Condition::parse(&request.args[3..])?;
    let value = number(request.args[2])?;
    let when = value
        .checked_mul(unit_ms)
        .and_then(|span_ms| span_ms.checked_add(base_ms))
        .ok_or_else(|| invalid_expire_time(request))?;
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

/// -2: no key, -1: no expiry.
fn remaining(
    server: &mut Server,
    request: &Request<'_>,
    since_ms: i64,
    unit_ms: i64,
) -> CommandResult {
    let entry = server.read(request, request.args[1]);
    Ok(Reply::Int(match entry.map(|entry| entry.expires_at_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(when)) => {
            let ms = when.saturating_sub(since_ms).max(0);
            // Redis rounds to the nearest second.
            if unit_ms == 1 { ms } else { ms.saturating_add(unit_ms / 2) / unit_ms }
        }
    }))
}

fn persist(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let Some(slot) = server.find(request, request.args[1]) else { return Ok(Reply::Int(0)) };
    if server.db(request).at(slot).expires_at_ms.is_none() {
        return Ok(Reply::Int(0));
    }
    server.set_expiry(request, slot, None);
    Ok(Reply::Int(1))
}
