//! What became of the last requests of an acquisition for the lock.
//!
//! Invariant: of each server the request counts that was sent there last, of those that were added: the late answer to an earlier
//! one says nothing.

use smallvec::SmallVec;

/// The last request to each server.
#[derive(Clone, Debug, Default)]
pub(super) struct LastRequests {
    /// Its server and operation, and whether that was refused for good.
    all: SmallVec<[(u16, u32, bool); 1]>,
}

impl LastRequests {
    /// A request to this server, which has been refused for good or not; one that has not ended may be added again.
    pub(super) fn add(&mut self, node: u16, op: u32, refused: bool) {
        match self.all.iter_mut().find(|it| it.0 == node) {
            Some(last) => *last = (*last).max((node, op, refused)),
            None => self.all.push((node, op, refused)),
        }
    }

    /// Whether this server has refused it for good.
    pub(super) fn is_refused_by(&self, node: u16) -> bool {
        self.all.iter().any(|it| it.0 == node && it.2)
    }

    /// Whether so many of these servers have that the others are no quorum.
    pub(super) fn leave_no_quorum(&self, servers: usize) -> bool {
        self.refused() > servers.saturating_sub(1) / 2
    }

    /// How many servers have.
    pub(super) fn refused(&self) -> usize {
        self.all.iter().filter(|it| it.2).count()
    }
}
