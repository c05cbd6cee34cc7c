//! One slot: on a cluster, all keys of a command are in one slot.
//!
//! Invariant: a client is blamed only where a node of a cluster has answered its command with CROSSSLOT: it would do so
//! every time.

use history::verdict::{Finding, Level, Witness};
use history::{Head, What};

use super::interface::{Checker, EventView, HistoryEnd, verdict};
use super::story;

pub(super) const NAME: &str = "one-slot";
/// How the answer of a cluster begins to a command whose keys are in several slots.
const CROSSSLOT: &str = "CROSSSLOT";

/// What the nodes of a cluster have answered.
#[derive(Default)]
struct OneSlot {
    tested: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    head.cluster.then(|| Box::new(OneSlot::default()) as Box<dyn Checker>)
}

impl Checker for OneSlot {
    fn see(&mut self, seen: &EventView<'_>) {
        let (client, acquisition) = (seen.event.client, seen.event.acquisition);
        match seen.event.what {
            What::Answered { .. } => self.tested |= acquisition != 0,
            What::Refused(why)
                if acquisition != 0 && seen.texts.get(why).starts_with(CROSSSLOT) =>
            {
                let summary = format!(
                    "client {client} sent a command whose keys are in several slots of the cluster: that is refused \
                     every time"
                );
                story::note(&mut self.first, summary, &[(acquisition, client)]);
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict = verdict(self.first.take(), self.tested, "the cluster answered nobody");
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use crate::testing::{CREATE, Tape};
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};

    fn cluster() -> Tape {
        Tape::new().with(|it| it.cluster = true)
    }

    fn outcome(tape: &Tape) -> Outcome {
        tape.outcome("one-slot")
    }

    #[test]
    fn keys_in_two_slots_are_refused_every_time() {
        let refused = |why| outcome(&cluster().refused_with(1, 105..110, CREATE, why));
        assert_eq!(refused("CROSSSLOT Keys in request don't hash to the same slot"), Violated);
        assert_eq!(refused("MOVED 1 127.0.0.1:1"), NotApplicable);
        assert_eq!(outcome(&cluster().did(1, 105..110, CREATE)), Held);
        assert_eq!(outcome(&cluster().did(0, 105..110, CREATE)), NotApplicable, "the run itself");
        assert_eq!(outcome(&cluster()), NotApplicable);
    }

    #[test]
    fn it_is_asked_of_clusters() {
        let tape = Tape::new().refused_with(1, 105..110, CREATE, "CROSSSLOT Keys");
        assert!(tape.findings().iter().all(|it| it.name != "one-slot"));
    }
}
