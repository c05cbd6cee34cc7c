//! How much a script may take.
//!
//! Invariant: no script of a client ends the process: memory, the stack, and the size of what is built from it are
//! bounded here. Its instructions are bounded by `ModelOptions::script_budget_instructions`. Not counted
//! is what one call of Lua's own library does: `table.insert` far from the table's end, or a
//! pattern that backtracks, may take minutes, as in redis-server. redis-server has bounds too (its C stack, its
//! memory), which are further away and less kind.

/// What all scripts of one server may hold in Lua, and the most that one library call may build.
pub const MEMORY_BYTES: usize = 512 << 20;

/// Above this much, what scripts have left behind is collected at once rather than when Lua finds the
/// time: an allocation that fails does not collect first.
pub const COLLECT_BYTES: usize = MEMORY_BYTES / 4;

/// The most parts of one reply or of one value that a library writes, a table counted each time it is met:
/// one that stands in itself many times over has more parts than there is time for.
pub const PARTS: usize = 4 << 20;

/// A table counts as so many parts, for it takes so much longer.
pub(crate) const TABLE_PARTS: usize = 16;

/// How much of a thread's stack a script may take before it resumes another coroutine or calls one of the functions
/// of `builtin`. A thread has 2 MB; within a coroutine Lua bounds the rest to 200 calls, and a
/// pattern's matching is bounded by [`PATTERN_ITEMS`].
pub(crate) const STACK_BYTES: usize = 1 << 20;

/// The most repeated items of a pattern: matching takes a part of the stack for each.
pub const PATTERN_ITEMS: usize = 2_000;

/// Values that Rust hands to Lua at once, as Lua's stack has room for.
pub const RESULTS: usize = 7_900;

/// What Lua says where memory is out.
pub const NO_MEMORY: &str = "not enough memory";
