//! A connection under observation: every command with its outcome.
//!
//! Invariant: each command sent has exactly one end in the history, also when nobody waits for it
//! any more.

use std::time::Duration;

use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Node};
use picklock::reply::Reply;

use super::{Observed, Recorded, understand};
use crate::history::{Intent, Touch, What};

/// A connection of a client under observation.
#[derive(Clone)]
pub struct RecordedConn<W: Observed> {
    env: Recorded<W>,
    node: Node,
    conn: <W as Env>::Conn,
}

impl<W: Observed> RecordedConn<W> {
    pub(super) fn new(env: Recorded<W>, node: Node, conn: <W as Env>::Conn) -> Self {
        Self { env, node, conn }
    }
}

impl<W: Observed> Conn for RecordedConn<W> {
    fn gave_up(&self, silence: Duration) -> bool {
        self.conn.gave_up(silence)
    }

    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let (op, intent) = self.env.begin_command(self.node, &command);
        let flight = Flight { env: &self.env, op, intent, landed: false };
        let answer = self.conn.call(command).await;
        flight.land(&answer);
        answer
    }
}

/// A command on its way. Dropped before it has landed, its outcome is unknown.
pub(super) struct Flight<'a, W: Observed> {
    env: &'a Recorded<W>,
    op: u32,
    intent: Intent,
    landed: bool,
}

impl<'a, W: Observed> Flight<'a, W> {
    /// A subscription on its way, written down as the command it is.
    pub(super) fn subscribe(env: &'a Recorded<W>, node: Node, channel: &[u8]) -> Self {
        let intent = Intent { touch: Touch::None, compares: false };
        let op = env.invoke_with(|texts| {
            let (name, key) = (texts.intern("SUBSCRIBE"), texts.intern_bytes(channel));
            What::Command { node: node.0, name, key, intent }
        });
        Self { env, op, intent, landed: false }
    }

    pub(super) fn land(mut self, answer: &Result<Reply, CallError>) {
        self.landed = true;
        let intent = self.intent;
        self.env.end_with(self.op, |texts| match answer {
            Ok(reply) => What::Answered {
                touch: understand::touch(intent, reply),
                answer: understand::answer(reply, texts),
            },
            Err(error @ CallError::Indeterminate(_)) => {
                What::Unanswered(texts.intern(&error.to_string()))
            }
            Err(CallError::Refused(error)) => What::Refused(texts.intern(&error.to_string())),
            Err(error @ CallError::NotSent(_)) => What::Refused(texts.intern(&error.to_string())),
        });
    }
}

impl<W: Observed> Drop for Flight<'_, W> {
    fn drop(&mut self) {
        if !self.landed {
            self.env.end_with(self.op, |texts| What::Unanswered(texts.intern("abandoned")));
        }
    }
}
