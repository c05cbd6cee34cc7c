//! Counting the votes of independent nodes: pure arithmetic.
//!
//! Invariant: two quorums of the same nodes share a node, so no two clients can have a quorum each. Nothing is
//! assumed of a node that has not answered.

use crate::env::CallError;
use crate::target::KeyOwner;

/// How many of `nodes` nodes are a quorum.
pub(crate) const fn quorum(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Whether `yes` of `nodes` nodes are a quorum, as soon as the `pending` ones cannot change that.
fn decided(yes: usize, pending: usize, nodes: usize) -> Option<bool> {
    let needed = quorum(nodes);
    match yes {
        _ if yes >= needed => Some(true),
        _ if yes + pending < needed => Some(false),
        _ => None,
    }
}

/// Whether these votes grant the lock; none while pending ones may change that.
pub(crate) fn granted(votes: &[Option<Result<bool, CallError>>]) -> Option<bool> {
    let yes = votes.iter().filter(|vote| **vote == Some(Ok(true))).count();
    let pending = votes.iter().filter(|vote| vote.is_none()).count();
    decided(yes, pending, votes.len())
}

/// The result of a command on all nodes, as soon as a quorum has found the caller's token, or cannot find it any more.
///
/// # Errors
/// The error of one node, if those that failed and those still pending might make a quorum.
pub(crate) fn decide<'a>(
    answers: impl IntoIterator<Item = Option<&'a Result<KeyOwner, CallError>>>,
) -> Option<Result<KeyOwner, CallError>> {
    let (mut nodes, mut pending, mut own, mut taken) = (0, 0, 0, false);
    let mut errors: Vec<&CallError> = Vec::new();
    for answer in answers {
        nodes += 1;
        match answer {
            None => pending += 1,
            Some(Ok(KeyOwner::Own)) => own += 1,
            Some(Ok(found)) => taken |= *found == KeyOwner::Other,
            Some(Err(error)) => errors.push(error),
        }
    }
    if decided(own, pending, nodes)? {
        return Some(Ok(KeyOwner::Own));
    }
    if own + pending + errors.len() < quorum(nodes) {
        return Some(Ok(if taken { KeyOwner::Other } else { KeyOwner::Missing }));
    }
    // If no node has failed yet, the pending ones may still decide it, and this is `None`.
    let unknown = errors.iter().find(|error| error.is_indeterminate());
    unknown.or(errors.first()).map(|error| Err((*error).clone()))
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unknown() -> Result<KeyOwner, CallError> {
        Err(CallError::Indeterminate("no word".into()))
    }

    #[test]
    fn a_quorum_is_more_than_half_and_no_more_than_needed() {
        assert_eq!([1, 2, 3, 4, 5, 7].map(quorum), [1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn both_sides_of_a_quorum() {
        let (own, missing, other) = (Ok(KeyOwner::Own), Ok(KeyOwner::Missing), Ok(KeyOwner::Other));
        let none = unknown();
        let of = |answers: [Option<&Result<KeyOwner, CallError>>; 3]| decide(answers);
        assert_eq!(of([Some(&own), Some(&own), Some(&none)]), Some(Ok(KeyOwner::Own)));
        assert_eq!(of([Some(&own), Some(&missing), Some(&none)]), Some(unknown()));
        assert_eq!(of([Some(&own), Some(&missing), Some(&missing)]), Some(Ok(KeyOwner::Missing)));
        assert_eq!(of([Some(&own), Some(&missing), Some(&other)]), Some(Ok(KeyOwner::Other)));
        assert_eq!(of([Some(&missing), Some(&missing), Some(&none)]), Some(Ok(KeyOwner::Missing)));
        assert_eq!(of([Some(&none), Some(&none), Some(&other)]), Some(unknown()));
        // Some have not answered yet.
        assert_eq!(of([Some(&own), None, Some(&own)]), Some(Ok(KeyOwner::Own)));
        assert_eq!(of([Some(&own), None, Some(&none)]), None);
        assert_eq!(of([None, Some(&missing), Some(&none)]), Some(unknown()));
        assert_eq!(of([None, Some(&missing), Some(&missing)]), Some(Ok(KeyOwner::Missing)));
        assert_eq!(of([None, None, Some(&own)]), None);
        assert_eq!(of([None, None, None]), None);
    }

    /// Every way in which `nodes` nodes can each have one of these.
    fn every<T: Clone>(nodes: usize, of: &[T]) -> Vec<Vec<T>> {
        (0..nodes).fold(vec![Vec::new()], |begun, _| {
            let with = |it: &Vec<T>| {
                let it = it.clone();
                of.iter().map(move |last| [&it[..], std::slice::from_ref(last)].concat())
            };
            begun.iter().flat_map(with).collect()
        })
    }

    /// What these answers can become when everybody has answered.
    fn completed<T: Clone>(answers: &[Option<T>], with: &[T]) -> Vec<Vec<T>> {
        let open = answers.iter().filter(|it| it.is_none()).count();
        let fill = |mut rest: std::vec::IntoIter<T>| {
            let next = |it: &Option<T>| it.clone().or_else(|| rest.next()).unwrap();
            answers.iter().map(next).collect()
        };
        every(open, with).into_iter().map(|it| fill(it.into_iter())).collect()
    }

    /// With every vote of three and of five nodes, given, refused, lost or still open: the answer is given as soon
    /// as no vote that is still open can change it, and never before.
    #[test]
    fn a_lock_is_granted_or_not_as_soon_as_it_is_certain_and_not_before() {
        let said = [Ok(true), Ok(false), Err(CallError::Indeterminate("no word".into()))];
        let votes = [None, Some(said[0].clone()), Some(said[1].clone()), Some(said[2].clone())];
        for nodes in [3, 5] {
            for votes in every(nodes, &votes) {
                let ends: Vec<bool> = completed(&votes, &said)
                    .iter()
                    .map(|all| all.iter().filter(|it| **it == Ok(true)).count() > nodes / 2)
                    .collect();
                let certain = ends.iter().all(|end| *end == ends[0]).then_some(ends[0]);
                assert_eq!(granted(&votes), certain, "{votes:?}");
            }
        }
    }

    /// With every result of three and five nodes, failed and pending ones included: own is reported as soon as it
    /// is certain, whatever nodes without a word would have said; not own, only where that is certain as well.
    #[test]
    fn no_later_word_changes_what_was_decided() {
        let said = [Ok(KeyOwner::Own), Ok(KeyOwner::Missing), Ok(KeyOwner::Other), unknown()];
        let found = [KeyOwner::Own, KeyOwner::Missing, KeyOwner::Other];
        let answers: Vec<_> = [None].into_iter().chain(said.iter().cloned().map(Some)).collect();
        for nodes in [3, 5] {
            for answers in every(nodes, &answers) {
                // A node that has not answered yet, or never will, may have found anything.
                let known: Vec<Option<KeyOwner>> = answers
                    .iter()
                    .map(|it| it.as_ref().and_then(|it| it.as_ref().ok().copied()))
                    .collect();
                let own = |all: &Vec<KeyOwner>| {
                    all.iter().filter(|it| **it == KeyOwner::Own).count() > nodes / 2
                };
                let ends: Vec<bool> = completed(&known, &found).iter().map(own).collect();
                let (all, none) = (!ends.contains(&false), !ends.contains(&true));
                let open = answers.iter().filter(|it| it.is_none()).count();
                let heard = known.iter().filter(|it| **it == Some(KeyOwner::Own)).count();
                match decide(answers.iter().map(Option::as_ref)) {
                    Some(Ok(KeyOwner::Own)) => assert!(all, "{answers:?}"),
                    Some(Ok(_)) => assert!(none, "{answers:?}"),
                    Some(Err(_)) => {
                        assert!(!all && !none && heard + open <= nodes / 2, "{answers:?}");
                    }
                    None => assert!(open > 0 && !all && heard + open > nodes / 2, "{answers:?}"),
                }
            }
        }
    }

    proptest! {
        #[test]
        fn two_quorums_share_a_node(nodes in 1_usize..1000) {
            prop_assert!(2 * quorum(nodes) > nodes);
            prop_assert!(2 * (quorum(nodes) - 1) <= nodes);
        }
    }
}
