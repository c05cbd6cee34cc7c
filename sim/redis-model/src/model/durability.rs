//! A model that ends and comes back.
//!
//! Invariant: when its process has ended, only its file is left, and every [`ConnectionId`](super::ConnectionId)
//! is void.

use picklock::time::WallTime;

use super::{Model, unix_us};
use crate::server::persistence::Termination;

impl Model {
    /// The process ends; connections and memory are gone. [`Termination`] says how much of the file is left.
    pub fn end(&mut self, end: Termination) {
        self.server.borrow_mut().end(end);
    }

    /// The process starts again as a primary and reads its file, if it keeps one; keys that have expired
    /// meanwhile are gone.
    pub fn restart(&mut self, now: WallTime) {
        self.server.borrow_mut().load_file(unix_us(now));
        if let Some(engine) = &mut self.engine {
            engine.reset();
        }
    }

    /// An fsync that began now has ended, whatever the policy.
    pub fn fsync(&mut self, now: WallTime) {
        let server = &mut *self.server.borrow_mut();
        server.file.synced = server.journal.end();
        server.file.last_sync_ms = unix_us(now) / 1000;
    }

    /// When the policy `everysec` has the server sync; none: there is nothing to sync, or the policy is
    /// another.
    pub fn next_fsync(&self) -> Option<WallTime> {
        let at_ms = u64::try_from(self.server.borrow().next_fsync_ms()?).unwrap_or(0);
        Some(WallTime::from_unix_ns(at_ms.saturating_mul(1_000_000)))
    }

    /// Syncs if [`Model::next_fsync`] has come; whether it has.
    pub fn fsync_due(&mut self, now: WallTime) -> bool {
        let due = self.next_fsync().is_some_and(|at| at <= now);
        if due {
            self.fsync(now);
        }
        due
    }
}

#[cfg(test)]
mod tests;
