//! Mutual exclusion: no two acquisitions definitely believe at once that they hold the lock.
//!
//! Invariant: belief begins when the acquisition was answered with yes. It ends with the first of
//! the notice of loss, the begin of the release and the believer's death and, where the recipe keeps a validity, with the
//! end of the validity as then known. All of these are stamped by one clock, in the client's own
//! process, so two beliefs that overlap did so.

use super::{Case, story};
use crate::history::Acquisition;
use crate::verdict::{Verdict, Witness};

/// From when to when an acquisition was believed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Belief {
    acquisition: u32,
    client: u32,
    from_ns: u64,
    until_ns: u64,
}

pub(super) fn check(case: &Case<'_>) -> Verdict {
    let tracked = case.history.head.tracked;
    let all = &case.timeline.acquisitions;
    let mut beliefs: Vec<Belief> = all.iter().filter_map(|it| belief(it, tracked)).collect();
    beliefs.sort_by_key(|belief| (belief.from_ns, belief.acquisition));
    let mut violations = 0;
    let mut first = None;
    let mut holder: Option<Belief> = None;
    for belief in beliefs {
        if let Some(holder) = holder
            && belief.from_ns < holder.until_ns
        {
            violations += 1;
            first.get_or_insert((holder, belief));
        }
        if holder.is_none_or(|holder| holder.until_ns < belief.until_ns) {
            holder = Some(belief);
        }
    }
    match first {
        None => Verdict::Held,
        Some((one, other)) => Verdict::Violated(witness(case, one, other, violations)),
    }
}

fn belief(it: &Acquisition, tracked: bool) -> Option<Belief> {
    let from_ns = it.acquired_ns()?;
    let told =
        [it.lost_ns, it.release_ns, it.crashed_ns].into_iter().flatten().min().unwrap_or(u64::MAX);
    let until_ns = if tracked { told.min(valid_until(it, from_ns)) } else { told };
    let Acquisition { number: acquisition, client, .. } = *it;
    (from_ns < until_ns).then_some(Belief { acquisition, client, from_ns, until_ns })
}

/// The end of validity, as far as one renewal became known before the last validity ended.
fn valid_until(it: &Acquisition, from_ns: u64) -> u64 {
    let mut until_ns = None;
    for &(known_ns, valid_until_ns) in &it.validity {
        match until_ns {
            Some(end_ns) if known_ns > from_ns && known_ns >= end_ns => break,
            _ => until_ns = until_ns.max(Some(valid_until_ns)),
        }
    }
    // A recipe that keeps a validity and never said it relies on nothing.
    until_ns.unwrap_or(from_ns)
}

fn witness(case: &Case<'_>, one: Belief, other: Belief, occurrences: u64) -> Witness {
    let overlap_ns = one.until_ns.min(other.until_ns).min(case.timeline.end_ns) - other.from_ns;
    let did = if case.history.head.locks {
        "both believed to hold the lock"
    } else {
        "were both at work, with no lock between them"
    };
    let overlap = story::span(overlap_ns);
    let summary = format!("client {} and client {} {did}, for {overlap}", one.client, other.client);
    story::witness(case, summary, &[one.acquisition, other.acquisition], occurrences)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checker::testing::Tape;

    fn violated(tape: &Tape) -> bool {
        matches!(check(&tape.case()), Verdict::Violated(_))
    }

    #[test]
    fn one_after_the_other_holds_and_a_nanosecond_of_overlap_does_not() {
        assert!(!violated(&Tape::new().hold(1, 1, 100..200).hold(2, 2, 200..300)));
        assert!(violated(&Tape::new().hold(1, 1, 100..200).hold(2, 2, 199..300)));
        assert!(violated(&Tape::new().hold(1, 1, 100..900).hold(2, 2, 200..300)));
    }

    #[test]
    fn belief_without_validity_lasts_until_the_release() {
        let tape = Tape::new().hold(1, 1, 100..200).valid(1, 100, 150).hold(2, 2, 160..300);
        assert!(violated(&tape));
    }

    #[test]
    fn tracked_belief_ends_with_its_validity() {
        let base = || Tape::tracked().hold(1, 1, 100..400).valid(1, 99, 250);
        assert!(!violated(&base().hold(2, 2, 250..300).valid(2, 249, 350)));
        assert!(violated(&base().hold(2, 2, 249..300).valid(2, 248, 350)));
        let renewed = || base().valid(1, 249, 350);
        assert!(violated(&renewed().hold(2, 2, 300..380).valid(2, 299, 390)));
        assert!(!violated(&renewed().hold(2, 2, 350..380).valid(2, 349, 390)));
        let late = || base().valid(1, 250, 350);
        assert!(!violated(&late().hold(2, 2, 300..380).valid(2, 299, 390)), "too late to count");
    }

    #[test]
    fn a_notice_of_loss_ends_belief() {
        let tape = Tape::new().hold(1, 1, 100..400).lost(1, 200).hold(2, 2, 200..300);
        assert!(!violated(&tape));
        let tape = Tape::new().hold(1, 1, 100..400).lost(1, 201).hold(2, 2, 200..300);
        assert!(violated(&tape));
    }

    #[test]
    fn the_dead_believe_nothing() {
        let tape = |dies_ns| Tape::new().hold(1, 1, 100..400).crash(1, dies_ns);
        assert!(!violated(&tape(200).hold(2, 2, 200..300)));
        assert!(violated(&tape(201).hold(2, 2, 200..300)));
        let other = Tape::new().hold(1, 1, 100..400).crash(3, 150).hold(2, 2, 200..300);
        assert!(violated(&other), "somebody else's death changes nothing");
    }

    #[test]
    fn an_acquisition_of_unknown_outcome_is_nobodys_belief() {
        let tape = Tape::new().hold(1, 1, 100..200).unknown(2, 2, 110..150);
        assert!(!violated(&tape));
    }

    proptest! {
        /// The sweep finds what looking at every pair finds.
        #[test]
        fn the_sweep_agrees_with_brute_force(
            spans in prop::collection::vec((0..60_u64, 1..20_u64), 0..9),
        ) {
            let tape = (1..).zip(&spans).fold(Tape::new(), |tape, (number, (from, length))| {
                tape.hold(number, number, *from..from + length)
            });
            let meet = |(one, long): &(u64, u64), (other, length): &(u64, u64)| {
                one < &(other + length) && other < &(one + long)
            };
            let pairs = spans.iter().enumerate();
            let any = pairs.clone().any(|(i, a)| spans[i + 1..].iter().any(|b| meet(a, b)));
            prop_assert_eq!(violated(&tape), any);
        }
    }

    #[test]
    fn the_witness_names_the_clients_and_counts() {
        let tape = Tape::new().hold(1, 1, 100..400).hold(2, 7, 200..300).hold(3, 9, 250..260).hold(
            4,
            4,
            500..600,
        );
        let Verdict::Violated(witness) = check(&tape.case()) else { panic!("not violated") };
        assert_eq!(witness.clients, [1, 7]);
        assert_eq!(witness.acquisitions, [1, 2]);
        assert_eq!(witness.occurrences, 2);
        assert!(witness.steps.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    }
}
