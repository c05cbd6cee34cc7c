//! Who wrote a value that somebody has found.
//!
//! Invariant: a command is named only where no other can have written what was found: every command
//! that may have changed the key is known with its value, and those that surely wrote nothing are not
//! counted. Deliberately absent: the values. They are compared by their digests of 64 bits, and never
//! written down.

use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;

/// A key on a server, by its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyDigest(u64);

impl KeyDigest {
    /// This key on this server.
    pub fn of(node: u16, key: &[u8]) -> Self {
        Self(digest(u64::from(node), key))
    }

    /// This value there.
    pub fn holding(self, value: &[u8]) -> Content {
        Content(digest(self.0, value))
    }
}

/// A value at its place, by its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Content(u64);

fn digest(seed: u64, bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    (seed, bytes).hash(&mut hasher);
    hasher.finish()
}

/// What was written by whom.
#[derive(Debug, Default)]
pub(super) struct Values {
    writers: FxHashMap<Content, SmallVec<[u32; 2]>>,
    /// Where somebody may have written nobody knows what.
    unknown: FxHashSet<KeyDigest>,
}

impl Values {
    /// This command may write it.
    pub(super) fn writes(&mut self, op: u32, content: Content) {
        self.writers.entry(content).or_default().push(op);
    }

    /// This command has not written it, and will not.
    pub(super) fn wrote_nothing(&mut self, op: u32, content: Content) {
        if let Entry::Occupied(mut writers) = self.writers.entry(content) {
            writers.get_mut().retain(|it| *it != op);
            if writers.get().is_empty() {
                writers.remove();
            }
        }
    }

    /// Something is written there that nobody knows.
    pub(super) fn writes_unknown(&mut self, place: KeyDigest) {
        self.unknown.insert(place);
    }

    /// Which command had written what this one has found there, where only one can have.
    pub(super) fn writer(&self, by: u32, place: KeyDigest, content: Content) -> Option<u32> {
        if self.unknown.contains(&place) {
            return None;
        }
        let mut others = self.writers.get(&content)?.iter().filter(|it| **it != by);
        let writer = others.next().copied();
        writer.filter(|_| others.next().is_none())
    }

    pub(super) fn clear(&mut self) {
        self.writers.clear();
        self.unknown.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_named_where_no_other_can_have_written_it() {
        let place = KeyDigest::of(0, b"k");
        let (old, new) = (place.holding(b"old"), place.holding(b"new"));
        let mut values = Values::default();
        assert_eq!(values.writer(9, place, old), None);
        values.writes(1, old);
        assert_eq!(values.writer(9, place, old), Some(1));
        assert_eq!(values.writer(9, place, new), None);
        assert_eq!(values.writer(1, place, old), None, "nobody finds what it is about to write");
        values.writes(2, old);
        assert_eq!(values.writer(9, place, old), None, "one of two");
        assert_eq!(values.writer(2, place, old), Some(1), "the other of two");
        values.wrote_nothing(1, old);
        assert_eq!(values.writer(9, place, old), Some(2));
        values.wrote_nothing(2, old);
        assert_eq!(values.writer(9, place, old), None);
    }

    #[test]
    fn places_have_values_of_their_own() {
        let places = [KeyDigest::of(0, b"k"), KeyDigest::of(1, b"k"), KeyDigest::of(0, b"l")];
        let mut values = Values::default();
        for (op, place) in (1..).zip(places) {
            values.writes(op, place.holding(b"v"));
        }
        values.writes_unknown(places[1]);
        let writers = places.map(|place| values.writer(9, place, place.holding(b"v")));
        assert_eq!(writers, [Some(1), None, Some(3)], "where anybody may have written anything");
        values.clear();
        assert!(places.iter().all(|it| values.writer(9, *it, it.holding(b"v")).is_none()));
    }
}
