//! The two scripts of a lock on one key.
//!
//! Invariant: both touch the key only while it holds the caller's own token, so neither can harm
//! another's hold, run twice to ill effect, or bring a lost key back. Both answer 1 (done), 0 (the
//! key is missing) or -1 (it is another's). They are public so that an observer can name them.

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
