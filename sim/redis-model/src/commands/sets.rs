//! Sets, member by member: SADD, SREM, SISMEMBER, SMISMEMBER, SMEMBERS, SCARD, SPOP, SMOVE.
//!
//! Invariant: members are answered in the order of their bytes, and SPOP takes the first of them: Redis
//! promises no order, so any is right and one is replayable. Operations on several sets are in
//! `algebra`.

use resp::{Blob, Reply, blob};

use super::arguments::optional_count;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};
use crate::value::SetMembers;

const READ: u32 = flag::READONLY;
const WRITE: u32 = flag::WRITE | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::SET.keyed("sadd", -3, WRITE | flag::DENYOOM, sadd),
    group::SET.keyed("srem", -3, WRITE, srem),
    group::SET.keyed("sismember", 3, READ | flag::FAST, sismember),
    group::SET.keyed("smismember", -3, READ | flag::FAST, smismember),
    group::SET.keyed("smembers", 2, READ, smembers),
    group::SET.keyed("scard", 2, READ | flag::FAST, scard),
    group::SET.keyed("spop", -2, WRITE, spop),
    group::SET.command("smove", 4, WRITE, smove).keys(1, 2, 1),
];

fn sadd(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let slot = server.find_as::<SetMembers>(request, request.args[1])?;
    server.edit(request, request.args[1], slot, |set: &mut SetMembers| {
        let before = set.len();
        set.extend(request.args[2..].iter().map(|member| blob(member)));
        let added = set.len() - before;
        Ok((Reply::count(added), added > 0))
    })
}

fn srem(server: &mut Server, request: &Request<'_>) -> CommandResult {
    server.take_out(request, |set: &mut SetMembers| {
        request.args[2..].iter().filter(|member| set.remove(**member)).count()
    })
}

fn sismember(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let set = server.read_as::<SetMembers>(request, request.args[1])?;
    Ok(Reply::Int(i64::from(set.is_some_and(|set| set.contains(request.args[2])))))
}

fn smismember(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let set = server.read_as::<SetMembers>(request, request.args[1])?;
    let one = |member: &&[u8]| Reply::Int(i64::from(set.is_some_and(|set| set.contains(*member))));
    Ok(Reply::Array(request.args[2..].iter().map(one).collect()))
}

fn smembers(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let set = server.read_as::<SetMembers>(request, request.args[1])?;
    Ok(Reply::Set(set.into_iter().flatten().cloned().map(Reply::Bulk).collect()))
}

fn scard(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let set = server.read_as::<SetMembers>(request, request.args[1])?;
    Ok(Reply::count(set.map_or(0, SetMembers::len)))
}

fn spop(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let key = request.args[1];
    let count = optional_count(request)?;
    let Some(slot) = server.find_as::<SetMembers>(request, key)? else {
        return Ok(count.map_or(Reply::Nil, |_| Reply::Set(Vec::new())));
    };
    let set = server.value_mut::<SetMembers>(request, slot)?;
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
    let there = server.value::<SetMembers>(request, source)?.contains(member);
    target.map(|slot| server.value::<SetMembers>(request, slot)).transpose()?;
    if !there || target == Some(source) {
        return Ok(Reply::Int(i64::from(there)));
    }
    server.event = "srem";
    server.value_mut::<SetMembers>(request, source)?.remove(member);
    server.elements_removed(request, source);
    server.event = "sadd";
    server.edit(request, to, target, |set: &mut SetMembers| Ok(((), set.insert(blob(member)))))?;
    Ok(Reply::Int(1))
}
