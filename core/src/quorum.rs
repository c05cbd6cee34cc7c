//! Counting votes of independent nodes: pure arithmetic.
//!
//! Invariant: two quorums of the same nodes share a node, so two who each have one cannot both be right.
//! Of a node that has not answered nothing is assumed. Deliberately absent: weights.

use crate::env::CallError;
use crate::options::OptionsError;
use crate::target::Found;

/// How many of so many nodes are a quorum.
pub(crate) const fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Checks how many nodes a lock is kept on: of an even number one could fail for nothing, and one or two
/// cannot lose any.
pub(crate) fn check_nodes(nodes: usize) -> Result<(), OptionsError> {
    if nodes < 3 || nodes.is_multiple_of(2) {
        return Err(OptionsError::NodesUneven { nodes });
    }
    Ok(())
}

/// What all nodes together have found.
///
/// # Errors
/// The error of one of them, where those without an answer would decide it.
pub(crate) fn decide(answers: &[Result<Found, CallError>]) -> Result<Found, CallError> {
    let quorum = quorum(answers.len());
    let count = |found| answers.iter().filter(|answer| **answer == Ok(found)).count();
    let own = count(Found::Own);
    if own >= quorum {
        return Ok(Found::Own);
    }
    let errors = || answers.iter().filter_map(|answer| answer.as_ref().err());
    if own + errors().count() < quorum {
        let taken = count(Found::Other) > 0;
        return Ok(if taken { Found::Other } else { Found::Missing });
    }
    let unknown = errors().find(|error| error.is_indeterminate());
    match unknown.or_else(|| errors().next()) {
        Some(error) => Err(error.clone()),
        // Without an error the two counts above cover every case.
        None => Ok(Found::Missing),
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unknown() -> Result<Found, CallError> {
        Err(CallError::Indeterminate("no word".into()))
    }

    #[test]
    fn a_quorum_is_more_than_half_and_no_more_than_needed() {
        assert_eq!([1, 2, 3, 4, 5, 7].map(quorum), [1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn nodes_are_three_or_a_larger_odd_number() {
        for nodes in [0, 1, 2, 4, 6] {
            assert_eq!(check_nodes(nodes), Err(OptionsError::NodesUneven { nodes }));
        }
        for nodes in [3, 5, 7] {
            assert_eq!(check_nodes(nodes), Ok(()));
        }
    }

    #[test]
    fn both_sides_of_a_quorum() {
        let (own, missing, other) = (Ok(Found::Own), Ok(Found::Missing), Ok(Found::Other));
        let of = |answers: &[&Result<Found, CallError>]| {
            decide(&answers.iter().map(|answer| (*answer).clone()).collect::<Vec<_>>())
        };
        let none = unknown();
        assert_eq!(of(&[&own, &own, &none]), Ok(Found::Own));
        assert_eq!(of(&[&own, &missing, &none]), unknown());
        assert_eq!(of(&[&own, &missing, &missing]), Ok(Found::Missing));
        assert_eq!(of(&[&own, &missing, &other]), Ok(Found::Other));
        assert_eq!(of(&[&missing, &missing, &none]), Ok(Found::Missing));
        assert_eq!(of(&[&none, &none, &other]), unknown());
    }

    proptest! {
        /// Whatever nodes without an answer would have said, it does not contradict what was decided.
        #[test]
        fn no_later_word_changes_what_was_decided(
            votes in prop::collection::vec(0_u8..4, 1..12),
            later in prop::collection::vec(0_u8..3, 12),
        ) {
            let found = |vote: u8| match vote {
                0 => Found::Own,
                1 => Found::Missing,
                _ => Found::Other,
            };
            let known = |vote: &u8| if *vote < 3 { Ok(found(*vote)) } else { unknown() };
            let all: Vec<Found> = votes
                .iter()
                .zip(&later)
                .map(|(vote, later)| if *vote < 3 { found(*vote) } else { found(*later) })
                .collect();
            let own = all.iter().filter(|vote| **vote == Found::Own).count();
            match decide(&votes.iter().map(known).collect::<Vec<_>>()) {
                Ok(Found::Own) => prop_assert!(own >= quorum(all.len())),
                Ok(_) => prop_assert!(own < quorum(all.len())),
                Err(_) => prop_assert!(votes.contains(&3)),
            }
        }

        #[test]
        fn two_quorums_share_a_node(nodes in 1_usize..1000) {
            prop_assert!(2 * quorum(nodes) > nodes);
            prop_assert!(2 * (quorum(nodes) - 1) <= nodes);
        }
    }
}
