//! The gate of a register that checks fencing tokens: it refuses nobody whose token is as great as any it was shown.
//!
//! Invariant: a refusal is blamed only where no update that had begun by then had a greater token. Whom a register
//! accepts that it should refuse is judged with the register.

use history::verdict::{Finding, Level, Witness};
use history::words::STALE;
use history::{Event, Head, What};
use rustc_hash::FxHashMap;

use super::interface::{Checker, EventView, HistoryEnd, verdict};
use super::story;

pub(super) const NAME: &str = "no-wrong-refusal";

/// The tokens that a register has been shown.
#[derive(Default)]
struct FenceRefusals {
    /// By acquisition.
    tokens: FxHashMap<u32, u64>,
    greatest: Option<u64>,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    head.fenced.then(|| Box::new(FenceRefusals::default()) as Box<dyn Checker>)
}

impl Checker for FenceRefusals {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { client, acquisition, what, .. } = *seen.event;
        match what {
            What::Fence(token) => {
                self.tokens.insert(acquisition, token);
            }
            What::Update => {
                self.greatest = self.greatest.max(self.tokens.get(&acquisition).copied());
            }
            What::NotUpdated(why) if seen.texts.get(why) == STALE => {
                let token = self.tokens.get(&acquisition).copied();
                if let (Some(token), true) = (token, token == self.greatest) {
                    let summary = format!(
                        "the register refused client {client}'s token {token}, and had been shown none greater"
                    );
                    story::note(&mut self.first, summary, &[(acquisition, client)]);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict = verdict(
            self.first.take(),
            self.greatest.is_some(),
            "no client presented a fencing token",
        );
        vec![Finding::new(NAME, Level::Effect, verdict)]
    }
}

#[cfg(test)]
mod tests {
    use history::verdict::Outcome::{Held, NotApplicable, Violated};

    use super::NAME;
    use crate::testing::Tape;

    /// Clients 1 and 2 have these tokens, and client 1 updates first.
    fn shown(first: u64, second: u64) -> Tape {
        let tape = Tape::fenced().fence(1, 50, first).fence(2, 60, second);
        tape.update(1, 100..200, 0, Some(first))
    }

    #[test]
    fn who_has_the_greatest_token_so_far_is_not_refused() {
        let refused = |first, second| shown(first, second).update_refused(2, 210..300);
        assert_eq!(refused(9, 10).outcome(NAME), Violated);
        assert_eq!(refused(10, 10).outcome(NAME), Violated, "one as great passes");
        assert_eq!(refused(10, 9).outcome(NAME), Held);
        let witness = refused(9, 10).witness(NAME);
        assert!(witness.summary.contains("refused client 2's token 10"), "{}", witness.summary);
    }

    #[test]
    fn a_greater_one_that_may_have_been_shown_before_the_answer_excuses_it() {
        let tape = |from| {
            let tape = Tape::fenced().fence(1, 50, 9).fence(2, 60, 10);
            tape.update_refused(1, 100..200).update(2, from..300, 0, Some(10))
        };
        assert_eq!(tape(190).outcome(NAME), Held);
        assert_eq!(tape(210).outcome(NAME), Violated);
    }

    #[test]
    fn nothing_is_said_of_other_reasons_and_of_clients_without_tokens() {
        assert_eq!(shown(1, 2).update_nothing(2, 210..300).outcome(NAME), Held);
        let without = Tape::fenced().update_refused(1, 100..200);
        assert_eq!(without.outcome(NAME), NotApplicable);
        assert!(Tape::register().findings().iter().all(|it| it.name != NAME));
    }
}
