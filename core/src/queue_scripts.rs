//! The scripts of a lock that is handed over from one to the next.
//!
//! Invariant: the key is set only where it is missing or its holder releases it, and a client that is handed
//! the lock has the key before it is sent a message, which it may not receive. A client that has left the
//! queue enters it again by [`JOIN`] alone, so a look that arrives late does nothing. Where a client takes the key
//! itself, every command that can fail comes before that, and one of each kind before a token is queued, so that a
//! refusal leaves no place that does not expire. A grant is sent only where this server has a subscriber: messages go
//! on to replicas and other nodes of a cluster, and a subscriber there has not been given the lock.
//!
//! `KEYS[1]` is the lock's key; `KEYS[2]` the queue, a sorted set of owner tokens by number; `KEYS[3]` a hash of
//! each token's deadline for its next look, its TTL, and its channel. Queue and hash expire when no client
//! can be waiting. A message is the token, followed by the server's time in microseconds if the lock is now
//! this token's; without the time it means: look.

use std::sync::LazyLock;

use crate::options::OptionsError;
use crate::script::{Meaning, Script};
use crate::slot_keys::slot_key;

/// `KEYS[2]` and `KEYS[3]` of the lock with this key: `{k}:line` and `{k}:book` for the key `k`, and `{k}:1.line` and
/// `{k}:1.book` for the key `{k}:1`. They are the lock's, and must be used for nothing else.
///
/// # Errors
/// [`OptionsError::KeyAlone`] for a key with a closing brace and no tag.
pub fn keys_beside(key: &[u8]) -> Result<[Box<[u8]>; 2], OptionsError> {
    // These names are in the servers of users: another name would be another queue.
    Ok([slot_key(key, "line")?, slot_key(key, "book")?])
}

/// The common part of the scripts: the server's time, in microseconds as text and in milliseconds; the first token of the
/// queue; and the first one that is `token` or can be told to look, which drops those before it.
macro_rules! common {
    () => {
        "local time = redis.call('TIME')\n\
         local us = time[1] .. string.format('%06d', time[2])\n\
         local now = time[1] * 1000 + math.floor(time[2] / 1000)\n\
         local function drop(token)\n\
         redis.call('ZREM', KEYS[2], token)\n\
         redis.call('HDEL', KEYS[3], token)\n\
         end\n\
         local function first()\n\
         local token = redis.call('ZRANGE', KEYS[2], 0, 0)[1]\n\
         if not token then return nil end\n\
         local seat = redis.call('HGET', KEYS[3], token)\n\
         if not seat then return token, 0, '1', '' end\n\
         local till, ttl, channel = string.match(seat, '^(%d+) (%d+) (.*)$')\n\
         return token, tonumber(till), ttl, channel\n\
         end\n\
         local function reachable(token)\n\
         local head, till, _, channel = first()\n\
         while head and head ~= token do\n\
         if redis.call('PUBLISH', channel, head) > 0 and till >= now then break end\n\
         drop(head)\n\
         head, till, _, channel = first()\n\
         end\n\
         return head\n\
         end\n"
    };
}

/// The common part of joining and looking. `ARGV`: the token; how much longer a waiter sleeps for each client ahead
/// of it; how much later than due its look may come; its channel; its TTL. Spans are in milliseconds.
macro_rules! ask {
    ($joins:literal) => {
        concat!(
            common!(),
            "local token, ttl = ARGV[1], ARGV[5]\n\
             local joins = ",
            $joins,
            "\n\
             local owner = redis.call('GET', KEYS[1])\n\
             if owner == token then\n\
             redis.call('PEXPIRE', KEYS[1], ttl)\n\
             return {2, us}\n\
             end\n\
             if owner == false then\n\
             local head = reachable(token)\n\
             if head == token or (joins and not head) then\n\
             drop(token)\n\
             redis.call('SET', KEYS[1], token, 'PX', ttl)\n\
             return {1, us}\n\
             end\n\
             end\n\
             local place = redis.call('ZRANK', KEYS[2], token)\n\
             local stands = place\n\
             if not stands then\n\
             if not joins then return {-1, us} end\n\
             place = redis.call('ZCARD', KEYS[2])\n\
             end\n\
             local left = redis.call('PTTL', KEYS[1])\n\
             if left == -1 then left = tonumber(ttl) end\n\
             local wake = math.max(left, 0) + place * ARGV[2] + 1\n\
             local till = now + wake + ARGV[3]\n\
             local lives = wake + 2 * ARGV[3]\n\
             local function outlive(name)\n\
             if redis.call('PTTL', name) < lives then redis.call('PEXPIRE', name, lives) end\n\
             end\n\
             redis.call('HSET', KEYS[3], token, string.format('%.0f %s %s', till, ttl, ARGV[4]))\n\
             outlive(KEYS[3])\n\
             if not stands then\n\
             local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or 0\n\
             redis.call('ZADD', KEYS[2], last + 1, token)\n\
             end\n\
             outlive(KEYS[2])\n\
             return {0, us, wake}\n"
        )
    };
}

/// Takes the lock if it is free and nobody waits, otherwise joins the queue. Answers a list: 1 (taken), 2 (it was
/// the caller's already, and has a whole TTL again) or 0 (waiting); the server's time in microseconds; and
/// where waiting, the longest sleep before the next look, in milliseconds.
pub static JOIN: LazyLock<Script> = LazyLock::new(|| Script::new(ask!("true"), Meaning::Creates));

/// As [`JOIN`] for a client that is in the queue; -1 where it has neither a place there nor the lock.
pub static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(ask!("false"), Meaning::Creates));

/// Sets `KEYS[1]` to token `ARGV[1]` for `ARGV[2]` milliseconds if it is missing and no message reaches
/// anybody in the queue; the first whom one reaches is told to look. Answers a list: 1 or 0.
pub static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        concat!(
            common!(),
            "if redis.call('GET', KEYS[1]) or reachable(nil) then return {0} end\n\
             redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n\
             return {1}\n"
        ),
        Meaning::Creates,
    )
});

/// Leaves: removes `ARGV[1]` from the queue and, where it has the lock or nobody has, hands the lock to the first
/// client that can be reached. Answers 1 (the caller had the lock), 2 (it was in the queue, and the lock is another's), 3
/// (it was in the queue, and nobody had the lock), 0 (neither, and the key was missing) or -1 (neither, and it is
/// another's).
pub static LEAVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        concat!(
            common!(),
            "local stood = redis.call('ZREM', KEYS[2], ARGV[1])\n\
             redis.call('HDEL', KEYS[3], ARGV[1])\n\
             local owner = redis.call('GET', KEYS[1])\n\
             if owner ~= false and owner ~= ARGV[1] then\n\
             if stood == 1 then return 2 end\n\
             return -1\n\
             end\n\
             local head, till, ttl, channel = first()\n\
             while head do\n\
             local reached = till >= now and redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0\n\
             if reached then redis.call('SET', KEYS[1], head, 'PX', ttl) end\n\
             drop(head)\n\
             redis.call('PUBLISH', channel, reached and head .. us or head)\n\
             if reached then break end\n\
             head, till, ttl, channel = first()\n\
             end\n\
             if owner == ARGV[1] and not head then redis.call('DEL', KEYS[1]) end\n\
             if owner == ARGV[1] then return 1 end\n\
             if stood == 1 then return 3 end\n\
             return 0\n"
        ),
        Meaning::HandsOver,
    )
});
