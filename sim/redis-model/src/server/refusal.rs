//! The states in which a server refuses commands that are otherwise in order.
//!
//! Invariant: which commands are refused follows from their flags in the command table.

use resp::ErrorReply;

/// Why a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteRefusal {
    /// It is a replica: commands flagged `write` are refused.
    ReadOnly,
    /// It is over `maxmemory`, and there is nothing to evict: commands flagged `denyoom` are refused.
    OutOfMemory,
}

impl WriteRefusal {
    /// What it answers.
    pub(crate) const fn error(self) -> ErrorReply {
        ErrorReply::new(match self {
            Self::ReadOnly => "READONLY You can't write against a read only replica.",
            Self::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
        })
    }
}
