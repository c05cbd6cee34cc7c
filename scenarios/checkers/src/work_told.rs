//! Work told: what a lock says of work that it was given is true.
//!
//! Invariant: that the work was *stopped* is false where it had been done; that it was *perhaps not protected* is false where
//! it was done while the lock was valid, and no answer to the release says otherwise: the key expires at the latest with its
//! TTL, and until then it was this client's. Where a clock may have run off nobody is blamed for the second.

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Witness};
use history::words::{PROTECTED, STOPPED, UNPROTECTED};
use history::{Event, Head, Recent, What};

use super::interface::{Checker, EventView, HistoryEnd, verdict};
use super::story;

pub(super) const NAME: &str = "work-told";

/// The work under an acquisition.
#[derive(Clone, Copy, Debug, Default)]
struct GivenWork {
    /// It has the lock.
    acquired: bool,
    /// The end of validity as last told; none before, and 0 once the lock is lost.
    until_ns: Option<u64>,
    /// Its last step is done.
    done: bool,
    /// How much validity was left when the release began.
    left_ns: u64,
}

/// What is said of work.
#[derive(Default)]
struct WorkTold {
    /// By acquisition.
    works: Recent<GivenWork>,
    drifting: bool,
    judged: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    (head.tracked && head.exact).then(|| Box::new(WorkTold::default()) as Box<dyn Checker>)
}

impl Checker for WorkTold {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, what, .. } = *seen.event;
        match what {
            What::Acquired => self.works.entry(acquisition).acquired = true,
            What::ValidUntil(until_ns) => {
                let it = self.works.entry(acquisition);
                // Of a hold, what became known too late does not bring it back.
                if !it.acquired || it.until_ns.is_none_or(|last_ns| at_ns < last_ns) {
                    it.until_ns = it.until_ns.max(Some(until_ns));
                }
            }
            What::Lost => self.with(acquisition, |it| it.until_ns = Some(0)),
            What::Updated(_) => self.with(acquisition, |it| it.done = true),
            What::Update | What::NotUpdated(_) | What::UpdateUnknown { .. } => {
                self.with(acquisition, |it| it.done = false);
            }
            What::Release => {
                self.with(acquisition, |it| {
                    it.left_ns = it.until_ns.unwrap_or(0).saturating_sub(at_ns);
                });
            }
            What::NotAcquired(_) | What::AcquireUnknown(_) => {
                self.works.remove(acquisition);
            }
            What::Released(told) => {
                self.works.remove(acquisition);
                self.judged |= seen.texts.get(told) == PROTECTED;
            }
            What::ReleaseUnknown(why) => self.told(acquisition, client, seen.texts.get(why)),
            What::Fault { fault: Fault::Drift, .. } => self.drifting = true,
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict = verdict(self.first.take(), self.judged, "no work was given to the lock");
        vec![Finding::new(NAME, Level::Belief, verdict)]
    }
}

impl WorkTold {
    fn with(&mut self, acquisition: u32, change: impl FnOnce(&mut GivenWork)) {
        if let Some(it) = self.works.get_mut(acquisition) {
            change(it);
        }
    }

    /// The client is told this of its work, or only of its release.
    fn told(&mut self, acquisition: u32, client: u32, why: &str) {
        let Some(it) = self.works.remove(acquisition) else { return };
        let summary = if why == STOPPED {
            self.judged = true;
            if !it.done {
                return;
            }
            format!("client {client} was told that its work had been stopped, though it was done")
        } else if why.starts_with(UNPROTECTED) {
            self.judged = true;
            if !it.done || it.left_ns == 0 || self.drifting {
                return;
            }
            format!(
                "client {client} was told that its work was perhaps not protected, though it was done {} before the end of \
                 its validity",
                rounded(it.left_ns)
            )
        } else {
            return;
        };
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use super::NAME;
    use crate::testing::Tape;
    use history::fault::Fault;
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
    use history::words::{PROTECTED, STOPPED, UNPROTECTED};

    fn outcome(tape: Tape) -> Outcome {
        tape.with(|it| it.exact = true).outcome(NAME)
    }

    /// Client 1 has the lock from 100, valid until 1,100.
    fn held() -> Tape {
        Tape::tracked().waited(1, 1, 90..100).valid(1, 100, 1_100)
    }

    #[test]
    fn work_that_was_done_is_not_told_as_stopped() {
        let done = || held().update(1, 110..200, 0, None);
        assert_eq!(outcome(done().release_unknown(1, 200..210, STOPPED)), Violated);
        let stopped = held().update_fails(1, 110..200, "lock lost");
        assert_eq!(outcome(stopped.release_unknown(1, 200..210, STOPPED)), Held);
        let late = done().valid(1, 1_200, 2_000).release_unknown(1, 1_300..1_310, UNPROTECTED);
        assert_eq!(outcome(late), Held, "its validity became known too late");
        let again = Tape::tracked().valid(1, 50, 80).valid(1, 95, 1_100).waited(1, 1, 90..100);
        let again = again.update(1, 110..200, 0, None).release_unknown(1, 200..210, UNPROTECTED);
        assert_eq!(outcome(again), Violated, "an earlier attempt came to nothing");
        let next = done().update_fails(1, 210..300, "lock lost");
        assert_eq!(outcome(next.release_unknown(1, 300..310, STOPPED)), Held, "the next step");
        assert_eq!(outcome(done().release_unknown(1, 200..210, "no answer")), NotApplicable);
    }

    #[test]
    fn work_that_was_done_in_time_was_protected() {
        let told = |tape: Tape, at_ns| {
            let why = format!("{UNPROTECTED}no answer");
            outcome(tape.update(1, 110..150, 0, None).release_unknown(1, at_ns..at_ns + 10, &why))
        };
        assert_eq!(told(held(), 1_099), Violated);
        assert_eq!(told(held(), 1_100), Held, "its validity was over");
        assert_eq!(told(held().valid(1, 500, 1_500), 1_100), Violated, "renewed");
        assert_eq!(told(held().lost(1, 160), 200), Held);
        assert_eq!(told(held().struck(Fault::Drift, 2, 50), 200), Held);
        assert_eq!(outcome(held().releases_told(1, 200..210, PROTECTED)), Held);
        let why = format!("{UNPROTECTED}no answer");
        let unprotected = |tape: Tape| outcome(tape.release_unknown(1, 200..210, &why));
        assert_eq!(unprotected(held()), Held, "nothing was done");
        assert_eq!(unprotected(held().update_fails(1, 110..150, "not read")), Held);
        assert_eq!(unprotected(held().update_unknown(1, 110..150, 0)), Held, "nobody knows");
    }

    #[test]
    fn of_other_locks_nothing_is_said() {
        let tape = held().update(1, 110..200, 0, None).release_unknown(1, 200..210, STOPPED);
        assert!(tape.findings().iter().all(|it| it.name != NAME), "times are not exact");
    }
}
