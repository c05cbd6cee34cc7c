//! Mutual exclusion: no two acquisitions definitely believe at once that they hold the lock.
//!
//! Invariant: belief begins when the acquisition was answered with yes. It ends with the first of
//! the notice of loss, the begin of the release and the believer's death and, where the recipe keeps
//! a validity, with the end of the validity as then known. All of these are stamped by one clock, in
//! the client's own process, so two beliefs that overlap did so. What is of one moment is judged when
//! that moment is over.

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Verdict, Witness};
use history::{Event, Head, Recent, What};

use super::interface::{Checker, EventView, HistoryEnd};
use super::story;

/// From when to when an acquisition is believed in, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Belief {
    acquisition: u32,
    client: u32,
    from_ns: u64,
    until_ns: u64,
    /// It has been told of its loss, or has begun to release.
    ended: bool,
}

/// What is known of an acquisition that has not been answered yet.
#[derive(Clone, Copy, Debug, Default)]
struct Asking {
    client: u32,
    /// Until when it may rely on the lock.
    promised: Option<u64>,
    /// It has been told of its loss, has begun to release, or is dead.
    ended: bool,
}

/// The first two beliefs that overlapped, and how many more did.
#[derive(Clone, Copy, Debug)]
struct Overlap {
    one: Belief,
    other: Belief,
}

/// Who believes to hold the lock.
#[derive(Default)]
struct MutualExclusion {
    tracked: bool,
    /// Those that believe, or have ceased to at this moment, in the order in which they began.
    believers: Vec<Belief>,
    /// How many of them, the last ones, began at this moment.
    fresh: usize,
    asking: Recent<Asking>,
    now_ns: u64,
    violations: u64,
    first: Option<Overlap>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    Some(Box::new(MutualExclusion { tracked: head.tracked, ..MutualExclusion::default() }))
}

impl Checker for MutualExclusion {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, .. } = *seen.event;
        match seen.event.what {
            What::Acquire => {
                self.asking.insert(acquisition, Asking { client, ..Asking::default() });
            }
            What::Acquired => {
                self.go_on_to(at_ns);
                let Asking { promised, ended, .. } =
                    self.asking.remove(acquisition).unwrap_or_default();
                let until_ns = match promised {
                    _ if ended => at_ns,
                    // A recipe that keeps a validity and never said it relies on nothing.
                    promised if self.tracked => promised.unwrap_or(at_ns),
                    _ => u64::MAX,
                };
                let belief = Belief { acquisition, client, from_ns: at_ns, until_ns, ended };
                self.believers.push(belief);
                self.fresh += 1;
            }
            What::NotAcquired(_) | What::AcquireUnknown(_) => {
                self.asking.remove(acquisition);
            }
            What::ValidUntil(until_ns) => {
                self.go_on_to(at_ns);
                self.promise(acquisition, at_ns, until_ns);
            }
            What::Lost | What::Release => {
                self.go_on_to(at_ns);
                self.ends(at_ns, |it| it.acquisition == acquisition);
                if let Some(it) = self.asking.get_mut(acquisition) {
                    it.ended = true;
                }
            }
            What::Fault { fault: Fault::Crash, .. } => {
                self.go_on_to(at_ns);
                self.ends(at_ns, |it| it.client == client);
                let theirs = self.asking.iter_mut().filter(|(_, it)| it.client == client);
                theirs.for_each(|(_, it)| it.ended = true);
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        vec![Finding::new("mutual-exclusion", Level::Belief, self.verdict(end.head))]
    }
}

impl MutualExclusion {
    /// A validity, or a longer one. One that became known after the last had ended is too late.
    fn promise(&mut self, acquisition: u32, known_ns: u64, until_ns: u64) {
        match self.believers.iter_mut().find(|it| it.acquisition == acquisition) {
            Some(it) if it.ended || (known_ns > it.from_ns && known_ns >= it.until_ns) => {}
            Some(it) => it.until_ns = it.until_ns.max(until_ns),
            None => {
                let promised = &mut self.asking.entry(acquisition).promised;
                *promised = (*promised).max(Some(until_ns));
            }
        }
    }

    fn ends(&mut self, at_ns: u64, whose: impl Fn(&Belief) -> bool) {
        let ended = self.believers.iter_mut().filter(|it| whose(it));
        ended.for_each(|it| (it.until_ns, it.ended) = (it.until_ns.min(at_ns), true));
    }

    /// Judges the moment that is over, if it is.
    fn go_on_to(&mut self, at_ns: u64) {
        if at_ns == self.now_ns {
            return;
        }
        let now_ns = std::mem::replace(&mut self.now_ns, at_ns);
        let older = self.believers.len() - std::mem::take(&mut self.fresh);
        self.believers[older..].sort_by_key(|it| it.acquisition);
        for place in older..self.believers.len() {
            self.begins(place, now_ns);
        }
        let first = &mut self.first;
        self.believers.retain(|it| {
            let ended = it.until_ns <= at_ns;
            if ended && let Some(overlap) = first {
                overlap.learn(it);
            }
            !ended
        });
    }

    /// Whether anybody else believes when this one begins to.
    fn begins(&mut self, place: usize, now_ns: u64) {
        let other = self.believers[place];
        if other.until_ns <= now_ns {
            return;
        }
        let holder = self.believers[..place].iter().find(|it| it.until_ns > now_ns);
        if let Some(&one) = holder {
            self.violations += 1;
            self.first.get_or_insert(Overlap { one, other });
        }
    }

    fn verdict(&mut self, head: &Head) -> Verdict {
        let end_ns = self.now_ns;
        self.go_on_to(end_ns.saturating_add(1));
        let Some(mut overlap) = self.first else { return Verdict::Held };
        self.believers.iter().for_each(|it| overlap.learn(it));
        let Overlap { one, other } = overlap;
        let overlap_ns = one.until_ns.min(other.until_ns).min(end_ns).saturating_sub(other.from_ns);
        let did = if head.locks {
            "both believed that they held the lock"
        } else {
            "were both at work, with no lock between them"
        };
        let overlap = match overlap_ns {
            // The history ends at the moment at which the second begins.
            0 => "in the end".to_owned(),
            overlap_ns => format!("for {}", rounded(overlap_ns)),
        };
        let (one, other) = (&one, &other);
        let summary = format!("client {} and client {} {did}, {overlap}", one.client, other.client);
        let of = [(one.acquisition, one.client), (other.acquisition, other.client)];
        Verdict::Violated(Witness { occurrences: self.violations, ..story::witness(summary, &of) })
    }
}

impl Overlap {
    /// Notes when one of the two really ended.
    fn learn(&mut self, it: &Belief) {
        for known in [&mut self.one, &mut self.other] {
            if known.acquisition == it.acquisition {
                known.until_ns = it.until_ns;
            }
        }
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::Tape;

    fn violated(tape: &Tape) -> bool {
        matches!(tape.finding("mutual-exclusion"), Verdict::Violated(_))
    }

    #[test]
    fn one_after_the_other_holds_and_a_nanosecond_of_overlap_does_not() {
        assert!(!violated(&Tape::new().hold(1, 1, 100..200).hold(2, 2, 200..300)));
        assert!(violated(&Tape::new().hold(1, 1, 100..200).hold(2, 2, 199..300)));
        assert!(violated(&Tape::new().hold(1, 1, 100..900).hold(2, 2, 200..300)));
    }

    #[test]
    fn who_has_been_told_of_its_loss_before_it_was_answered_never_believed() {
        let second = |tape: Tape| tape.waited(1, 1, 90..100).hold(2, 2, 110..200);
        assert!(violated(&second(Tape::new())));
        assert!(!violated(&second(Tape::new().lost(1, 95))));
        assert!(!violated(&second(Tape::new().releases(1, 95..300))));
        let dies =
            |client| Tape::new().acquires(1, 90).crash(client, 95).opens(1, 100, What::Acquired);
        assert!(!violated(&dies(1).hold(2, 2, 110..200)), "it was dead by then");
        assert!(violated(&dies(3).hold(2, 2, 110..200)));
        let renewed = Tape::new().hold(1, 1, 100..120).valid(1, 120, 900).hold(2, 2, 120..200);
        assert!(!violated(&renewed), "what has been given back is not relied on any more");
    }

    #[test]
    fn who_comes_after_an_overlap_makes_it_no_longer() {
        // The two that overlapped are told of, and not who comes after.
        let tape = Tape::new().hold(1, 1, 100..400).hold(2, 2, 200..300).hold(3, 3, 500..900);
        let witness = tape.witness("mutual-exclusion");
        let says = "client 1 and client 2 both believed that they held the lock, for 100 ns";
        assert_eq!(witness.summary, says);
    }

    #[test]
    fn two_may_begin_to_believe_when_the_history_ends() {
        let tape = Tape::new().waited(1, 1, 90..100).waited(2, 2, 90..200);
        let says = "client 1 and client 2 both believed that they held the lock, in the end";
        assert_eq!(tape.witness("mutual-exclusion").summary, says);
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
        let at_once = Tape::tracked().hold(1, 1, 100..400).valid(1, 100, 250);
        assert!(violated(&at_once.hold(2, 2, 200..300).valid(2, 199, 350)), "known when it began");
    }

    #[test]
    fn a_promise_of_who_did_not_get_it_is_forgotten() {
        // The number is used again, which has no promise then.
        let tape = Tape::tracked().refused(1, 1, 45..50).valid(1, 48, 2_000).hold(1, 1, 60..900);
        assert!(!violated(&tape.hold(2, 2, 100..300).valid(2, 99, 300)));
    }

    #[test]
    fn a_notice_of_loss_ends_belief() {
        let tape = Tape::new().hold(1, 1, 100..400).lost(1, 200).hold(2, 2, 200..300);
        assert!(!violated(&tape));
        let tape = Tape::new().hold(1, 1, 100..400).lost(1, 201).hold(2, 2, 200..300);
        assert!(violated(&tape));
        let lost = Tape::tracked().hold(1, 1, 100..400).valid(1, 99, 300).lost(1, 150);
        let renewed = lost.valid(1, 150, 900).hold(2, 2, 160..180).valid(2, 159, 300);
        assert!(!violated(&renewed), "a renewal of that moment does not bring it back");
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
    fn the_witness_says_for_how_long() {
        let summary = |one, other| {
            let tape = Tape::new().hold(1, 1, one).hold(2, 2, other).hold(3, 3, 210..220);
            let witness = tape.witness("mutual-exclusion");
            witness.summary
        };
        assert!(summary(100..400, 200..300).ends_with(", for 100 ns"));
        assert!(summary(100..250, 200..400).ends_with(", for 50 ns"));
    }

    #[test]
    fn the_witness_names_the_clients_and_counts() {
        let tape = Tape::new().hold(1, 1, 100..400).hold(2, 7, 200..300).hold(3, 9, 250..260).hold(
            4,
            4,
            500..600,
        );
        let witness = tape.witness("mutual-exclusion");
        assert_eq!(witness.clients, [1, 7]);
        assert_eq!(witness.acquisitions, [1, 2]);
        assert_eq!(witness.occurrences, 2);
        assert!(witness.steps.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    }
}
