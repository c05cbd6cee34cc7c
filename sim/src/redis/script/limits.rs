//! How much a script may take.
//!
//! Invariant: whatever a client's script does, it ends with an answer: memory, nesting and the size of
//! what is built from it are bounded here, its instructions by `Options::script_budget_instructions`.
//! redis-server has bounds too (its C stack, its memory), which are further away and less kind.

/// What all scripts of one server may hold in Lua, and the most that one library call may build.
pub(crate) const MEMORY_BYTES: usize = 256 << 20;

/// Above this much, what scripts have left behind is collected at once rather than when Lua finds the
/// time: an allocation that fails does not collect first.
pub(crate) const COLLECT_BYTES: usize = MEMORY_BYTES / 4;

/// In a reply: the most parts, tables within tables counted each time they are met.
pub(crate) const REPLY_PARTS: usize = 4 << 20;

/// Values that Rust hands to Lua at once, as Lua's stack has room for.
pub(crate) const RESULTS: usize = 7_900;

/// What Lua says where memory is out.
pub(crate) const NO_MEMORY: &str = "not enough memory";
