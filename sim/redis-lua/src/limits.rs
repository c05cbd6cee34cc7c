//! How much a script may take.
//!
//! Invariant: whatever a client's script does, it ends with an answer: memory, nesting and the size of
//! what is built from it are bounded here, its instructions by `Options::script_budget_instructions`.
//! redis-server has bounds too (its C stack, its memory), which are further away and less kind.

/// What all scripts of one server may hold in Lua, and the most that one library call may build.
pub const MEMORY_BYTES: usize = 512 << 20;

/// Above this much, what scripts have left behind is collected at once rather than when Lua finds the
/// time: an allocation that fails does not collect first.
pub const COLLECT_BYTES: usize = MEMORY_BYTES / 4;

/// The most parts of one reply or of one value that a library writes, a table counted each time it is met:
/// one that stands in itself many times over has more parts than there is time for.
pub const PARTS: usize = 4 << 20;

/// A table counts as so many parts, for it takes so much longer.
pub const TABLE_PARTS: usize = 16;

/// Values that Rust hands to Lua at once, as Lua's stack has room for.
pub const RESULTS: usize = 7_900;

/// What Lua says where memory is out.
pub const NO_MEMORY: &str = "not enough memory";
