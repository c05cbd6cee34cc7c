//! Deadlock-freedom: when every client has done, the lock can be acquired within its TTL, and whatever else it
//! has left on the server goes by itself.
//!
//! Invariant: only a key that was seen to stay counts against a lock; a look that was never taken
//! is no evidence either way, nor is one that a client was at work after, or a key that a request without an answer may have
//! made since, that a server whose clock was set back keeps for as much longer, or that the run itself may have left. Beside the lock's own key, one that never expires stays; and where nothing has gone
//! wrong, so that everybody has given back what it had, any that is still there: it would grow with each acquisition.

use std::collections::BTreeMap;

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Verdict};
use history::{Answer, Event, FOR_EVER, GONE, Head, Recent, Text, Texts, Touch, What};

use super::interface::{Checker, EventView, HistoryEnd, makes};
use super::story;

pub(super) const NAME: &str = "deadlock-freedom";
/// The command with which the run looks at a key.
const LOOK: &str = "PTTL";

/// What the looks at the lock's key showed after the last client had done.
#[derive(Default)]
struct DeadlockFreedom {
    /// When it was first there, and has not been seen to be gone since.
    first_ns: Option<u64>,
    last: Option<(u64, i64)>,
    /// The run's looks at other keys of the lock, by operation; and what the last at each has shown, and when.
    looks: BTreeMap<u32, Text>,
    beside: BTreeMap<Text, (u64, i64)>,
    /// Acquisitions that have not been given up, lost or released.
    active: Recent<()>,
    /// A request without an answer may make the key, or have it live longer, at any time.
    may_come: bool,
    /// Until when a key may live that was there when a server's clock jumped: it may have been set back.
    set_back_until_ns: u64,
    /// Until when the run keeps something else under the lock's key; for ever, where a server ended meanwhile.
    foreign_until_ns: u64,
    /// A fault has struck, or something was not answered.
    disturbed: bool,
    /// What is under way: acquisitions, releases, and commands that leave the lock's key alone.
    open: i64,
}

pub(super) fn checker(_: &Head) -> Option<Box<dyn Checker>> {
    Some(Box::new(DeadlockFreedom::default()))
}

impl Checker for DeadlockFreedom {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, op, what, .. } = *seen.event;
        self.open += match what {
            What::Acquire | What::Release => 1,
            What::Acquired | What::NotAcquired(_) | What::Released(_) => -1,
            What::Command { .. } if seen.command.is_none() => 1,
            What::Answered { .. } | What::Refused(_) if seen.command.is_none() => -1,
            _ => 0,
        };
        self.disturbed |= matches!(
            what,
            What::Fault { .. }
                | What::AcquireUnknown(_)
                | What::ReleaseUnknown(_)
                | What::Unanswered(_)
        );
        match what {
            What::Fault { fault, for_ns, .. } if client == 0 => {
                self.struck(fault, at_ns, for_ns, seen.head);
            }
            What::Probe(pttl_ms) => {
                self.first_ns = self.first_ns.or(Some(at_ns)).filter(|_| pttl_ms != GONE);
                self.last = Some((at_ns, pttl_ms));
            }
            What::Acquire => {
                self.active.insert(acquisition, ());
                self.forget_looks();
            }
            What::Acquired | What::Release => self.forget_looks(),
            What::NotAcquired(_)
            | What::AcquireUnknown(_)
            | What::Lost
            | What::Released(_)
            | What::ReleaseUnknown(_) => {
                self.active.remove(acquisition);
                self.forget_looks();
            }
            What::Command { node, name, key, .. } if client == 0 && self.last.is_some() => {
                let looks = seen.texts.get(name) == LOOK && !seen.head.is_resource(node);
                if looks && seen.texts.get(key) != seen.head.lock_key {
                    self.looks.insert(op, key);
                }
            }
            What::Answered { answer: Answer::Int(pttl_ms), .. } if client == 0 => {
                if let Some(key) = self.looks.remove(&op) {
                    self.beside.insert(key, (at_ns, pttl_ms));
                }
            }
            // Whose hold was over before keeps the key for nobody.
            What::Answered { touch, .. }
                if seen.command.is_some()
                    && lengthens(touch)
                    && self.active.contains(acquisition) =>
            {
                self.forget_looks();
            }
            What::Unanswered(_) => {
                self.may_come |= seen.command.is_some_and(|it| lengthens(it.intent.touch));
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        self.disturbed |= self.open > 0 || !end.unended.is_empty();
        self.may_come |= end.unended.iter().any(|(_, it)| lengthens(it.intent.touch));
        vec![Finding::new(NAME, Level::Progress, self.verdict(end.head, end.texts))]
    }
}

/// Whether a command that does this has the key live longer than it would.
fn lengthens(touch: Touch) -> bool {
    makes(touch) || matches!(touch, Touch::Extend(1..) | Touch::Unknown)
}

impl DeadlockFreedom {
    /// A server, or all of them, are struck.
    fn struck(&mut self, fault: Fault, at_ns: u64, for_ns: u64, head: &Head) {
        match fault {
            Fault::ClockStep => {
                let lives_ns = at_ns.saturating_add(head.ttl_ns).saturating_add(head.margin_ns);
                self.set_back_until_ns =
                    self.set_back_until_ns.max(lives_ns).saturating_add(for_ns);
            }
            Fault::ForeignKey | Fault::ForeignList => {
                self.foreign_until_ns = self.foreign_until_ns.max(at_ns.saturating_add(for_ns));
            }
            // Nobody may have been there to take it away.
            _ if fault.ends_server() && at_ns < self.foreign_until_ns => {
                self.foreign_until_ns = u64::MAX;
            }
            _ => {}
        }
    }

    /// It was not the last client that had done.
    fn forget_looks(&mut self) {
        if self.last.take().is_some() {
            self.first_ns = None;
            self.looks.clear();
            self.beside.clear();
        }
    }

    fn verdict(&self, head: &Head, texts: &Texts) -> Verdict {
        if !head.locks {
            return Verdict::NotApplicable("this recipe keeps no key".to_owned());
        }
        let Some((last_ns, pttl_ms)) = self.last else {
            return Verdict::Inconclusive("the lock's key was not looked at in the end".to_owned());
        };
        let waited_ns = self.first_ns.map_or(0, |first_ns| last_ns - first_ns);
        let summary = match pttl_ms {
            GONE => return self.beside(texts),
            FOR_EVER if last_ns < self.foreign_until_ns => {
                return Verdict::Inconclusive(
                    "what the run had kept under the lock's key may be there still".to_owned(),
                );
            }
            FOR_EVER => "nobody holds the lock, and its key never expires".to_owned(),
            _ if waited_ns <= head.ttl_ns => {
                return Verdict::Inconclusive(
                    "the lock's key was not waited for to the end".to_owned(),
                );
            }
            _ if last_ns <= self.set_back_until_ns => {
                return Verdict::Inconclusive(
                    "the lock's key was still there, and a server's clock had jumped: if it was set back, the key lives \
                     for as much longer"
                        .to_owned(),
                );
            }
            _ if self.may_come => {
                return Verdict::Inconclusive(
                    "the lock's key was still there, and a request without an answer may have made it late, or \
                     extended it"
                        .to_owned(),
                );
            }
            _ => format!(
                "nobody holds the lock, and its key is still there {} after the last client had \
                 done, though its TTL is {}",
                rounded(waited_ns),
                rounded(head.ttl_ns)
            ),
        };
        let text = format!("PTTL of the lock's key answers {pttl_ms}");
        story::seen_by_run(last_ns, summary, text)
    }

    /// What there is to say of the lock's other keys.
    fn beside(&self, texts: &Texts) -> Verdict {
        let there = self.beside.iter().map(|(key, (at_ns, pttl_ms))| (*at_ns, *key, *pttl_ms));
        let there = there.filter(|(_, _, pttl_ms)| match *pttl_ms {
            GONE => false,
            pttl_ms => pttl_ms == FOR_EVER || !self.disturbed,
        });
        // What stays comes first.
        let first = there.min_by_key(|(at_ns, _, pttl_ms)| (*pttl_ms != FOR_EVER, *at_ns));
        let Some((at_ns, key, pttl_ms)) = first else { return Verdict::Held };
        let key = texts.get(key);
        let what = if pttl_ms == FOR_EVER {
            "never expires"
        } else {
            "is still there, though nothing has gone wrong"
        };
        let summary = format!("every client has done, and {key}, which is the lock's, {what}");
        story::seen_by_run(at_ns, summary, format!("PTTL of {key} answers {pttl_ms}"))
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use crate::testing::{CREATE, LOCK, TTL_NS, Tape};
    use history::fault::Fault;
    use history::verdict::Outcome;
    use history::{Intent, Touch};

    const EXTEND: Intent = Intent { touch: Touch::Extend(TTL_NS), compares: true };

    #[test]
    fn a_key_that_goes_is_fine_and_one_that_stays_is_not() {
        let outcome = |tape: Tape| tape.outcome("deadlock-freedom");
        assert_eq!(outcome(Tape::new()), Outcome::Inconclusive);
        assert_eq!(outcome(Tape::new().probe(10, -2)), Outcome::Held);
        assert_eq!(outcome(Tape::new().probe(10, 5).probe(20, -2)), Outcome::Held);
        assert_eq!(outcome(Tape::new().probe(10, -1)), Outcome::Violated);
        assert_eq!(outcome(Tape::new().probe(10, 5)), Outcome::Inconclusive);
        let stays = |span_ns| Tape::new().probe(10, 900).probe(10 + span_ns, 300);
        assert_eq!(outcome(stays(TTL_NS)), Outcome::Inconclusive);
        assert_eq!(outcome(stays(TTL_NS + 1)), Outcome::Violated);
        assert_eq!(outcome(Tape::new().hold(1, 1, 5..20).probe(15, -1)), Outcome::Inconclusive);
        assert_eq!(outcome(Tape::new().hold(1, 1, 5..20).probe(25, -1)), Outcome::Violated);
        assert_eq!(outcome(Tape::new().with(|it| it.locks = false)), Outcome::NotApplicable);
    }

    #[test]
    fn a_key_that_somebody_has_made_or_extended_since_did_not_stay() {
        let stays =
            |tape: Tape| tape.probe(500, 900).probe(501 + TTL_NS, 300).outcome("deadlock-freedom");
        assert_eq!(stays(Tape::new()), Outcome::Violated);
        let late = Tape::new().command(1, 100..110, CREATE, None);
        assert_eq!(stays(late), Outcome::Inconclusive, "it may have come late");
        assert_eq!(stays(Tape::new().sends(1, 100, CREATE)), Outcome::Inconclusive);
        assert_eq!(stays(Tape::new().probe(490, -2)), Outcome::Violated);
        assert_eq!(stays(Tape::new().probe(600, -2)), Outcome::Inconclusive, "it had gone");
        let extends = |tape: Tape| stays(tape.did(1, 800..810, EXTEND));
        assert_eq!(extends(Tape::new().waited(1, 1, 90..100)), Outcome::Inconclusive, "held");
        let released = Tape::new().waited(1, 1, 90..100).releases(1, 200..210);
        assert_eq!(extends(released), Outcome::Violated, "its hold was over");
        let unknown = Tape::new().unknown(1, 1, 90..600);
        assert_eq!(stays(unknown), Outcome::Inconclusive, "it was still at work");
    }

    #[test]
    fn a_server_whose_clock_was_set_back_keeps_a_key_for_as_much_longer() {
        let stays = |client, struck_ns| {
            let step = struck_ns..struck_ns + 300;
            let tape = Tape::new().margin(7).struck_for(Fault::ClockStep, client, step);
            tape.probe(500, 900).probe(501 + TTL_NS, 300).outcome("deadlock-freedom")
        };
        let last_ns = 501 + TTL_NS;
        let first_ns = last_ns - 300 - TTL_NS - 7;
        assert_eq!(
            (stays(0, first_ns), stays(0, first_ns - 1)),
            (Outcome::Inconclusive, Outcome::Violated)
        );
        assert_eq!(stays(1, first_ns), Outcome::Violated, "a client's clock");
    }

    #[test]
    fn what_the_run_itself_may_have_left_counts_against_nobody() {
        let left = |fault, tape: Tape| {
            tape.struck_for(fault, 0, 100..200).probe(500, -1).outcome("deadlock-freedom")
        };
        let crashed = |at_ns| Tape::new().server_lost(Fault::ServerCrash, 0, at_ns..at_ns + 10);
        assert_eq!(left(Fault::ForeignKey, crashed(199)), Outcome::Inconclusive);
        assert_eq!(left(Fault::ForeignList, crashed(199)), Outcome::Inconclusive);
        assert_eq!(left(Fault::ForeignKey, crashed(200)), Outcome::Violated, "it was gone by then");
        assert_eq!(left(Fault::ForeignKey, Tape::new()), Outcome::Violated);
        assert_eq!(left(Fault::Flush, crashed(199)), Outcome::Violated);
    }

    #[test]
    fn only_the_last_look_at_another_key_counts() {
        let looked = |tape: Tape, pttl_ms| {
            let tape = tape.to(0, "line").looks_at_key(0, 910..915, -1).probe(920, -2);
            let tape = tape.looks_at_key(0, 930..935, pttl_ms).probe(940, -2);
            tape.outcome("deadlock-freedom")
        };
        let disturbed = || Tape::new().struck(Fault::Pause, 1, 5).probe(900, -2);
        assert_eq!(looked(disturbed(), -1), Outcome::Violated);
        assert_eq!(looked(disturbed(), -2), Outcome::Held);
        let again = disturbed().to(0, "line").looks_at_key(0, 910..915, -1);
        let again = again.waited(1, 1, 916..918).releases(1, 918..919).probe(920, -2);
        assert_eq!(again.outcome("deadlock-freedom"), Outcome::Held, "before the last was done");
    }

    #[test]
    fn what_else_the_lock_leaves_has_to_go_by_itself() {
        let looked = |client: u32, key, pttl_ms| {
            let tape = Tape::new().probe(10, -2).to(0, key);
            tape.looks_at_key(client, 20..25, pttl_ms).outcome("deadlock-freedom")
        };
        assert_eq!(looked(0, "line", -2), Outcome::Held);
        assert_eq!(looked(0, "line", 5_000), Outcome::Violated);
        assert_eq!(looked(0, "line", -1), Outcome::Violated);
        assert_eq!(looked(3, "line", -1), Outcome::Held, "a client's own look");
        assert_eq!(looked(0, LOCK, -1), Outcome::Held, "the lock's key is probed");
        let elsewhere = Tape::new().resource(1).probe(10, -2).to(1, "register");
        let elsewhere = elsewhere.looks_at_key(0, 20..25, -1).outcome("deadlock-freedom");
        assert_eq!(elsewhere, Outcome::Held);
    }

    #[test]
    fn what_was_left_behind_by_a_mishap_may_take_its_time() {
        let left = |tape: Tape| {
            let tape = tape.probe(910, -2).to(0, "line");
            tape.looks_at_key(0, 920..925, 5_000).outcome("deadlock-freedom")
        };
        assert_eq!(left(Tape::new()), Outcome::Violated);
        assert_eq!(left(Tape::new().struck(Fault::Pause, 1, 5)), Outcome::Held);
        assert_eq!(left(Tape::new().unknown(1, 1, 1..5)), Outcome::Held);
        assert_eq!(left(Tape::new().command(1, 1..5, CREATE, None)), Outcome::Held);
        assert_eq!(left(Tape::new().did(1, 1..5, CREATE)), Outcome::Violated);
        assert_eq!(left(Tape::new().hold(1, 1, 10..20)), Outcome::Violated);
        assert_eq!(left(Tape::new().acquires(1, 5)), Outcome::Held, "it has no end");
        assert_eq!(left(Tape::new().sends(1, 5, CREATE)), Outcome::Held);
        assert_eq!(left(Tape::new().to(0, "line").sends(1, 5, CREATE)), Outcome::Held);
    }

    #[test]
    fn the_witness_says_what_was_seen_last_and_when() {
        let tape = Tape::new().probe(10, 900).probe(3_010, 300);
        let witness = tape.witness("deadlock-freedom");
        assert!(witness.summary.contains("still there 3 µs after"), "{}", witness.summary);
        let step = &witness.steps[0];
        assert_eq!((step.at_ns, step.text.as_str()), (3_010, "PTTL of the lock's key answers 300"));
        assert_eq!((witness.steps.len(), witness.occurrences), (1, 1));
    }
}
