//! Lease validity: no client acts on a lock that it knows to be over.
//!
//! Invariant: a client with a validity begins to use the resource, and decides to write, only before the
//! validity's end as then known to it, and before it has learnt of the loss or begun the release. That
//! can be said only where nothing comes between a decision and its stamp.

use rustc_hash::FxHashMap;

use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd};
use super::story;
use crate::history::{Event, Head, What};
use crate::span::rounded;
use crate::verdict::{Finding, Level, Vacuous, Verdict, Witness};

/// Until when an acquisition may be relied on, and whether that is over.
#[derive(Clone, Copy, Debug)]
struct LeaseEnd {
    until_ns: u64,
    ended_by: Option<&'static str>,
}

/// What clients may rely on.
#[derive(Default)]
struct LeaseValidity {
    leases: FxHashMap<u32, LeaseEnd>,
    acted: bool,
    first: Option<Witness>,
}

pub(super) fn checker(_: &Head) -> Option<Box<dyn Checker>> {
    Some(Box::new(LeaseValidity::default()))
}

impl Checker for LeaseValidity {
    fn see(&mut self, seen: &EventView<'_>) {
        // Of other histories nothing is said, whatever they show.
        if !(seen.head.tracked && seen.head.exact) {
            return;
        }
        let event = seen.event;
        let Event { at_ns, acquisition, .. } = *event;
        match event.what {
            What::ValidUntil(until_ns) => {
                let none = LeaseEnd { until_ns, ended_by: None };
                let lease = self.leases.entry(acquisition).or_insert(none);
                // What became known too late does not bring it back.
                if at_ns < lease.until_ns {
                    lease.until_ns = lease.until_ns.max(until_ns);
                }
            }
            What::Lost => self.end(acquisition, "it had learnt that the lock was lost"),
            What::Release => self.end(acquisition, "it had begun to release"),
            What::NotAcquired(_) | What::AcquireUnknown(_) | What::Released(_) => {
                self.leases.remove(&acquisition);
            }
            What::Acquired => self.acts(event, "took the lock for its own"),
            What::Take | What::Update => self.acts(event, "began to use the resource"),
            What::Phase(Phase::HoldBeforeWrite) => self.acts(event, "decided to write"),
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        vec![Finding::new("lease-validity", Level::Belief, self.verdict(end.head))]
    }
}

impl LeaseValidity {
    fn end(&mut self, acquisition: u32, what: &'static str) {
        if let Some(lease) = self.leases.get_mut(&acquisition) {
            lease.ended_by.get_or_insert(what);
        }
    }

    fn acts(&mut self, event: &Event, did: &str) {
        self.acted = true;
        let Event { at_ns, client, acquisition, .. } = *event;
        let why = match self.leases.get(&acquisition) {
            None => "it was never told until when it might".to_owned(),
            Some(LeaseEnd { ended_by: Some(why), .. }) => (*why).to_owned(),
            Some(LeaseEnd { until_ns, .. }) if at_ns >= *until_ns => {
                format!("its validity had ended {} ago", rounded(at_ns - until_ns))
            }
            Some(_) => return,
        };
        let summary = format!("client {client} {did}, though {why}");
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    fn verdict(&mut self, head: &Head) -> Verdict {
        match self.first.take() {
            _ if !head.locks => Verdict::NotApplicable("this recipe keeps no key".to_owned()),
            _ if !head.tracked => {
                Verdict::NotApplicable("this recipe keeps no validity".to_owned())
            }
            _ if !head.exact => Verdict::NotApplicable(
                "in real time a client may be stopped between its decision and its stamp"
                    .to_owned(),
            ),
            Some(witness) => Verdict::Violated(witness),
            None if self.acted => Verdict::Held,
            None => Verdict::Vacuous(Vacuous::NobodyHeld),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checker::testing::Tape;
    use crate::verdict::Outcome::{self, Held, Inconclusive, NotApplicable, Violated};
    use picklock::env::Phase;

    fn outcome(tape: Tape) -> Outcome {
        tape.with(|it| it.exact = true).outcome("lease-validity")
    }

    /// Acquired at 100, valid until 200.
    fn held() -> Tape {
        Tape::tracked().hold(1, 1, 100..400).valid(1, 99, 200)
    }

    #[test]
    fn to_act_in_time_is_fine_and_a_nanosecond_late_is_not() {
        assert_eq!(outcome(held()), Held);
        assert_eq!(outcome(held().begins(1, 199)), Held);
        assert_eq!(outcome(held().begins(1, 200)), Violated);
        assert_eq!(outcome(held().valid(1, 150, 300).begins(1, 299)), Held);
        assert_eq!(outcome(held().valid(1, 200, 300).begins(1, 250)), Violated, "too late");
        assert_eq!(outcome(Tape::tracked().hold(1, 1, 100..200).valid(1, 99, 100)), Violated);
        assert_eq!(outcome(Tape::tracked().hold(1, 1, 100..200)), Violated, "never told");
    }

    #[test]
    fn to_act_after_the_loss_or_the_release_is_not_fine() {
        assert_eq!(outcome(held().lost(1, 150).begins(1, 149)), Held);
        assert_eq!(outcome(held().lost(1, 150).begins(1, 151)), Violated);
        let released = Tape::tracked().hold(1, 1, 100..150).valid(1, 99, 900);
        assert_eq!(outcome(released.begins(1, 152)), Violated);
    }

    #[test]
    fn without_a_validity_or_exact_times_nothing_is_said() {
        assert_eq!(outcome(Tape::new().hold(1, 1, 100..400)), NotApplicable);
        assert_eq!(held().outcome("lease-validity"), NotApplicable);
        let lockless = held().begins(1, 250).with(|it| it.locks = false);
        assert_eq!(outcome(lockless), NotApplicable);
        assert_eq!(outcome(Tape::tracked().refused(1, 1, 10..20)), Inconclusive, "nobody acted");
    }

    #[test]
    fn to_decide_to_write_is_to_act_and_other_phases_are_not() {
        assert_eq!(outcome(held().phase(1, 199, Phase::HoldBeforeWrite)), Held);
        assert_eq!(outcome(held().phase(1, 200, Phase::HoldBeforeWrite)), Violated);
        assert_eq!(outcome(held().phase(1, 200, Phase::AcquireBeforeSend)), Held);
    }

    #[test]
    fn a_lease_ends_with_its_acquisition() {
        // Whoever goes on under a number that has been released or refused was told nothing.
        let told = |tape: Tape| tape.with(|it| it.exact = true).witness("lease-validity").summary;
        let released = Tape::tracked().hold(1, 1, 100..150).valid(1, 99, 900).begins(1, 160);
        assert!(told(released).ends_with("it was never told until when it might"));
        let refused = Tape::tracked().valid(1, 99, 900).refused(1, 1, 90..110).begins(1, 160);
        assert!(told(refused).ends_with("it was never told until when it might"));
    }

    #[test]
    fn the_first_is_told_and_all_are_counted() {
        let tape = held().begins(1, 230).lost(1, 240).begins(1, 250).begins(1, 260);
        let witness = tape.with(|it| it.exact = true).witness("lease-validity");
        let first = "client 1 began to use the resource, though its validity had ended 30 ns ago";
        assert_eq!((witness.summary.as_str(), witness.occurrences), (first, 3));
    }
}
