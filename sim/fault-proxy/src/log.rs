//! The log: what the proxy did, in order.
//!
//! Invariant: every fault leaves a record at the place of its decision; a full log loses records, which leaves gaps in
//! their numbers, and never blocks a connection. Values are not logged, only the command and its first key.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

mod file;
mod json;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use picklock::env::Node;
use resp::frame::{CommandName, FrameError};

pub use file::LogFile;

use super::effect::{Effect, EffectId, Toxicity};
use super::ids::{ClientId, Cut, LinkConnection, Side};
use super::rule::{Action, RuleId};

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Faults, and the connections they struck.
    #[default]
    Faults,
    /// Every request as well.
    Requests,
    /// Every request, the beginning of every reply, and where each connection comes from.
    Replies,
}

/// How many bytes of a reply are logged.
pub(super) const REPLY_BYTES: usize = 128;

/// What happened.
#[derive(Clone, Debug)]
pub enum ProxyEvent {
    /// The server was reached, from this address. Only with [`Detail::Replies`].
    Connected(SocketAddr),
    /// A request went by. Only with [`Detail::Requests`] or more.
    Request,
    /// The reply to a request arrived from the server, which begins like this. Only with [`Detail::Replies`].
    Reply(Vec<u8>),
    /// A rule was applied to a request.
    Fault(RuleId, Action),
    /// The reply to a request arrived from the server and was lost by a rule.
    ReplyLost,
    /// The link was cut or healed.
    Cut(Cut),
    /// A fault was put on the link under this name; the log knows it by its rule or its effect.
    ToxicPut(String, FaultId),
    /// A fault was taken away.
    ToxicTaken(String, FaultId),
    /// An effect was put on one direction of the link, for this part of its connections.
    EffectPut(EffectId, Side, Effect, Toxicity),
    /// An effect was taken away.
    EffectTaken(EffectId),
    /// An effect strikes the connection.
    Struck(EffectId),
    /// An effect spares the connection.
    Spared(EffectId),
    /// An effect has ended the connection, or its direction.
    EndedBy(EffectId),
    /// The connections of the link were reset by hand.
    ResetAll,
    /// The time after a lost frame was over and the connection was reset.
    GraceOver,
    /// The stream is not RESP, or no longer (MONITOR, PSYNC), or the link's plan says that it is not
    /// parsed: bytes pass, rules do not apply.
    Opaque(&'static str),
    /// The stream cannot be RESP; the connection was closed.
    Malformed(Side, FrameError),
    /// A reply names a server to which the client has no link, and was left as it is.
    LeftAddress(String),
    /// The server could not be reached; the client's connection was reset.
    Unreachable(String),
}

/// The id of a fault in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultId {
    /// One at commands.
    Rule(RuleId),
    /// One on the wire.
    Effect(EffectId),
}

/// A line of the log.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its number, from 1 without gaps, lost records included.
    pub seq: u64,
    /// When, since the proxy started.
    pub at: Duration,
    /// Whose link.
    pub client: ClientId,
    /// To which server.
    pub node: Node,
    /// Which connection of the link, from 1; 0 for the link itself.
    pub connection: u64,
    /// Which request of the connection, from 1; 0 for no request.
    pub frame: u64,
    /// The request's command, if the record concerns a request.
    pub command: Option<CommandName>,
    /// The request's first key.
    pub key: Option<Vec<u8>>,
    /// What happened.
    pub event: ProxyEvent,
}

/// The traffic of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Connections accepted.
    pub connections: u64,
    /// Requests read, lost ones included.
    pub requests: u64,
    /// Frames read from the server, pushes included.
    pub replies: u64,
    /// Requests for each command name.
    pub commands: BTreeMap<CommandName, u64>,
    /// Effects that have struck a connection.
    pub struck: BTreeSet<EffectId>,
}

/// The log of a proxy.
#[derive(Debug)]
pub struct ProxyLog {
    start: Instant,
    detail: Detail,
    limit: usize,
    /// When it is full, the oldest record makes room for the newest.
    keeps_newest: bool,
    copies: Option<SyncSender<Record>>,
    inner: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    records: VecDeque<Record>,
    seq: u64,
}

impl ProxyLog {
    /// An empty log of at most `limit` records.
    pub(super) fn new(detail: Detail, limit: usize) -> Self {
        let (keeps_newest, copies) = (false, None);
        Self { start: Instant::now(), detail, limit, keeps_newest, copies, inner: Mutex::default() }
    }

    /// An empty log that keeps the newest `limit` records, and sends a copy of each. A copy that is
    /// not taken in time is lost.
    pub fn of_newest(detail: Detail, limit: usize, copies: Option<SyncSender<Record>>) -> Self {
        Self { keeps_newest: true, copies, ..Self::new(detail, limit) }
    }

    /// When the proxy started: records say how long after it they were made.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// How much is logged.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// The records so far.
    pub fn records(&self) -> Vec<Record> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).records.iter().cloned().collect()
    }

    /// The newest matching records, at most `limit`, oldest first.
    pub fn newest(&self, limit: usize, is_meant: impl Fn(&Record) -> bool) -> Vec<Record> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let meant = inner.records.iter().rev().filter(|record| is_meant(record));
        let mut records: Vec<Record> = meant.take(limit).cloned().collect();
        records.reverse();
        records
    }

    /// The records since the last call; the log is empty afterwards.
    pub fn take(&self) -> Vec<Record> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut inner.records).into()
    }

    /// Something about a connection or link.
    pub(super) fn note(&self, place: LinkConnection, event: ProxyEvent) {
        self.write(place, 0, None, None, event);
    }

    /// Something about a request.
    pub(super) fn write(
        &self,
        place: LinkConnection,
        frame: u64,
        command: Option<CommandName>,
        key: Option<&[u8]>,
        event: ProxyEvent,
    ) {
        let at = self.start.elapsed();
        let LinkConnection { client, node, connection } = place;
        let key = key.map(<[u8]>::to_vec);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.seq += 1;
        let seq = inner.seq;
        if inner.records.len() >= self.limit {
            if !self.keeps_newest {
                return;
            }
            inner.records.pop_front();
        }
        let record = Record { seq, at, client, node, connection, frame, command, key, event };
        if let Some(copies) = &self.copies {
            // Under the lock, so that copies come in order; a full channel is not waited for.
            let _ = copies.try_send(record.clone());
        }
        inner.records.push_back(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_loses_records_but_not_their_numbers() {
        let log = ProxyLog::new(Detail::Faults, 2);
        let place = LinkConnection { client: ClientId(0), node: Node(0), connection: 1 };
        for _ in 0..3 {
            log.note(place, ProxyEvent::ResetAll);
        }
        assert_eq!(log.take().len(), 2);
        log.note(place, ProxyEvent::ResetAll);
        assert_eq!(log.records()[0].seq, 4);
    }

    #[test]
    fn a_log_of_the_newest_forgets_the_oldest_and_sends_copies_in_order() {
        let (sender, receiver) = std::sync::mpsc::sync_channel(3);
        let log = ProxyLog::of_newest(Detail::Faults, 2, Some(sender));
        let place = |connection| LinkConnection { client: ClientId(0), node: Node(0), connection };
        for connection in 1..=4 {
            log.note(place(connection), ProxyEvent::ResetAll);
        }
        let numbers =
            |records: Vec<Record>| -> Vec<u64> { records.iter().map(|it| it.seq).collect() };
        assert_eq!(numbers(log.records()), [3, 4]);
        assert_eq!(numbers(log.newest(1, |_| true)), [4]);
        assert_eq!(numbers(log.newest(9, |record| record.connection == 3)), [3]);
        assert_eq!(numbers(receiver.try_iter().collect()), [1, 2, 3], "nobody waits for a reader");
    }
}
