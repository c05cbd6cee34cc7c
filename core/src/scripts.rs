//! The scripts of a lock on one key.
//!
//! Invariant: none touches a key that holds another's token, so none can harm another's hold, do harm when
//! it runs twice, or bring a lost key back; and every command that can fail comes before the key is set, so
//! an error says that no lock was granted. Scripts that compare answer 1 (done), 0 (the key is missing) or -1
//! (it is another's); those that acquire answer a list that begins with 1 (granted) or 0 (held). They are
//! public so that observers can recognise them.

use std::sync::LazyLock;

use crate::script::{Meaning, Script};

/// Deletes `KEYS[1]` if it holds `ARGV[1]`.
pub static COMPARE_AND_DELETE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local owner = redis.call('GET', KEYS[1])\n\
         if owner == false then return 0 end\n\
         if owner ~= ARGV[1] then return -1 end\n\
         redis.call('DEL', KEYS[1])\n\
         return 1\n",
        Meaning::Deletes,
    )
});

/// Sets the expiry of `KEYS[1]` to `ARGV[2]` milliseconds from now if it holds `ARGV[1]`.
pub static COMPARE_AND_EXTEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local owner = redis.call('GET', KEYS[1])\n\
         if owner == false then return 0 end\n\
         if owner ~= ARGV[1] then return -1 end\n\
         redis.call('PEXPIRE', KEYS[1], ARGV[2])\n\
         return 1\n",
        Meaning::Extends,
    )
});

/// As [`COMPARE_AND_DELETE`], and publishes on channel `ARGV[2]` that the key is free, even if it was missing. If the
/// server refuses to publish, the key is deleted all the same.
pub static DELETE_AND_TELL: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local owner = redis.call('GET', KEYS[1])\n\
         if owner ~= false and owner ~= ARGV[1] then return -1 end\n\
         if owner ~= false then redis.call('DEL', KEYS[1]) end\n\
         redis.call('PUBLISH', ARGV[2], 'free')\n\
         if owner == false then return 0 end\n\
         return 1\n",
        Meaning::Deletes,
    )
});

/// Sets `KEYS[1]` to `ARGV[1]` for `ARGV[2]` milliseconds if it is missing; otherwise answers its remaining TTL in
/// milliseconds.
pub static TRY: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return {1} end\n\
         return {0, redis.call('PTTL', KEYS[1])}\n",
        Meaning::Creates,
    )
});

/// As [`TRY`], and increments `KEYS[2]`, which gives the fencing token of the hold.
pub static TRY_FENCED: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local left = redis.call('PTTL', KEYS[1])\n\
         if left ~= -2 then return {0, left} end\n\
         local fence = redis.call('INCR', KEYS[2])\n\
         redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n\
         return {1, fence}\n",
        Meaning::Creates,
    )
});
