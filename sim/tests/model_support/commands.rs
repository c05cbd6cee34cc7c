//! Random commands: few keys, so that they meet; odd arguments, so that errors are met too.

use proptest::prelude::*;

/// How many clients send.
pub(crate) const CLIENTS: usize = 3;

/// One command as drawn: numbers that shrink towards the first of each list.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) who: usize,
    template: usize,
    choices: [u16; 8],
    form: u8,
}

/// Sequences of draws. A draw that is none has been left out to make a failing sequence shorter.
pub(crate) fn sequences() -> impl Strategy<Value = Vec<Option<Draw>>> {
    let choices = prop::array::uniform8(any::<u16>());
    let draw = (0..CLIENTS, 0..TEMPLATES.len(), choices, 0..24_u8)
        .prop_map(|(who, template, choices, form)| Draw { who, template, choices, form });
    prop::collection::vec(prop::option::weighted(0.9999, draw), 22..=30)
}

/// What a word of a template stands for.
const KEYS: &[&str] = &["k", "k", "l", "h", "n", "z", "s"];
const VALUES: &[&str] = &["", "a", "b", "token", "10", "-5", "9223372036854775807", "007", "1.5"];
const INTEGERS: &[&str] =
    &["1", "-1", "0", "10", "9223372036854775807", "-9223372036854775808", "x", "", "+1", "1.0"];
/// Far enough away that nothing expires while the test runs, or already past.
const SPANS: &[&str] =
    &["100", "2000", "100000", "0", "-1", "9223372036854775807", "9223372036854775", "z"];
const MS_SPANS: &[&str] = &["100000", "2000000", "0", "-1", "9223372036854775807", "z"];
const POINTS: &[&str] = &["1", "4102444800", "4102448400", "0", "-1", "9223372036854775807", "z"];
const MS_POINTS: &[&str] = &["1", "4102444800000", "4102448400000", "0", "9223372036854775807"];
const FIELDS: &[&str] = &["f", "g", "i"];

const SCRIPTS: &[&str] = &[
    "return redis.call('get', KEYS[1])",
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 100000) end return 0",
    "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 100000)",
    "return redis.call('incr', KEYS[1])",
    "return redis.pcall('incr', KEYS[1])",
    "local ok, err = pcall(redis.call, 'incr', KEYS[1]) return {ok, err}",
    "return {redis.call('get', KEYS[1]), KEYS, ARGV, 3.99, true, false, 'end'}",
    "return redis.call('mget', KEYS[1], 'l', 'h')",
    "return redis.call('hgetall', 'h')",
    "redis.setresp(3) return redis.call('hgetall', 'h')",
    "redis.setresp(3) return {redis.call('get', KEYS[1]), true, false}",
    "local n = redis.call('hincrby', 'h', KEYS[1], 1) if n > 1 then return redis.error_reply('TAKEN by ' .. n) end return n",
    "return #redis.call('keys', '*')",
    "return redis.call(ARGV[1], KEYS[1])",
    "error(ARGV[1])",
    "return nosuch",
    "this is no lua",
    "return {err = 'CODE text', 1}",
    "return {ok = 'fine'}",
    "return redis.sha1hex(ARGV[1])",
    "return redis.call('select', '1')",
    "return type(redis.call('exists', KEYS[1]))",
    "redis.call('set', KEYS[1], 'x') redis.call('nosuch')",
    "redis.call('rpush', 'l', ARGV[1]) redis.call('rpush', 'l', 'second') return redis.call('llen', 'l')",
    "redis.call('zadd', 'z', 1.5, 'm') return redis.call('zrange', 'z', 0, -1, 'withscores')",
    "redis.setresp(3) redis.call('zadd', 'z', 1.5, 'm') return redis.call('zscore', 'z', 'm')",
    "redis.setresp(3) return redis.call('zrange', 'z', 0, 0, 'withscores')",
    "return redis.call('publish', 'c', ARGV[1])",
    "return redis.call('blpop', 'l', 0)",
    "return redis.call('sismember', 's', ARGV[1])",
];

/// Where a command may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Anywhere,
    /// Not in a transaction, in whose reply it would be compared to the byte.
    Alone,
}
use Place::{Alone, Anywhere};

/// Templates: `K` a key, `V` a value, `I` an integer, `S` a span in s, `M` one in ms, `P` a point in
/// time in s, `Q` one in ms, `F` a field, `L` a script, `A` one of the first, `H` its digest, `N` a small integer, `E`
/// an end of a list, `R` a score, `B` a bound of scores, `W` a time-out, `T` a channel, `O` an option of
/// SET, `Z` one of ZADD, `Y` one of ZRANGE, `C` a condition of EXPIRE, `G` a glob, `D` a database.
const TEMPLATES: &[(&str, Place)] = &[
    ("GET K", Anywhere),
    ("SET K V", Anywhere),
    ("SET K V NX PX M", Anywhere),
    ("SET K V O O", Anywhere),
    ("SET K V O O O", Anywhere),
    ("SETNX K V", Anywhere),
    ("SETEX K S V", Anywhere),
    ("PSETEX K M V", Anywhere),
    ("GETSET K V", Anywhere),
    ("GETDEL K", Anywhere),
    ("GETEX K", Anywhere),
    ("GETEX K O", Anywhere),
    ("GETEX K EXAT P", Anywhere),
    ("GETEX K PERSIST", Anywhere),
    ("MGET K K K", Anywhere),
    ("MGET", Anywhere),
    ("MSET K V K V", Anywhere),
    ("MSETNX K V K V", Anywhere),
    ("STRLEN K", Anywhere),
    ("APPEND K V", Anywhere),
    ("DEL K", Anywhere),
    ("DEL K K", Anywhere),
    ("UNLINK K", Anywhere),
    ("EXISTS K K", Anywhere),
    ("TYPE K", Anywhere),
    ("INCR K", Anywhere),
    ("DECR n", Anywhere),
    ("INCRBY K I", Anywhere),
    ("DECRBY n I", Anywhere),
    ("EXPIRE K S", Anywhere),
    ("EXPIRE K S C", Anywhere),
    ("PEXPIRE K M C C", Anywhere),
    ("PEXPIRE K M", Anywhere),
    ("EXPIREAT K P C", Anywhere),
    ("PEXPIREAT K Q", Anywhere),
    ("TTL K", Alone),
    ("PTTL K", Alone),
    ("EXPIRETIME K", Alone),
    ("PEXPIRETIME K", Alone),
    ("PERSIST K", Anywhere),
    ("KEYS G", Alone),
    ("SCAN 0 COUNT 1000", Alone),
    ("SCAN 0 COUNT 1000 MATCH G TYPE string", Alone),
    ("SCAN x COUNT 1000", Alone),
    ("SCAN 0 COUNT -1 MATCH nothing", Alone),
    ("DBSIZE", Anywhere),
    ("FLUSHDB", Anywhere),
    ("FLUSHALL V", Anywhere),
    ("FLUSHALL", Anywhere),
    ("SELECT D", Anywhere),
    ("SELECT 0", Anywhere),
    ("HSET h F V", Anywhere),
    ("HSET K F V F V", Anywhere),
    ("HSETNX h F V", Anywhere),
    ("HGET K F", Anywhere),
    ("HMGET h F F", Anywhere),
    ("HGETALL K", Anywhere),
    ("HKEYS K", Anywhere),
    ("HVALS K", Anywhere),
    ("HDEL K F", Anywhere),
    ("HDEL h F F", Anywhere),
    ("HEXISTS K F", Anywhere),
    ("HLEN K", Anywhere),
    ("HINCRBY K F I", Anywhere),
    ("LPUSH l V V", Anywhere),
    ("LPUSH K V", Anywhere),
    ("RPUSH l V V", Anywhere),
    ("RPUSH K V", Anywhere),
    ("LPUSHX K V", Anywhere),
    ("RPUSHX l V", Anywhere),
    ("RPUSHX K V", Anywhere),
    ("LPOP K", Anywhere),
    ("LPOP l I", Anywhere),
    ("RPOP K", Anywhere),
    ("RPOP l N", Anywhere),
    ("LLEN K", Anywhere),
    ("LINDEX l N", Anywhere),
    ("LINDEX K I", Anywhere),
    ("LRANGE l N N", Anywhere),
    ("LRANGE K I I", Anywhere),
    ("LREM l N V", Anywhere),
    ("LREM K I V", Anywhere),
    ("LTRIM l N N", Anywhere),
    ("LTRIM K I I", Anywhere),
    ("LSET l 0 V", Anywhere),
    ("LSET l N V", Anywhere),
    ("LSET", Anywhere),
    ("LSET K I V", Anywhere),
    ("LINSERT l BEFORE V V", Anywhere),
    ("LINSERT K after V V", Anywhere),
    ("LINSERT l V V V", Anywhere),
    ("LMOVE l K E E", Anywhere),
    ("LMOVE K l E E", Anywhere),
    ("RPOPLPUSH l K", Anywhere),
    ("RPOPLPUSH K l", Anywhere),
    ("BLPOP l W", Anywhere),
    ("BLPOP K l W", Anywhere),
    ("BRPOP K n W", Anywhere),
    ("BRPOP l W", Anywhere),
    ("BLMOVE l K E E W", Anywhere),
    ("BLMOVE K l E E W", Anywhere),
    ("BRPOPLPUSH l K W", Anywhere),
    ("BRPOPLPUSH K l W", Anywhere),
    ("BZPOPMIN z K W", Anywhere),
    ("BZPOPMIN K W", Anywhere),
    ("BZPOPMAX z W", Anywhere),
    ("BZPOPMAX K W", Anywhere),
    ("SADD s V V", Anywhere),
    ("SADD K V", Anywhere),
    ("SADD one a", Anywhere),
    ("SREM s V V", Anywhere),
    ("SREM K V", Anywhere),
    ("SISMEMBER K V", Anywhere),
    ("SMISMEMBER K V V", Anywhere),
    ("SMEMBERS K", Alone),
    ("SCARD K", Anywhere),
    // Of several members Redis takes any, so there is one, or all are taken.
    ("SPOP one", Anywhere),
    ("SPOP one N", Anywhere),
    ("SPOP K 1000", Alone),
    ("ZADD z R V", Anywhere),
    ("ZADD z R V R V", Anywhere),
    ("ZADD K R V", Anywhere),
    ("ZADD z Z R V", Anywhere),
    ("ZADD z Z Z R V R V", Anywhere),
    ("ZINCRBY z R V", Anywhere),
    ("ZINCRBY K R V", Anywhere),
    ("ZREM z V V", Anywhere),
    ("ZREM K V", Anywhere),
    ("ZSCORE z V", Anywhere),
    ("ZSCORE K V", Anywhere),
    ("ZRANK z V", Anywhere),
    ("ZRANK K V", Anywhere),
    ("ZREVRANK K V", Anywhere),
    ("ZCARD K", Anywhere),
    ("ZCOUNT z B B", Anywhere),
    ("ZCOUNT K B B", Anywhere),
    ("ZRANGE z N N", Anywhere),
    ("ZRANGE K B B Y", Anywhere),
    ("ZRANGE z N N Y Y", Anywhere),
    ("ZRANGE z B B BYSCORE Y Y", Anywhere),
    ("ZRANGE z [a + BYLEX Y", Anywhere),
    ("ZREVRANGE K N N WITHSCORES", Anywhere),
    ("ZRANGEBYSCORE K B B", Anywhere),
    ("ZRANGEBYSCORE z B B Y Y", Anywhere),
    ("ZREVRANGEBYSCORE K B B Y", Anywhere),
    ("ZREMRANGEBYSCORE K B B", Anywhere),
    ("ZREMRANGEBYRANK K N N", Anywhere),
    ("ZREMRANGEBYRANK K I I", Anywhere),
    ("ZPOPMIN K", Anywhere),
    ("ZPOPMIN z I", Anywhere),
    ("ZPOPMAX K N", Anywhere),
    ("EVAL L 1 K V", Anywhere),
    ("EVAL L 1 K V", Anywhere),
    ("EVAL L 1 K V", Anywhere),
    ("EVAL L 2 K K V", Anywhere),
    ("EVAL L 0", Anywhere),
    ("EVAL L I K", Anywhere),
    ("EVAL_RO L 1 K V", Anywhere),
    ("SCRIPT LOAD L", Anywhere),
    ("SCRIPT LOAD A", Anywhere),
    ("SCRIPT LOAD A", Anywhere),
    ("SCRIPT LOAD A", Anywhere),
    ("SCRIPT EXISTS", Anywhere),
    ("EVALSHA H 1 K V", Anywhere),
    ("EVALSHA H 1 K V", Anywhere),
    ("EVALSHA_RO H 1 K V", Anywhere),
    ("EVALSHA_RO H 1 K V", Anywhere),
    ("SCRIPT EXISTS H H", Anywhere),
    ("SCRIPT FLUSH", Anywhere),
    ("SUBSCRIBE T", Anywhere),
    ("SUBSCRIBE", Anywhere),
    ("PSUBSCRIBE", Anywhere),
    ("EXISTS", Anywhere),
    ("SUBSCRIBE T T", Alone),
    ("PSUBSCRIBE G", Anywhere),
    ("UNSUBSCRIBE T", Anywhere),
    ("UNSUBSCRIBE T T", Alone),
    ("UNSUBSCRIBE c d", Alone),
    ("PUNSUBSCRIBE G", Anywhere),
    ("PUNSUBSCRIBE", Alone),
    ("PUBLISH T V", Alone),
    ("PUBLISH T V", Alone),
    ("PUBSUB CHANNELS", Alone),
    ("PUBSUB CHANNELS * *", Alone),
    ("PUBSUB NUMSUB T T", Anywhere),
    ("PUBSUB NUMPAT", Anywhere),
    ("PING", Anywhere),
    ("PING V V", Anywhere),
    ("ECHO V", Anywhere),
    ("MULTI", Anywhere),
    ("MULTI", Anywhere),
    ("MULTI", Anywhere),
    ("EXEC", Anywhere),
    ("DISCARD", Anywhere),
    ("WATCH K", Anywhere),
    ("WATCH K K", Anywhere),
    ("UNWATCH", Anywhere),
    ("NOSUCH V V", Anywhere),
    ("CLIENT NOSUCH", Anywhere),
    ("CLIENT GETNAME", Anywhere),
    ("CLIENT SETNAME V", Anywhere),
    ("CLIENT ID", Alone),
    ("CONFIG SET V V", Anywhere),
    ("CONFIG SET timeout 0", Anywhere),
    ("CONFIG GET save", Anywhere),
    ("WAIT N 1", Anywhere),
    ("WAIT 0 I", Anywhere),
    ("WAIT 0 0", Anywhere),
    ("ROLE", Alone),
    ("TIME", Alone),
    ("INFO replication", Alone),
    ("COMMAND COUNT", Alone),
    ("COMMAND INFO get", Alone),
    ("AUTH V", Anywhere),
    ("AUTH default V", Anywhere),
    ("HELLO I", Alone),
    ("HELLO 2", Alone),
    ("HELLO 3", Alone),
    ("RESET", Alone),
];

const OPTIONS: &[&str] = &[
    "NX", "XX", "GET", "KEEPTTL", "EX S", "PX M", "EXAT P", "PXAT Q", "get", "nx", "EX", "PERSIST",
    "junk",
];
const CONDITIONS: &[&str] = &["NX", "XX", "GT", "LT", "gt", "junk"];
const GLOBS: &[&str] = &["*", "k", "[k-l]", "?", "nothing*"];
const DATABASES: &[&str] = &["0", "0", "0", "1", "16", "x"];
const SMALL: &[&str] = &["0", "1", "-1", "2", "-2", "5"];
const ENDS: &[&str] = &["LEFT", "RIGHT", "left", "right", "LEFT", "RIGHT", "middle"];
const SCORES: &[&str] = &["1", "2", "-1.5", "0", "1e3", "inf", "-inf", "nan", "x", "0.1"];
const BOUNDS: &[&str] = &["-inf", "+inf", "0", "1", "(1", "(2", "5", "x", ""];
/// For ever, for a moment, and none.
const TIMEOUTS: &[&str] = &["0", "0", "0", "0", "0", "0", "0.001", "-1", "x"];
const CHANNELS: &[&str] = &["c", "d"];
const ZADD_OPTIONS: &[&str] = &["NX", "XX", "GT", "LT", "CH", "INCR", "incr", "junk"];
const ZRANGE_OPTIONS: &[&str] =
    &["WITHSCORES", "REV", "LIMIT 1 2", "LIMIT 0 -1", "BYSCORE", "BYLEX", "LIMIT N N", "junk"];

impl Draw {
    /// The words, or nothing where they may not stand here. Most transactions are ended before long.
    pub(crate) fn command(&self, in_multi: bool) -> Option<Vec<Vec<u8>>> {
        let (template, place) = TEMPLATES[self.template];
        if in_multi && self.choices[7] % 4 == 0 {
            return Some(vec![b"EXEC".to_vec()]);
        }
        if in_multi && place == Place::Alone {
            return None;
        }
        let mut choices = self.choices.iter().copied().cycle();
        let mut command = Vec::new();
        fill(template, &mut choices, &mut command);
        // Now and then an argument too few or too many.
        match self.form {
            22 if command.len() > 1 => drop(command.pop()),
            // The set that SPOP takes from has one member at most.
            21..=23 if template != "SADD one a" => command.push(b"x".to_vec()),
            _ => {}
        }
        Some(command)
    }
}

fn fill(template: &str, choices: &mut impl Iterator<Item = u16>, command: &mut Vec<Vec<u8>>) {
    for word in template.split(' ') {
        let list: &[&str] = match word {
            "K" => KEYS,
            "V" => VALUES,
            "I" => INTEGERS,
            "S" => SPANS,
            "M" => MS_SPANS,
            "P" => POINTS,
            "Q" => MS_POINTS,
            "F" => FIELDS,
            "C" => CONDITIONS,
            "G" => GLOBS,
            "D" => DATABASES,
            "L" => SCRIPTS,
            // Few of them, so that some have been loaded before.
            "A" | "H" => &SCRIPTS[..3],
            "N" => SMALL,
            "E" => ENDS,
            "R" => SCORES,
            "B" => BOUNDS,
            "W" => TIMEOUTS,
            "T" => CHANNELS,
            "O" => OPTIONS,
            "Z" => ZADD_OPTIONS,
            "Y" => ZRANGE_OPTIONS,
            literal => {
                command.push(literal.into());
                continue;
            }
        };
        let choice = usize::from(choices.next().unwrap_or_default());
        let chosen = list[choice % list.len()];
        match word {
            "H" => command.push(sha1_smol::Sha1::from(chosen).digest().to_string().into()),
            "O" | "Y" => fill(chosen, choices, command),
            _ => command.push(chosen.into()),
        }
    }
}
