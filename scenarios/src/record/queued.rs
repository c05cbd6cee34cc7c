//! Commands that wait in a transaction until EXEC.
//!
//! Invariant: a command that was answered `QUEUED` has not ended; it ends when EXEC does, with its own
//! part of that answer, and as *info* where nobody can say.

use std::sync::{Mutex, PoisonError};

use picklock::env::CallError;
use picklock::reply::Reply;

use super::SentCommand;

/// What ends a transaction, and how a server says that it has thrown one away.
const EXEC: &[u8] = b"EXEC";
const DISCARD: &[u8] = b"DISCARD";
const ABORTED: &str = "EXECABORT";

/// The commands that wait on one handle of a connection.
#[derive(Debug, Default)]
pub(super) struct QueuedCommands(Mutex<Vec<SentCommand>>);

/// How a command ended that was waiting.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueuedEnd {
    /// Carried out, with this answer.
    Answered(Reply),
    /// Surely not carried out.
    Dropped(&'static str),
    /// Nobody knows.
    Unknown(&'static str),
}

impl QueuedCommands {
    /// A command has been queued.
    pub(super) fn push(&self, sent: SentCommand) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
    }

    /// Whether a command of this name ends what is queued.
    pub(super) fn is_end(name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(EXEC) || name.eq_ignore_ascii_case(DISCARD)
    }

    /// How the commands that wait have ended, now that EXEC or DISCARD was answered so.
    pub(super) fn end(&self, answer: &Result<Reply, CallError>) -> Vec<(SentCommand, QueuedEnd)> {
        let waiting = self.take();
        let count = waiting.len();
        let each = |place: usize| match answer {
            Ok(Reply::Array(answers)) if answers.len() == count => {
                QueuedEnd::Answered(answers[place].clone())
            }
            Ok(Reply::Nil) => QueuedEnd::Dropped("a watched key has changed"),
            Ok(Reply::Ok) => QueuedEnd::Dropped("discarded"),
            Err(error) if error.has_code(ABORTED) => {
                QueuedEnd::Dropped("the transaction was refused")
            }
            Err(CallError::NotSent(_) | CallError::NoRuntime) => {
                QueuedEnd::Dropped("the transaction was never ended")
            }
            _ => QueuedEnd::Unknown("what the transaction did is not known"),
        };
        waiting.into_iter().enumerate().map(|(place, it)| (it, each(place))).collect()
    }

    /// Those that still wait, of which nobody will learn anything.
    pub(super) fn take(&self) -> Vec<SentCommand> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same of a handle that nobody else has.
    pub(super) fn take_rest(&mut self) -> Vec<SentCommand> {
        std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use picklock::reply::ServerError;

    use super::*;
    use history::{Intent, Touch};

    fn deletes(op: u32) -> SentCommand {
        let intent = Intent { touch: Touch::Delete, compares: false };
        let (acquisition, gives_old, place, content) = (0, false, None, None);
        SentCommand { op, acquisition, intent, gives_old, place, content }
    }

    fn ends(answer: Result<Reply, CallError>) -> Vec<QueuedEnd> {
        let queued = QueuedCommands::default();
        (7..9).for_each(|op| queued.push(deletes(op)));
        let ended = queued.end(&answer);
        assert!(ended.iter().map(|(sent, _)| *sent).eq((7..9).map(deletes)));
        assert!(queued.take().is_empty());
        ended.into_iter().map(|(_, end)| end).collect()
    }

    fn refused(line: &str) -> Result<Reply, CallError> {
        Err(CallError::Refused(ServerError::from_line(line)))
    }

    #[test]
    fn each_ends_with_its_own_part_of_the_answer() {
        let both = Ok(Reply::Array(vec![Reply::Int(1), Reply::Int(0)]));
        assert_eq!(
            ends(both),
            [QueuedEnd::Answered(Reply::Int(1)), QueuedEnd::Answered(Reply::Int(0))]
        );
    }

    #[test]
    fn what_was_thrown_away_was_not_carried_out() {
        let dropped = [
            Ok(Reply::Nil),
            Ok(Reply::Ok),
            refused("EXECABORT Transaction discarded because of previous errors."),
            Err(CallError::NotSent("no connection".into())),
        ];
        for answer in dropped {
            let said = format!("{answer:?}");
            assert!(ends(answer).iter().all(|it| matches!(it, QueuedEnd::Dropped(_))), "{said}");
        }
    }

    #[test]
    fn anything_else_leaves_it_open() {
        let unknown = [
            Ok(Reply::Array(vec![Reply::Int(1)])),
            Ok(Reply::Int(1)),
            // An error in the answer of one of them: the others may have been carried out.
            refused("WRONGTYPE Operation against a key holding the wrong kind of value"),
            Err(CallError::Indeterminate("silence".into())),
        ];
        for answer in unknown {
            let said = format!("{answer:?}");
            assert!(ends(answer).iter().all(|it| matches!(it, QueuedEnd::Unknown(_))), "{said}");
        }
    }

    #[test]
    fn exec_and_discard_end_a_transaction() {
        assert!(QueuedCommands::is_end(b"EXEC") && QueuedCommands::is_end(b"discard"));
        assert!(!QueuedCommands::is_end(b"MULTI") && !QueuedCommands::is_end(b"DEL"));
    }
}
