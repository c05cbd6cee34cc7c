//! What servers carry out, and what that does to their keys: recorded for tests of how histories read commands.
//!
//! Invariant: a schedule is the same whether or not it is recorded.

use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::Reply;
use picklock::time::WallTime;
use redis_model::model::Submitted;
use redis_model::witness::{KeyChange, KeyWitness};

use super::Simulation;
use super::delivery::outcome;
use crate::network::NetworkConn;

/// A command that a server has carried out.
#[derive(Clone, Debug)]
pub struct WitnessedCommand {
    /// The server, by its number.
    pub server: u32,
    /// The connection it came over, by its number.
    pub conn: u32,
    /// The command.
    pub command: Command,
    /// The answer, whether or not it arrives; none if the command blocks.
    pub answer: Option<Result<Reply, CallError>>,
    /// The server's wall clock.
    pub wall: WallTime,
    /// Changes on the server since the command before it that no command has made.
    pub unasked: Vec<KeyChange>,
    /// What it has changed.
    pub changes: Vec<KeyChange>,
}

/// Follows the keys of every server.
#[derive(Debug, Default)]
pub(crate) struct ServersWitness {
    /// Of each server, by its number.
    witnesses: Vec<KeyWitness>,
    pub(crate) commands: Vec<WitnessedCommand>,
}

impl Simulation {
    /// Has the server execute a command, and records what that has changed.
    #[cold]
    pub(super) fn submit_witnessed(&mut self, conn: u32, command: Command) -> Submitted {
        let NetworkConn { server, session, .. } = *self.network.conn(conn);
        let witness = self.witness.get_or_insert_default();
        let witnesses = &mut witness.witnesses;
        let of_server = server as usize;
        witnesses.resize_with(witnesses.len().max(of_server + 1), KeyWitness::default);
        let it = &mut self.servers[server];
        let now_ns = self.time.now_ns();
        let wall = it.wall(now_ns);
        let unasked = witnesses[of_server].look(&it.model, wall);
        let submitted = it.submit(now_ns, session, &command);
        let changes = witnesses[of_server].look(&it.model, wall);
        let answer = match &submitted {
            Submitted::Reply(reply) => Some(outcome(reply.clone())),
            Submitted::Blocked => None,
        };
        let entry = WitnessedCommand { server, conn, command, answer, wall, unasked, changes };
        witness.commands.push(entry);
        submitted
    }
}
