//! The scripts of a lock that is handed over, statement by statement as their texts have them.

use resp::{Blob, Reply, blob};

use super::calls::{
    DEL, EXACT, GET, HDEL, HGET, HSET, NUMSUB, PEXPIRE, PTTL, PUBLISH, SET, ScriptCalls, TIME,
    ZADD, ZCARD, ZRANGE, ZRANK, ZREM, ZREVRANGE, arg, exact, joined, span,
};
use crate::value::StoredValue;

/// Spans up to here can be multiplied by a place in the queue.
const SPAN_MAX: i64 = 1 << 32;

/// A client in the queue.
struct QueueEntry<'a> {
    till: i64,
    ttl: &'a [u8],
    channel: &'a [u8],
}

/// Reads a seat; none where the texts would read it otherwise.
fn seat(text: &[u8]) -> Option<QueueEntry<'_>> {
    let mut parts = text.splitn(3, |&byte| byte == b' ');
    let (till, ttl, channel) = (parts.next()?, parts.next()?, parts.next()?);
    span(ttl)?;
    Some(QueueEntry { till: exact(till).filter(|till| *till >= 0)?, ttl, channel })
}

/// Whether line and book are such as these scripts leave them.
fn is_in_order(calls: &ScriptCalls<'_>, keys: &[&[u8]]) -> bool {
    let [key, line, book, ..] = keys else { return false };
    let apart = key != line && line != book && key != book;
    let in_time = |end: Option<i64>| end.is_none_or(|end| end < EXACT);
    let key = match calls.look(key) {
        None => true,
        Some((value, end)) => matches!(value, StoredValue::Str(_)) && in_time(end),
    };
    let line = match calls.look(line) {
        None => true,
        Some((StoredValue::Scored(line), end)) => {
            let last = line.as_slice().last().map_or(0.0, |(score, _)| *score);
            #[expect(clippy::cast_precision_loss, reason = "it is a power of two")]
            let counted = last.fract() == 0.0 && last.abs() < EXACT as f64;
            counted && in_time(end)
        }
        Some(_) => false,
    };
    let book = match calls.look(book) {
        None => true,
        Some((StoredValue::Hash(book), end)) => {
            book.iter().all(|(_, text)| seat(text).is_some()) && in_time(end)
        }
        Some(_) => false,
    };
    apart && key && line && book
}

pub(super) fn fits_take(calls: &ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> bool {
    let line = keys.get(1).map(|line| calls.look(line));
    let line = line.is_some_and(|found| matches!(found, None | Some((StoredValue::Scored(_), _))));
    line && matches!(args, [_, ttl, ..] if span(ttl).is_some())
}

pub(super) fn take(calls: &mut ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
    let free = calls.number(&ZCARD, &[keys[1]]) == 0;
    let set = free && calls.call(&SET, &[keys[0], args[0], b"NX", b"PX", args[1]]) == Reply::Ok;
    Reply::Array(vec![Reply::Int(i64::from(set))])
}

pub(super) fn fits_ask(calls: &ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> bool {
    let small = |text: &[u8]| exact(text).is_some_and(|span| (0..=SPAN_MAX).contains(&span));
    match args {
        // C ends a text at a NUL.
        [_, stagger, grace, channel, ttl, ..] => {
            small(stagger)
                && small(grace)
                && !channel.contains(&0)
                && span(ttl).is_some()
                && is_in_order(calls, keys)
        }
        _ => false,
    }
}

/// A script of a queue at work.
struct LockQueue<'c, 's, 'k> {
    calls: &'c mut ScriptCalls<'s>,
    keys: &'k [&'k [u8]],
    us: Blob,
    now: i64,
}

/// The first client in the queue.
struct NextWaiter {
    token: Blob,
    till: i64,
    ttl: Blob,
    channel: Blob,
}

impl<'c, 's, 'k> LockQueue<'c, 's, 'k> {
    fn begin(calls: &'c mut ScriptCalls<'s>, keys: &'k [&'k [u8]]) -> Self {
        calls.call(&TIME, &[]);
        let now_us = calls.now_us();
        Self { calls, keys, us: joined(now_us), now: now_us / 1000 }
    }

    fn drop(&mut self, token: &[u8]) {
        self.calls.call(&ZREM, &[self.keys[1], token]);
        self.calls.call(&HDEL, &[self.keys[2], token]);
    }

    fn first(&mut self) -> Option<NextWaiter> {
        let token = self.calls.first(&ZRANGE, &[self.keys[1], b"0", b"0"])?;
        let text = self.calls.text(&HGET, &[self.keys[2], &token]);
        Some(match text.as_deref().and_then(seat) {
            Some(QueueEntry { till, ttl, channel }) => {
                NextWaiter { token, till, ttl: blob(ttl), channel: blob(channel) }
            }
            None => NextWaiter { token, till: 0, ttl: blob(b"1"), channel: Blob::new() },
        })
    }

    /// How many listen to this channel.
    fn listeners(&mut self, channel: &[u8]) -> i64 {
        match self.calls.call(&NUMSUB, &[channel]) {
            Reply::Array(pair) => match pair[..] {
                [_, Reply::Int(count)] => count,
                _ => unreachable!("NUMSUB answered {pair:?}"),
            },
            other => unreachable!("NUMSUB answered {other:?}"),
        }
    }

    fn answer(self, code: i64) -> Reply {
        Reply::Array(vec![Reply::Int(code), Reply::Bulk(self.us)])
    }
}

pub(super) fn join(calls: &mut ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
    ask(calls, keys, args, true)
}

pub(super) fn look(calls: &mut ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
    ask(calls, keys, args, false)
}

fn ask(calls: &mut ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]], joins: bool) -> Reply {
    let mut at = LockQueue::begin(calls, keys);
    let (token, ttl) = (args[0], args[4]);
    let owner = at.calls.text(&GET, &[keys[0]]);
    if owner.as_deref() == Some(token) {
        at.calls.call(&PEXPIRE, &[keys[0], ttl]);
        return at.answer(2);
    }
    if owner.is_none() {
        let mut head = at.first();
        while let Some(first) = &head
            && first.token[..] != *token
        {
            let told = at.calls.number(&PUBLISH, &[&first.channel, &first.token]);
            if told > 0 && first.till >= at.now {
                break;
            }
            let gone = first.token.clone();
            at.drop(&gone);
            head = at.first();
        }
        let mine = head.as_ref().map_or(joins, |first| first.token[..] == *token);
        if mine {
            at.drop(token);
            at.calls.call(&SET, &[keys[0], token, b"PX", ttl]);
            return at.answer(1);
        }
    }
    let place = match at.calls.call(&ZRANK, &[keys[1], token]) {
        Reply::Int(place) => place,
        _ if !joins => return at.answer(-1),
        _ => {
            let last = at.calls.call(&ZREVRANGE, &[keys[1], b"0", b"0", b"WITHSCORES"]);
            let last = match &last {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole, and exact")]
                Reply::Array(pair) => match pair[..] {
                    [_, Reply::Double(score)] => score as i64,
                    _ => 0,
                },
                other => unreachable!("ZREVRANGE answered {other:?}"),
            };
            at.calls.call(&ZADD, &[keys[1], &arg(last + 1), token]);
            at.calls.number(&ZRANK, &[keys[1], token])
        }
    };
    let number = |text: &[u8]| exact(text).unwrap_or(0);
    let (stagger, grace) = (number(args[1]), number(args[2]));
    let left = match at.calls.number(&PTTL, &[keys[0]]) {
        -1 => number(ttl),
        left => left,
    };
    let wake = left.max(0) + place * stagger + 1;
    let till = at.now + wake + grace;
    let seat = [&arg(till)[..], b" ", ttl, b" ", args[3]].concat();
    at.calls.call(&HSET, &[keys[2], token, &seat]);
    let lives = wake + 2 * grace;
    for line in &keys[1..3] {
        if at.calls.number(&PTTL, &[line]) < lives {
            at.calls.call(&PEXPIRE, &[line, &arg(lives)]);
        }
    }
    Reply::Array(vec![Reply::Int(0), Reply::Bulk(at.us), Reply::Int(wake)])
}

pub(super) fn fits_leave(calls: &ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> bool {
    !args.is_empty() && is_in_order(calls, keys)
}

pub(super) fn leave(calls: &mut ScriptCalls<'_>, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
    let mut at = LockQueue::begin(calls, keys);
    let token = args[0];
    let stood = at.calls.number(&ZREM, &[keys[1], token]) == 1;
    at.calls.call(&HDEL, &[keys[2], token]);
    let owner = at.calls.text(&GET, &[keys[0]]);
    let mine = owner.as_deref() == Some(token);
    if owner.is_some() && !mine {
        return Reply::Int(if stood { 2 } else { -1 });
    }
    let mut told = 0;
    while let Some(NextWaiter { token: head, till, ttl, channel }) = at.first() {
        at.drop(&head);
        if till >= at.now && at.listeners(&channel) > 0 {
            let message = [&head[..], &at.us[..]].concat();
            told = at.calls.number(&PUBLISH, &[&channel, &message]);
        } else {
            at.calls.call(&PUBLISH, &[&channel, &head]);
        }
        if told > 0 {
            at.calls.call(&SET, &[keys[0], &head, b"PX", &ttl]);
            break;
        }
    }
    if mine && told == 0 {
        at.calls.call(&DEL, &[keys[0]]);
    }
    Reply::Int(i64::from(mine || stood))
}
