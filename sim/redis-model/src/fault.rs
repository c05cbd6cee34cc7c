//! States in which a server refuses commands although nothing is wrong with them.
//!
//! Invariant: which commands are refused follows from the flags in the command table, as it does in
//! redis-server. Deliberately absent: faults of the network, which are the world's.

use resp::reply::ErrorReply;

/// A state to put the model in for a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Reading its data set after a start: all but commands flagged `loading` are refused.
    Loading,
    /// A read-only replica: commands flagged `write` are refused.
    ReadOnly,
    /// Over `maxmemory` with `noeviction`: commands flagged `denyoom` are refused.
    OutOfMemory,
    /// Snapshots fail and `stop-writes-on-bgsave-error` is on: writes and PING are refused.
    CannotPersist,
}

impl Fault {
    pub(crate) const LOADING: ErrorReply =
        ErrorReply::new("LOADING Redis is loading the dataset in memory");
    pub(crate) const READ_ONLY: ErrorReply =
        ErrorReply::new("READONLY You can't write against a read only replica.");
    pub(crate) const OUT_OF_MEMORY: ErrorReply =
        ErrorReply::new("OOM command not allowed when used memory > 'maxmemory'.");
    pub(crate) const CANNOT_PERSIST: ErrorReply = ErrorReply::new(
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist \
         to disk. Commands that may modify the data set are disabled, because this instance is \
         configured to report errors during writes if RDB snapshotting fails \
         (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the \
         RDB error.",
    );
}
