//! The value of a sorted set: members in the order of their scores, then of their bytes.
//!
//! Invariant: each member stands once, no score is NaN, and the order holds after every change.

use std::cmp::Ordering;

use resp::{Blob, blob};

/// Scores and members.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scored(Vec<(f64, Blob)>);

/// `zset-max-listpack-entries` and `zset-max-listpack-value`.
const SMALL_MEMBERS: usize = 128;
const SMALL_BYTES: usize = 64;

fn order(entry: &(f64, Blob), score: f64, member: &[u8]) -> Ordering {
    // Not `total_cmp`: Redis takes -0 and 0 for equal.
    entry.0.partial_cmp(&score).unwrap_or(Ordering::Equal).then_with(|| entry.1[..].cmp(member))
}

impl Scored {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All members, the lowest score first.
    pub(crate) fn as_slice(&self) -> &[(f64, Blob)] {
        &self.0
    }

    /// The place of a member, the lowest score having place 0.
    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.0.iter().position(|(_, other)| &other[..] == member)
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.rank(member).map(|rank| self.0[rank].0)
    }

    /// Sets a member's score, whether it is there or not.
    pub(crate) fn insert(&mut self, member: &[u8], score: f64) {
        self.remove(member);
        // A small set of Redis's keeps whole scores as integers, which have no -0.
        let is_small = self.0.len() < SMALL_MEMBERS && member.len() <= SMALL_BYTES;
        let score = if is_small { score + 0.0 } else { score };
        let place = self.0.partition_point(|entry| order(entry, score, member).is_lt());
        self.0.insert(place, (score, blob(member)));
    }

    /// Whether the member was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let rank = self.rank(member);
        rank.map(|rank| self.0.remove(rank)).is_some()
    }

    /// Takes out the members of these places.
    pub(crate) fn drain(&mut self, ranks: std::ops::Range<usize>) -> Vec<(f64, Blob)> {
        self.0.drain(ranks).collect()
    }
}

impl FromIterator<(f64, Blob)> for Scored {
    fn from_iter<I: IntoIterator<Item = (f64, Blob)>>(entries: I) -> Self {
        let mut set = Self::default();
        entries.into_iter().for_each(|(score, member)| set.insert(&member, score));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_once_in_the_order_of_scores_then_bytes() {
        let mut set = Scored::default();
        for (member, score) in [("b", 1.0), ("a", 1.0), ("c", -1.0), ("b", -2.0), ("d", 1.0)] {
            set.insert(member.as_bytes(), score);
        }
        let members: Vec<&[u8]> = set.as_slice().iter().map(|(_, member)| &member[..]).collect();
        assert_eq!(members, [b"b", b"c", b"a", b"d"]);
        assert_eq!((set.rank(b"a"), set.score(b"b"), set.len()), (Some(2), Some(-2.0), 4));
        assert!(set.remove(b"c") && !set.remove(b"c"));
        set.insert(b"z", -0.0);
        assert_eq!(set.score(b"z").map(f64::is_sign_negative), Some(false));
    }
}
