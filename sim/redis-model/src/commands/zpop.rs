//! ZPOPMIN and ZPOPMAX.
//!
//! Invariant: members go in the order of their scores, the lowest or the highest first. ZMPOP is in
//! `blocking`.

use resp::{Blob, ErrorReply, ProtocolVersion, Reply, decimal};

use super::zrange::{listed, take_out};
use crate::server::blocking::ListEnd;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag};
use crate::value::StoredValue;

const FLAGS: u32 = flag::WRITE | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    CommandSpec::keyed("zpopmin", -2, FLAGS, |s, r| pop(s, r, ListEnd::Left)).group("sortedset"),
    CommandSpec::keyed("zpopmax", -2, FLAGS, |s, r| pop(s, r, ListEnd::Right)).group("sortedset"),
];

fn pop(server: &mut Server, request: &Request<'_>, from: ListEnd) -> CommandResult {
    let count = match request.args {
        [_, _] => None,
        [_, _, count] => {
            let count = decimal(count).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(ErrorReply::new("ERR value is out of range, must be positive"))?)
        }
        _ => return Err(ErrorReply::SYNTAX),
    };
    let slot = server.find_as(request, request.args[1], StoredValue::as_scored)?;
    let Some(slot) = slot else { return Ok(Reply::Array(Vec::new())) };
    let popped = pop_scored_at(server, request, slot, from, count.unwrap_or(1))?;
    let nested = server.session(request).protocol == ProtocolVersion::Resp3 && count.is_some();
    Ok(listed(popped, true, nested))
}

/// Takes so many members from an end of the sorted set at a slot.
pub(super) fn pop_scored_at(
    server: &mut Server,
    request: &Request<'_>,
    slot: u32,
    from: ListEnd,
    count: usize,
) -> Result<Vec<(f64, Blob)>, ErrorReply> {
    server.event = if from == ListEnd::Left { "zpopmin" } else { "zpopmax" };
    let mut popped = take_out(server, request, slot, |set| match from {
        ListEnd::Left => 0..count.min(set.len()),
        ListEnd::Right => set.len() - count.min(set.len())..set.len(),
    })?;
    if from == ListEnd::Right {
        popped.reverse();
    }
    Ok(popped)
}
