//! Contention: without two clients at once, a run says nothing about a lock.
//!
//! Invariant: contention is two acquisitions of different clients that overlap in time, at least
//! one of which got the lock.

use std::collections::BTreeMap;

use history::verdict::Vacuous;
use history::{Event, What};

/// Whether anybody contended.
#[derive(Default)]
pub(super) struct Contention {
    held: bool,
    contended: bool,
    /// Acquisitions that want the lock: whose, and how many had begun before.
    wanting: BTreeMap<u32, Wanting>,
    /// Acquisitions that have the lock: which, and whose.
    holding: Vec<(u32, u32)>,
    begun: u64,
    /// The client that began last, and which beginning that was; and the same of the last one by
    /// another client than that.
    last: [(u32, u64); 2],
}

struct Wanting {
    client: u32,
    began: u64,
    /// Another client wanted or had the lock when this one began.
    met: bool,
}

impl Contention {
    /// Shows it an event that is neither of a command nor a phase.
    pub(super) fn see(&mut self, event: &Event) {
        if self.contended || event.acquisition == 0 {
            return;
        }
        let (acquisition, client) = (event.acquisition, event.client);
        match event.what {
            What::Acquire => self.began(acquisition, client),
            What::Acquired => self.acquired(acquisition),
            What::NotAcquired(_) | What::AcquireUnknown(_) => {
                self.wanting.remove(&acquisition);
            }
            What::Release => self.holding.retain(|(held, _)| *held != acquisition),
            _ => {}
        }
    }

    fn began(&mut self, acquisition: u32, client: u32) {
        self.begun += 1;
        let others = |(_, other): &(u32, u32)| *other != client;
        self.contended = self.holding.iter().any(others);
        let met = self.wanting.values().any(|it| it.client != client);
        self.wanting.insert(acquisition, Wanting { client, began: self.begun, met });
        if self.last[0].0 != client {
            self.last[1] = self.last[0];
        }
        self.last[0] = (client, self.begun);
    }

    fn acquired(&mut self, acquisition: u32) {
        self.held = true;
        let Some(it) = self.wanting.remove(&acquisition) else { return };
        let after = self.last.iter().any(|(client, at)| *client != it.client && *at > it.began);
        // Who has the lock beside this one had it when this one began, or wanted it then, or came after.
        self.contended |= it.met || after;
        self.holding.push((acquisition, it.client));
    }

    /// Why the run shows nothing, if so.
    pub(super) fn missing(&self) -> Option<Vacuous> {
        match (self.held, self.contended) {
            (false, _) => Some(Vacuous::NobodyHeld),
            (true, true) => None,
            (true, false) => Some(Vacuous::NobodyContended),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tape;

    fn missing(tape: &Tape) -> Option<Vacuous> {
        let mut contention = Contention::default();
        tape.history().events.iter().for_each(|event| contention.see(event));
        contention.missing()
    }

    #[test]
    fn two_clients_at_once_contend() {
        let tape = Tape::new().hold(1, 1, 100..200).refused(2, 2, 150..160);
        assert_eq!(missing(&tape), None);
        let tape = Tape::new().refused(2, 2, 90..210).hold(1, 1, 100..200);
        assert_eq!(missing(&tape), None);
        let tape = Tape::new().refused(2, 2, 96..97).hold(1, 1, 100..200);
        assert_eq!(missing(&tape), None, "the other gave up before this one had it");
        let tape = Tape::new().hold(1, 1, 100..200).hold(2, 2, 199..300);
        assert_eq!(missing(&tape), None);
        let many = Tape::new().refused(2, 2, 90..99).refused(3, 1, 96..97).hold(1, 1, 100..200);
        assert_eq!(missing(&many), None, "one of its own does not hide the other");
        let later = Tape::new().refused(2, 2, 96..97).refused(3, 1, 97..98).hold(1, 1, 100..200);
        assert_eq!(missing(&later), None, "nor does one that came after it");
        let calm = Tape::new().hold(1, 1, 100..200).refused(2, 2, 150..160).hold(3, 3, 300..400);
        assert_eq!(missing(&calm), None, "what has been seen is not forgotten");
    }

    #[test]
    fn one_after_the_other_or_alone_do_not() {
        let vacuous = |tape: Tape| missing(&tape).unwrap();
        assert_eq!(vacuous(Tape::new()), Vacuous::NobodyHeld);
        let refused = Tape::new().refused(1, 1, 1..9).refused(2, 2, 1..9);
        assert_eq!(vacuous(refused), Vacuous::NobodyHeld);
        let alone = |tape| assert_eq!(vacuous(tape), Vacuous::NobodyContended);
        alone(Tape::new().hold(1, 1, 100..200).hold(2, 2, 300..400));
        // No acquisition at all.
        alone(Tape::new().hold(1, 1, 100..200).refused(0, 2, 150..160));
        alone(Tape::new().refused(2, 2, 1..9).hold(1, 1, 100..200));
        alone(Tape::new().hold(1, 1, 100..200).refused(2, 1, 150..160));
    }
}
