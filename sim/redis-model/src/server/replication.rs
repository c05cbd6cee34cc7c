//! A primary's replicas, and a replica's primary.
//!
//! Invariant: a replica that has applied the stream up to an offset holds what the primary held at that
//! offset: keys, values and expiries alike. The world decides how far behind it is. Not modelled:
//! partial resynchronisation (a replica that cannot go on takes a whole snapshot), chains of replicas, and
//! the handshake.

use resp::{ErrorReply, Parsed, Reply, RequestParser};

use super::blocking::Awaited;
use super::table::{Execution, Lookup};
use super::{Request, STREAM_SESSION, Server};
use crate::keyspace::Db;

/// The host of every server, as ROLE and INFO show it: they differ in their ports.
pub(crate) const HOST: &str = "127.0.0.1";

/// A replica as its primary knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub(crate) u32);

/// What a primary knows of a replica.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) id: ReplicaId,
    pub(crate) port: u16,
    /// How far it has acknowledged the stream.
    pub(crate) offset: u64,
}

/// A data set as it stood at one offset of its server's stream.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) dbs: Vec<Db>,
    pub(crate) offset: u64,
}

impl Snapshot {
    /// The offset.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Server {
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        // A reader that starts here has no database selected yet.
        self.journal.forget_database();
        let (dbs, offset) = (self.dbs.clone(), self.journal.end());
        Snapshot { dbs, offset }
    }

    /// Whether it follows a primary.
    pub(crate) fn is_replica(&self) -> bool {
        self.primary_port.is_some()
    }

    /// Takes over a primary's data set and follows it from there.
    pub(crate) fn follow(&mut self, primary_port: u16, snapshot: &Snapshot) {
        // Blocked clients wait for what only a primary can give, so none may wait on a replica.
        for session in std::mem::take(&mut self.blocking.sessions) {
            let state = &mut self.sessions[session as usize];
            state.blocked = None;
            state.closing = true;
            self.outbox.push((session, Reply::Error(FORCED)));
        }
        self.blocking.clear();
        for session in &mut self.sessions {
            session.dirty |= !session.watched.is_empty();
        }
        self.sessions[STREAM_SESSION as usize].db = 0;
        self.dbs.clone_from(&snapshot.dbs);
        self.primary_port = Some(primary_port);
        self.replicas.clear();
        self.journal.restart_at(snapshot.offset);
        self.start_file();
    }

    /// Carries out groups of a stream, and adds them to its own.
    pub(crate) fn apply(&mut self, now_us: i64, groups: &[u8]) {
        self.replay(now_us, groups);
        self.journal.relay(groups);
        self.after_commit();
    }

    /// Carries out requests of a stream without adding to one.
    pub(crate) fn replay(&mut self, now_us: i64, groups: &[u8]) {
        let on = std::mem::replace(&mut self.journal.on, false);
        // While it applies, no key expires by itself: the primary's DEL says when.
        self.applying = true;
        let mut parser = RequestParser::new();
        let mut rest = groups;
        while let Ok(Parsed::Request { used }) = parser.parse(rest, true) {
            let mut args = Vec::new();
            parser.args(rest, &mut args);
            // MULTI and EXEC only mark a group, which has arrived whole; EXEC has no handler of its own.
            if let Lookup::Command(command) = self.table.find(&args)
                && let Execution::Plain(handler) = self.table.spec(command).run
                && self.table.spec(command).name != "multi"
            {
                let request = Request { now_us, session: STREAM_SESSION, args: &args };
                self.run_handler(command, handler, &request);
            }
            rest = &rest[used..];
        }
        self.applying = false;
        self.journal.on = on;
    }

    /// How many replicas have got as far as this.
    pub(crate) fn acknowledged(&self, offset: u64) -> i64 {
        let count = self.replicas.iter().filter(|replica| replica.offset >= offset).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    /// A replica says how far it is: this may end a WAIT.
    pub(crate) fn acknowledge(&mut self, id: ReplicaId, offset: u64) {
        let Some(replica) = self.replicas.iter_mut().find(|replica| replica.id == id) else {
            return;
        };
        replica.offset = replica.offset.max(offset);
        let waits = |server: &Self, place: u32| {
            let blocked = server.sessions[place as usize].blocked.as_ref()?;
            match blocked.awaited {
                Awaited::Acknowledgements { replicas, offset } => {
                    Some(server.acknowledged(offset)).filter(|&count| count >= replicas)
                }
                Awaited::Element { .. } => None,
            }
        };
        for session in self.blocking.sessions.clone() {
            if let Some(count) = waits(self, session)
                && let Some(blocked) = self.unblock(session)
            {
                self.reply_to_blocked(session, &blocked, Reply::Int(count));
            }
        }
    }

    /// The writes of what was under way have gone out.
    pub(crate) fn after_commit(&mut self) {
        if self.file.syncs_always() {
            self.file.synced = self.journal.end();
        }
    }
}

const FORCED: ErrorReply = ErrorReply::new(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);
