//! One database: keys, values and their expiry.
//!
//! Invariant: every order that can be seen (SCAN, FLUSHALL, active expiry) is the order of slots, which
//! depends on the commands alone; the hash index is only ever asked, never iterated. A key keeps its slot
//! for life, so a SCAN sees every key that is there from its start to its end.

use resp::{Blob, blob};
use rustc_hash::FxHashMap;

use super::value::StoredValue;

/// A key and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct KeyEntry {
    pub(crate) key: Blob,
    pub(crate) value: StoredValue,
    /// On the server's wall clock.
    pub(crate) expires_at_ms: Option<i64>,
    /// When it was created or, where there is a limit of memory, last looked for.
    pub(crate) used_us: i64,
}

/// A database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Db {
    index: FxHashMap<Blob, u32>,
    slots: Vec<Option<KeyEntry>>,
    free: Vec<u32>,
    volatile: usize,
}

impl Db {
    /// Forgets all keys and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.index.clear();
        self.slots.clear();
        self.free.clear();
        self.volatile = 0;
    }

    /// How many keys, expired ones not yet noticed included.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// How many keys have an expiry.
    pub(crate) fn volatile(&self) -> usize {
        self.volatile
    }

    /// How many slots there are: SCAN goes through them.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The slot of a key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        self.index.get(key).copied()
    }

    /// The key at a slot that [`Db::find`] gave.
    pub(crate) fn at(&self, slot: u32) -> &KeyEntry {
        self.slots[slot as usize].as_ref().expect("a found slot is taken")
    }

    /// The value at a slot that [`Db::find`] gave, to be changed in place.
    pub(crate) fn value_mut(&mut self, slot: u32) -> &mut StoredValue {
        &mut self.slots[slot as usize].as_mut().expect("a found slot is taken").value
    }

    /// Notes when the key at a slot is used.
    pub(crate) fn use_at(&mut self, slot: u32, now_us: i64) {
        self.slots[slot as usize].as_mut().expect("a found slot is taken").used_us = now_us;
    }

    /// The key at any slot, if it is taken.
    pub(crate) fn peek(&self, slot: usize) -> Option<&KeyEntry> {
        self.slots.get(slot)?.as_ref()
    }

    /// All keys, in the order of their slots.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &KeyEntry> {
        self.slots.iter().flatten()
    }

    /// The keys that have expired: the time of expiry and the slot of each.
    pub(crate) fn expired(&self, now_ms: i64) -> impl Iterator<Item = (i64, u32)> {
        // Most databases have no key that can.
        let slots = if self.volatile == 0 { &[][..] } else { &self.slots };
        let times = slots.iter().map(|entry| entry.as_ref().and_then(|it| it.expires_at_ms));
        (0..)
            .zip(times)
            .filter_map(move |(slot, when)| Some((when.filter(|&it| now_ms > it)?, slot)))
    }

    /// Adds a key that is not there; the slot it got.
    pub(crate) fn insert(&mut self, entry: KeyEntry) -> u32 {
        debug_assert!(self.find(&entry.key).is_none(), "inserted twice");
        self.volatile += usize::from(entry.expires_at_ms.is_some());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 keys")
        });
        self.index.insert(blob(&entry.key), slot);
        self.slots[slot as usize] = Some(entry);
        slot
    }

    /// Replaces the value and the expiry of the key at a slot.
    pub(crate) fn overwrite(&mut self, slot: u32, value: StoredValue, expires_at_ms: Option<i64>) {
        self.set_expiry(slot, expires_at_ms);
        *self.value_mut(slot) = value;
    }

    /// Sets or clears the expiry of the key at a slot.
    pub(crate) fn set_expiry(&mut self, slot: u32, expires_at_ms: Option<i64>) {
        let entry = self.slots[slot as usize].as_mut().expect("a found slot is taken");
        self.volatile -= usize::from(entry.expires_at_ms.is_some());
        self.volatile += usize::from(expires_at_ms.is_some());
        entry.expires_at_ms = expires_at_ms;
    }

    /// Takes the key at a slot out.
    pub(crate) fn remove(&mut self, slot: u32) -> KeyEntry {
        let entry = self.slots[slot as usize].take().expect("a found slot is taken");
        self.volatile -= usize::from(entry.expires_at_ms.is_some());
        self.index.remove(&entry.key);
        self.free.push(slot);
        entry
    }
}

/// A key just created.
pub(crate) fn entry(key: &[u8], value: StoredValue, expires_at_ms: Option<i64>) -> KeyEntry {
    KeyEntry { key: blob(key), value, expires_at_ms, used_us: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(db: &mut Db, key: &str, expiry: Option<i64>) {
        db.insert(entry(key.as_bytes(), StoredValue::Str(blob(b"v")), expiry));
    }

    #[test]
    fn slots_are_reused_and_the_count_of_volatile_keys_is_kept() {
        let mut db = Db::default();
        put(&mut db, "a", Some(1));
        put(&mut db, "b", None);
        assert_eq!((db.len(), db.volatile(), db.slots()), (2, 1, 2));
        let slot = db.find(b"a").unwrap();
        assert_eq!(&db.remove(slot).key[..], b"a");
        assert_eq!((db.len(), db.volatile(), db.find(b"a")), (1, 0, None));
        put(&mut db, "c", Some(5));
        assert_eq!((db.find(b"c"), db.slots()), (Some(slot), 2));
        db.set_expiry(slot, None);
        assert_eq!(db.volatile(), 0);
        db.clear();
        assert_eq!((db.len(), db.slots()), (0, 0));
    }
}
