//! Failing fast: a client that is refused for good says so at once; and a minority of the servers does not decide.
//!
//! Invariant: a server refuses for good with an error that time does not change, such as NOPERM. A client is blamed
//! only where so many servers have refused it for good that the others are no quorum, and it asks one of these again
//! or does not say in time that it has not got the lock; or where fewer have, and it gives up before its retries can
//! have been used up. A client that stands still or has died is excused, and so is one whose clock drifts.

use durations::span::rounded;
use history::fault::{ErrorAnswer, Fault};
use history::verdict::{Finding, Level, Witness};
use history::words::DROPPED;
use history::{Event, Head, Recent, Touch, What};

use super::interface::{Checker, EventView, HistoryEnd, SUBSCRIBE, lasting, verdict};
use super::last_requests::LastRequests;
use super::story;

pub(super) const NAME: &str = "fail-fast";

/// An acquisition that wants the lock.
#[derive(Clone, Debug)]
struct FinalRefusals {
    client: u32,
    began_ns: u64,
    /// Those that have ended.
    last: LastRequests<bool>,
    /// What the last server has said that refused it for good.
    error: Option<ErrorAnswer>,
    /// Since when the others are no quorum.
    since_ns: Option<u64>,
}

/// Who wants the lock, and what servers have said.
#[derive(Default)]
struct FailFast {
    fails_within_ns: u64,
    tries_for_ns: Option<u64>,
    /// How many servers have the lock.
    nodes: usize,
    /// By acquisition.
    wanting: Recent<FinalRefusals>,
    /// Time is no measure any more.
    drifts: bool,
    now_ns: u64,
    tested: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let (fails_within_ns, nodes) = head.fails_within_ns.zip(head.nodes)?;
    let nodes = usize::from(nodes.max(1));
    let tries_for_ns = head.tries_for_ns;
    Some(Box::new(FailFast { fails_within_ns, tries_for_ns, nodes, ..FailFast::default() }))
}

impl Checker for FailFast {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, what, .. } = *seen.event;
        self.now_ns = at_ns;
        if let Some(command) = seen.command {
            // What only gives back is no request.
            if !matches!(command.intent.touch, Touch::Create(_)) {
                return;
            }
            let error = match what {
                What::Command { .. } => return self.asks(acquisition, command.node),
                What::Refused(why) => lasting(seen.texts.get(why)),
                _ => None,
            };
            return self.ended(acquisition, seen.event.op, command.node, error);
        }
        match what {
            // To listen is to wait on.
            What::Command { node, name, .. } if seen.texts.get(name) == SUBSCRIBE => {
                self.asks(acquisition, node);
            }
            What::Acquire => {
                let (last, error, since_ns) = (LastRequests::default(), None, None);
                let it = FinalRefusals { client, began_ns: at_ns, last, error, since_ns };
                self.wanting.insert(acquisition, it);
            }
            What::NotAcquired(why) => {
                if !seen.texts.get(why).starts_with(DROPPED) {
                    self.gives_up(acquisition);
                }
                self.ends(acquisition);
            }
            What::Acquired | What::AcquireUnknown(_) => self.ends(acquisition),
            What::Fault { fault: Fault::Drift, .. } => self.drifts = true,
            What::Fault { fault: Fault::Pause | Fault::Crash, .. } => {
                self.wanting.retain(|_, it| it.client != client);
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let mut open: Vec<u32> = self.wanting.iter().map(|(acquisition, _)| acquisition).collect();
        open.sort_unstable();
        open.into_iter().for_each(|acquisition| self.ends(acquisition));
        let verdict =
            verdict(self.first.take(), self.tested, "no server answered with a permanent error");
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

impl FailFast {
    /// A request for the lock is sent.
    fn asks(&mut self, acquisition: u32, node: u16) {
        let Some(it) = self.wanting.get_mut(acquisition) else { return };
        if it.since_ns.is_none() || !it.last.is_refused_by(node) {
            return;
        }
        let Some(FinalRefusals { client, error: Some(error), .. }) =
            self.wanting.remove(acquisition)
        else {
            return;
        };
        let summary = format!(
            "client {client} asked for the lock again, though a server had answered {}: that does not pass",
            error.name().to_uppercase()
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// A request for the lock has ended: with this error that does not pass, or otherwise.
    fn ended(&mut self, acquisition: u32, op: u32, node: u16, error: Option<ErrorAnswer>) {
        let Some(it) = self.wanting.get_mut(acquisition) else { return };
        it.error = error.or(it.error);
        self.tested |= error.is_some();
        it.last.add(node, op, error.is_some());
        let is_final = it.last.leave_no_quorum(self.nodes);
        it.since_ns = is_final.then(|| it.since_ns.unwrap_or(self.now_ns));
    }

    /// It says that it has not got the lock.
    fn gives_up(&mut self, acquisition: u32) {
        let Some(it) = self.wanting.get(acquisition) else { return };
        let (Some(tries_for_ns), Some(error)) = (self.tries_for_ns, it.error) else { return };
        let (client, count) = (it.client, it.last.refused());
        let tried_ns = self.now_ns.saturating_sub(it.began_ns);
        if count == 0 || it.since_ns.is_some() || tried_ns >= tries_for_ns || self.drifts {
            return;
        }
        let summary = format!(
            "client {client} gave up {} after it had asked for the lock, because {count} of {} servers answered {}: \
             the others are a quorum, and its retries take {} at least",
            rounded(tried_ns),
            self.nodes,
            error.name().to_uppercase(),
            rounded(tries_for_ns)
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    /// It has its answer now, or never.
    fn ends(&mut self, acquisition: u32) {
        let Some(FinalRefusals { client, since_ns, error, .. }) = self.wanting.remove(acquisition)
        else {
            return;
        };
        let (Some(since_ns), Some(error)) = (since_ns, error) else { return };
        let waited_ns = self.now_ns.saturating_sub(since_ns);
        if self.drifts || waited_ns <= self.fails_within_ns {
            return;
        }
        let summary = format!(
            "client {client} waited {} after a server had answered {}: that does not pass, and the lock claims to \
             say so within {}",
            rounded(waited_ns),
            error.name().to_uppercase(),
            rounded(self.fails_within_ns)
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CREATE, DELETE, Tape};
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};

    const NOPERM: &str = "NOPERM this user has no permissions";

    /// So many servers; the lock claims to say so within 50, and tries for 500.
    fn asked(nodes: u16) -> Tape {
        let limits = (Some(50), Some(500), Some(nodes));
        Tape::new().with(|it| (it.fails_within_ns, it.tries_for_ns, it.nodes) = limits)
    }

    fn outcome(tape: &Tape) -> Outcome {
        tape.outcome("fail-fast")
    }

    /// Client 1 asks from 100 on, and is refused for good at 110.
    fn refused(until_ns: u64) -> Tape {
        asked(1).refused(1, 1, 100..until_ns).refused_with(1, 105..110, CREATE, NOPERM)
    }

    #[test]
    fn who_is_refused_for_good_does_not_ask_again() {
        assert_eq!(outcome(&refused(120)), Held);
        let again = |intent| outcome(&refused(130).refused_with(1, 115..120, intent, NOPERM));
        assert_eq!((again(CREATE), again(DELETE)), (Violated, Held), "it may give back");
        let after = refused(120).refused_with(1, 125..130, CREATE, NOPERM);
        assert_eq!(outcome(&after), Held, "it has said so");
        let passes = asked(1).refused(1, 1, 100..130).refused_with(1, 105..110, CREATE, "OOM");
        assert_eq!(outcome(&passes.refused_with(1, 115..120, CREATE, "OOM")), NotApplicable);
        assert_eq!(outcome(&asked(1).refused(1, 1, 100..900)), NotApplicable);
    }

    #[test]
    fn it_says_so_in_time() {
        assert_eq!((outcome(&refused(160)), outcome(&refused(161))), (Held, Violated));
        assert_eq!(outcome(&refused(900).struck(Fault::Pause, 1, 111)), Held);
        assert_eq!(outcome(&refused(900).struck(Fault::Drift, 2, 50)), Held);
        let open = asked(1).acquires(1, 100).refused_with(1, 105..110, CREATE, NOPERM);
        assert_eq!(outcome(&open.clone().probe(160, -2)), Held);
        assert_eq!(outcome(&open.probe(161, -2)), Violated, "it never does");
    }

    /// Each of these servers of five refuses client 1, and the others answer; it ends at this time.
    fn round(refusing: &[u16], until_ns: u64) -> Tape {
        (0..5).fold(asked(5).refused(1, 1, 100..until_ns), |tape, node| {
            let tape = tape.to(node, "lock");
            match refusing.contains(&node) {
                true => tape.refused_with(1, 105..110, CREATE, NOPERM),
                false => tape.command(1, 105..110, CREATE, None),
            }
        })
    }

    #[test]
    fn a_minority_does_not_decide() {
        assert_eq!(outcome(&round(&[0, 1], 599)), Violated);
        assert_eq!(outcome(&round(&[0, 1], 600)), Held);
        assert_eq!(outcome(&round(&[0, 1, 2], 120)), Held, "the others are no quorum");
        assert_eq!(outcome(&round(&[0, 1, 2], 161)), Violated, "and it waits");
        let answers = |refusing| {
            outcome(&round(refusing, 700).to(0, "lock").refused_with(1, 130..140, CREATE, NOPERM))
        };
        assert_eq!(answers(&[0, 1]), Held, "it asks again");
        assert_eq!(answers(&[0, 1, 2]), Violated);
        let stale = asked(1).refused(1, 1, 100..900).refused_with(1, 105..130, CREATE, NOPERM);
        let stale = stale.command(1, 115..120, CREATE, Some(Touch::None));
        assert_eq!(outcome(&stale), Held, "a later request was answered: a false alarm");
        let passed = round(&[0], 200).to(0, "lock").command(1, 130..140, CREATE, None);
        assert_eq!(outcome(&passed), Held, "it gave up for another reason");
    }

    #[test]
    fn it_is_asked_of_recipes_that_claim_it() {
        let tape = Tape::new().refused(1, 1, 100..900).refused_with(1, 105..110, CREATE, NOPERM);
        assert!(tape.findings().iter().all(|it| it.name != "fail-fast"));
    }

    #[test]
    fn the_witness_says_what_the_server_answered() {
        let again = refused(130).refused_with(1, 115..120, CREATE, NOPERM);
        let says = "client 1 asked for the lock again, though a server had answered NOPERM: that does not pass";
        assert_eq!(again.witness("fail-fast").summary, says);
        let says = "client 1 waited 790 ns after a server had answered NOPERM: that does not pass, and the lock \
                    claims to say so within 50 ns";
        assert_eq!(refused(900).witness("fail-fast").summary, says);
        let says = "client 1 gave up 100 ns after it had asked for the lock, because 1 of 5 servers answered NOPERM: \
                    the others are a quorum, and its retries take 500 ns at least";
        assert_eq!(round(&[3], 200).witness("fail-fast").summary, says);
    }
}
