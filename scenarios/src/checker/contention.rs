//! Contention: without two clients at once, a run says nothing about a lock.
//!
//! Invariant: contention is two acquisitions of different clients that overlap in time, at least
//! one of which got the lock.

use super::Case;

/// Why the run shows nothing, if so.
pub(super) fn missing(case: &Case<'_>) -> Option<String> {
    let acquisitions = &case.timeline.acquisitions;
    if !acquisitions.iter().any(|it| it.acquired_ns().is_some()) {
        return Some("vacuous: nobody ever got the lock".to_owned());
    }
    // In the order in which they began: who is still at it when the next begins?
    let (mut any_until, mut holder_until) = ((0, 0), (0, 0));
    for it in acquisitions {
        let end_ns = match (it.acquired_ns(), it.end) {
            (Some(_), _) => it.release_ns.unwrap_or(u64::MAX),
            (None, Some((end_ns, _))) => end_ns,
            (None, None) => u64::MAX,
        };
        let overlaps =
            |(client, until_ns): (u32, u64)| client != it.client && it.invoke_ns < until_ns;
        let held = it.acquired_ns().is_some();
        if overlaps(holder_until) || (held && overlaps(any_until)) {
            return None;
        }
        if end_ns > any_until.1 {
            any_until = (it.client, end_ns);
        }
        if held && end_ns > holder_until.1 {
            holder_until = (it.client, end_ns);
        }
    }
    Some("vacuous: no two clients ever wanted the lock at the same time".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::checker::testing::Tape;

    #[test]
    fn two_clients_at_once_contend() {
        let tape = Tape::new().hold(1, 1, 100..200).refused(2, 2, 150..160);
        assert_eq!(super::missing(&tape.case()), None);
        let tape = Tape::new().refused(2, 2, 90..210).hold(1, 1, 100..200);
        assert_eq!(super::missing(&tape.case()), None);
        let tape = Tape::new().hold(1, 1, 100..200).hold(2, 2, 199..300);
        assert_eq!(super::missing(&tape.case()), None);
    }

    #[test]
    fn one_after_the_other_or_alone_do_not() {
        let vacuous = |tape: Tape| super::missing(&tape.case()).unwrap();
        assert!(vacuous(Tape::new()).contains("nobody"));
        assert!(vacuous(Tape::new().refused(1, 1, 1..9).refused(2, 2, 1..9)).contains("nobody"));
        assert!(vacuous(Tape::new().hold(1, 1, 100..200).hold(2, 2, 300..400)).contains("no two"));
        assert!(
            vacuous(Tape::new().hold(1, 1, 100..200).refused(2, 1, 150..160)).contains("no two")
        );
    }
}
