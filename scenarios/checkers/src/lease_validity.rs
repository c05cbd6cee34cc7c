//! Lease validity: no client acts on a lock that it knows to be over, and none gives up one that it knows to have.
//!
//! Invariant: a client with a validity begins to use the resource, and decides to write, only before the
//! validity's end as then known to it, and before it has learnt of the loss or begun the release; nor is its work told before
//! that end that the lock is lost. It learns of a loss before that end only where no quorum of the servers, by the last answer
//! of each, has its key. Who has renewed a lock in time, and of several servers on more than half of them at once, knows
//! that it has it for half of the TTL from when it asked, whatever end it has noted. And nobody relies on a lock to
//! the very end of its key, by the requests that have made or extended it: it subtracts what clocks may run apart, unless
//! one of them has run off by then. All that can be said only where nothing comes between a decision and its stamp.

use rustc_hash::FxHashMap;

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Vacuous, Verdict, Witness};
use history::words::LOST;
use history::{CommandOp, Event, Head, Touch, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd, frees};
use super::story;

/// An answer within this part of a TTL comes at once.
const AT_ONCE: u64 = 20;
/// And a renewal is over.
const APART: u64 = 4;

/// Until when an acquisition may be relied on, and whether that is over.
#[derive(Clone, Copy, Debug)]
struct LeaseEnd {
    until_ns: u64,
    /// By the renewals that were answered in time it surely has the lock until then.
    renewed_until_ns: u64,
    ended_by: Option<&'static str>,
    /// When its last renewal began, and which servers have granted that at once.
    round_ns: u64,
    granted: u64,
    /// No other renewal may be under way beside it.
    alone: bool,
}

/// Whether a server has an acquisition's key, by its last answer.
#[derive(Clone, Copy, Debug)]
struct LastAnswer {
    node: u16,
    op: u32,
    has_key: bool,
    /// When its key may be gone, by the last request that has made or extended it; 0 where none has.
    gone_ns: u64,
    /// The last command that may have given the key back: what was asked for before it says nothing of the next hold.
    freed_op: u32,
}

/// What clients may rely on.
#[derive(Default)]
struct LeaseValidity {
    leases: FxHashMap<u32, LeaseEnd>,
    answers: FxHashMap<u32, Vec<LastAnswer>>,
    drifting: bool,
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
            self.freed(event, command);
            self.renewed(event, command, seen.head);
            return self.answered(event, command);
        }
        match event.what {
            What::Fault { fault: Fault::Drift, .. } => self.drifting = true,
            What::ValidUntil(until_ns) => {
                self.relies(event, until_ns, seen.head);
                let none = LeaseEnd {
                    until_ns,
                    renewed_until_ns: 0,
                    ended_by: None,
                    round_ns: u64::MAX,
                    granted: 0,
                    alone: false,
                };
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
            What::Phase(Phase::RenewBeforeSend) => self.renews(acquisition, at_ns, seen.head),
            What::NotUpdated(why) | What::NotTaken(why) if seen.texts.get(why) == LOST => {
                self.told_lost(event);
            }
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
        let gone_ns = match touch {
            Touch::Create(Some(ttl_ns))
            | Touch::Overwrite(Some(ttl_ns))
            | Touch::Extend(ttl_ns) => command.invoke_ns.saturating_add(ttl_ns),
            Touch::Create(None) | Touch::Overwrite(None) => u64::MAX,
            _ => 0,
        };
        let (node, op) = (command.node, event.op);
        let answer = LastAnswer { node, op, has_key, gone_ns, freed_op: 0 };
        let answers = self.answers.entry(command.acquisition).or_default();
        match answers.iter_mut().find(|it| it.node == answer.node) {
            Some(last) => {
                if answer.op > last.freed_op {
                    last.gone_ns = last.gone_ns.max(gone_ns);
                }
                // What was sent earlier was carried out earlier, though its answer may come later.
                if last.op < answer.op {
                    (last.op, last.has_key) = (answer.op, answer.has_key);
                }
            }
            None => answers.push(answer),
        }
    }

    /// A command is sent that may give the key back.
    fn freed(&mut self, event: &Event, command: &CommandOp) {
        if !frees(command.intent.touch) || !matches!(event.what, What::Command { .. }) {
            return;
        }
        let answers = self.answers.entry(command.acquisition).or_default();
        // Of several servers, each round asks all again, and its clean-up may still go on while the next has the lock.
        if let [only] = &mut answers[..]
            && only.node == command.node
        {
            (only.gone_ns, only.freed_op) = (0, event.op);
        }
    }

    /// A client says until when it relies on its lock.
    fn relies(&mut self, event: &Event, until_ns: u64, head: &Head) {
        let Event { client, acquisition, .. } = *event;
        let Some(servers) = head.resource.filter(|_| !self.drifting) else { return };
        let answers = self.answers.get(&acquisition).map_or(&[][..], |it| it);
        let mut ends: Vec<u64> =
            answers.iter().map(|it| it.gone_ns).filter(|gone_ns| *gone_ns > 0).collect();
        ends.sort_unstable_by(|one, other| other.cmp(one));
        // A lock on one server may have replicas, of which it asks nothing.
        let others = if answers.len() == 1 { 0 } else { usize::from(servers) / 2 };
        let Some(gone_ns) = ends.get(others) else { return };
        let safe_ns = gone_ns.saturating_sub(head.margin_ns);
        if until_ns > safe_ns {
            let summary = format!(
                "client {client} relies on its lock for {} too long: its clock may run slower than the server's by as \
                 much as it allows for, and then its key is another's by that time",
                rounded(until_ns - safe_ns)
            );
            story::note(&mut self.first, summary, &[(acquisition, client)]);
        }
    }

    /// A renewal begins.
    fn renews(&mut self, acquisition: u32, at_ns: u64, head: &Head) {
        if let Some(lease) = self.leases.get_mut(&acquisition) {
            let apart_ns = at_ns.checked_sub(lease.round_ns);
            lease.alone = apart_ns.is_none_or(|apart_ns| apart_ns >= head.ttl_ns / APART);
            (lease.round_ns, lease.granted) = (at_ns, 0);
        }
    }

    /// A renewal is answered with yes. The other half of the TTL is for clocks that run off, and for the drift allowance.
    fn renewed(&mut self, event: &Event, command: &CommandOp, head: &Head) {
        let What::Answered { touch: Touch::Extend(ttl_ns), .. } = event.what else { return };
        let Some(lease) = self.leases.get_mut(&command.acquisition) else { return };
        // An answer that comes when the validity is over comes too late.
        if event.at_ns >= lease.until_ns.max(lease.renewed_until_ns) {
            return;
        }
        let mut from_ns = command.invoke_ns;
        if head.resource != Some(1) {
            // Of several servers, more than half have to say so in one round, and as soon as they are asked: nobody has to
            // wait for the others.
            let at_once = event.at_ns - command.invoke_ns <= head.ttl_ns / AT_ONCE;
            if command.invoke_ns < lease.round_ns || !at_once || !lease.alone {
                return;
            }
            lease.granted |= 1 << command.node.min(63);
            if head.resource.is_none_or(|servers| 2 * lease.granted.count_ones() <= servers.into())
            {
                return;
            }
            from_ns = lease.round_ns;
        }
        lease.renewed_until_ns = lease.renewed_until_ns.max(from_ns.saturating_add(ttl_ns / 2));
    }

    /// A client has learnt that the lock is lost.
    fn gave_up(&mut self, event: &Event, head: &Head) {
        let Event { at_ns, client, acquisition, .. } = *event;
        let is_valid =
            |it: &LeaseEnd| it.ended_by.is_none() && at_ns < it.until_ns.max(it.renewed_until_ns);
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

    /// Its work is told that the lock is lost.
    fn told_lost(&mut self, event: &Event) {
        let Event { at_ns, client, acquisition, .. } = *event;
        let Some(lease) = self.leases.get(&acquisition) else { return };
        if lease.ended_by.is_some() || at_ns >= lease.until_ns || self.drifting {
            return;
        }
        let summary = format!(
            "the work of client {client} was told that its lock was lost, though it may rely on it for another {}",
            rounded(lease.until_ns - at_ns)
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
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
    use crate::testing::{CREATE, DELETE, LOCK, TTL_NS, Tape};
    use history::fault::Fault;
    use history::verdict::Outcome::{self, Held, Inconclusive, NotApplicable, Violated};
    use history::words::LOST;
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
    fn who_has_renewed_knows_that_it_has_the_lock_for_half_a_ttl() {
        let extend = Intent { touch: Touch::Extend(200), compares: true };
        let on = |servers: u16, answered, lost_ns| {
            let tape = held().resource(servers).did(1, 90..95, CREATE);
            outcome(tape.command(1, 150..answered, extend, Some(extend.touch)).lost(1, lost_ns))
        };
        // It was sent at 150, so it has the lock until 250 at least, though it has noted 200.
        assert_eq!(on(1, 160, 249), Violated);
        assert_eq!(on(1, 160, 250), Held, "it may not know any more");
        assert_eq!(on(1, 199, 249), Violated);
        assert_eq!(on(1, 200, 249), Held, "the answer came too late");
        assert_eq!(on(5, 160, 249), Held, "one of five");
        let tape = held().resource(1).did(1, 90..95, CREATE);
        let again = tape.command(1, 150..160, extend, Some(extend.touch));
        let again = again.command(1, 220..230, extend, Some(Touch::None));
        assert_eq!(outcome(again.lost(1, 240)), Held, "then the key was gone");
        let another = held().resource(1).did(1, 90..95, CREATE);
        let another = another.command(2, 150..160, extend, Some(extend.touch));
        assert_eq!(outcome(another.lost(1, 240)), Held, "another's renewal");
    }

    #[test]
    fn so_does_who_was_renewed_by_a_quorum_at_once() {
        let extend = Intent { touch: Touch::Extend(200), compares: true };
        // Two have renewed it in the round that begins at 150; of the third it depends.
        let third = |sent: std::ops::Range<u64>, lost_ns| {
            let tape = on_five(3).phase(1, 150, Phase::RenewBeforeSend);
            let tape = (0..2).fold(tape, |tape, node| tape.to(node, LOCK).did(1, 151..160, extend));
            outcome(tape.to(2, LOCK).did(1, sent, extend).lost(1, lost_ns))
        };
        assert_eq!(third(150..160, 249), Violated);
        assert_eq!(third(150..160, 250), Held, "it may not know any more");
        assert_eq!(third(150..200, 249), Held, "its validity was over by then");
        assert_eq!(third(149..160, 249), Held, "it was asked before");
        let slow = |answered| {
            let tape = held().valid(1, 110, 240).resource(5).phase(1, 150, Phase::RenewBeforeSend);
            let did = |tape: Tape, node| tape.to(node, LOCK).did(1, 151..answered, extend);
            outcome((0..3).fold(tape, did).lost(1, 245))
        };
        assert_eq!(slow(151 + TTL_NS / 20), Violated);
        assert_eq!(slow(152 + TTL_NS / 20), Held, "it need not have waited so long");
        let did = |tape: Tape, node| tape.to(node, LOCK).did(1, 151..160, extend);
        let beside = on_five(3).phase(1, 149, Phase::RenewBeforeSend);
        let beside = (0..3).fold(beside.phase(1, 150, Phase::RenewBeforeSend), did);
        assert_eq!(outcome(beside.lost(1, 249)), Held, "two renewals at once");
        let two = on_five(3).phase(1, 150, Phase::RenewBeforeSend);
        let two = (0..2).fold(two, did);
        assert_eq!(outcome(two.lost(1, 249)), Held, "two of five");
    }

    #[test]
    fn work_is_not_told_before_that_its_lock_is_lost() {
        let told = |tape: Tape, at_ns, why| outcome(tape.update_fails(1, 110..at_ns, why));
        assert_eq!(told(held(), 199, LOST), Violated);
        assert_eq!(told(held(), 200, LOST), Held);
        assert_eq!(told(held().lost(1, 150), 160, LOST), Held, "it had learnt of the loss");
        assert_eq!(told(held().valid(1, 150, 300), 250, LOST), Violated, "it was renewed");
        assert_eq!(told(held().struck(Fault::Drift, 1, 120), 199, LOST), Held);
    }

    #[test]
    fn nobody_relies_on_a_lock_to_the_very_end_of_its_key() {
        let told = |tape: Tape, until_ns| {
            let tape = tape.margin(10).valid(1, 100, until_ns).hold(1, 1, 101..120);
            outcome(tape)
        };
        let on = |servers: u16| {
            let tape = Tape::tracked().resource(servers);
            (0..servers / 2 + 1).fold(tape, |tape, node| {
                tape.to(node, LOCK).did(1, 90 - u64::from(node)..95, CREATE)
            })
        };
        let made_ns = 90 + TTL_NS - 10;
        assert_eq!(told(on(1), made_ns), Held);
        assert_eq!(told(on(1), made_ns + 1), Violated);
        assert_eq!(told(on(5), made_ns - 2), Held);
        assert_eq!(told(on(5), made_ns - 1), Violated, "the third of five was asked first");
        assert_eq!(told(on(1).struck(Fault::Drift, 1, 5), made_ns + 1), Held);
        let handed_on = Tape::tracked().resource(1).command(1, 80..85, CREATE, Some(Touch::None));
        assert_eq!(told(handed_on, made_ns + 1), Held, "another made it for this one");
        let given_back = on(1).did(1, 96..97, DELETE);
        assert_eq!(told(given_back, made_ns + 1), Held, "and this is another hold");
        let extend = Intent { touch: Touch::Extend(TTL_NS), compares: true };
        let renewed = on(1).did(1, 97..99, extend);
        assert_eq!(told(renewed, made_ns + 7), Held);
    }

    #[test]
    fn the_first_is_told_and_all_are_counted() {
        let tape = held().begins(1, 230).lost(1, 240).begins(1, 250).begins(1, 260);
        let witness = tape.with(|it| it.exact = true).witness("lease-validity");
        let first = "client 1 began to use the resource, though its validity had ended 30 ns ago";
        assert_eq!((witness.summary.as_str(), witness.occurrences), (first, 3));
    }
}
