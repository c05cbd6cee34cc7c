//! What became of the last requests of an acquisition for the lock.
//!
//! Invariant: of each server the request counts that was sent there last, of those that were added: the late answer to an earlier
//! one says nothing.

use smallvec::SmallVec;

/// The last request to each server.
#[derive(Clone, Debug, Default)]
pub(super) struct LastRequests<T> {
    /// Its server and operation, and what became of it.
    all: SmallVec<[(u16, u32, T); 1]>,
}

impl<T: Copy> LastRequests<T> {
    /// A request to this server is sent, or has ended.
    pub(super) fn add(&mut self, node: u16, op: u32, became: T) {
        match self.all.iter_mut().find(|it| it.0 == node) {
            Some(last) if last.1 <= op => *last = (node, op, became),
            Some(_) => {}
            None => self.all.push((node, op, became)),
        }
    }

    /// What became of each.
    pub(super) fn became(&self) -> impl ExactSizeIterator<Item = T> {
        self.all.iter().map(|it| it.2)
    }
}

/// Those that have been refused for good.
impl LastRequests<bool> {
    /// Whether this server has refused it.
    pub(super) fn is_refused_by(&self, node: u16) -> bool {
        self.all.iter().any(|it| it.0 == node && it.2)
    }

    /// Whether so many of these servers have that the others are no quorum.
    pub(super) fn leave_no_quorum(&self, servers: usize) -> bool {
        self.refused() > servers.saturating_sub(1) / 2
    }

    /// How many servers have.
    pub(super) fn refused(&self) -> usize {
        self.became().filter(|it| *it).count()
    }
}
