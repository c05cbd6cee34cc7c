//! The append-only file: what a server reads when it starts again.
//!
//! Invariant: the file is a snapshot and the stream after it. A killed process loses nothing of it; a power
//! loss loses what no fsync has reached. With `always` every answer waits for the fsync, so nothing answered
//! is lost. Not modelled: snapshots by themselves (`save`), and rewriting in the background. A restart
//! starts a new file with what it has read.

use super::Server;
use super::replication::Snapshot;
use crate::options::Parameters;
use scenarios::topology::AppendOnly;

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Termination {
    /// The process is killed: what was written is still with the operating system.
    Killed,
    /// The machine is without power: what was not synced is gone.
    PowerLoss,
}

/// The file of one server.
#[derive(Debug, Default)]
pub(crate) struct AppendOnlyFile {
    /// None: nothing is kept.
    base: Option<Snapshot>,
    policy: AppendOnly,
    /// The stream up to here is on the disk.
    pub(crate) synced: u64,
    pub(crate) last_sync_ms: i64,
}

/// With `everysec`, the time from one fsync to the next.
const INTERVAL_MS: i64 = 1_000;

impl AppendOnlyFile {
    pub(crate) fn is_on(&self) -> bool {
        self.base.is_some()
    }

    pub(crate) fn syncs_always(&self) -> bool {
        self.base.is_some() && self.policy == AppendOnly::Always
    }
}

impl Server {
    /// Starts a new file with the data set as it is, if there is to be one.
    pub(crate) fn start_file(&mut self) {
        let on = self.parameters.get("appendonly") == b"yes";
        self.file.base = on.then(|| self.snapshot());
        self.file.synced = self.journal.end();
        self.apply_parameters();
    }

    /// Does what the parameters say of the file.
    pub(crate) fn apply_parameters(&mut self) {
        let limit = std::str::from_utf8(self.parameters.get("maxmemory")).unwrap_or_default();
        self.max_memory_bytes = limit.parse().unwrap_or(0);
        let on = self.parameters.get("appendonly") == b"yes";
        // A file switched on by CONFIG SET begins with the data set as it is.
        if on != self.file.is_on() {
            self.start_file();
        }
        self.file.policy = match self.parameters.get("appendfsync") {
            b"always" => AppendOnly::Always,
            b"no" => AppendOnly::Unsynced,
            _ => AppendOnly::Everysec,
        };
        self.journal.on = on || !self.replicas.is_empty();
        let events = self.parameters.get("notify-keyspace-events");
        let witnessed = self.notify_classes & super::notify::event::WITNESSED;
        self.notify_classes = super::notify::parse(events).unwrap_or_default() | witnessed;
    }

    /// When `everysec` is to sync next; none: there is nothing to sync, or the policy is another one.
    pub(crate) fn next_fsync_ms(&self) -> Option<i64> {
        let waits = self.file.is_on()
            && self.file.policy == AppendOnly::Everysec
            && self.file.synced < self.journal.end();
        waits.then(|| self.file.last_sync_ms.saturating_add(INTERVAL_MS))
    }

    /// The process is gone, with its connections and its memory.
    pub(crate) fn end(&mut self, end: Termination) {
        if end == Termination::PowerLoss && self.file.is_on() {
            self.journal.truncate(self.file.synced);
        }
        self.end_process();
    }

    /// The process is there again and has read its file.
    pub(crate) fn load_file(&mut self, now_us: i64) {
        self.parameters = Parameters::new(&self.options);
        if let Some(base) = self.file.base.take() {
            let log = self.journal.between(base.offset, self.journal.end());
            let log = log.unwrap_or_default().to_vec();
            self.dbs = base.dbs;
            // Expired keys of a snapshot are not even read. Those of the log are read, and are
            // deleted when a command meets them.
            for db in &mut self.dbs {
                for (_, slot) in db.expired(now_us / 1000).collect::<Vec<_>>() {
                    db.remove(slot);
                }
            }
            self.replay(now_us, &log);
        }
        self.stats.reset();
        self.journal.restart_at(0);
        self.file.last_sync_ms = now_us / 1000;
        self.start_file();
    }
}
