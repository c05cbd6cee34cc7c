//! Operations that have begun and not ended, by their numbers.
//!
//! Invariant: what has ended is forgotten, so that the memory follows what is open and not the length
//! of a history.

use rustc_hash::FxHashMap;

/// So many places there are for operations that end soon, each found by its number alone.
const NEAR: u32 = 256;

/// What is known of each open operation.
#[derive(Debug)]
pub struct OpenOps<T> {
    /// The last to begin, with their numbers, at the places that follow from these.
    near: Vec<Option<(u32, T)>>,
    /// Those whose place was needed before they ended.
    far: FxHashMap<u32, T>,
}

impl<T> Default for OpenOps<T> {
    fn default() -> Self {
        Self { near: (0..NEAR).map(|_| None).collect(), far: FxHashMap::default() }
    }
}

impl<T> OpenOps<T> {
    /// It begins.
    pub fn begin(&mut self, op: u32, known: T) {
        let before = self.near[(op % NEAR) as usize].replace((op, known));
        if let Some((other, known)) = before.filter(|(other, _)| *other != op) {
            self.far.insert(other, known);
        }
    }

    /// It ends; none where it is not open.
    pub fn end(&mut self, op: u32) -> Option<T> {
        match self.near[(op % NEAR) as usize].take_if(|(near, _)| *near == op) {
            Some((_, known)) => Some(known),
            // Hashing costs more than to see that there is nothing.
            None if self.far.is_empty() => None,
            None => self.far.remove(&op),
        }
    }

    /// Whether this one is.
    pub fn is_open(&self, op: u32) -> bool {
        let near = &self.near[(op % NEAR) as usize];
        near.as_ref().is_some_and(|(near, _)| *near == op) || self.far.contains_key(&op)
    }

    /// Those that never end, in the order of their numbers.
    pub fn into_rest(self) -> Vec<(u32, T)> {
        let mut rest: Vec<_> = self.near.into_iter().flatten().chain(self.far).collect();
        rest.sort_unstable_by_key(|(op, _)| *op);
        rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_lags_far_behind_is_found_all_the_same() {
        let mut open = OpenOps::default();
        (1..50_000).for_each(|op| open.begin(op, op));
        assert_eq!((open.end(1), open.end(1)), (Some(1), None));
        (2..40_000).for_each(|op| assert_eq!(open.end(op), Some(op)));
        assert_eq!(open.near.len() + open.far.len(), 10_000, "the ended are forgotten");
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_map(
            steps in prop::collection::vec((any::<bool>(), 0..9_u32, 0..3_u32), 0..200),
        ) {
            let (mut open, mut map) = (OpenOps::default(), std::collections::BTreeMap::new());
            for (nth, (begins, near, far)) in steps.into_iter().enumerate() {
                let op = near + far * NEAR;
                prop_assert_eq!(open.is_open(op), map.contains_key(&op));
                if begins && !map.contains_key(&op) {
                    open.begin(op, nth);
                    map.insert(op, nth);
                } else {
                    prop_assert_eq!(open.end(op), map.remove(&op));
                }
            }
            prop_assert_eq!(open.into_rest(), map.into_iter().collect::<Vec<_>>());
        }
    }
}
