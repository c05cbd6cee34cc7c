//! Lists: LPUSH, RPUSH, LPUSHX, RPUSHX, LPOP, RPOP, LLEN, LINDEX, LRANGE, LREM, LTRIM, LSET, LINSERT,
//! LMOVE, RPOPLPUSH, LPOS.
//!
//! Invariant: a list that has lost its last element is no key any more. Blocking forms are
//! in `blocking`.

use resp::{Blob, ErrorReply, Reply, blob, is_word};

use super::arguments::{number, positive, range};
use crate::server::blocking::ListEnd;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};
use crate::value::Elements;

const READ: u32 = flag::READONLY;
const WRITE: u32 = flag::WRITE | flag::DENYOOM;
const TAKE: u32 = flag::WRITE | flag::FAST;
const QUICK: u32 = WRITE | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::LIST.keyed("lpush", -3, QUICK, |s, r| push(s, r, ListEnd::Left, false)),
    group::LIST.keyed("rpush", -3, QUICK, |s, r| push(s, r, ListEnd::Right, false)),
    group::LIST.keyed("lpushx", -3, QUICK, |s, r| push(s, r, ListEnd::Left, true)),
    group::LIST.keyed("rpushx", -3, QUICK, |s, r| push(s, r, ListEnd::Right, true)),
    group::LIST.keyed("lpop", -2, TAKE, |s, r| pop(s, r, ListEnd::Left)),
    group::LIST.keyed("rpop", -2, TAKE, |s, r| pop(s, r, ListEnd::Right)),
    group::LIST.keyed("llen", 2, READ | flag::FAST, llen),
    group::LIST.keyed("lindex", 3, READ, lindex),
    group::LIST.keyed("lrange", 4, READ, lrange),
    group::LIST.keyed("lrem", 4, flag::WRITE, lrem),
    group::LIST.keyed("ltrim", 4, flag::WRITE, ltrim),
    group::LIST.keyed("lset", 4, WRITE, lset),
    group::LIST.keyed("linsert", 5, WRITE, linsert),
    group::LIST.command("lmove", 5, WRITE, lmove).keys(1, 2, 1),
    group::LIST.keyed("lpos", -3, READ, lpos),
    group::LIST
        .command("rpoplpush", 3, WRITE, |s, r| {
            move_element(s, r, r.args[1], r.args[2], ListEnd::Right, ListEnd::Left)
        })
        .keys(1, 2, 1),
];

fn add(list: &mut Elements, element: Blob, end: ListEnd) {
    match end {
        ListEnd::Left => list.push_front(element),
        ListEnd::Right => list.push_back(element),
    }
}

fn push(
    server: &mut Server,
    request: &Request<'_>,
    end: ListEnd,
    only_if_there: bool,
) -> CommandResult {
    let key = request.args[1];
    let slot = server.find_as::<Elements>(request, key)?;
    if slot.is_none() && only_if_there {
        return Ok(Reply::Int(0));
    }
    server.edit(request, key, slot, |list: &mut Elements| {
        request.args[2..].iter().for_each(|element| add(list, blob(element), end));
        Ok((Reply::count(list.len()), true))
    })
}

fn take(list: &mut Elements, end: ListEnd) -> Option<Blob> {
    match end {
        ListEnd::Left => list.pop_front(),
        ListEnd::Right => list.pop_back(),
    }
}

/// Takes this many elements from an end of the list at a slot.
pub(super) fn pop_at(
    server: &mut Server,
    request: &Request<'_>,
    slot: u32,
    end: ListEnd,
    count: usize,
) -> Result<Vec<Reply>, ErrorReply> {
    server.event = if end == ListEnd::Left { "lpop" } else { "rpop" };
    let list = server.value_mut::<Elements>(request, slot)?;
    let count = count.min(list.len());
    let taken = (0..count).filter_map(|_| take(list, end)).map(Reply::Bulk).collect();
    server.elements_removed(request, slot);
    Ok(taken)
}

fn pop(server: &mut Server, request: &Request<'_>, end: ListEnd) -> CommandResult {
    let count = match request.args {
        [_, _] => None,
        [_, _, count] => Some(positive(count)?),
        _ => return Err(ErrorReply::arity(&request.name())),
    };
    let slot = server.find_as::<Elements>(request, request.args[1])?;
    match (slot, count) {
        (None, None) => Ok(Reply::Nil),
        (None, Some(_)) => Ok(Reply::NilArray),
        (Some(_), Some(0)) => Ok(Reply::Array(Vec::new())),
        (Some(slot), Some(count)) => Ok(Reply::Array(pop_at(server, request, slot, end, count)?)),
        (Some(slot), None) => {
            Ok(pop_at(server, request, slot, end, 1)?.pop().unwrap_or(Reply::Nil))
        }
    }
}

fn llen(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let list = server.read_as::<Elements>(request, request.args[1])?;
    Ok(Reply::count(list.map_or(0, Elements::len)))
}

/// A place counted from the left, or from the right where it is negative.
fn place(index: i64, len: usize) -> Option<usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let index = if index < 0 { index.checked_add(len)? } else { index };
    usize::try_from(index).ok().filter(|_| index < len)
}

fn lindex(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let Some(list) = server.read_as::<Elements>(request, request.args[1])? else {
        return Ok(Reply::Nil);
    };
    let element = place(number(request.args[2])?, list.len()).map(|place| &list[place]);
    Ok(element.map_or(Reply::Nil, |element| Reply::Bulk(element.clone())))
}

fn lrange(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (start, stop) = (number(request.args[2])?, number(request.args[3])?);
    let Some(list) = server.read_as::<Elements>(request, request.args[1])? else {
        return Ok(Reply::Array(Vec::new()));
    };
    let range = list.range(range(start, stop, list.len()));
    Ok(Reply::Array(range.cloned().map(Reply::Bulk).collect()))
}

fn lrem(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let count = number(request.args[2])?;
    let most =
        if count == 0 { usize::MAX } else { count.unsigned_abs().try_into().unwrap_or(usize::MAX) };
    server.take_out(request, |list: &mut Elements| {
        let mut removed = 0;
        let mut keep = |element: &Blob| {
            let goes = removed < most && element[..] == *request.args[3];
            removed += usize::from(goes);
            !goes
        };
        if count < 0 {
            let mut kept: Elements = list.drain(..).rev().filter(&mut keep).collect();
            kept.make_contiguous().reverse();
            *list = kept;
        } else {
            list.retain(keep);
        }
        removed
    })
}

fn ltrim(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (start, stop) = (number(request.args[2])?, number(request.args[3])?);
    let Some(slot) = server.find_as::<Elements>(request, request.args[1])? else {
        return Ok(Reply::Ok);
    };
    let list = server.value_mut::<Elements>(request, slot)?;
    let kept = range(start, stop, list.len());
    if kept.len() == list.len() {
        server.rewritten_unchanged(request, slot);
        return Ok(Reply::Ok);
    }
    *list = list.range(kept).cloned().collect();
    server.elements_removed(request, slot);
    Ok(Reply::Ok)
}

fn lset(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let slot = server.find_as::<Elements>(request, request.args[1])?;
    let slot = slot.ok_or(ErrorReply::new("ERR no such key"))?;
    let index = number(request.args[2])?;
    let list = server.value_mut::<Elements>(request, slot)?;
    let place = place(index, list.len()).ok_or(ErrorReply::new("ERR index out of range"))?;
    list[place] = blob(request.args[3]);
    server.changed(request, slot);
    Ok(Reply::Ok)
}

fn linsert(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let after = match request.args[2] {
        word if is_word(word, "AFTER") => 1,
        word if is_word(word, "BEFORE") => 0,
        _ => return Err(ErrorReply::SYNTAX),
    };
    let Some(slot) = server.find_as::<Elements>(request, request.args[1])? else {
        return Ok(Reply::Int(0));
    };
    let list = server.value_mut::<Elements>(request, slot)?;
    let Some(pivot) = list.iter().position(|element| element[..] == *request.args[3]) else {
        return Ok(Reply::Int(-1));
    };
    list.insert(pivot + after, blob(request.args[4]));
    let count = list.len();
    server.changed(request, slot);
    Ok(Reply::count(count))
}

/// `LEFT` or `RIGHT`.
pub(super) fn end(word: &[u8]) -> Result<ListEnd, ErrorReply> {
    match word {
        word if is_word(word, "LEFT") => Ok(ListEnd::Left),
        word if is_word(word, "RIGHT") => Ok(ListEnd::Right),
        _ => Err(ErrorReply::SYNTAX),
    }
}

fn lmove(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (from, to) = (end(request.args[3])?, end(request.args[4])?);
    move_element(server, request, request.args[1], request.args[2], from, to)
}

/// Moves an element from one list to another, or within one.
pub(super) fn move_element(
    server: &mut Server,
    request: &Request<'_>,
    source: &[u8],
    destination: &[u8],
    from: ListEnd,
    to: ListEnd,
) -> CommandResult {
    let Some(slot) = server.find_as::<Elements>(request, source)? else {
        return Ok(Reply::Nil);
    };
    let target = server.find_as::<Elements>(request, destination)?;
    let element = take(server.value_mut::<Elements>(request, slot)?, from);
    let Some(element) = element else { return Ok(Reply::Nil) };
    server.event = if to == ListEnd::Left { "lpush" } else { "rpush" };
    server.edit(request, destination, target, |list: &mut Elements| {
        add(list, element.clone(), to);
        Ok(((), true))
    })?;
    server.event = if from == ListEnd::Left { "lpop" } else { "rpop" };
    match target == Some(slot) {
        true => server.notify_of(server.db_number(request), slot),
        false => server.elements_removed(request, slot),
    }
    Ok(Reply::Bulk(element))
}

fn lpos(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (mut rank, mut count, mut most) = (1_i64, None, 0);
    let mut args = request.args[3..].iter();
    while let Some(word) = args.next() {
        let text = args.next().ok_or(ErrorReply::SYNTAX)?;
        let positive = |why| positive(text).map_err(|_| ErrorReply::new(why));
        match word {
            word if is_word(word, "RANK") => {
                rank = number(text)?;
                if rank == 0 {
                    return Err(ErrorReply::new(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                         second ... or use negative to start from the end of the list",
                    ));
                }
            }
            word if is_word(word, "COUNT") => {
                count = Some(positive("ERR COUNT can't be negative")?);
            }
            word if is_word(word, "MAXLEN") => most = positive("ERR MAXLEN can't be negative")?,
            _ => return Err(ErrorReply::SYNTAX),
        }
    }
    let list = server.read_as::<Elements>(request, request.args[1])?;
    let all = list.into_iter().flatten().enumerate();
    let within = |limit: usize| if limit == 0 { usize::MAX } else { limit };
    // The lowest number has no opposite, and counts as -1.
    let skipped = rank.checked_abs().map_or(0, |rank| rank - 1);
    let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
    let wanted = |(_, element): &(usize, &Blob)| element[..] == *request.args[2];
    let places: Vec<usize> = match rank > 0 {
        true => all.take(within(most)).filter(wanted).map(|(place, _)| place).collect(),
        false => {
            let all: Vec<_> = all.collect();
            let from_right = all.into_iter().rev().take(within(most));
            from_right.filter(wanted).map(|(place, _)| place).collect()
        }
    };
    let mut places = places.into_iter().skip(skipped).map(Reply::count);
    Ok(match count {
        None => places.next().unwrap_or(Reply::Nil),
        Some(count) => Reply::Array(places.take(within(count)).collect()),
    })
}
