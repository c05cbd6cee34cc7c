//! What later servers can do on a condition, and what may come before, between and behind it.

use super::templates::Place::{self, Alone, Anywhere};

/// Templates, in the letters of [`TEMPLATES`](super::templates::TEMPLATES).
pub(crate) const CONDITIONAL: &[(&str, Place)] = &[
    ("SET K V IFEQ V", Anywhere),
    ("SET K V IFEQ V", Anywhere),
    ("SET K V IFEQ V PX M", Anywhere),
    ("SET K V ifeq V GET", Anywhere),
    ("SET K V j IFEQ V", Anywhere),
    ("SET K V IFEQ V j j", Anywhere),
    ("SET K V IFEQ V IFEQ V", Anywhere),
    ("SET K V IFEQ", Anywhere),
    ("DELEX K IFEQ V", Anywhere),
    ("DELEX K IFEQ V", Anywhere),
    ("DELEX K ifne V", Anywhere),
    ("DELEX K", Anywhere),
    ("DELEX K junk V", Anywhere),
    ("DELEX K IFEQ", Anywhere),
    ("DELEX K IFEQ V IFEQ V", Anywhere),
    ("DELEX", Anywhere),
    ("DELIFEQ K V", Anywhere),
    ("DELIFEQ K V", Anywhere),
    ("DELIFEQ K V", Anywhere),
    ("DELIFEQ K", Anywhere),
    ("DELIFEQ K V V", Anywhere),
    ("SET K V", Anywhere),
    ("SET K V", Anywhere),
    ("SET K V NX PX M", Anywhere),
    ("SET K V NX GET", Anywhere),
    ("APPEND K V", Anywhere),
    ("INCR n", Anywhere),
    ("RPUSH l V", Anywhere),
    ("HSET h F V", Anywhere),
    ("GET K", Anywhere),
    ("EXISTS K K", Anywhere),
    ("DEL K", Anywhere),
    ("PEXPIRE K M", Anywhere),
    ("PTTL K", Alone),
    // In a transaction servers refuse these each in their own way.
    ("WATCH K", Alone),
    ("MULTI", Alone),
    ("EXEC", Anywhere),
    ("EVAL J 1 K V", Anywhere),
    ("EVAL J 1 K V", Anywhere),
];

/// Options of SET. None lets a key be over when it is set: what then is propagated has changed.
pub(crate) const OPTIONS: &[&str] = &[
    "NX",
    "XX",
    "GET",
    "KEEPTTL",
    "EX 100",
    "PX M",
    "EXAT 4102444800",
    "PXAT 4102444800000",
    "get",
    "nx",
    "EX",
    "junk",
];

/// Scripts that act on a condition. What they say of their own errors is each server's own.
pub(crate) const SCRIPTS: &[&str] = &[
    "return redis.pcall('set', KEYS[1] or 'k', 'x', 'IFEQ', ARGV[1] or '')",
    "return redis.pcall('delex', KEYS[1] or 'k', 'IFEQ', ARGV[1] or '')",
    "return redis.pcall('delifeq', KEYS[1] or 'k', ARGV[1] or '')",
    "if redis.pcall('get', KEYS[1] or 'k') == ARGV[1] then return redis.pcall('del', KEYS[1]) end return 0",
];
