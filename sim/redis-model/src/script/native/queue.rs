//! The scripts of a lock that is handed over, statement by statement as their texts have them.

use picklock::queue_scripts;
use resp::{Blob, Reply, blob};

use super::NativeRow;
use super::calls::{
    DEL, EXACT, GET, HDEL, HGET, HSET, NUMSUB, PEXPIRE, PTTL, PUBLISH, SET, ScriptCalls, TIME,
    ZADD, ZCARD, ZRANGE, ZRANK, ZREM, ZREVRANGE, arg, exact, joined, span,
};
use crate::value::StoredValue;

/// Spans up to here can be multiplied by a place in the queue.
const SPAN_MAX: i64 = 1 << 32;

pub(super) fn scripts() -> [NativeRow; 4] {
    [
        ("75f905aae437a0159d122a57c6cb9385befeb00f", queue_scripts::TAKE.text(), fits_take, take),
        ("719d075f0dcfddd4dfe1921a603c44edd10e6d8c", queue_scripts::JOIN.text(), fits_ask, join),
        ("e9c867006993f9ca3ed106ac53acee98b4576873", queue_scripts::LOOK.text(), fits_ask, look),
        (
            "bd89906f1ac6c137b46ec86c14dd3fb5daa92f32",
            queue_scripts::LEAVE.text(),
            fits_leave,
            leave,
        ),
    ]
}

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

/// Whether line and book look as these scripts leave them.
fn is_in_order(calls: &ScriptCalls<'_>) -> bool {
    let [key, line, book, ..] = calls.keys else { return false };
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

fn fits_take(calls: &ScriptCalls<'_>) -> bool {
    matches!(calls.args, [_, ttl, ..] if span(ttl).is_some()) && is_in_order(calls)
}

fn take(calls: &mut ScriptCalls<'_>) -> Reply {
    let (keys, args) = (calls.keys, calls.args);
    let mut at = LockQueue::begin(calls);
    let free = at.calls.text(&GET, &[keys[0]]).is_none() && at.reachable(None).is_none();
    if free {
        at.calls.call(&SET, &[keys[0], args[0], b"PX", args[1]]);
    }
    Reply::Array(vec![Reply::Int(i64::from(free))])
}

fn fits_ask(calls: &ScriptCalls<'_>) -> bool {
    let small = |text: &[u8]| exact(text).is_some_and(|span| (0..=SPAN_MAX).contains(&span));
    match calls.args {
        // C ends a text at a NUL.
        [_, stagger, grace, channel, ttl, ..] => {
            small(stagger)
                && small(grace)
                && !channel.contains(&0)
                && span(ttl).is_some()
                && is_in_order(calls)
        }
        _ => false,
    }
}

/// A script of a queue at work.
struct LockQueue<'c, 's> {
    calls: &'c mut ScriptCalls<'s>,
    keys: &'s [&'s [u8]],
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

impl<'c, 's> LockQueue<'c, 's> {
    fn begin(calls: &'c mut ScriptCalls<'s>) -> Self {
        calls.call(&TIME, &[]);
        let now_us = calls.now_us();
        Self { keys: calls.keys, calls, us: joined(now_us), now: now_us / 1000 }
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

    /// The first that is `token` or can be told to look; drops those before it.
    fn reachable(&mut self, token: Option<&[u8]>) -> Option<Blob> {
        loop {
            let NextWaiter { token: head, till, channel, .. } = self.first()?;
            if token.is_some_and(|token| head[..] == *token) {
                return Some(head);
            }
            let told = self.calls.number(&PUBLISH, &[&channel, &head]);
            if told > 0 && till >= self.now {
                return Some(head);
            }
            self.drop(&head);
        }
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

    fn outlive(&mut self, name: &[u8], lives: i64) {
        if self.calls.number(&PTTL, &[name]) < lives {
            self.calls.call(&PEXPIRE, &[name, &arg(lives)]);
        }
    }

    fn answer(self, code: i64) -> Reply {
        Reply::Array(vec![Reply::Int(code), Reply::Bulk(self.us)])
    }
}

fn join(calls: &mut ScriptCalls<'_>) -> Reply {
    ask(calls, true)
}

fn look(calls: &mut ScriptCalls<'_>) -> Reply {
    ask(calls, false)
}

fn ask(calls: &mut ScriptCalls<'_>, joins: bool) -> Reply {
    let (keys, args) = (calls.keys, calls.args);
    let mut at = LockQueue::begin(calls);
    let (token, ttl) = (args[0], args[4]);
    let owner = at.calls.text(&GET, &[keys[0]]);
    if owner.as_deref() == Some(token) {
        at.calls.call(&PEXPIRE, &[keys[0], ttl]);
        return at.answer(2);
    }
    if owner.is_none() {
        let mine = at.reachable(Some(token)).map_or(joins, |head| head[..] == *token);
        if mine {
            at.drop(token);
            at.calls.call(&SET, &[keys[0], token, b"PX", ttl]);
            return at.answer(1);
        }
    }
    let (stands, place) = match at.calls.call(&ZRANK, &[keys[1], token]) {
        Reply::Int(place) => (true, place),
        _ if joins => (false, at.calls.number(&ZCARD, &[keys[1]])),
        _ => return at.answer(-1),
    };
    let number = |text: &[u8]| exact(text).unwrap_or(0);
    let (stagger, grace) = (number(args[1]), number(args[2]));
    let left = match at.calls.number(&PTTL, &[keys[0]]) {
        -1 => number(ttl),
        left => left,
    };
    let wake = left.max(0) + place * stagger + 1;
    let till = at.now + wake + grace;
    let lives = wake + 2 * grace;
    let seat = [&arg(till)[..], b" ", ttl, b" ", args[3]].concat();
    at.calls.call(&HSET, &[keys[2], token, &seat]);
    at.outlive(keys[2], lives);
    if !stands {
        let last = match &at.calls.call(&ZREVRANGE, &[keys[1], b"0", b"0", b"WITHSCORES"]) {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole, and exact")]
            Reply::Array(pair) => match pair[..] {
                [_, Reply::Double(score)] => score as i64,
                _ => 0,
            },
            other => unreachable!("ZREVRANGE answered {other:?}"),
        };
        at.calls.call(&ZADD, &[keys[1], &arg(last + 1), token]);
    }
    at.outlive(keys[1], lives);
    Reply::Array(vec![Reply::Int(0), Reply::Bulk(at.us), Reply::Int(wake)])
}

fn fits_leave(calls: &ScriptCalls<'_>) -> bool {
    !calls.args.is_empty() && is_in_order(calls)
}

fn leave(calls: &mut ScriptCalls<'_>) -> Reply {
    let (keys, token) = (calls.keys, calls.args[0]);
    let mut at = LockQueue::begin(calls);
    let stood = at.calls.number(&ZREM, &[keys[1], token]) == 1;
    at.calls.call(&HDEL, &[keys[2], token]);
    let owner = at.calls.text(&GET, &[keys[0]]);
    let mine = owner.as_deref() == Some(token);
    if owner.is_some() && !mine {
        return Reply::Int(if stood { 2 } else { -1 });
    }
    let mut reached = false;
    while !reached && let Some(NextWaiter { token: head, till, ttl, channel }) = at.first() {
        reached = till >= at.now && at.listeners(&channel) > 0;
        if reached {
            at.calls.call(&SET, &[keys[0], &head, b"PX", &ttl]);
        }
        at.drop(&head);
        let time = if reached { &at.us[..] } else { b"" };
        let message = [&head[..], time].concat();
        at.calls.call(&PUBLISH, &[&channel, &message]);
    }
    if mine && !reached {
        at.calls.call(&DEL, &[keys[0]]);
    }
    Reply::Int(match (mine, stood) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 0,
    })
}
