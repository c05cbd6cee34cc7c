//! Efficiency: how many commands it took to get the lock once and give it back.
//!
//! Invariant: every command counts that an acquisition sent to the servers of the lock, also of those
//! that did not get it, for they are part of the price; what a workload does to its resource under the
//! lock does not. Deliberately absent: time, which says as much of the machine as of the lock.

use history::verdict::{Finding, Level, Vacuous, Verdict, Witness};
use history::{Event, Head, Texts, What};

use super::interface::{Checker, EventView, HistoryEnd};

pub(super) const NAME: &str = "efficiency";

/// What locking has cost so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Efficiency {
    /// Commands that clients sent for the lock.
    pub commands: u64,
    /// Acquisitions that were answered with yes.
    pub granted: u64,
    /// Acquisitions that are at work on the resource.
    working: Vec<u32>,
}

/// How many thousandths of a command an acquisition may cost.
struct Allowed {
    spent: Efficiency,
    within_milli: u64,
    /// The history has commands of acquisitions.
    sent: bool,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let within_milli = head.commands_within_milli?;
    Some(Box::new(Allowed { spent: Efficiency::default(), within_milli, sent: false }))
}

impl Checker for Allowed {
    fn see(&mut self, seen: &EventView<'_>) {
        self.sent |= seen.event.acquisition != 0 && matches!(seen.event.what, What::Command { .. });
        self.spent.see(seen.event, seen.head, seen.texts);
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict = match self.spent.verdict(self.within_milli) {
            Verdict::Held if !self.sent => {
                Verdict::NotApplicable("no command of an acquisition is in this history".to_owned())
            }
            verdict => verdict,
        };
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

impl Efficiency {
    /// Counts the next event.
    pub fn see(&mut self, event: &Event, head: &Head, texts: &Texts) {
        let acquisition = event.acquisition;
        if acquisition == 0 {
            return;
        }
        match event.what {
            What::Command { node, key, .. } if !head.is_resource(node) => {
                // What is kept where the lock is kept has other keys.
                let is_work =
                    self.working.contains(&acquisition) && texts.get(key) != head.lock_key;
                self.commands += u64::from(!is_work);
            }
            What::Acquired => self.granted += 1,
            What::Take | What::Update => self.working.push(acquisition),
            What::Taken { .. }
            | What::NotTaken(_)
            | What::TakeUnknown { .. }
            | What::Updated(_)
            | What::NotUpdated(_)
            | What::UpdateUnknown { .. } => self.working.retain(|it| *it != acquisition),
            _ => {}
        }
    }

    /// Whether it took no more than so many thousandths of a command to get the lock once.
    fn verdict(&self, within_milli: u64) -> Verdict {
        let Self { commands, granted, .. } = *self;
        if granted == 0 {
            return Verdict::Vacuous(Vacuous::NobodyHeld);
        }
        let (cost, allowed) = (u128::from(commands) * 1_000, u128::from(within_milli));
        if cost <= allowed * u128::from(granted) {
            return Verdict::Held;
        }
        let summary = format!(
            "{commands} commands were sent for the lock, and {granted} acquisitions got it: that is {} \
             each, and the scenario allows {}",
            thousandths(cost.div_ceil(u128::from(granted))),
            thousandths(allowed)
        );
        Verdict::Violated(Witness { summary, occurrences: 1, ..Witness::default() })
    }
}

/// So many thousandths, as people write them.
fn thousandths(number: u128) -> String {
    let text = format!("{}.{:03}", number / 1_000, number % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CREATE, DELETE, Tape};
    use history::verdict::Outcome::{self, Held, Inconclusive, NotApplicable, Violated};

    fn outcome(tape: Tape, within_milli: u64) -> Outcome {
        tape.with(|it| it.commands_within_milli = Some(within_milli)).outcome("efficiency")
    }

    /// Two commands for the one that got it, and one for another that did not.
    fn three() -> Tape {
        let tape = Tape::new().hold(1, 1, 100..200).did(1, 96..99, CREATE).did(1, 201..204, DELETE);
        tape.refused(2, 2, 110..120).command(2, 111..119, CREATE, None)
    }

    #[test]
    fn all_that_was_sent_for_the_lock_is_paid_by_those_that_got_it() {
        assert_eq!(outcome(three(), 3_000), Held);
        assert_eq!(outcome(three(), 2_999), Violated);
        let two = three().hold(3, 3, 300..400);
        assert_eq!(outcome(two.clone(), 1_500), Held);
        assert_eq!(outcome(two, 1_499), Violated);
        assert_eq!(outcome(Tape::new().refused(2, 2, 110..120), 9_000), Inconclusive);
        assert!(three().findings().iter().all(|it| it.name != "efficiency"), "nothing is asked");
    }

    #[test]
    fn what_is_done_under_the_lock_is_no_part_of_its_price() {
        let pool = |span| three().take(3, 300..400, 5, 4).to(0, "pool").did(3, span, CREATE);
        assert_eq!(outcome(pool(301..399), 1_500), Held);
        assert_eq!(outcome(pool(401..410), 1_500), Violated, "it had taken its prize");
        let renewal = three().take(3, 300..400, 5, 4).did(3, 301..399, CREATE);
        assert_eq!(outcome(renewal, 1_999), Violated, "the lock's key is the lock's business");
        let unknown = three().take_unknown(3, 300..400, 5).to(0, "pool");
        assert_eq!(outcome(unknown.did(3, 401..410, CREATE), 1_999), Violated);
        let nothing = three().take_nothing(3, 300..400).to(0, "pool");
        assert_eq!(outcome(nothing.did(3, 401..410, CREATE), 1_999), Violated);
        let both = three().take(3, 300..400, 5, 4).take(4, 310..350, 4, 3).to(0, "pool");
        assert_eq!(outcome(both.did(3, 360..370, CREATE), 1_000), Held, "3 is still at work");
        let elsewhere = three().to(7, "x").did(1, 120..130, CREATE).resource(7);
        assert_eq!(outcome(elsewhere, 3_000), Held);
        assert_eq!(outcome(three().did(0, 1..2, CREATE), 3_000), Held, "the run itself");
        let nothing = Tape::new().hold(1, 1, 100..200).did(0, 1..2, CREATE);
        assert_eq!(outcome(nothing, 3_000), NotApplicable, "no acquisition has any command");
    }

    #[test]
    fn an_update_is_work_until_it_ends() {
        let begun = || Tape::register().hold(1, 1, 100..200).to(0, "register");
        let during = |tape: Tape| outcome(tape.did(1, 120..130, CREATE), 0);
        let after = |tape: Tape| outcome(tape.did(1, 160..170, CREATE), 0);
        let ways = [
            |tape: Tape| tape.update(1, 110..150, 0, None),
            |tape: Tape| tape.update_unknown(1, 110..150, 0),
            |tape: Tape| tape.update_nothing(1, 110..150),
        ];
        for way in ways {
            assert_eq!((during(way(begun())), after(way(begun()))), (Held, Violated));
        }
    }

    #[test]
    fn the_witness_says_what_it_cost() {
        let tape = three().hold(3, 3, 300..400).hold(4, 4, 500..600).did(4, 496..499, CREATE);
        let witness = tape.with(|it| it.commands_within_milli = Some(1_050)).witness("efficiency");
        let says = "4 commands were sent for the lock, and 3 acquisitions got it: that is 1.334 each, \
                    and the scenario allows 1.05";
        assert_eq!((witness.summary.as_str(), witness.occurrences), (says, 1));
        assert_eq!(thousandths(20_000), "20");
    }
}
