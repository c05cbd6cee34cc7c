//! Commands that have been sent and not ended yet.
//!
//! Invariant: what has ended is forgotten, so that the memory follows what is open and not the length
//! of a history. Operations are numbered one by one as a rule and are then found by their number; one
//! that lags far behind, or is numbered otherwise, costs a look into a map.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::history::CommandOp;

/// So far may numbers lie apart that are found without the map.
const NEAR: usize = 4_096;

/// The open commands of a history.
#[derive(Default)]
pub(super) struct OpenCommands {
    /// The number of the first of these.
    first: u32,
    near: VecDeque<Option<CommandOp>>,
    far: FxHashMap<u32, CommandOp>,
}

impl OpenCommands {
    /// A command is sent.
    pub(super) fn insert(&mut self, op: u32, command: CommandOp) {
        if self.near.is_empty() {
            self.first = op;
        }
        let Some(place) = op.checked_sub(self.first).map(|place| place as usize) else {
            self.far.insert(op, command);
            return;
        };
        if place >= self.near.len() + NEAR {
            self.far.insert(op, command);
            return;
        }
        while self.near.len() <= place {
            self.near.push_back(None);
        }
        self.near[place] = Some(command);
        while self.near.len() > NEAR {
            self.drop_first();
        }
    }

    /// It has ended.
    pub(super) fn remove(&mut self, op: u32) -> Option<CommandOp> {
        let place = op.checked_sub(self.first).map(|place| place as usize);
        let near = place.and_then(|place| self.near.get_mut(place)).and_then(Option::take);
        if near.is_some() {
            while let Some(None) = self.near.front() {
                self.drop_first();
            }
            return near;
        }
        if self.far.is_empty() { None } else { self.far.remove(&op) }
    }

    fn drop_first(&mut self) {
        if let Some(Some(command)) = self.near.pop_front() {
            self.far.insert(self.first, command);
        }
        self.first += 1;
    }

    /// Those that never end, in the order of their numbers.
    pub(super) fn into_rest(self) -> Vec<(u32, CommandOp)> {
        let near = (self.first..).zip(self.near).filter_map(|(op, it)| it.map(|it| (op, it)));
        let mut rest: Vec<_> = self.far.into_iter().chain(near).collect();
        rest.sort_unstable_by_key(|(op, _)| *op);
        rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::history::{Intent, Text, Touch};

    fn command(client: u32) -> CommandOp {
        CommandOp {
            client,
            acquisition: 0,
            node: 0,
            name: Text::default(),
            key: Text::default(),
            intent: Intent { touch: Touch::None, compares: false },
            invoke_ns: 0,
            answer: None,
            refused: false,
        }
    }

    #[test]
    fn what_lags_far_behind_is_found_all_the_same() {
        let mut open = OpenCommands::default();
        (1..50_000).for_each(|op| open.insert(op, command(op)));
        assert!(open.near.len() <= NEAR);
        assert_eq!(open.remove(1), Some(command(1)));
        assert_eq!(open.remove(1), None);
        (2..40_000).for_each(|op| assert_eq!(open.remove(op), Some(command(op))));
        assert!(open.far.len() + open.near.len() < 10_001, "the ended are forgotten");
    }

    #[test]
    fn so_many_are_found_without_the_map_and_no_more() {
        let near = u32::try_from(NEAR).unwrap();
        let with = |all: &mut dyn Iterator<Item = u32>| {
            let mut open = OpenCommands::default();
            all.for_each(|op| open.insert(op, command(op)));
            (open.first, open.near.len(), open.far.len())
        };
        assert_eq!(with(&mut (1..=near)), (1, NEAR, 0));
        assert_eq!(with(&mut (1..=near + 1)), (2, NEAR, 1));
        assert_eq!(with(&mut [1, near + 1].into_iter()), (2, NEAR, 1), "just near enough");
        assert_eq!(with(&mut [1, near + 2].into_iter()), (1, 1, 1), "too far ahead");
        assert_eq!(with(&mut [5, 3].into_iter()), (5, 1, 1), "too late");
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_map(
            steps in prop::collection::vec((any::<bool>(), 0..9_u32, 0..3_u32), 0..200),
        ) {
            let (mut open, mut map) = (OpenCommands::default(), std::collections::BTreeMap::new());
            for (sends, near, far) in steps {
                let op = near + far * 5_000;
                if sends && !map.contains_key(&op) {
                    open.insert(op, command(op));
                    map.insert(op, command(op));
                } else {
                    prop_assert_eq!(open.remove(op), map.remove(&op));
                }
            }
            prop_assert_eq!(open.into_rest(), map.into_iter().collect::<Vec<_>>());
        }
    }
}
