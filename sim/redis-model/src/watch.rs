//! Which sessions watch which keys.
//!
//! Invariant: with nothing watched, a write costs one comparison. The watchers of a key are few,
//! so a list is asked from end to end.

use resp::{Blob, blob};

/// Keys under WATCH, and the places of the sessions that watch them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchers {
    list: Vec<(u16, Blob, u32)>,
}

impl Watchers {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    pub(crate) fn add(&mut self, db: u16, key: &[u8], session: u32) {
        self.list.push((db, blob(key), session));
    }

    pub(crate) fn forget(&mut self, session: u32) {
        self.list.retain(|(_, _, watcher)| *watcher != session);
    }

    /// The sessions that watch this key.
    pub(crate) fn of(&self, db: u16, key: &[u8]) -> impl Iterator<Item = u32> {
        let same = move |entry: &&(u16, Blob, u32)| entry.0 == db && &entry.1[..] == key;
        self.list.iter().filter(same).map(|entry| entry.2)
    }
}
