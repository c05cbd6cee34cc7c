//! The gate of a register that checks fencing tokens: it refuses no token that is as great as all that it was shown.
//!
//! Invariant: a refusal is blamed only where no update that had begun by then had a greater token. Updates
//! that a register should have refused are judged with the register.

use history::verdict::{Finding, Level};
use history::words::STALE;
use history::{Event, Head, What};
use rustc_hash::FxHashMap;

use super::interface::{Checker, EventView, HistoryEnd, verdict};
use super::story;

pub(super) const NAME: &str = "no-wrong-refusal";

/// An update that was shown to the register.
#[derive(Clone, Copy)]
struct ShownUpdate {
    /// Its token, once it is known.
    token: Option<u64>,
    ended: bool,
}

/// A client whose token the register has refused as old.
struct StaleRefusal {
    acquisition: u32,
    client: u32,
    token: u64,
    /// How many updates had begun by then.
    begun: usize,
}

/// The tokens that a register has been shown.
#[derive(Default)]
struct FenceRefusals {
    /// By acquisition.
    tokens: FxHashMap<u32, u64>,
    /// In the order in which they began.
    shown: Vec<ShownUpdate>,
    /// Where the updates under way stand there, by operation.
    open: FxHashMap<u32, usize>,
    refused: Vec<StaleRefusal>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    head.fenced.then(|| Box::new(FenceRefusals::default()) as Box<dyn Checker>)
}

impl Checker for FenceRefusals {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { client, acquisition, op, what, .. } = *seen.event;
        match what {
            What::Fence(token) => {
                self.tokens.insert(acquisition, token);
            }
            What::Update => {
                let token = self.tokens.get(&acquisition).copied();
                self.open.insert(op, self.shown.len());
                self.shown.push(ShownUpdate { token, ended: false });
            }
            What::Updated(update) | What::UpdateUnknown { update, .. } => {
                self.ended(op, update.token);
            }
            What::NotUpdated(why) => {
                let token = self.tokens.get(&acquisition).copied();
                // It may have shown its token, whatever that is.
                if token.is_some() {
                    self.ended(op, token);
                } else {
                    self.open.remove(&op);
                }
                if let Some(token) = token.filter(|_| seen.texts.get(why) == STALE) {
                    let begun = self.shown.len();
                    self.refused.push(StaleRefusal { acquisition, client, token, begun });
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let mut first = None;
        let (mut greatest, mut begun) = (None, 0);
        for it in &self.refused {
            let since = &self.shown[begun..it.begun];
            greatest = since.iter().map(ShownUpdate::at_most).max().max(greatest);
            begun = it.begun;
            if greatest == Some(Some(it.token)) {
                let (client, token) = (it.client, it.token);
                let summary = format!(
                    "the register refused client {client}'s token {token}, and had been shown none greater"
                );
                story::note(&mut first, summary, &[(it.acquisition, client)]);
            }
        }
        let tested = self.shown.iter().any(|it| it.token.is_some());
        let verdict = verdict(first, tested, "no client presented a fencing token");
        vec![Finding::new(NAME, Level::Effect, verdict)]
    }
}

impl FenceRefusals {
    fn ended(&mut self, op: u32, token: Option<u64>) {
        if let Some(place) = self.open.remove(&op) {
            let it = &mut self.shown[place];
            (it.token, it.ended) = (token.or(it.token), true);
        }
    }
}

impl ShownUpdate {
    /// The greatest token that it can have had; none where it surely had none.
    fn at_most(&self) -> Option<u64> {
        if self.ended { self.token } else { self.token.or(Some(u64::MAX)) }
    }
}

#[cfg(test)]
mod tests {
    use history::verdict::Outcome::{Held, NotApplicable, Violated};

    use super::{NAME, What};
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
    fn a_token_that_was_told_with_the_write_alone_has_been_shown() {
        let shown = |from, token| {
            let tape = Tape::fenced().fence(2, 60, 5).update(1, from..400, 0, token);
            tape.update_refused(2, 200..300).outcome(NAME)
        };
        assert_eq!(shown(100, Some(9)), Held);
        assert_eq!(shown(100, Some(5)), Violated);
        assert_eq!(shown(310, Some(9)), Violated, "it was not shown yet");
        assert_eq!(shown(100, None), Violated, "it was shown no token");
        let unended = Tape::fenced().fence(2, 60, 5).update_refused(2, 200..300);
        let unended = unended.update(3, 10..20, 0, Some(5)).opens(1, 100, What::Update);
        assert_eq!(unended.outcome(NAME), Held, "nobody knows which token this had");
        let failed = |tape: Tape| {
            let tape = tape.fence(2, 60, 5).update_fails(1, 100..150, "lock lost");
            tape.update_refused(2, 200..300).outcome(NAME)
        };
        assert_eq!(failed(Tape::fenced()), Held, "nor which this had");
        assert_eq!(failed(Tape::fenced().fence(1, 120, 9)), Held);
        assert_eq!(failed(Tape::fenced().fence(1, 120, 4)), Violated);
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
