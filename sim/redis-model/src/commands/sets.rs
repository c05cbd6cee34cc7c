//! Sets, member by member: SADD, SREM, SISMEMBER, SMISMEMBER, SMEMBERS, SCARD, SPOP, SMOVE.
//!
//! Invariant: members are answered in the order of their bytes, and SPOP takes the first of them: Redis
//! promises no order, so any is right and one is replayable. Operations on several sets are in
//! `algebra`.

use std::collections::BTreeSet;

use resp::{Blob, ErrorReply, Reply, blob, decimal};

use crate::server::{CommandResult, CommandSpec, Expiry, Request, Server, flag};
use crate::value::StoredValue;

const READ: u32 = flag::READONLY;
const WRITE: u32 = flag::WRITE | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    CommandSpec::keyed("sadd", -3, WRITE | flag::DENYOOM, sadd).group("set"),
    CommandSpec::keyed("srem", -3, WRITE, srem).group("set"),
    CommandSpec::keyed("sismember", 3, READ | flag::FAST, sismember).group("set"),
    CommandSpec::keyed("smismember", -3, READ | flag::FAST, smismember).group("set"),
    CommandSpec::keyed("smembers", 2, READ, smembers).group("set"),
    CommandSpec::keyed("scard", 2, READ | flag::FAST, scard).group("set"),
    CommandSpec::keyed("spop", -2, WRITE, spop).group("set"),
    CommandSpec::new("smove", 4, WRITE, smove).keys(1, 2, 1).group("set"),
];

type SetMembers = BTreeSet<Blob>;

fn sadd(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let Some(slot) = server.find_as(request, request.args[1], StoredValue::as_set)? else {
        let set: SetMembers = request.args[2..].iter().map(|member| blob(member)).collect();
        let added = set.len();
        server.put_at(request, None, request.args[1], StoredValue::Set(set), Expiry::Never);
        return Ok(Reply::count(added));
    };
    let set = server.value_mut(request, slot).as_set_mut()?;
    let before = set.len();
    set.extend(request.args[2..].iter().map(|member| blob(member)));
    let added = set.len() - before;
    if added > 0 {
        server.changed(request, slot);
    }
    Ok(Reply::count(added))
}

fn srem(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let Some(slot) = server.find_as(request, request.args[1], StoredValue::as_set)? else {
        return Ok(Reply::Int(0));
    };
    let set = server.value_mut(request, slot).as_set_mut()?;
    let removed = request.args[2..].iter().filter(|member| set.remove(**member)).count();
    if removed > 0 {
        server.elements_removed(request, slot);
    }
    Ok(Reply::count(removed))
}

fn sismember(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let there = server
        .read_as(request, request.args[1], StoredValue::as_set)?
        .is_some_and(|set| set.contains(request.args[2]));
    Ok(Reply::Int(i64::from(there)))
}

fn smismember(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let set = server.read_as(request, request.args[1], StoredValue::as_set)?;
    let one = |member: &&[u8]| Reply::Int(i64::from(set.is_some_and(|set| set.contains(*member))));
    Ok(Reply::Array(request.args[2..].iter().map(one).collect()))
}

fn smembers(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let set = server.read_as(request, request.args[1], StoredValue::as_set)?;
    Ok(Reply::Set(set.into_iter().flatten().cloned().map(Reply::Bulk).collect()))
}

fn scard(server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::count(
        server.read_as(request, request.args[1], StoredValue::as_set)?.map_or(0, BTreeSet::len),
    ))
}

fn spop(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let key = request.args[1];
    let count = match request.args {
        [_, _] => None,
        [_, _, count] => {
            let count = decimal(count).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(ErrorReply::new("ERR value is out of range, must be positive"))?)
        }
        _ => return Err(ErrorReply::SYNTAX),
    };
    let Some(slot) = server.find_as(request, request.args[1], StoredValue::as_set)? else {
        return Ok(count.map_or(Reply::Nil, |_| Reply::Set(Vec::new())));
    };
    let set = server.value_mut(request, slot).as_set_mut()?;
    let wanted = count.unwrap_or(1).min(set.len());
    // Redis takes all members by way of a command that reads them.
    let reads = u64::from(count.is_some() && wanted == set.len());
    let popped: Vec<Blob> = (0..wanted).filter_map(|_| set.pop_first()).collect();
    server.stats.hits += reads;
    if wanted > 0 {
        server.elements_removed(request, slot);
    }
    if count.is_some() && server.find(request, key).is_none() {
        server.propagate(request, &[b"DEL", key]);
    } else if wanted > 0 {
        let mut args = vec![&b"SREM"[..], key];
        args.extend(popped.iter().map(|member| &member[..]));
        server.propagate(request, &args);
    }
    let mut popped = popped.into_iter().map(Reply::Bulk);
    Ok(match count {
        None => popped.next().unwrap_or(Reply::Nil),
        Some(_) => Reply::Set(popped.collect()),
    })
}

fn smove(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (from, to, member) = (request.args[1], request.args[2], request.args[3]);
    let (source, target) = (server.find(request, from), server.find(request, to));
    let Some(source) = source else { return Ok(Reply::Int(0)) };
    let there = server.db(request).at(source).value.as_set()?.contains(member);
    target.map_or(Ok(()), |slot| server.db(request).at(slot).value.as_set().map(|_| ()))?;
    if !there || target == Some(source) {
        return Ok(Reply::Int(i64::from(there)));
    }
    server.event = "srem";
    server.value_mut(request, source).as_set_mut()?.remove(member);
    server.elements_removed(request, source);
    server.event = "sadd";
    match target {
        None => {
            let set = StoredValue::Set(SetMembers::from([blob(member)]));
            server.put_at(request, None, to, set, Expiry::Never);
        }
        Some(target) => {
            if server.value_mut(request, target).as_set_mut()?.insert(blob(member)) {
                server.changed(request, target);
            }
        }
    }
    Ok(Reply::Int(1))
}
