//! A distribution of single values, each with its share of the choices.
//!
//! Invariant: a value gets its share of all choices, to the 2³² part that a choice is, and longer values
//! have higher choices.

use super::measured::Bucket;
use picklock::time::span_ns;

/// The upper bits of a choice name a cell, and a cell knows where its values begin.
const CELL_BITS: u32 = 10;

/// Values in rising order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    values_ns: Box<[u64]>,
    /// The last choice of each value.
    ends: Box<[u32]>,
    /// The place of the first value of each cell; and that of the last value of all.
    cells: Box<[u32]>,
}

impl Steps {
    /// The steps of these buckets, which rise and count something.
    pub(super) fn new(buckets: &[Bucket]) -> Self {
        let total: u128 = buckets.iter().map(|it| u128::from(it.count)).sum();
        let (mut values_ns, mut ends) = (Vec::new(), Vec::<u32>::new());
        let mut counted = 0_u128;
        for bucket in buckets {
            counted += u128::from(bucket.count);
            // Rounded to the nearest choice; a share below half a choice's is not drawn.
            let beyond = ((counted << 32) + total / 2) / total;
            let Some(end) = beyond.checked_sub(1).and_then(|end| u32::try_from(end).ok()) else {
                continue;
            };
            if ends.last().is_none_or(|last| *last < end) {
                values_ns.push(span_ns(bucket.value.0));
                ends.push(end);
            }
        }
        let place = |choice: u32| {
            u32::try_from(ends.partition_point(|end| *end < choice)).unwrap_or(u32::MAX)
        };
        let mut cells: Vec<u32> =
            (0..1 << CELL_BITS).map(|cell: u32| place(cell << (32 - CELL_BITS))).collect();
        cells.push(place(u32::MAX));
        Self { values_ns: values_ns.into(), ends: ends.into(), cells: cells.into() }
    }

    /// The value of this choice.
    pub(super) fn at(&self, choice: u32) -> u64 {
        let cell = (choice >> (32 - CELL_BITS)) as usize;
        let (first, last) = (self.cells[cell] as usize, self.cells[cell + 1] as usize);
        let further = self.ends[first..last].partition_point(|end| *end < choice);
        self.values_ns[first + further]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::span::Span;

    fn steps(counts: &[(u64, u64)]) -> Steps {
        let buckets: Vec<Bucket> = counts
            .iter()
            .map(|(ns, count)| Bucket { value: Span(Duration::from_nanos(*ns)), count: *count })
            .collect();
        Steps::new(&buckets)
    }

    #[test]
    fn every_value_has_exactly_its_share() {
        let steps = steps(&[(10, 1), (20, 2), (30, 1)]);
        for (choice, value_ns) in [
            (0, 10),
            ((1 << 30) - 1, 10),
            (1 << 30, 20),
            ((3 << 30) - 1, 20),
            (3 << 30, 30),
            (u32::MAX, 30),
        ] {
            assert_eq!(steps.at(choice), value_ns, "{choice}");
        }
    }

    #[test]
    fn a_share_too_small_for_a_choice_is_not_drawn() {
        let steps = steps(&[(10, 1), (20, u64::from(u32::MAX) * 8), (30, 1)]);
        assert_eq!((steps.at(0), steps.at(u32::MAX)), (20, 20));
    }

    #[test]
    fn many_values_in_one_cell_are_told_apart() {
        let counts: Vec<(u64, u64)> =
            (0..5000).map(|ns| (ns, if ns == 0 { 100_000_000 } else { 1 })).collect();
        let steps = steps(&counts);
        let drawn = (0..100_000).map(|back| steps.at(u32::MAX - back * 2));
        let distinct = drawn.collect::<std::collections::BTreeSet<_>>();
        assert!(distinct.len() > 4600, "{}", distinct.len());
    }
}
