//! Clients that wait: for an element of a list or sorted set, or for acknowledgements of replicas.
//!
//! Invariant: of the clients that wait for one key, the one that has waited longest is served first. It is served
//! after the whole command, script or transaction that added the element. Not modelled: streams.

use resp::{Blob, Reply, blob};

use super::{Request, Server};

/// What a client waits for.
#[derive(Clone, Debug)]
pub(crate) enum Awaited {
    /// The first of these keys that gets an element.
    Element { keys: Vec<Blob>, take: Take },
    /// This many replicas that have acknowledged this offset.
    Acknowledgements { replicas: i64, offset: u64 },
}

/// What is done with the element.
#[derive(Clone, Debug)]
pub(crate) enum Take {
    /// Popped from a list: one, or at most this many.
    Pop(ListEnd, Option<usize>),
    /// Moved to another list.
    Move { from: ListEnd, to: ListEnd, destination: Blob, command: MoveCommand },
    /// The lowest (left) or highest members of a sorted set: one, or at most this many.
    PopScored(ListEnd, Option<usize>),
}

impl Take {
    /// Whether the key is to be a sorted set, and not a list.
    pub(crate) fn is_scored(&self) -> bool {
        matches!(self, Self::PopScored(..))
    }
}

/// The two commands that move: they propagate under different names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveCommand {
    Lmove,
    RpopLpush,
}

/// An end of a list; of a sorted set the lowest score is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListEnd {
    Left,
    Right,
}

/// How a session waits.
#[derive(Clone, Debug)]
pub(crate) struct Blocked {
    pub(crate) awaited: Awaited,
    /// In milliseconds of the server's wall clock; none: for ever.
    pub(crate) deadline_ms: Option<i64>,
    /// The command, to be counted if it fails.
    pub(crate) command: u16,
}

/// The sessions that wait, and the keys that may end their waiting.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    /// The places of the sessions, the longest waiting first.
    pub(crate) sessions: Vec<u32>,
    /// Keys created by the command under way.
    pub(crate) ready: Vec<(u16, Blob)>,
}

impl Blocking {
    pub(crate) fn clear(&mut self) {
        self.sessions.clear();
        self.ready.clear();
    }

    /// A list, set or sorted set has come into being.
    pub(crate) fn created(&mut self, db: u16, key: &[u8]) {
        if !self.sessions.is_empty() && !self.ready.iter().any(|(d, k)| *d == db && &k[..] == key) {
            self.ready.push((db, blob(key)));
        }
    }
}

impl Server {
    /// Whether a command of this session may wait at all.
    pub(crate) fn may_block(&self, session: u32) -> bool {
        self.in_exec.is_none() && !self.applying && session != super::SCRIPT_SESSION
    }

    /// The session waits from now on. `timeout_ms` of 0 is for ever.
    pub(crate) fn block(&mut self, request: &Request<'_>, awaited: Awaited, timeout_ms: i64) {
        // A timeout beyond the largest time never ends.
        let deadline_ms = Some(timeout_ms).filter(|&ms| ms > 0);
        let deadline_ms = deadline_ms.and_then(|ms| request.now_ms().checked_add(ms));
        let session = self.session(request);
        let command = session.last_command.unwrap_or_default();
        session.blocked = Some(Blocked { awaited, deadline_ms, command });
        self.blocking.sessions.push(request.session);
    }

    /// The session waits no more; what it waited for.
    pub(crate) fn unblock(&mut self, session: u32) -> Option<Blocked> {
        let blocked = self.sessions[session as usize].blocked.take()?;
        self.blocking.sessions.retain(|&place| place != session);
        Some(blocked)
    }

    /// The answer that a session has waited for.
    pub(crate) fn reply_to_blocked(&mut self, session: u32, blocked: &Blocked, reply: Reply) {
        if let Reply::Error(fail) = &reply {
            self.stats.failed(blocked.command, fail);
        }
        let reply = self.sessions[session as usize].filter_reply(reply);
        self.outbox.push((session, reply));
    }

    /// The earliest moment at which a timeout ends, in milliseconds of the wall clock.
    pub(crate) fn next_deadline_ms(&self) -> Option<i64> {
        let deadlines = self.blocking.sessions.iter().filter_map(|&place| {
            self.sessions[place as usize].blocked.as_ref().and_then(|blocked| blocked.deadline_ms)
        });
        // A timeout is over when its last millisecond is over.
        deadlines.min().map(|deadline| deadline.saturating_add(1))
    }

    /// Answers a session that has waited without success.
    pub(crate) fn time_out(&mut self, session: u32, blocked: &Blocked) {
        let reply = match blocked.awaited {
            Awaited::Element { .. } => Reply::NilArray,
            Awaited::Acknowledgements { offset, .. } => Reply::Int(self.acknowledged(offset)),
        };
        self.reply_to_blocked(session, blocked, reply);
    }

    /// Answers the sessions whose timeouts are over: the earliest first, then the longest waiting.
    pub(crate) fn unblock_due(&mut self, now_ms: i64) -> usize {
        let mut answered = 0;
        while self.next_deadline_ms().is_some_and(|deadline| deadline <= now_ms) {
            let deadline = |server: &Self, place: u32| {
                let blocked = server.sessions[place as usize].blocked.as_ref();
                blocked.and_then(|blocked| blocked.deadline_ms).unwrap_or(i64::MAX)
            };
            let first = self.blocking.sessions.iter().copied();
            let Some(session) = first.min_by_key(|&place| deadline(self, place)) else { break };
            let Some(blocked) = self.unblock(session) else { break };
            self.time_out(session, &blocked);
            answered += 1;
        }
        answered
    }
}
