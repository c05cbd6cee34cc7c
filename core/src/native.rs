//! Compare-and-set without a script, on servers that have commands for it.
//!
//! Invariant: the script follows only a refusal, which says that nothing was carried out; so whoever
//! answers in the end has done the work once. A command that a server does not know, or does not let us
//! send, is not asked for again: it costs what is refused once for each lock and never more, whatever
//! stands behind the address after a failover. Like the scripts, no command here touches a key that
//! holds another's token, and none makes a key that is missing. Deliberately absent: versions and
//! `COMMAND INFO`, for only the command itself says whether it works here and now.

use crate::command::Command;
use crate::env::{CallError, Conn};
use crate::reply::{Reply, ServerError};
use crate::sync::{Mutex, lock};
use crate::target::unexpected;

/// What is known of the commands of the server of one lock.
pub(crate) struct Native {
    known: Mutex<Known>,
}

#[derive(Clone, Copy)]
struct Known {
    /// The command that deletes, if there is one that was not refused.
    delete: Option<Delete>,
    /// `SET` takes `IFEQ`, or was not asked to.
    extend: bool,
}

/// The commands that delete a key which holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delete {
    /// Redis 8.4: `DELEX key IFEQ token`.
    Delex,
    /// Valkey 9: `DELIFEQ key token`.
    Delifeq,
}

impl Delete {
    fn next(self) -> Option<Self> {
        match self {
            Self::Delex => Some(Self::Delifeq),
            Self::Delifeq => None,
        }
    }

    fn command(self, key: &[u8], token: &[u8]) -> Command {
        match self {
            Self::Delex => Command::new("DELEX").arg(key).arg("IFEQ").arg(token),
            Self::Delifeq => Command::new("DELIFEQ").arg(key).arg(token),
        }
    }
}

impl Native {
    /// Nothing is known yet.
    pub(crate) fn new() -> Self {
        Self { known: Mutex::new(Known { delete: Some(Delete::Delex), extend: true }) }
    }

    /// Deletes the key if it holds `token`: 1 where it did, 0 where the key is missing or another's.
    /// Nothing where the script is to do it.
    pub(crate) async fn delete<C: Conn>(
        &self,
        conn: &C,
        key: &[u8],
        token: &[u8],
    ) -> Option<Result<Reply, CallError>> {
        loop {
            let delete = lock(&self.known).delete?;
            let refused = match conn.call(delete.command(key, token)).await {
                Err(CallError::Refused(refused)) => refused,
                Ok(other) if !matches!(other, Reply::Int(0 | 1)) => {
                    return Some(Err(unexpected(&other)));
                }
                answer => return Some(answer),
            };
            if !is_not_for_us(&refused) {
                return None;
            }
            let mut known = lock(&self.known);
            // Another task may have come further meanwhile.
            if known.delete == Some(delete) {
                known.delete = delete.next();
            }
        }
    }

    /// Gives the key a new TTL if it holds `token`, by writing the same token once more: 1 where it
    /// did, 0 where the key is missing or another's. Nothing where the script is to do it.
    pub(crate) async fn extend<C: Conn>(
        &self,
        conn: &C,
        key: &[u8],
        token: &[u8],
        ttl_ms: u64,
    ) -> Option<Result<Reply, CallError>> {
        if !lock(&self.known).extend {
            return None;
        }
        let set = Command::new("SET").arg(key).arg(token).arg("IFEQ").arg(token);
        match conn.call(set.arg("PX").int(ttl_ms)).await {
            Err(CallError::Refused(refused)) => {
                if is_not_for_us(&refused) {
                    lock(&self.known).extend = false;
                }
                None
            }
            Err(error) => Some(Err(error)),
            Ok(Reply::Ok) => Some(Ok(Reply::Int(1))),
            Ok(Reply::Nil) => Some(Ok(Reply::Int(0))),
            Ok(other) => Some(Err(unexpected(&other))),
        }
    }
}

/// Whether a refusal says that the server does not know the command, or does not let us send it; any
/// other may pass.
fn is_not_for_us(refused: &ServerError) -> bool {
    let unknown = ["unknown command", "syntax error"];
    match &*refused.code {
        "ERR" => unknown.iter().any(|words| refused.message.starts_with(words)),
        code => code == "NOPERM",
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
