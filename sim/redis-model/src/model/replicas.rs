//! A model as a primary with replicas, or as a replica.
//!
//! Invariant: the stream only moves in whole groups, so a world that hands over what lies between two cuts
//! can lag, lose and repeat nothing else.

use picklock::time::WallTime;

use super::{Model, unix_us};
use crate::server::replication::{Replica, ReplicaId, Snapshot};

impl Model {
    /// A replica has come, and from now on a stream is kept. It takes a [`Model::snapshot`] first.
    /// ROLE and INFO show its port.
    pub fn attach_replica(&mut self, port: u16) -> ReplicaId {
        let server = &mut *self.server.borrow_mut();
        let id = ReplicaId(server.replicas.last().map_or(0, |last| last.id.0 + 1));
        let offset = 0;
        server.replicas.push(Replica { id, port, offset });
        server.apply_parameters();
        id
    }

    /// A replica has gone. With the last one the stream ends, unless it is kept in a file.
    pub fn detach_replica(&mut self, replica: ReplicaId) {
        let server = &mut *self.server.borrow_mut();
        server.replicas.retain(|other| other.id != replica);
        server.apply_parameters();
    }

    /// The replica says that it has the stream up to this offset, which may end a WAIT.
    pub fn acknowledge(&mut self, replica: ReplicaId, offset: u64) {
        self.server.borrow_mut().acknowledge(replica, offset);
    }

    /// Whether it has a value for this key, be it one that has expired and is still there.
    pub fn has(&self, key: &[u8]) -> bool {
        self.server.borrow().dbs.iter().any(|db| db.find(key).is_some())
    }

    /// The end of a primary's stream, or how far a replica has applied its primary's.
    pub fn offset(&self) -> u64 {
        self.server.borrow().journal.end()
    }

    /// The end of the first group of the stream that ends after the offset.
    pub fn next_cut(&self, after: u64) -> Option<u64> {
        self.server.borrow().journal.next_cut(after)
    }

    /// Appends the stream between two offsets to `out`. False: it is no longer kept, so a replica
    /// that needs it takes a snapshot.
    pub fn copy_stream(&self, from: u64, to: u64, out: &mut Vec<u8>) -> bool {
        let server = self.server.borrow();
        let stream = server.journal.between(from, to);
        out.extend_from_slice(stream.unwrap_or_default());
        stream.is_some()
    }

    /// Forgets the stream up to the offset, unless the append-only file needs it.
    pub fn forget_stream(&mut self, before: u64) {
        let server = &mut *self.server.borrow_mut();
        if !server.file.is_on() {
            server.journal.forget(before);
        }
    }

    /// The data set as it is now.
    pub fn snapshot(&mut self) -> Snapshot {
        self.server.borrow_mut().snapshot()
    }

    /// Becomes a replica of the server at this port with its data set, whatever it was before and
    /// whatever it held. Clients that wait get an error and are closed.
    pub fn follow(&mut self, port: u16, snapshot: &Snapshot) {
        self.server.borrow_mut().follow(port, snapshot);
    }

    /// Carries out what lies between two cuts of the primary's stream, the first being this
    /// replica's [`Model::offset`].
    ///
    /// # Panics
    /// If it is no replica.
    pub fn apply(&mut self, now: WallTime, groups: &[u8]) {
        let server = &mut *self.server.borrow_mut();
        assert!(server.is_replica(), "a primary applies nobody's stream");
        server.apply(unix_us(now), groups);
    }

    /// Becomes a primary with what it has, whatever it has not received being lost.
    pub fn promote(&mut self) {
        let server = &mut *self.server.borrow_mut();
        if server.primary_port.take().is_some() {
            server.journal.forget_database();
        }
    }

    /// Whether it follows a primary.
    pub fn is_replica(&self) -> bool {
        self.server.borrow().is_replica()
    }
}

#[cfg(test)]
mod tests;
