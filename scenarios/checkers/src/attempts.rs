//! Attempts: nobody asks for the lock more often than its caller has set.
//!
//! Invariant: a client is blamed only where an acquisition begins one attempt more than the first and its retries, and
//! the recipe claims to count them.

use history::verdict::{Finding, Level, Witness};
use history::{Event, Head, Recent, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd, verdict};
use super::story;

pub(super) const NAME: &str = "attempts";

/// How many attempts each acquisition has begun.
#[derive(Default)]
struct Attempts {
    most: u32,
    /// By acquisition, while it wants the lock.
    begun: Recent<u32>,
    tested: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let most = head.attempts_most?;
    Some(Box::new(Attempts { most, ..Attempts::default() }))
}

impl Checker for Attempts {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { client, acquisition, what, .. } = *seen.event;
        match what {
            What::Acquire => self.begun.insert(acquisition, 0),
            What::Acquired | What::NotAcquired(_) | What::AcquireUnknown(_) => {
                self.begun.remove(acquisition);
            }
            What::Phase(Phase::AcquireBeforeSend) => self.begins(acquisition, client),
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict = verdict(self.first.take(), self.tested, "nobody asked for the lock");
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

impl Attempts {
    fn begins(&mut self, acquisition: u32, client: u32) {
        let Some(begun) = self.begun.get_mut(acquisition) else { return };
        *begun += 1;
        self.tested = true;
        // One that goes on for ever is one witness.
        if *begun == self.most.saturating_add(1) {
            let summary = format!(
                "client {client} asked for the lock once more after {} attempts, and its caller wants no more",
                self.most
            );
            story::note(&mut self.first, summary, &[(acquisition, client)]);
        }
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use crate::testing::Tape;
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
    use picklock::env::Phase::AcquireBeforeSend;

    fn asked() -> Tape {
        Tape::new().with(|it| it.attempts_most = Some(3))
    }

    fn tries(tape: Tape, acquisition: u32, times: u64) -> Tape {
        (0..times).fold(tape, |tape, nth| tape.phase(acquisition, 101 + nth, AcquireBeforeSend))
    }

    fn outcome(tape: &Tape) -> Outcome {
        tape.outcome("attempts")
    }

    #[test]
    fn nobody_asks_more_often_than_its_caller_wants() {
        let refused = |times| outcome(&tries(asked().refused(1, 1, 100..200), 1, times));
        assert_eq!((refused(3), refused(4)), (Held, Violated));
        let got = |times| outcome(&tries(asked().waited(1, 1, 100..200), 1, times));
        assert_eq!((got(3), got(4)), (Held, Violated), "it has it, and asked too often");
        let both = asked().refused(1, 1, 100..200).refused(2, 2, 100..200);
        assert_eq!(outcome(&tries(tries(both, 1, 3), 2, 3)), Held, "each for itself");
        assert_eq!(outcome(&tries(asked().acquires(1, 100), 1, 4)), Violated, "it goes on");
    }

    #[test]
    fn it_is_asked_of_recipes_that_count() {
        let tape = tries(Tape::new().refused(1, 1, 100..200), 1, 9);
        assert!(tape.findings().iter().all(|it| it.name != "attempts"));
        assert_eq!(outcome(&asked()), NotApplicable);
    }

    #[test]
    fn the_witness_says_how_many_were_wanted() {
        let witness = tries(asked().refused(1, 1, 100..200), 1, 9).witness("attempts");
        let says =
            "client 1 asked for the lock once more after 3 attempts, and its caller wants no more";
        assert_eq!((witness.summary.as_str(), witness.occurrences), (says, 1));
    }
}
