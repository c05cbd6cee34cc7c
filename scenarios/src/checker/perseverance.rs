//! Perseverance: who may try again does, after an error that passes.
//!
//! Invariant: a client is blamed only where a server had answered its last request for the lock with an error that
//! passes, and it said that it had not got the lock before its retries can have been used up. What it does not
//! know, and what it is refused for good, is no reason.

use std::collections::BTreeMap;

use history::fault::ErrorAnswer;
use history::verdict::{Finding, Level, Witness};
use history::{Event, Head, What};

use super::interface::{Checker, EventView, HistoryEnd, verdict};
use super::story;
use crate::span::rounded;

pub(super) const NAME: &str = "perseverance";

/// An acquisition that wants the lock.
#[derive(Clone, Copy, Debug)]
struct Tries {
    began_ns: u64,
    /// Its last request was refused with this error.
    refused: Option<ErrorAnswer>,
}

/// Who wants the lock, and how long a client tries.
#[derive(Default)]
struct Perseverance {
    tries_for_ns: u64,
    /// By acquisition.
    wanting: BTreeMap<u32, Tries>,
    tested: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let tries_for_ns = head.tries_for_ns?;
    Some(Box::new(Perseverance { tries_for_ns, ..Perseverance::default() }))
}

impl Checker for Perseverance {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, what, .. } = *seen.event;
        match what {
            What::Acquire => {
                self.wanting.insert(acquisition, Tries { began_ns: at_ns, refused: None });
            }
            What::Acquired | What::AcquireUnknown(_) => _ = self.wanting.remove(&acquisition),
            What::NotAcquired(_) => self.gives_up(acquisition, client, at_ns),
            What::Refused(_) | What::Answered { .. } | What::Unanswered(_)
                if seen.command.is_some() =>
            {
                let Some(it) = self.wanting.get_mut(&acquisition) else { return };
                it.refused = match what {
                    What::Refused(why) => passing(seen.texts.get(why)),
                    _ => None,
                };
                self.tested |= it.refused.is_some();
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict =
            verdict(self.first.take(), self.tested, "no server answered with an error that passes");
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

impl Perseverance {
    fn gives_up(&mut self, acquisition: u32, client: u32, at_ns: u64) {
        let Some(Tries { began_ns, refused }) = self.wanting.remove(&acquisition) else { return };
        let Some(refused) = refused else { return };
        let tried_ns = at_ns.saturating_sub(began_ns);
        if tried_ns >= self.tries_for_ns {
            return;
        }
        let summary = format!(
            "client {client} gave up {} after it had asked for the lock, because a server answered {}: that \
             passes, and its retries take {} at least",
            rounded(tried_ns),
            refused.name().to_uppercase(),
            rounded(self.tries_for_ns)
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }
}

/// The error that passes, if this is one. Who is told that a script is not known sends its text, and does not wait.
pub(super) fn passing(answer: &str) -> Option<ErrorAnswer> {
    ErrorAnswer::of(answer).filter(|it| *it != ErrorAnswer::Noscript && !it.is_final())
}

#[cfg(test)]
mod tests {
    use crate::checker::testing::{CREATE, Tape};
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};

    fn asked(tape: Tape) -> Tape {
        tape.with(|it| it.tries_for_ns = Some(500))
    }

    fn outcome(tape: Tape) -> Outcome {
        asked(tape).outcome("perseverance")
    }

    /// It asks at 100, and is refused with OOM at 110.
    fn refused() -> Tape {
        Tape::new().refused_command(1, 105..110, CREATE)
    }

    #[test]
    fn who_gives_up_before_its_retries_can_be_used_up_is_blamed() {
        assert_eq!(outcome(refused().refused(1, 1, 100..599)), Violated);
        assert_eq!(outcome(refused().refused(1, 1, 100..600)), Held);
        assert_eq!(outcome(refused().waited(1, 1, 100..200)), Held, "it got the lock");
        assert_eq!(outcome(refused().unknown(1, 1, 100..200)), Held, "it does not know");
        assert_eq!(outcome(refused().acquires(1, 100)), Held, "it goes on");
        let answered = refused().command(1, 120..130, CREATE, None).refused(1, 1, 100..200);
        assert_eq!(outcome(answered), Held, "another request was not refused");
        let other = refused().refused(1, 1, 100..800).refused(2, 2, 100..200);
        assert_eq!(outcome(other), Held, "another acquisition");
    }

    #[test]
    fn only_errors_that_pass_are_no_reason() {
        let answers = |why: &'static str| {
            let tape = Tape::new().refused_with(1, 105..110, CREATE, why).refused(1, 1, 100..200);
            outcome(tape)
        };
        assert_eq!(answers("LOADING Redis is loading the dataset in memory"), Violated);
        assert_eq!(answers("BUSY"), Violated);
        assert_eq!(answers("BUSYKEY Target key name already exists."), NotApplicable);
        assert_eq!(answers("NOSCRIPT No matching script."), NotApplicable);
        assert_eq!(answers("NOPERM this user has no permissions"), NotApplicable);
        assert_eq!(answers("not sent: no connection"), NotApplicable);
    }

    #[test]
    fn it_is_asked_of_recipes_that_claim_it() {
        let tape = refused().refused(1, 1, 100..200);
        assert!(tape.findings().iter().all(|it| it.name != "perseverance"));
        assert_eq!(outcome(Tape::new().refused(1, 1, 100..200)), NotApplicable);
    }

    #[test]
    fn the_witness_says_how_soon_it_gave_up() {
        let tape = asked(refused().refused(1, 1, 100..200).refused(2, 2, 100..110));
        let witness = tape.witness("perseverance");
        let says = "client 1 gave up 100 ns after it had asked for the lock, because a server answered OOM: that \
                    passes, and its retries take 500 ns at least";
        assert_eq!((witness.summary.as_str(), witness.occurrences), (says, 1));
    }
}
