//! Deadlock-freedom: when every client has done, the lock can be acquired within its TTL.
//!
//! Invariant: only a key that was seen to stay counts against a lock; a look that was never taken
//! is no evidence either way.

use super::interface::{Checker, EventView, HistoryEnd};
use super::story;
use crate::history::{FOR_EVER, GONE, Head, What};
use crate::span::rounded;
use crate::verdict::{Finding, Level, Verdict};

pub(super) const NAME: &str = "deadlock-freedom";

/// What the looks at the lock's key showed after the last client had done.
#[derive(Default)]
struct DeadlockFreedom {
    first_ns: Option<u64>,
    last: Option<(u64, i64)>,
}

pub(super) fn checker(_: &Head) -> Option<Box<dyn Checker>> {
    Some(Box::new(DeadlockFreedom::default()))
}

impl Checker for DeadlockFreedom {
    fn see(&mut self, seen: &EventView<'_>) {
        if let What::Probe(pttl_ms) = seen.event.what {
            self.first_ns.get_or_insert(seen.event.at_ns);
            self.last = Some((seen.event.at_ns, pttl_ms));
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        vec![Finding::new(NAME, Level::Progress, self.verdict(end.head))]
    }
}

impl DeadlockFreedom {
    fn verdict(&self, head: &Head) -> Verdict {
        if !head.locks {
            return Verdict::NotApplicable("this recipe keeps no key".to_owned());
        }
        let (Some(first_ns), Some((last_ns, pttl_ms))) = (self.first_ns, self.last) else {
            return Verdict::Inconclusive("the lock's key was not looked at in the end".to_owned());
        };
        let waited_ns = last_ns - first_ns;
        let summary = match pttl_ms {
            GONE => return Verdict::Held,
            FOR_EVER => "nobody holds the lock, and its key never expires".to_owned(),
            _ if waited_ns <= head.ttl_ns => {
                return Verdict::Inconclusive(
                    "the lock's key was not waited for to the end".to_owned(),
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
}

#[cfg(test)]
mod tests {
    use crate::checker::testing::{TTL_NS, Tape};
    use crate::verdict::Outcome;

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
        assert_eq!(outcome(Tape::new().with(|it| it.locks = false)), Outcome::NotApplicable);
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
