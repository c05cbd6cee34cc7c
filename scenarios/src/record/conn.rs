//! A connection under observation: every command with its outcome.
//!
//! Invariant: each command sent has exactly one end in the history, also when nobody waits for it
//! any more. A transaction belongs to the handle on which it was begun.

use std::time::Duration;

use history::{Intent, Touch, What};
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Node};
use picklock::reply::Reply;

use super::queued::{QueuedCommands, QueuedEnd};
use super::{Observed, Recorded, SentCommand, command_semantics};

/// How a server answers a command that waits in a transaction.
const QUEUED: &str = "QUEUED";

/// A connection of a client under observation.
pub struct RecordedConn<W: Observed> {
    env: Recorded<W>,
    node: Node,
    conn: <W as Env>::Conn,
    queued: QueuedCommands,
}

impl<W: Observed> RecordedConn<W> {
    pub(super) fn new(env: Recorded<W>, node: Node, conn: <W as Env>::Conn) -> Self {
        Self { env, node, conn, queued: QueuedCommands::default() }
    }
}

impl<W: Observed> Clone for RecordedConn<W> {
    fn clone(&self) -> Self {
        Self::new(self.env.clone(), self.node, self.conn.clone())
    }
}

impl<W: Observed> Conn for RecordedConn<W> {
    fn gave_up(&self, silence: Duration) -> bool {
        self.conn.gave_up(silence)
    }

    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        self.env.world.before_send(self.node, &command).await;
        let sent = self.env.begin_command(self.node, &command);
        let ends = QueuedCommands::is_end(command.name());
        let queued = ends.then_some(&self.queued);
        let pending = PendingCommand { env: &self.env, sent, queued, settled: false };
        let answer = self.conn.call(command).await;
        if matches!(&answer, Ok(Reply::Status(status)) if &**status == QUEUED) {
            pending.waits_in(&self.queued);
        } else {
            pending.settle(&answer);
        }
        self.env.world.after_answer().await;
        answer
    }
}

impl<W: Observed> Drop for RecordedConn<W> {
    fn drop(&mut self) {
        for sent in self.queued.take_rest() {
            self.env.end_command(sent, |it| What::Unanswered(it.intern("left in a transaction")));
        }
    }
}

/// A command on its way. Dropped before it is settled, its outcome is unknown.
pub(super) struct PendingCommand<'a, W: Observed> {
    env: &'a Recorded<W>,
    sent: SentCommand,
    /// The commands that end with it.
    queued: Option<&'a QueuedCommands>,
    /// Whether its end is written down, or left to the end of its transaction.
    settled: bool,
}

impl<'a, W: Observed> PendingCommand<'a, W> {
    /// A subscription on its way, written down as the command it is.
    pub(super) fn subscribe(env: &'a Recorded<W>, node: Node, channel: &[u8]) -> Self {
        let intent = Intent { touch: Touch::None, compares: false };
        let op = env.invoke_with(|texts| {
            let (name, key) = (texts.intern("SUBSCRIBE"), texts.intern_bytes(channel));
            What::Command { node: node.0, name, key, intent }
        });
        let acquisition = env.acquisition();
        let (gives_old, place, content) = (false, None, None);
        let sent = SentCommand { op, acquisition, intent, gives_old, place, content };
        Self { env, sent, queued: None, settled: false }
    }

    pub(super) fn settle(mut self, answer: &Result<Reply, CallError>) {
        self.settled = true;
        self.end(self.sent, answer);
        for (sent, end) in self.queued.map(|it| it.end(answer)).unwrap_or_default() {
            match end {
                QueuedEnd::Answered(reply) => self.end(sent, &Ok(reply)),
                QueuedEnd::Dropped(why) => {
                    self.wrote_nothing(sent);
                    self.env.end_command(sent, |it| What::Refused(it.intern(why)));
                }
                QueuedEnd::Unknown(why) => {
                    self.env.end_command(sent, |it| What::Unanswered(it.intern(why)))
                }
            }
        }
    }

    /// It waits in a transaction: it has not ended yet.
    fn waits_in(mut self, queued: &QueuedCommands) {
        self.settled = true;
        queued.push(self.sent);
    }

    fn end(&self, sent: SentCommand, answer: &Result<Reply, CallError>) {
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => return self.failed(sent, error),
        };
        let touch = command_semantics::touch(sent, reply);
        if !matches!(touch, Touch::Create(_) | Touch::Overwrite(_)) {
            self.wrote_nothing(sent);
        }
        let found = self.found(sent, reply);
        self.env.end_command(sent, |texts| {
            let answer = command_semantics::answer(reply, texts);
            What::Answered { touch, answer, found }
        });
    }

    /// It was refused, or has no answer.
    fn failed(&self, sent: SentCommand, error: &CallError) {
        if !error.is_indeterminate() {
            self.wrote_nothing(sent);
        }
        self.env.end_command(sent, |texts| match error {
            CallError::Indeterminate(_) => What::Unanswered(texts.intern(&error.to_string())),
            CallError::Refused(error) => What::Refused(texts.intern(&error.to_string())),
            CallError::NotSent(_) | CallError::NoRuntime => {
                What::Refused(texts.intern(&error.to_string()))
            }
        });
    }

    fn wrote_nothing(&self, sent: SentCommand) {
        if let Some(content) = sent.content {
            self.env.journal.wrote_nothing(sent.op, content);
        }
    }

    /// Which command had written what this one was told was there before, or 0.
    fn found(&self, sent: SentCommand, reply: &Reply) -> u32 {
        let (Reply::Bulk(value), Some(place), true) = (reply, sent.place, sent.gives_old) else {
            return 0;
        };
        self.env.journal.writer(sent.op, place, place.holding(value)).unwrap_or(0)
    }
}

impl<W: Observed> Drop for PendingCommand<'_, W> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let waiting = self.queued.map(QueuedCommands::take).unwrap_or_default();
        for sent in waiting.into_iter().chain([self.sent]) {
            self.env.end_command(sent, |texts| What::Unanswered(texts.intern("abandoned")));
        }
    }
}
