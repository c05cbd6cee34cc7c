//! What the server carried out: each request with where it came from, its answer, and what it did to which key.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use live_world::embedded::Tap;
use picklock::time::WallTime;
use redis_model::model::{Model, Submitted};
use redis_model::witness::{KeyChange, KeyWitness};
use resp::Reply;

use crate::recorder::now;

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
}

/// What a server has carried out so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerLog {
    inner: Arc<Mutex<Vec<CommandSeen>>>,
}

impl ServerLog {
    fn lock(&self) -> MutexGuard<'_, Vec<CommandSeen>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it.
    pub(crate) fn commands(&self) -> Vec<CommandSeen> {
        self.lock().clone()
    }

    /// A tap for an embedded server that writes here.
    pub(crate) fn tap(&self) -> Box<dyn Tap> {
        Box::new(EmbeddedTap { log: self.clone(), witness: KeyWitness::default() })
    }
}

struct EmbeddedTap {
    log: ServerLog,
    witness: KeyWitness,
}

impl Tap for EmbeddedTap {
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
            // Of a client that waits nothing more is needed: what it waits for touches no lock's key.
            Submitted::Blocked => SeenAnswer::Nil,
        };
        let changes = self.witness.look(model, wall);
        self.log.lock().push(CommandSeen { at: now(), from, name, answer, changes });
    }
}

impl SeenAnswer {
    fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Nil | Reply::NilArray => Self::Nil,
            Reply::Ok => Self::Ok,
            Reply::Int(number) => Self::Int(*number),
            Reply::Bool(is_true) => Self::Int(i64::from(*is_true)),
            Reply::Error(error) => Self::Error(String::from_utf8_lossy(error.text()).into_owned()),
            Reply::Bulk(text) | Reply::Status(text) => {
                Self::Text(String::from_utf8_lossy(text).into_owned())
            }
            _ => Self::List,
        }
    }
}
