//! Commands that wait for an element: BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH, BZPOPMIN, BZPOPMAX, BZMPOP;
//! and LMPOP and ZMPOP, which do the same and do not wait.
//!
//! Invariant: each is propagated as the command that does not wait, because a stream cannot wait.

use resp::{ErrorReply, Reply, Strtod, blob, decimal, is_space, is_word, strtod};

use super::arguments::positive;
use super::lists::{end, move_element, pop_at};
use super::zrange::listed;
use super::zsets::pop_scored_at;
use crate::scored::Scored;
use crate::server::blocking::{Awaited, Blocked, ListEnd, MoveCommand, Take};
use crate::server::{
    CommandGroup, CommandResult, CommandSpec, Handler, Request, Server, flag, group,
};
use crate::value::{Elements, StoredValue};

const WRITE: u32 = flag::WRITE;
/// Scripts may use only the commands that came with 7.0, which do not wait there.
const FLAGS: u32 = SINCE_70 | flag::NOSCRIPT;
const SINCE_70: u32 = WRITE | flag::BLOCKING;
const QUICK: u32 = FLAGS | flag::FAST;
const MOVE: u32 = FLAGS | flag::DENYOOM;

pub(crate) const SPECS: &[CommandSpec] = &[
    pops(group::LIST, "blpop", FLAGS, |s, r| pop(s, r, Take::Pop(ListEnd::Left, None))),
    pops(group::LIST, "brpop", FLAGS, |s, r| pop(s, r, Take::Pop(ListEnd::Right, None))),
    pops(group::SORTED_SET, "bzpopmin", QUICK, |s, r| {
        pop(s, r, Take::PopScored(ListEnd::Left, None))
    }),
    pops(group::SORTED_SET, "bzpopmax", QUICK, |s, r| {
        pop(s, r, Take::PopScored(ListEnd::Right, None))
    }),
    group::LIST.command("blmove", 6, MOVE, blmove).keys(1, 2, 1),
    group::LIST.command("brpoplpush", 4, MOVE, brpoplpush).keys(1, 2, 1),
    group::LIST.command("lmpop", -4, WRITE, |s, r| mpop(s, r, false, None)).counted_keys(1),
    group::LIST.command("blmpop", -5, SINCE_70, |s, r| mpop(s, r, false, Some(1))).counted_keys(2),
    group::SORTED_SET.command("zmpop", -4, WRITE, |s, r| mpop(s, r, true, None)).counted_keys(1),
    group::SORTED_SET
        .command("bzmpop", -5, SINCE_70, |s, r| mpop(s, r, true, Some(1)))
        .counted_keys(2),
];

const fn pops(
    group: CommandGroup,
    name: &'static str,
    flags: u32,
    handler: Handler,
) -> CommandSpec {
    group.command(name, -3, flags, handler).keys(1, -2, 1)
}

/// A timeout in seconds, as milliseconds rounded up. For one that is far too long, Redis answers that it is negative.
fn timeout_ms(text: &[u8]) -> Result<i64, ErrorReply> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let whole =
        |read: &Strtod| read.used == text.len() && !is_space(text[0]) && !read.value.is_nan();
    let read = strtod(text).filter(whole);
    let read = read.ok_or(ErrorReply::new("ERR timeout is not a float or out of range"))?;
    // Redis reads a wider type here: whole seconds are exact, and a value that a double rounds to 0 is not 0.
    if let Some(ms @ 0..) = decimal(text).and_then(|seconds| seconds.checked_mul(1000)) {
        return Ok(ms);
    }
    let vanished = read.out_of_range && read.value == 0.0 && read.value.is_sign_positive();
    let ms = if vanished { 1.0 } else { (read.value * 1000.0).ceil() };
    if !(0.0..LIMIT).contains(&ms) {
        return Err(ErrorReply::new("ERR timeout is negative"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    Ok(ms as i64)
}

fn pop(server: &mut Server, request: &Request<'_>, take: Take) -> CommandResult {
    let [keys @ .., timeout] = &request.args[1..] else { return Err(ErrorReply::SYNTAX) };
    let timeout_ms = timeout_ms(timeout)?;
    pop_first(server, request, keys, take, Some(timeout_ms))
}

/// The forms that say how many keys there are, from which end to take, and how many elements.
fn mpop(
    server: &mut Server,
    request: &Request<'_>,
    scored: bool,
    timeout: Option<usize>,
) -> CommandResult {
    let args = &request.args[timeout.unwrap_or(0) + 1..];
    let above_zero =
        |text: &[u8], why| positive(text).ok().filter(|&n| n > 0).ok_or(ErrorReply::new(why));
    let keys = above_zero(args[0], "ERR numkeys should be greater than 0")?;
    let rest = args.get(1..).and_then(|rest| rest.get(keys..)).unwrap_or_default();
    let (word, options) = rest.split_first().ok_or(ErrorReply::SYNTAX)?;
    let from = match word {
        word if scored && is_word(word, "MIN") => ListEnd::Left,
        word if scored && is_word(word, "MAX") => ListEnd::Right,
        word if !scored => end(word)?,
        _ => return Err(ErrorReply::SYNTAX),
    };
    let count = match options {
        [] => 1,
        [word, text, rest @ ..] if is_word(word, "COUNT") => {
            let count = above_zero(text, "ERR count should be greater than 0")?;
            rest.is_empty().then_some(count).ok_or(ErrorReply::SYNTAX)?
        }
        _ => return Err(ErrorReply::SYNTAX),
    };
    let timeout_ms = timeout.map(|place| timeout_ms(request.args[place])).transpose()?;
    let pop = if scored { Take::PopScored } else { Take::Pop };
    pop_first(server, request, &args[1..=keys], pop(from, Some(count)), timeout_ms)
}

/// Pops from the first key that is there. With a timeout it may wait.
fn pop_first(
    server: &mut Server,
    request: &Request<'_>,
    keys: &[&[u8]],
    take: Take,
    timeout_ms: Option<i64>,
) -> CommandResult {
    for key in keys {
        if let Some(slot) = server.find(request, key) {
            let value = &server.db(request).at(slot).value;
            match take.is_scored() {
                true => value.get::<Scored>().map(|_| ())?,
                false => value.get::<Elements>().map(|_| ())?,
            }
            return take_element(server, request, key, &take);
        }
    }
    if let Some(timeout_ms) = timeout_ms
        && server.may_block(request.session)
    {
        let keys = keys.iter().map(|key| blob(key)).collect();
        server.block(request, Awaited::Element { keys, take }, timeout_ms);
    }
    Ok(Reply::NilArray)
}

fn blmove(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let (from, to) = (end(request.args[3])?, end(request.args[4])?);
    let destination = blob(request.args[2]);
    let take = Take::Move { from, to, destination, command: MoveCommand::Lmove };
    move_or_wait(server, request, take, request.args[5])
}

fn brpoplpush(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let destination = blob(request.args[2]);
    let (from, to) = (ListEnd::Right, ListEnd::Left);
    let take = Take::Move { from, to, destination, command: MoveCommand::RpopLpush };
    move_or_wait(server, request, take, request.args[3])
}

fn move_or_wait(
    server: &mut Server,
    request: &Request<'_>,
    take: Take,
    timeout: &[u8],
) -> CommandResult {
    let timeout_ms = timeout_ms(timeout)?;
    let key = request.args[1];
    if server.find_as::<Elements>(request, key)?.is_some() {
        return take_element(server, request, key, &take);
    }
    if server.may_block(request.session) {
        let keys = vec![blob(key)];
        server.block(request, Awaited::Element { keys, take }, timeout_ms);
    }
    Ok(Reply::Nil)
}

/// Takes an element of a key that is of the right type, as has been asked for.
fn take_element(
    server: &mut Server,
    request: &Request<'_>,
    key: &[u8],
    take: &Take,
) -> CommandResult {
    match take {
        Take::Pop(from, count) => {
            let slot = server.find_as::<Elements>(request, key)?;
            let Some(slot) = slot else { return Ok(Reply::NilArray) };
            let mut popped = pop_at(server, request, slot, *from, count.unwrap_or(1))?;
            let verb: &[u8] = if *from == ListEnd::Left { b"LPOP" } else { b"RPOP" };
            propagate(server, request, verb, key, count.map(|_| popped.len()));
            Ok(Reply::Array(match count {
                None => vec![Reply::bulk(key), popped.pop().unwrap_or(Reply::Nil)],
                Some(_) => vec![Reply::bulk(key), Reply::Array(popped)],
            }))
        }
        Take::Move { from, to, destination, command } => {
            let element = move_element(server, request, key, destination, *from, *to)?;
            let word =
                |end: ListEnd| -> &[u8] { if end == ListEnd::Left { b"left" } else { b"right" } };
            // As the client spelt them, while there is its request.
            let (from, to) = match request.args {
                [_, _, _, from, to, _] => (*from, *to),
                _ => (word(*from), word(*to)),
            };
            match command {
                MoveCommand::Lmove => {
                    server.propagate(request, &[b"LMOVE", key, destination, from, to])
                }
                MoveCommand::RpopLpush => {
                    server.propagate(request, &[b"RPOPLPUSH", key, destination])
                }
            }
            Ok(element)
        }
        Take::PopScored(from, count) => {
            let Some(slot) = server.find(request, key) else { return Ok(Reply::NilArray) };
            let popped = pop_scored_at(server, request, slot, *from, count.unwrap_or(1))?;
            let verb: &[u8] = if *from == ListEnd::Left { b"ZPOPMIN" } else { b"ZPOPMAX" };
            propagate(server, request, verb, key, count.map(|_| popped.len()));
            let members = listed(popped, true, count.is_some());
            Ok(match (count, members) {
                (None, Reply::Array(mut parts)) => {
                    parts.insert(0, Reply::bulk(key));
                    Reply::Array(parts)
                }
                (_, members) => Reply::Array(vec![Reply::bulk(key), members]),
            })
        }
    }
}

/// Propagates what has been popped as the command that does not wait; `count` where it was asked for.
fn propagate(
    server: &mut Server,
    request: &Request<'_>,
    verb: &[u8],
    key: &[u8],
    count: Option<usize>,
) {
    match count {
        None => server.propagate(request, &[verb, key]),
        Some(count) => server.propagate(request, &[verb, key, count.to_string().as_bytes()]),
    }
}

impl Server {
    /// Serves those that wait for keys that have come into being. A served move may bring another.
    pub(crate) fn serve_ready(&mut self, now_us: i64) {
        while !self.blocking.ready.is_empty() {
            let (db, key) = self.blocking.ready.remove(0);
            while let Some(session) = self.first_waiting(db, &key, now_us) {
                self.serve(session, &key, now_us);
            }
        }
    }

    /// The longest waiting session that this key as it stands can serve.
    fn first_waiting(&mut self, db: u16, key: &[u8], now_us: i64) -> Option<u32> {
        // Looking the key up is done as the first session that waits for it.
        let waits = |server: &Self, place: u32, scored: bool| {
            let session = &server.sessions[place as usize];
            let Some(Blocked { awaited: Awaited::Element { keys, take }, .. }) = &session.blocked
            else {
                return false;
            };
            let fits = take.is_scored() == scored;
            fits && session.db == db && keys.iter().any(|awaited| &awaited[..] == key)
        };
        let any = self
            .blocking
            .sessions
            .iter()
            .copied()
            .find(|&place| waits(self, place, false) || waits(self, place, true))?;
        let slot = self.find(&Request { now_us, session: any, args: &[] }, key)?;
        let scored = match self.dbs[usize::from(db)].at(slot).value {
            StoredValue::List(_) => false,
            StoredValue::Scored(_) => true,
            _ => return None,
        };
        self.blocking.sessions.iter().copied().find(|&place| waits(self, place, scored))
    }

    fn serve(&mut self, session: u32, key: &[u8], now_us: i64) {
        let Some(blocked) = self.unblock(session) else { return };
        let Awaited::Element { take, .. } = &blocked.awaited else { return };
        let request = Request { now_us, session, args: &[] };
        let reply: Reply = take_element(self, &request, key, take).into();
        self.journal.commit();
        self.reply_to_blocked(session, &blocked, reply);
    }
}
