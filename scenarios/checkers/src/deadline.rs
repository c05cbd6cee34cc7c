//! Deadlines: a caller that has set one is answered by then, except for what was under way at that moment; and it is not
//! told earlier that its time is up.
//!
//! Invariant: a client is blamed only where an acquisition lasts beyond its deadline for longer than the recipe
//! claims, not counting the time in which the client stood still; or where it begins more attempts after its deadline than
//! the one that was due and one by which it joins a line; or where it ends without the lock before its deadline, though its
//! retries take longer and no server has refused it for good. A client that has died wants no answer, and one
//! whose clock drifts measures another deadline.

use std::collections::BTreeMap;

use durations::span::rounded;
use history::fault::{ErrorAnswer, Fault};
use history::verdict::{Finding, Level, Witness};
use history::words::DROPPED;
use history::{Event, Head, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd, passing, verdict};
use super::story;

pub(super) const NAME: &str = "deadline";

/// So many attempts may begin after a deadline: the one that was due, and for who is told then that the lock is
/// held, the one that joins the line.
const ATTEMPTS_AFTER: u32 = 2;

/// The precision of a timer.
const GRAIN_NS: u64 = 1_000_000;

/// An acquisition under way.
#[derive(Clone, Copy, Debug)]
struct Caller {
    client: u32,
    began_ns: u64,
    /// For how long it has stood still.
    stood_ns: u64,
    /// Attempts that it has begun after its deadline.
    attempts: u32,
    /// A server has refused it for good.
    refused: bool,
}

/// Who waits for an answer, and since when.
#[derive(Default)]
struct Deadlines {
    deadline_ns: u64,
    overrun_ns: u64,
    /// Whether retries last until the deadline.
    retries_last: bool,
    /// By acquisition.
    open: BTreeMap<u32, Caller>,
    /// Clients that stand still, and since when.
    stopped: BTreeMap<u32, u64>,
    /// Who died last, and when.
    died: (u32, u64),
    /// Clients whose clocks drift; whether all may.
    drifting: Vec<u32>,
    all_drift: bool,
    now_ns: u64,
    tested: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let (deadline_ns, overrun_ns) = head.deadline_ns.zip(head.overrun_ns)?;
    // A client claims to try for half as long as its retries take, or its deadline where that is sooner.
    let retries_last = head.tries_for_ns.is_some_and(|it| it >= deadline_ns / 2);
    Some(Box::new(Deadlines { deadline_ns, overrun_ns, retries_last, ..Deadlines::default() }))
}

impl Checker for Deadlines {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, what, .. } = *seen.event;
        self.now_ns = at_ns;
        if let What::Fault { fault, node, .. } = what {
            return self.strikes(client, fault, node);
        }
        self.moves(client);
        match what {
            // What is written down in the instant of its death it had begun before.
            What::Acquire if self.died == (client, at_ns) => {}
            What::Acquire => {
                let (began_ns, stood_ns, attempts, refused) = (at_ns, 0, 0, false);
                let it = Caller { client, began_ns, stood_ns, attempts, refused };
                self.open.insert(acquisition, it);
            }
            What::Refused(why) if refuses_for_good(seen.texts.get(why)) => {
                if let Some(it) = self.open.get_mut(&acquisition) {
                    it.refused = true;
                }
            }
            What::Phase(Phase::AcquireBeforeSend) => self.attempts(acquisition),
            What::NotAcquired(why) => {
                if !seen.texts.get(why).starts_with(DROPPED) {
                    self.told_no(acquisition);
                }
                self.ends(acquisition);
            }
            What::Acquired | What::AcquireUnknown(_) => self.ends(acquisition),
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let open: Vec<u32> = self.open.keys().copied().collect();
        for acquisition in open {
            let stands =
                self.open.get(&acquisition).map(|it| self.stopped.contains_key(&it.client));
            if stands == Some(false) {
                self.ends(acquisition);
            }
        }
        let verdict = verdict(self.first.take(), self.tested, "nobody's time was up");
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

impl Deadlines {
    fn strikes(&mut self, client: u32, fault: Fault, node: Option<u16>) {
        match fault {
            Fault::Pause => {
                // It may have stood still until now.
                self.moves(client);
                self.stopped.insert(client, self.now_ns);
            }
            Fault::Crash => {
                self.open.retain(|_, it| it.client != client);
                self.stopped.remove(&client);
                self.died = (client, self.now_ns);
            }
            // A server's clock is none that a caller measures by.
            Fault::Drift if client == 0 => self.all_drift |= node.is_none(),
            Fault::Drift => self.drifting.push(client),
            _ => {}
        }
    }

    /// A client is seen to do something: it does not stand still any more.
    fn moves(&mut self, client: u32) {
        let Some(&from_ns) = self.stopped.get(&client) else { return };
        if from_ns == self.now_ns {
            // What is written down in the instant in which it was stopped it had begun before.
            return;
        }
        self.stopped.remove(&client);
        let stood_ns = self.now_ns - from_ns;
        let theirs = self.open.values_mut().filter(|it| it.client == client);
        theirs.for_each(|it| it.stood_ns += stood_ns);
    }

    fn attempts(&mut self, acquisition: u32) {
        let Some(it) = self.open.get_mut(&acquisition) else { return };
        if self.now_ns.saturating_sub(it.began_ns) <= self.deadline_ns {
            return;
        }
        it.attempts += 1;
    }

    /// It has not got the lock: it may have been told so too soon.
    fn told_no(&mut self, acquisition: u32) {
        let Some(Caller { client, began_ns, refused, .. }) = self.open.get(&acquisition).copied()
        else {
            return;
        };
        let waited_ns = self.now_ns - began_ns;
        let in_time = waited_ns.saturating_add(GRAIN_NS) >= self.deadline_ns;
        if in_time || refused || !self.retries_last || self.drifts(client) {
            return;
        }
        self.tested = true;
        let summary = format!(
            "client {client} had set a deadline of {}, and was told after {} that it had not got the lock",
            rounded(self.deadline_ns),
            rounded(waited_ns)
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    fn drifts(&self, client: u32) -> bool {
        self.all_drift || self.drifting.contains(&client)
    }

    /// It has its answer now, or never.
    fn ends(&mut self, acquisition: u32) {
        let Some(it) = self.open.remove(&acquisition) else { return };
        let Caller { client, began_ns, stood_ns, attempts, .. } = it;
        let waited_ns = self.now_ns - began_ns;
        if waited_ns < self.deadline_ns || self.drifts(client) {
            return;
        }
        self.tested = true;
        let limit_ns = self.deadline_ns.saturating_add(self.overrun_ns).saturating_add(stood_ns);
        let deadline = rounded(self.deadline_ns);
        let summary = if waited_ns > limit_ns {
            format!(
                "client {client} had set a deadline of {deadline}, and waited for {}: the lock claims to answer {} \
                 after the deadline at the latest",
                rounded(waited_ns),
                rounded(self.overrun_ns)
            )
        } else if attempts > ATTEMPTS_AFTER {
            format!(
                "client {client} had set a deadline of {deadline}, and the lock asked for it {attempts} times more \
                 after that"
            )
        } else {
            return;
        };
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }
}

/// Whether this answer ends an acquisition: not an error that passes, nor that a script is not known, whose text is sent then.
fn refuses_for_good(answer: &str) -> bool {
    ErrorAnswer::of(answer) != Some(ErrorAnswer::Noscript) && passing(answer).is_none()
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use crate::testing::{CREATE, Tape};
    use history::fault::Fault;
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
    use picklock::env::Phase::AcquireBeforeSend;

    /// Callers wait for 500; the lock claims to answer 100 later at the latest.
    fn asked() -> Tape {
        Tape::new().with(|it| (it.deadline_ns, it.overrun_ns) = (Some(500), Some(100)))
    }

    fn outcome(tape: Tape) -> Outcome {
        tape.outcome("deadline")
    }

    #[test]
    fn whoever_waits_for_longer_than_the_lock_claims_is_told_too_late() {
        assert_eq!(outcome(asked().refused(1, 1, 100..599)), NotApplicable, "it gave up before");
        assert_eq!(outcome(asked().refused(1, 1, 100..700)), Held);
        assert_eq!(outcome(asked().refused(1, 1, 100..701)), Violated);
        assert_eq!(outcome(asked().unknown(1, 1, 100..701)), Violated);
        assert_eq!(outcome(asked().waited(1, 1, 100..700)), Held);
        assert_eq!(outcome(asked().waited(1, 1, 100..701)), Violated, "it has it, and too late");
        assert_eq!(outcome(asked().acquires(1, 100).probe(700, -2)), Held);
        assert_eq!(outcome(asked().acquires(1, 100).probe(701, -2)), Violated, "never");
    }

    #[test]
    fn who_stands_still_or_is_dead_cannot_be_told() {
        let late = || asked().refused(1, 1, 100..1_000);
        let stood = |until_ns| {
            let pause = late().struck(Fault::Pause, 1, 200).phase(1, until_ns, AcquireBeforeSend);
            outcome(pause)
        };
        assert_eq!((stood(500), stood(499)), (Held, Violated));
        let sending = late().struck(Fault::Pause, 1, 200).phase(1, 200, AcquireBeforeSend);
        assert_eq!(outcome(sending.phase(1, 500, AcquireBeforeSend)), Held, "it was about to send");
        let again = late().struck(Fault::Pause, 1, 200).struck(Fault::Pause, 1, 300);
        let again = again.phase(1, 300, AcquireBeforeSend).phase(1, 500, AcquireBeforeSend);
        assert_eq!(outcome(again), Held, "twice, one after the other");
        assert_eq!(outcome(late().struck(Fault::Pause, 2, 200)), Violated, "another stood still");
        assert_eq!(outcome(asked().acquires(1, 100).crash(1, 200).probe(900, -2)), NotApplicable);
        let dying = |at_ns| outcome(asked().crash(1, 200).acquires(1, at_ns).probe(901, -2));
        assert_eq!((dying(200), dying(201)), (NotApplicable, Violated), "in the same instant");
        let for_ever = asked().acquires(1, 100).struck(Fault::Pause, 1, 200).probe(900, -2);
        assert_eq!(outcome(for_ever), NotApplicable);
    }

    #[test]
    fn who_measures_by_another_clock_has_another_deadline() {
        let late = || asked().refused(1, 1, 100..1_000);
        assert_eq!(outcome(late().struck(Fault::Drift, 1, 50)), NotApplicable);
        assert_eq!(outcome(late().struck(Fault::Drift, 2, 50)), Violated);
        assert_eq!(outcome(late().struck(Fault::Drift, 0, 50)), NotApplicable, "all clocks drift");
        assert_eq!(outcome(late().server_lost(Fault::Drift, 0, 50..50)), Violated, "a server's");
        assert_eq!(outcome(late().struck(Fault::ClockStep, 1, 50)), Violated, "of the wall");
    }

    #[test]
    fn nobody_asks_on_after_the_deadline() {
        let attempts = |first_ns: u64, count: u64| {
            let tape = asked().refused(1, 1, 100..690);
            let tape =
                (0..count).fold(tape, |tape, nth| tape.phase(1, first_ns + nth, AcquireBeforeSend));
            outcome(tape)
        };
        assert_eq!((attempts(601, 2), attempts(601, 3)), (Held, Violated));
        assert_eq!(attempts(600, 3), Held, "the first is due at that moment");
        assert_eq!(attempts(200, 30), Held);
    }

    #[test]
    fn nobody_is_told_too_soon_that_its_time_is_up() {
        const MS: u64 = 1_000_000;
        let asked = |tries_ms: u64| {
            let limits = (Some(500 * MS), Some(100 * MS), Some(tries_ms * MS));
            Tape::new().with(|it| (it.deadline_ns, it.overrun_ns, it.tries_for_ns) = limits)
        };
        let gave_up = |end_ms: u64| asked(250).refused(1, 1, 0..end_ms * MS);
        assert_eq!((outcome(gave_up(498)), outcome(gave_up(499))), (Violated, NotApplicable));
        assert_eq!(outcome(gave_up(500)), Held);
        let retries = asked(249).refused(1, 1, 0..300 * MS);
        assert_eq!(outcome(retries), NotApplicable, "its retries are used up");
        assert_eq!(outcome(asked(250).unknown(1, 1, 0..MS)), NotApplicable, "it does not know");
        assert_eq!(outcome(asked(250).waited(1, 1, 0..MS)), NotApplicable, "it has it");
        let with = |error| outcome(gave_up(300).refused_with(1, 5..6, CREATE, error));
        assert_eq!((with("OOM command not allowed"), with("NOAUTH")), (Violated, NotApplicable));
        assert_eq!(with("NOSCRIPT No matching script"), Violated, "its text is sent then");
        assert_eq!(outcome(gave_up(300).struck(Fault::Drift, 1, 1)), NotApplicable);
        let stopped = asked(250).refused_because(1, 1, 0..MS, "dropped before it had ended");
        assert_eq!(outcome(stopped), NotApplicable, "its caller does not listen any more");
        let says = "client 1 had set a deadline of 500 ms, and was told after 300 ms that it had not got the lock";
        assert_eq!(gave_up(300).witness("deadline").summary, says);
    }

    #[test]
    fn it_is_asked_of_recipes_that_claim_it_and_of_callers_who_set_one() {
        let tape = Tape::new().refused(1, 1, 100..9_000);
        assert!(tape.findings().iter().all(|it| it.name != "deadline"));
        let tape = tape.with(|it| it.deadline_ns = Some(500));
        assert!(tape.findings().iter().all(|it| it.name != "deadline"));
    }

    #[test]
    fn the_witness_says_how_long_it_waited() {
        let witness = asked().refused(1, 1, 100..900).refused(2, 2, 100..950).witness("deadline");
        let says = "client 1 had set a deadline of 500 ns, and waited for 800 ns: the lock claims to answer 100 ns \
                    after the deadline at the latest";
        assert_eq!((witness.summary.as_str(), witness.occurrences), (says, 2));
        let asks = (601..604).fold(asked().refused(1, 1, 100..650), |tape, at_ns| {
            tape.phase(1, at_ns, AcquireBeforeSend)
        });
        let says = "client 1 had set a deadline of 500 ns, and the lock asked for it 3 times more after that";
        assert_eq!(asks.witness("deadline").summary, says);
    }
}
