//! A request that the server carried out: its connection, its answer, and what it did to which key.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use live_world::embedded::Tap;
use picklock::time::WallTime;
use redis_model::model::{Model, Submitted};
use redis_model::witness::{KeyChange, KeyWitness};
use resp::Reply;
use tokio::sync::Notify;

use crate::clock::instant;

/// A request that was carried out.
#[derive(Clone, Debug)]
pub(crate) struct CommandSeen {
    pub(crate) at: Instant,
    pub(crate) from: SocketAddr,
    /// Its name, in upper case.
    pub(crate) name: String,
    pub(crate) answer: SeenAnswer,
    pub(crate) changes: Vec<KeyChange>,
}

/// An answer, as far as a story tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeenAnswer {
    Nil,
    Ok,
    Int(i64),
    Text(String),
    List,
    Error(String),
    /// The client waits (BLPOP): its answer is not known yet.
    Waits,
    /// The answer to a client that had waited.
    Waited(Box<SeenAnswer>),
}

/// What a server has carried out so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerLog {
    inner: Arc<Mutex<Vec<CommandSeen>>>,
    /// Wakes the task that follows the log.
    news: Arc<Notify>,
}

impl ServerLog {
    fn lock(&self) -> MutexGuard<'_, Vec<CommandSeen>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it.
    pub(crate) fn commands(&self) -> Vec<CommandSeen> {
        self.lock().clone()
    }

    /// The commands that were added since the log had this length.
    pub(crate) fn since(&self, length: usize) -> Vec<CommandSeen> {
        self.lock().get(length..).unwrap_or_default().to_vec()
    }

    /// Returns when commands were added since the last call. Only one task may wait.
    pub(crate) async fn grows(&self) {
        self.news.notified().await;
    }

    /// Records the reply to a client at this address that had waited.
    pub(crate) fn answered(&self, from: SocketAddr, reply: &Reply) {
        let mut commands = self.lock();
        let waits = |it: &&mut CommandSeen| it.from == from && it.answer == SeenAnswer::Waits;
        if let Some(command) = commands.iter_mut().rfind(waits) {
            command.answer = SeenAnswer::Waited(Box::new(SeenAnswer::of(reply)));
        }
    }

    /// Forgets all of it.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// A tap that writes here.
    pub(crate) fn tap(&self) -> Box<dyn Tap> {
        Box::new(LogTap { log: self.clone(), witness: KeyWitness::default() })
    }
}

struct LogTap {
    log: ServerLog,
    witness: KeyWitness,
}

impl Tap for LogTap {
    fn carried_out(
        &mut self,
        model: &Model,
        wall: WallTime,
        from: SocketAddr,
        args: &[&[u8]],
        outcome: &Submitted,
    ) {
        let name = String::from_utf8_lossy(args.first().unwrap_or(&&b""[..])).to_ascii_uppercase();
        let answer = match outcome {
            Submitted::Reply(reply) => SeenAnswer::of(reply),
            Submitted::Blocked => SeenAnswer::Waits,
        };
        let changes = self.witness.look(model, wall);
        self.log.lock().push(CommandSeen { at: instant(wall), from, name, answer, changes });
        self.log.news.notify_one();
    }
}

impl SeenAnswer {
    /// Reads an answer from its bytes, which may be cut short; none if it cannot be compared.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        let end = rest.windows(2).position(|it| it == b"\r\n")?;
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        Some(match first {
            b'+' if line == "OK" => Self::Ok,
            b'+' => Self::Text(line),
            b'-' => Self::Error(line),
            b':' => Self::Int(line.parse().ok()?),
            b'#' => Self::Int(i64::from(line == "t")),
            b'_' => Self::Nil,
            b'$' | b'*' if line == "-1" => Self::Nil,
            b'$' => {
                let text = rest[end + 2..].get(..line.parse().ok()?)?;
                Self::Text(String::from_utf8_lossy(text).into_owned())
            }
            b',' => Self::Text(line),
            b'*' | b'~' | b'%' => Self::List,
            _ => return None,
        })
    }

    fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Nil | Reply::NilArray => Self::Nil,
            Reply::Ok => Self::Ok,
            Reply::Status(text) if &text[..] == b"OK" => Self::Ok,
            Reply::Int(number) => Self::Int(*number),
            Reply::Bool(is_true) => Self::Int(i64::from(*is_true)),
            Reply::Error(error) => Self::Error(String::from_utf8_lossy(error.text()).into_owned()),
            Reply::Bulk(text)
            | Reply::Status(text)
            | Reply::BigNumber(text)
            | Reply::Verbatim(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            // As RESP2 has it; in RESP3 the digits are the same.
            Reply::Double(value) => Self::Text(resp::double(*value)),
            _ => Self::List,
        }
    }

    /// The answer itself, whether or not the client waited for it.
    pub(crate) fn at_last(&self) -> &Self {
        match self {
            Self::Waited(answer) => answer,
            other => other,
        }
    }

    /// Whether MULTI has queued the command for EXEC.
    pub(crate) fn is_queued(&self) -> bool {
        matches!(self, Self::Text(text) if text == "QUEUED")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_double_is_compared_as_the_text_that_it_is_in_either_protocol() {
        let model = SeenAnswer::of(&Reply::Double(1_795_796_432_123.0));
        for real in [&b"$13\r\n1795796432123\r\n"[..], b",1795796432123\r\n"] {
            assert_eq!(SeenAnswer::parse(real).as_ref(), Some(&model));
        }
        assert_ne!(SeenAnswer::parse(b"$1\r\n1\r\n"), Some(model));
    }
}
