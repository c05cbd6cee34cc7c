//! Overstay: no hold lasts longer than the longest that its recipe is set to, and work stops when its lock is lost, and
//! not before.
//!
//! Invariant: only a hold that its own client has said to rely on counts, by the end of validity that it has said;
//! and only work that is told of the loss of its lock. A client that stood still or died, or whose clock drifted, is
//! excused: it cannot know the time.

use std::collections::BTreeMap;

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Verdict, Witness};
use history::words::LOST;
use history::{Event, Head, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd, verdict};
use super::story;

pub(super) const LONGEST: &str = "longest-hold";
pub(super) const STOPS: &str = "work-stops";

/// An acquisition, from its begin.
#[derive(Clone, Copy, Debug)]
struct TimedHold {
    client: u32,
    /// When it had the lock; none before.
    acquired_ns: Option<u64>,
    /// The latest end of validity that it has said, if any.
    until_ns: Option<u64>,
    /// When it has said that it has lost the lock.
    lost_ns: Option<u64>,
    /// When it was last answered by anything but the lock.
    moved_ns: u64,
    working: bool,
    excused: bool,
    /// It has been blamed for relying on its lock for too long.
    blamed: bool,
}

/// How long holds last, and how long work goes on behind them.
struct Overstay {
    longest_ns: Option<u64>,
    stops: bool,
    /// By acquisition.
    holds: BTreeMap<u32, TimedHold>,
    /// Clients whose clock may have run off; 0 for all.
    drifting: Vec<u32>,
    held: bool,
    stopped: bool,
    too_long: Option<Witness>,
    too_late: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let (longest_ns, stops) = (head.longest_hold_ns, head.stops);
    (longest_ns.is_some() || stops).then(|| {
        Box::new(Overstay {
            longest_ns,
            stops,
            holds: BTreeMap::new(),
            drifting: Vec::new(),
            held: false,
            stopped: false,
            too_long: None,
            too_late: None,
        }) as Box<dyn Checker>
    })
}

impl Checker for Overstay {
    fn see(&mut self, seen: &EventView<'_>) {
        let EventView { event, head, .. } = *seen;
        let Event { at_ns, client, acquisition, what, .. } = *event;
        match what {
            What::Acquire => {
                let excused = self.drifting.iter().any(|it| [0, client].contains(it));
                let it = TimedHold {
                    client,
                    acquired_ns: None,
                    until_ns: None,
                    lost_ns: None,
                    moved_ns: at_ns,
                    working: false,
                    excused,
                    blamed: false,
                };
                self.holds.insert(acquisition, it);
            }
            What::Acquired => {
                self.held = true;
                self.with(acquisition, |it| it.acquired_ns = Some(at_ns));
                let until_ns = self.holds.get(&acquisition).and_then(|it| it.until_ns);
                if let Some(until_ns) = until_ns {
                    self.lasts(acquisition, until_ns, head);
                }
            }
            What::ValidUntil(until_ns) => {
                self.with(acquisition, |it| {
                    // Of a hold, what became known too late does not bring it back.
                    let is_held = it.acquired_ns.is_some();
                    if !is_held || it.until_ns.is_none_or(|last_ns| at_ns < last_ns) {
                        it.until_ns = it.until_ns.max(Some(until_ns));
                    }
                });
                self.lasts(acquisition, until_ns, head);
            }
            What::Lost => self.with(acquisition, |it| it.lost_ns = it.lost_ns.or(Some(at_ns))),
            What::Phase(Phase::Hold) => self.with(acquisition, |it| it.working = true),
            What::Answered { .. } | What::Refused(_) | What::Unanswered(_) => {
                self.with(acquisition, |it| it.moved_ns = at_ns);
            }
            // What was written, or may have been, was decided before.
            What::NotUpdated(why) => {
                let lost = seen.texts.get(why) == LOST;
                self.works_until(acquisition, at_ns, lost);
            }
            What::Release | What::NotAcquired(_) | What::AcquireUnknown(_) => {
                self.holds.remove(&acquisition);
            }
            What::Fault { fault, .. } => self.strikes(fault, client),
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict = |first: Option<Witness>, judged, nothing| match end.head.exact {
            true => verdict(first, judged, nothing),
            false => Verdict::NotApplicable(
                "in real time a client may be stopped by its machine, and act late".to_owned(),
            ),
        };
        let mut findings = Vec::new();
        if self.longest_ns.is_some() {
            let verdict = verdict(self.too_long.take(), self.held, "nobody had the lock");
            findings.push(Finding::new(LONGEST, Level::Progress, verdict));
        }
        if self.stops {
            let verdict = verdict(self.too_late.take(), self.stopped, "no work lost its lock");
            findings.push(Finding::new(STOPS, Level::Belief, verdict));
        }
        findings
    }
}

impl Overstay {
    fn with(&mut self, acquisition: u32, change: impl FnOnce(&mut TimedHold)) {
        if let Some(it) = self.holds.get_mut(&acquisition) {
            change(it);
        }
    }

    fn strikes(&mut self, fault: Fault, client: u32) {
        match fault {
            Fault::Drift => self.drifting.push(client),
            Fault::Pause | Fault::Crash => {}
            _ => return,
        }
        let theirs = self.holds.values_mut().filter(|it| client == 0 || it.client == client);
        theirs.for_each(|it| it.excused = true);
    }

    /// It has said anew until when it relies on its lock.
    fn lasts(&mut self, acquisition: u32, until_ns: u64, head: &Head) {
        let Some(longest_ns) = self.longest_ns else { return };
        let Some(it) = self.holds.get_mut(&acquisition) else { return };
        // Counted from its request, which came before; and renewed in the last moment for a whole TTL.
        let silent = it.excused || it.blamed;
        let Some(acquired_ns) = it.acquired_ns.filter(|_| !silent) else { return };
        let last_ns = acquired_ns.saturating_add(longest_ns).saturating_add(head.ttl_ns);
        if until_ns <= last_ns {
            return;
        }
        it.blamed = true;
        let client = it.client;
        let summary = format!(
            "client {client} relies on its lock until {} after it had got it: a hold may be renewed for {}, and lasts a \
             TTL of {} longer at most",
            rounded(until_ns - acquired_ns),
            rounded(longest_ns),
            rounded(head.ttl_ns)
        );
        story::note(&mut self.too_long, summary, &[(acquisition, client)]);
    }

    /// Its work has ended.
    fn works_until(&mut self, acquisition: u32, at_ns: u64, lost: bool) {
        let Some(it) = self.holds.get_mut(&acquisition) else { return };
        if !self.stops || it.excused || !std::mem::take(&mut it.working) {
            return;
        }
        let Some(until_ns) = [it.lost_ns, it.until_ns].into_iter().flatten().min() else { return };
        let client = it.client;
        if at_ns < until_ns {
            if lost {
                let summary = format!(
                    "client {client} was told that its lock was lost, though it may rely on it for another {}",
                    rounded(until_ns - at_ns)
                );
                story::note(&mut self.too_late, summary, &[(acquisition, client)]);
            }
            return;
        }
        self.stopped = true;
        // Who waits for an answer of the resource stops when it has it.
        let late_ns = at_ns - until_ns.max(it.moved_ns);
        if late_ns == 0 {
            return;
        }
        let summary = format!(
            "client {client} worked on for {} after its lock had been lost: its work is to stop as soon as it is",
            rounded(late_ns)
        );
        story::note(&mut self.too_late, summary, &[(acquisition, client)]);
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use super::{LONGEST, STOPS};
    use crate::testing::{TTL_NS, Tape};
    use history::fault::Fault;
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
    use history::{Intent, Touch};
    use picklock::env::Phase;

    /// Holds may be renewed for two TTLs.
    fn longest(tape: Tape) -> Outcome {
        tape.with(|it| (it.longest_hold_ns, it.exact) = (Some(2 * TTL_NS), true)).outcome(LONGEST)
    }

    fn stops(tape: Tape) -> Outcome {
        tape.with(|it| (it.stops, it.exact) = (true, true)).outcome(STOPS)
    }

    /// Client 1 has the lock from 100, valid until 1,100.
    fn held() -> Tape {
        Tape::tracked().waited(1, 1, 90..100).valid(1, 100, 1_100)
    }

    /// It works from 100 until then, and writes nothing.
    fn works(tape: Tape, until_ns: u64) -> Tape {
        tape.phase(1, 100, Phase::Hold).update_nothing(1, 105..until_ns)
    }

    #[test]
    fn a_hold_is_renewed_for_no_longer_than_the_longest() {
        assert_eq!(longest(held().valid(1, 2_000, 3_100)), Held);
        assert_eq!(longest(held().valid(1, 2_000, 3_101)), Violated);
        assert_eq!(longest(held().valid(1, 2_000, 3_101).struck(Fault::Drift, 1, 50)), Held);
        assert_eq!(longest(held().valid(1, 2_000, 3_101).struck(Fault::Drift, 2, 50)), Violated);
        assert_eq!(longest(held().valid(1, 2_000, 3_101).struck(Fault::Pause, 1, 500)), Held);
        assert_eq!(longest(held().valid(1, 2_000, 3_101).struck(Fault::Refuse, 1, 500)), Violated);
        assert_eq!(longest(Tape::tracked()), NotApplicable);
        let at_once = |until_ns| Tape::tracked().waited(1, 1, 90..100).valid(1, 99, until_ns);
        assert_eq!(longest(at_once(3_100)), Held);
        assert_eq!(longest(at_once(3_101)), Violated, "known before it had the lock");
        let twice = held().valid(1, 2_000, 3_101).valid(1, 2_500, 3_600);
        let witness = twice.with(|it| (it.longest_hold_ns, it.exact) = (Some(2_000), true));
        let witness = witness.witness(LONGEST);
        assert_eq!(witness.occurrences, 1, "each hold once");
        assert!(witness.summary.contains("client 1 relies on its lock"), "{}", witness.summary);
    }

    #[test]
    fn work_stops_when_its_lock_is_lost() {
        assert_eq!(stops(works(held(), 1_099)), NotApplicable, "it was not lost");
        assert_eq!(stops(works(held(), 1_100)), Held);
        assert_eq!(stops(works(held(), 1_101)), Violated);
        assert_eq!(stops(works(held().lost(1, 500), 500)), Held);
        assert_eq!(stops(works(held().lost(1, 500), 501)), Violated, "it was told early");
        assert_eq!(stops(works(held().valid(1, 900, 1_900), 1_900)), Held);
        assert_eq!(stops(works(held().valid(1, 1_150, 1_900), 1_301)), Violated, "known too late");
        let untold = || Tape::new().waited(1, 1, 90..100);
        assert_eq!(stops(works(untold(), 1_301)), NotApplicable, "no end of it was ever said");
        assert_eq!(stops(works(untold().lost(1, 500), 701)), Violated);
        let longer = works(held().valid(1, 1_000, 3_101), 3_302);
        assert_eq!(stops(longer.with(|it| it.longest_hold_ns = Some(2_000))), Violated, "both");
        assert_eq!(stops(works(held().struck(Fault::Pause, 1, 800), 1_301)), NotApplicable);
        assert_eq!(stops(works(held().struck(Fault::Drift, 0, 50), 1_301)), NotApplicable);
    }

    #[test]
    fn work_does_not_stop_while_its_lock_is_held() {
        let told =
            |at_ns, why| stops(held().phase(1, 100, Phase::Hold).update_fails(1, 105..at_ns, why));
        assert_eq!(told(1_099, "lock lost"), Violated);
        assert_eq!(told(1_100, "lock lost"), Held);
        assert_eq!(told(1_099, "register not read"), NotApplicable);
    }

    #[test]
    fn who_waits_for_an_answer_of_the_resource_stops_when_it_has_it() {
        let nothing = Intent { touch: Touch::None, compares: false };
        let read = |end_ns| {
            let tape = held().resource(1).to(1, "register").did(1, 200..end_ns, nothing);
            stops(works(tape, 1_600))
        };
        assert_eq!(read(1_599), Violated);
        assert_eq!(read(1_600), Held);
    }

    #[test]
    fn both_are_asked_of_recipes_that_claim_them_where_times_are_exact() {
        let late = works(held().valid(1, 2_000, 3_101), 4_000);
        assert!(late.findings().iter().all(|it| it.name != LONGEST && it.name != STOPS));
        let real = late.with(|it| (it.longest_hold_ns, it.stops) = (Some(2 * TTL_NS), true));
        assert_eq!([LONGEST, STOPS].map(|name| real.outcome(name)), [NotApplicable; 2]);
    }
}
