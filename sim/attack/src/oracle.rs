//! The oracle: a command of the user that tells whether the result of the programs is right.
//!
//! Invariant: no fault strikes it. It is asked once the programs have ended and the lock's key is gone or should be.

use std::ffi::OsString;

use fault_proxy::Upstream;
use live_world::program::ProgramRoom;

use crate::arena::{Arena, Oracle};
use crate::clock::pause;
use crate::copy::{CopyEnd, ProgramCopy, SUCCESS};
use crate::error::AttackError;

/// The oracle's answer.
#[derive(Clone, Debug)]
pub(crate) enum OracleAnswer {
    /// What the programs have left is right.
    Content,
    /// It is not.
    Wrong(CopyEnd),
    /// It did not end in time.
    Silent(CopyEnd),
}

impl Oracle {
    /// Asks it about what was left on the arena's server, and in this room.
    pub(crate) async fn ask(
        &self,
        arena: &Arena,
        room: &ProgramRoom,
    ) -> Result<OracleAnswer, AttackError> {
        let Upstream::Tcp(addr) = arena.servers[0].endpoint.upstream() else {
            return Err(AttackError::NoLock(String::from(
                "the oracle cannot reach a server on TLS",
            )));
        };
        let command = ["sh", "-c", &self.command].map(OsString::from);
        // The oracle is not one of the clients.
        let variables = arena.variables(0, &[addr]);
        let asked = ProgramCopy::start(&arena.supervisor, 0, &command, variables, room).await?;
        let end = asked.ended_before(pause(self.end_within)).await;
        Ok(match () {
            () if end.overdue => OracleAnswer::Silent(end),
            () if end.status == SUCCESS => OracleAnswer::Content,
            () => OracleAnswer::Wrong(end),
        })
    }
}
