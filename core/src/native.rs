//! Compare-and-set without a script, on servers that have commands for it.
//!
//! Invariant: the script is sent only after a refusal, which says that nothing was carried out, so the work
//! is done once. A command that the server does not know, or does not permit, is not sent again: it costs one
//! refusal for each lock, whatever server a failover brings. Like the scripts, no command here touches a
//! key that holds another's token, and none creates a key. Versions and `COMMAND INFO` are not asked for:
//! only the command itself shows whether it works here and now.

use crate::command::Command;
use crate::env::{CallError, Conn};
use crate::reply::{Reply, ServerError};
use crate::sync::{Mutex, lock};

/// The compare-and-set commands of the server of one lock, as far as tried.
pub(crate) struct Native {
    commands: Mutex<KnownCommands>,
}

#[derive(Clone, Copy)]
struct KnownCommands {
    /// The command to delete with; none once all were refused.
    delete: Option<DeleteCommand>,
    /// Whether `SET … IFEQ` was not refused.
    extend: bool,
}

/// The commands that delete a key which holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeleteCommand {
    /// Redis 8.4: `DELEX key IFEQ token`.
    Delex,
    /// Valkey 9: `DELIFEQ key token`.
    Delifeq,
}

impl DeleteCommand {
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

impl Default for Native {
    /// No command has been tried.
    fn default() -> Self {
        let known = KnownCommands { delete: Some(DeleteCommand::Delex), extend: true };
        Self { commands: Mutex::new(known) }
    }
}

impl Native {
    /// Deletes the key if it holds `token`: 1 if it did, 0 if the key is missing or another's. None if the
    /// script has to do it.
    pub(crate) async fn delete<C: Conn>(
        &self,
        conn: &C,
        key: &[u8],
        token: &[u8],
    ) -> Option<Result<Reply, CallError>> {
        loop {
            let delete = lock(&self.commands).delete?;
            let refused = match conn.call(delete.command(key, token)).await {
                Err(CallError::Refused(refused)) => refused,
                Ok(other) if !matches!(other, Reply::Int(0 | 1)) => {
                    return Some(Err(CallError::unexpected(&other)));
                }
                answer => return Some(answer),
            };
            if !is_unavailable(&refused) {
                return None;
            }
            let mut known = lock(&self.commands);
            // Another task may have advanced meanwhile.
            if known.delete == Some(delete) {
                known.delete = delete.next();
            }
        }
    }

    /// Gives the key a new TTL if it holds `token`, by writing the same token once more: 1 if it did, 0 if
    /// the key is missing or another's. None if the script has to do it.
    pub(crate) async fn extend<C: Conn>(
        &self,
        conn: &C,
        key: &[u8],
        token: &[u8],
        ttl_ms: u64,
    ) -> Option<Result<Reply, CallError>> {
        if !lock(&self.commands).extend {
            return None;
        }
        let set = Command::new("SET").arg(key).arg(token).arg("IFEQ").arg(token);
        match conn.call(set.arg("PX").int(ttl_ms)).await {
            Err(CallError::Refused(refused)) => {
                if is_unavailable(&refused) {
                    lock(&self.commands).extend = false;
                }
                None
            }
            Err(error) => Some(Err(error)),
            Ok(Reply::Ok) => Some(Ok(Reply::Int(1))),
            Ok(Reply::Nil) => Some(Ok(Reply::Int(0))),
            Ok(other) => Some(Err(CallError::unexpected(&other))),
        }
    }
}

/// Whether a refusal says that the server does not know the command, or does not permit it. Other refusals may
/// be temporary.
fn is_unavailable(refused: &ServerError) -> bool {
    let unknown = ["unknown command", "syntax error"];
    match &*refused.code {
        "ERR" => unknown.iter().any(|words| refused.message.starts_with(words)),
        code => code == "NOPERM",
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
