//! Commands that wait for an element: BLPOP, BRPOP, BLMOVE, BRPOPLPUSH, BZPOPMIN, BZPOPMAX.
//!
//! Invariant: each is propagated as the command that does not wait, for nobody waits in a stream.
//! Deliberately absent: BLMPOP, BZMPOP, and the waiting itself, which `crate::redis::blocking` has.

use super::lists::{end, move_element, pop_at, slot_of};
use super::table::{Spec, flag};
use super::zpop::pop_scored_at;
use crate::redis::blocking::{Awaited, End, Moving, Take};
use crate::redis::reply::{Answer, Fail, Reply};
use crate::redis::server::{Request, Server};
use crate::redis::strtod::{Read, is_space, strtod};
use crate::redis::text::blob;

const FLAGS: u32 = flag::WRITE | flag::NOSCRIPT | flag::BLOCKING;
const MOVE: u32 = FLAGS | flag::DENYOOM;

pub(crate) const SPECS: &[Spec] = &[
    Spec::new("blpop", -3, FLAGS, |s, r| pop(s, r, Take::Pop(End::Left)))
        .keys(1, -2, 1)
        .group("list blocking"),
    Spec::new("brpop", -3, FLAGS, |s, r| pop(s, r, Take::Pop(End::Right)))
        .keys(1, -2, 1)
        .group("list blocking"),
    Spec::new("blmove", 6, MOVE, blmove).keys(1, 2, 1).group("list blocking"),
    Spec::new("brpoplpush", 4, MOVE, brpoplpush).keys(1, 2, 1).group("list blocking"),
    Spec::new("bzpopmin", -3, FLAGS | flag::FAST, |s, r| pop(s, r, Take::PopScored(End::Left)))
        .keys(1, -2, 1)
        .group("sortedset blocking"),
    Spec::new("bzpopmax", -3, FLAGS | flag::FAST, |s, r| pop(s, r, Take::PopScored(End::Right)))
        .keys(1, -2, 1)
        .group("sortedset blocking"),
];

/// A time-out in seconds, as milliseconds rounded up. Redis calls one that is far too long negative.
fn timeout_ms(text: &[u8]) -> Result<i64, Fail> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let whole = |read: &Read| read.used == text.len() && !is_space(text[0]) && !read.value.is_nan();
    let read = strtod(text).filter(whole);
    let read = read.ok_or(Fail::new("ERR timeout is not a float or out of range"))?;
    // Redis reads a wider type here: what vanishes in a double is a moment still.
    let vanished = read.out_of_range && read.value == 0.0;
    let ms = if vanished { 1.0_f64.copysign(read.value) } else { (read.value * 1000.0).ceil() };
    if !(0.0..LIMIT).contains(&ms) {
        return Err(Fail::new("ERR timeout is negative"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    Ok(ms as i64)
}

fn pop(server: &mut Server, request: &Request<'_>, take: Take) -> Answer {
    let [keys @ .., timeout] = &request.args[1..] else { return Err(Fail::SYNTAX) };
    let timeout_ms = timeout_ms(timeout)?;
    for key in keys {
        if let Some(slot) = server.find(request, key) {
            let value = &server.db(request).at(slot).value;
            match take {
                Take::PopScored(_) => value.as_scored().map(|_| ())?,
                Take::Pop(_) | Take::Move { .. } => value.as_list().map(|_| ())?,
            }
            return self::take(server, request, key, &take);
        }
    }
    if server.may_block(request.session) {
        let keys = keys.iter().map(|key| blob(key)).collect();
        server.block(request, Awaited::Element { keys, take }, timeout_ms);
    }
    Ok(Reply::NilArray)
}

fn blmove(server: &mut Server, request: &Request<'_>) -> Answer {
    let (from, to) = (end(request.args[3])?, end(request.args[4])?);
    let destination = blob(request.args[2]);
    let take = Take::Move { from, to, destination, command: Moving::Lmove };
    move_or_wait(server, request, take, request.args[5])
}

fn brpoplpush(server: &mut Server, request: &Request<'_>) -> Answer {
    let destination = blob(request.args[2]);
    let (from, to) = (End::Right, End::Left);
    let take = Take::Move { from, to, destination, command: Moving::RpopLpush };
    move_or_wait(server, request, take, request.args[3])
}

fn move_or_wait(server: &mut Server, request: &Request<'_>, take: Take, timeout: &[u8]) -> Answer {
    let timeout_ms = timeout_ms(timeout)?;
    let key = request.args[1];
    if slot_of(server, request, key)?.is_some() {
        return self::take(server, request, key, &take);
    }
    if server.may_block(request.session) {
        let keys = vec![blob(key)];
        server.block(request, Awaited::Element { keys, take }, timeout_ms);
    }
    Ok(Reply::Nil)
}

/// Takes an element of a key that is of the right type, as has been asked for.
pub(crate) fn take(server: &mut Server, request: &Request<'_>, key: &[u8], take: &Take) -> Answer {
    match take {
        Take::Pop(from) => {
            let Some(slot) = slot_of(server, request, key)? else { return Ok(Reply::NilArray) };
            let element = pop_at(server, request, slot, *from)?;
            let verb: &[u8] = if *from == End::Left { b"LPOP" } else { b"RPOP" };
            server.propagate(request, &[verb, key]);
            Ok(Reply::Array(vec![Reply::bulk(key), element]))
        }
        Take::Move { from, to, destination, command } => {
            let element = move_element(server, request, key, destination, *from, *to)?;
            let word = |end: End| -> &[u8] { if end == End::Left { b"left" } else { b"right" } };
            // As the client spelt them, while there is its request.
            let (from, to) = match request.args {
                [_, _, _, from, to, _] => (*from, *to),
                _ => (word(*from), word(*to)),
            };
            match command {
                Moving::Lmove => server.propagate(request, &[b"LMOVE", key, destination, from, to]),
                Moving::RpopLpush => server.propagate(request, &[b"RPOPLPUSH", key, destination]),
            }
            Ok(element)
        }
        Take::PopScored(from) => {
            let Some(slot) = server.find(request, key) else { return Ok(Reply::NilArray) };
            let popped = pop_scored_at(server, request, slot, *from, 1)?;
            let verb: &[u8] = if *from == End::Left { b"ZPOPMIN" } else { b"ZPOPMAX" };
            server.propagate(request, &[verb, key]);
            let mut parts = vec![Reply::bulk(key)];
            for (score, member) in popped {
                parts.extend([Reply::Bulk(member), Reply::Double(score)]);
            }
            Ok(Reply::Array(parts))
        }
    }
}
