//! Lease validity: no client acts on a lock that it knows to be over, and none gives up one that it knows to have.
//!
//! Invariant: a client with a validity begins to use the resource, and decides to write, only before the
//! validity's end as then known to it, and before it has learnt of the loss or begun the release. It learns of a
//! loss before that end only where no quorum of the servers, by the last answer of each, has its key. That
//! can be said only where nothing comes between a decision and its stamp.

use rustc_hash::FxHashMap;

use history::verdict::{Finding, Level, Vacuous, Verdict, Witness};
use history::{CommandOp, Event, Head, Touch, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd};
use super::story;
use crate::span::rounded;

/// Until when an acquisition may be relied on, and whether that is over.
#[derive(Clone, Copy, Debug)]
struct LeaseEnd {
    until_ns: u64,
    ended_by: Option<&'static str>,
}

/// Whether a server has an acquisition's key, by its last answer.
#[derive(Clone, Copy, Debug)]
struct LastAnswer {
    node: u16,
    op: u32,
    has_key: bool,
}

/// What clients may rely on.
#[derive(Default)]
struct LeaseValidity {
    leases: FxHashMap<u32, LeaseEnd>,
    answers: FxHashMap<u32, Vec<LastAnswer>>,
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
        if let Some(command) = &seen.command {
            return self.answered(event, command);
        }
        match event.what {
            What::ValidUntil(until_ns) => {
                let none = LeaseEnd { until_ns, ended_by: None };
                let lease = self.leases.entry(acquisition).or_insert(none);
                // What became known too late does not bring it back.
                if at_ns < lease.until_ns {
                    lease.until_ns = lease.until_ns.max(until_ns);
                }
            }
            What::Lost => {
                self.gave_up(event, seen.head);
                self.end(acquisition, "it had learnt that the lock was lost");
            }
            What::Release => self.end(acquisition, "it had begun to release"),
            What::NotAcquired(_) | What::AcquireUnknown(_) | What::Released(_) => {
                self.leases.remove(&acquisition);
                self.answers.remove(&acquisition);
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

    /// A command on the lock's key is answered; one that is refused, or has no answer, says nothing of the key.
    fn answered(&mut self, event: &Event, command: &CommandOp) {
        let What::Answered { touch, .. } = event.what else { return };
        let has_key = matches!(touch, Touch::Create(_) | Touch::Overwrite(_) | Touch::Extend(_));
        let answer = LastAnswer { node: command.node, op: event.op, has_key };
        let answers = self.answers.entry(command.acquisition).or_default();
        match answers.iter_mut().find(|it| it.node == answer.node) {
            // What was sent earlier was carried out earlier, though its answer may come later.
            Some(last) if last.op < answer.op => *last = answer,
            Some(_) => {}
            None => answers.push(answer),
        }
    }

    /// A client has learnt that the lock is lost.
    fn gave_up(&mut self, event: &Event, head: &Head) {
        let Event { at_ns, client, acquisition, .. } = *event;
        let is_valid = |it: &LeaseEnd| it.ended_by.is_none() && at_ns < it.until_ns;
        // The servers of the lock come before that of the resource. Without one their number is not known.
        let (Some(servers), true) =
            (head.resource, self.leases.get(&acquisition).is_some_and(is_valid))
        else {
            return;
        };
        let answers = self.answers.get(&acquisition).map_or(&[][..], |it| it);
        let have = answers.iter().filter(|it| it.has_key).count();
        if 2 * have > usize::from(servers) {
            let of = if servers == 1 {
                "the server".to_owned()
            } else {
                format!("{have} of {servers} servers")
            };
            let summary = format!(
                "client {client} gave the lock up for lost, though it was valid, and {of} had answered last that the key \
                 was its own"
            );
            story::note(&mut self.first, summary, &[(acquisition, client)]);
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
    use crate::checker::testing::{CREATE, DELETE, LOCK, TTL_NS, Tape};
    use history::verdict::Outcome::{self, Held, Inconclusive, NotApplicable, Violated};
    use history::{Intent, Touch};
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

    /// Acquired at 100 on so many of five servers, valid until 200.
    fn on_five(servers: u16) -> Tape {
        let tape = held().resource(5);
        (0..servers).fold(tape, |tape, node| tape.to(node, LOCK).did(1, 90..95, CREATE))
    }

    #[test]
    fn who_has_a_quorum_does_not_give_up() {
        assert_eq!(outcome(on_five(3).lost(1, 199)), Violated);
        assert_eq!(outcome(on_five(3).lost(1, 200)), Held, "its validity is over");
        assert_eq!(outcome(on_five(2).lost(1, 150)), Held, "no quorum");
        assert_eq!(outcome(held().resource(1).lost(1, 150)), Held, "nothing is known");
        assert_eq!(outcome(held().resource(1).did(1, 90..95, CREATE).lost(1, 150)), Violated);
        assert_eq!(outcome(held().did(1, 90..95, CREATE).lost(1, 150)), Held, "of how many?");
        let released = on_five(3).to(0, LOCK).did(2, 110..120, DELETE).lost(2, 150);
        assert_eq!(outcome(released), Held, "another's");
    }

    #[test]
    fn the_last_answer_says_whether_a_server_has_the_key() {
        let extend = Intent { touch: Touch::Extend(TTL_NS), compares: true };
        let renewed = |answer| {
            let tape = on_five(3).to(2, LOCK).command(1, 120..130, extend, answer);
            outcome(tape.lost(1, 150))
        };
        assert_eq!(renewed(Some(extend.touch)), Violated);
        assert_eq!(renewed(Some(Touch::None)), Held, "it is missing there");
        assert_eq!(renewed(None), Violated, "no answer");
        let refused = on_five(3).to(2, LOCK).refused_command(1, 120..130, extend);
        assert_eq!(outcome(refused.lost(1, 150)), Violated, "nothing was done");
        let pending = on_five(3).to(2, LOCK).sends(1, 120, extend);
        assert_eq!(outcome(pending.lost(1, 150)), Violated, "not answered yet");
        // What was sent first was answered last.
        let late = on_five(2).to(2, LOCK).did(1, 90..140, CREATE);
        let late = late.command(1, 120..130, extend, Some(Touch::None));
        assert_eq!(outcome(late.lost(1, 150)), Held);
    }

    #[test]
    fn the_first_is_told_and_all_are_counted() {
        let tape = held().begins(1, 230).lost(1, 240).begins(1, 250).begins(1, 260);
        let witness = tape.with(|it| it.exact = true).witness("lease-validity");
        let first = "client 1 began to use the resource, though its validity had ended 30 ns ago";
        assert_eq!((witness.summary.as_str(), witness.occurrences), (first, 3));
    }
}
