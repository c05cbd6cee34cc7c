//! Late writes: what a client decided to write in time, and what may have come after its hold.
//!
//! Invariant: a lock without fencing tokens assumes that nothing holds a write up once its client has looked
//! at the validity a last time. Where the history takes that for granted, what became of the resource from
//! the first write on that may have come late is no verdict on the lock; what was harmed before is. A write comes late
//! behind the end of the validity, or behind the begin of a release that did not wait for its answer.
//! Deliberately absent: whether the write did come late, which nobody knows.

use rustc_hash::FxHashMap;

use durations::span::rounded;
use history::verdict::{Finding, Level, Verdict};
use history::{Event, Head, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd};

/// A write that has been decided on and not been answered.
#[derive(Clone, Copy)]
struct DecidedWrite {
    acquisition: u32,
    client: u32,
    /// When its hold ends.
    until_ns: u64,
}

/// A checker of the resource; writes under way, and what it had seen before the first that may have come late.
struct LateWrites<C> {
    resource: C,
    /// By acquisition: the end of its validity, 0 before it was told of any; and whether it has the lock.
    leases: FxHashMap<u32, (u64, bool)>,
    /// The last operation on the resource that each acquisition has begun.
    begun: FxHashMap<u32, u32>,
    /// By operation.
    writes: Vec<(u32, DecidedWrite)>,
    first: Option<(DecidedWrite, C)>,
}

/// A checker of the resource, excusing late writes where the history takes it for granted that there are
/// none.
pub(super) fn excusing<C: Checker + Clone + 'static>(head: &Head, resource: C) -> Box<dyn Checker> {
    if !head.timely_writes {
        return Box::new(resource);
    }
    let (leases, begun) = (FxHashMap::default(), FxHashMap::default());
    Box::new(LateWrites { resource, leases, begun, writes: Vec::new(), first: None })
}

impl<C: Checker + Clone> Checker for LateWrites<C> {
    fn see(&mut self, seen: &EventView<'_>) {
        // What is kept is what the resource's checker had seen before this event; between those that it is shown,
        // nothing changes.
        self.look(seen.event);
        self.resource.see(seen);
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        let mut findings = self.resource.finish(end);
        let Some((DecidedWrite { client, until_ns, .. }, before)) = &mut self.first else {
            return findings;
        };
        let before = before.finish(end);
        // It harms the resource, and keeps nobody from anything.
        for finding in findings.iter_mut().filter(|it| it.level == Level::Effect) {
            let Verdict::Violated(witness) = &finding.verdict else { continue };
            let earlier = before.iter().find(|it| it.name == finding.name);
            finding.verdict = match earlier.map(|it| &it.verdict) {
                Some(Verdict::Violated(witness)) => Verdict::Violated(witness.clone()),
                _ => Verdict::Inconclusive(format!(
                    "{}; but client {client} had decided on a write in time that was not answered when its \
                     hold ended, at {}, and the lock assumes that no pause and no slow message holds such \
                     a write up: only a resource that refuses old fencing tokens does without",
                    witness.summary,
                    rounded(*until_ns)
                )),
            };
        }
        findings
    }
}

impl<C: Clone> LateWrites<C> {
    fn look(&mut self, event: &Event) {
        if self.first.is_some() {
            return;
        }
        let Event { at_ns, client, acquisition, op, .. } = *event;
        let late = self.writes.iter().map(|(_, it)| it).filter(|it| it.until_ns < at_ns);
        if let Some(late) = late.min_by_key(|it| (it.until_ns, it.client)) {
            self.first = Some((*late, self.resource.clone()));
            return;
        }
        match event.what {
            What::ValidUntil(until_ns) => {
                let (known_ns, acquired) = self.leases.entry(acquisition).or_default();
                // Of a hold, what became known too late does not bring it back.
                if !*acquired || *known_ns == 0 || at_ns < *known_ns {
                    *known_ns = until_ns.max(*known_ns);
                }
                let theirs = self.writes.iter_mut().filter(|(_, it)| it.acquisition == acquisition);
                theirs.for_each(|(_, write)| write.until_ns = *known_ns);
            }
            What::Phase(Phase::HoldBeforeWrite) => {
                // What was decided too late excuses nothing.
                let until_ns = self.leases.get(&acquisition).map(|(until_ns, _)| *until_ns);
                if let Some(until_ns) = until_ns.filter(|until_ns| at_ns < *until_ns) {
                    let op = self.begun.get(&acquisition).copied().unwrap_or(0);
                    self.writes.push((op, DecidedWrite { acquisition, client, until_ns }));
                }
            }
            What::Update | What::Take => _ = self.begun.insert(acquisition, op),
            What::Updated(_) | What::NotUpdated(_) | What::Taken { .. } | What::NotTaken(_) => {
                let ended = |of: u32, it: &DecidedWrite| {
                    of == op || of == 0 && it.acquisition == acquisition
                };
                self.writes.retain(|(of, it)| !ended(*of, it));
            }
            What::Acquired => self.leases.entry(acquisition).or_default().1 = true,
            What::NotAcquired(_) | What::AcquireUnknown(_) | What::Lost => {
                self.leases.remove(&acquisition);
            }
            What::Release => {
                self.leases.remove(&acquisition);
                let mut writes = self.writes.iter().map(|(_, it)| *it);
                if let Some(late) = writes.find(|it| it.acquisition == acquisition) {
                    let late = DecidedWrite { until_ns: at_ns, ..late };
                    self.first = Some((late, self.resource.clone()));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use picklock::env::Phase;

    use crate::testing::Tape;
    use history::verdict::Outcome::{self, Held, Inconclusive, Violated};
    use history::verdict::Verdict;

    const LOST: &str = "no-lost-update";
    const ACCOUNTED: &str = "updates-accounted-for";

    /// An update that is decided on at 180, with a validity that ends at 200.
    fn decided(tape: Tape, client: u32, end_ns: u64, read: i64) -> Tape {
        let tape = tape.valid(client, 90, 200).phase(client, 180, Phase::HoldBeforeWrite);
        tape.update(client, 100..end_ns, read, None)
    }

    /// Two that read the same: the first is answered then, the second at 400, within its validity.
    fn both(first_end_ns: u64) -> Tape {
        let tape = decided(Tape::register(), 1, first_end_ns, 0);
        let tape = tape.valid(2, 210, 900).phase(2, 390, Phase::HoldBeforeWrite);
        tape.update(2, 220..400, 0, None)
    }

    fn outcomes(tape: &Tape) -> [Outcome; 2] {
        [LOST, ACCOUNTED].map(|name| tape.outcome(name))
    }

    #[test]
    fn a_write_that_was_answered_within_the_validity_was_not_late() {
        let tape = |end_ns| both(end_ns).register_left(1);
        assert_eq!(outcomes(&tape(200).timely_writes()), [Violated; 2]);
        assert_eq!(outcomes(&tape(201).timely_writes()), [Inconclusive; 2]);
        assert_eq!(outcomes(&tape(201)), [Violated; 2], "nothing is assumed");
        let Verdict::Inconclusive(why) = tape(201).timely_writes().finding(LOST) else { panic!() };
        assert!(why.contains("an update was lost; but"), "{why}");
        assert!(why.contains("client 1 had decided on a write in time"), "{why}");
    }

    #[test]
    fn a_write_may_come_late_for_as_long_as_it_has_no_answer() {
        let unknown = |tape: Tape| {
            let tape = tape.valid(1, 90, 200).phase(1, 180, Phase::HoldBeforeWrite);
            tape.update_unknown(1, 100..190, 0).timely_writes()
        };
        let others = |tape: Tape| {
            let tape = tape.update(2, 220..400, 0, None).update(3, 410..500, 0, None);
            tape.register_left(1)
        };
        assert_eq!(outcomes(&others(unknown(Tape::register()))), [Inconclusive; 2]);
        let nothing = Tape::register().valid(1, 90, 200).phase(1, 180, Phase::HoldBeforeWrite);
        let nothing = nothing.update_nothing(1, 100..190).timely_writes();
        assert_eq!(outcomes(&others(nothing)), [Violated; 2], "it surely wrote nothing");
    }

    /// A false alarm of a pool: the decrement was late, and its client released before the end of its validity.
    #[test]
    fn a_write_that_a_release_did_not_wait_for_may_come_behind_it() {
        let released = |answered| {
            let tape = Tape::register().waited(1, 1, 85..90).valid(1, 90, 900);
            let tape = tape.phase(1, 105, Phase::HoldBeforeWrite).releases(1, 200..210);
            let tape = match answered {
                true => tape.update(1, 100..190, 0, None),
                false => tape.update_unknown(1, 100..190, 0),
            };
            let tape = tape.update(2, 220..400, 0, None).update(3, 410..500, 0, None);
            outcomes(&tape.register_left(1).timely_writes())
        };
        assert_eq!(released(false), [Inconclusive; 2]);
        assert_eq!(released(true), [Violated; 2], "it was answered before");
    }

    #[test]
    fn another_operation_of_the_acquisition_ends_no_write() {
        let tape = Tape::register().valid(1, 90, 200).phase(1, 105, Phase::HoldBeforeWrite);
        let tape = tape.update_unknown(1, 100..110, 0).update_fails(1, 120..130, "lock lost");
        let tape = tape.update(2, 220..400, 0, None).update(3, 410..500, 0, None);
        assert_eq!(outcomes(&tape.register_left(1).timely_writes()), [Inconclusive; 2]);
    }

    #[test]
    fn what_was_decided_too_late_excuses_nothing() {
        let tape = |decided_ns| {
            let tape = Tape::register().valid(1, 90, 200);
            let tape =
                tape.phase(1, decided_ns, Phase::HoldBeforeWrite).update(1, 100..300, 0, None);
            tape.update(2, 220..400, 0, None).register_left(1).timely_writes()
        };
        assert_eq!(outcomes(&tape(199)), [Inconclusive; 2]);
        assert_eq!(outcomes(&tape(200)), [Violated; 2]);
        assert_eq!(outcomes(&tape(180).lost(1, 150)), [Violated; 2], "it knew of its loss");
        let untold = Tape::register().phase(1, 180, Phase::HoldBeforeWrite);
        let untold = untold.update(1, 100..300, 0, None).update(2, 220..400, 0, None);
        assert_eq!(outcomes(&untold.register_left(1).timely_writes()), [Violated; 2]);
    }

    #[test]
    fn a_renewal_that_came_in_time_counts() {
        let renewed = |known_ns| both(300).valid(1, known_ns, 900).register_left(1);
        assert_eq!(outcomes(&renewed(199).timely_writes()), [Violated; 2]);
        assert_eq!(outcomes(&renewed(201).timely_writes()), [Inconclusive; 2]);
    }

    #[test]
    fn each_attempt_has_its_own_validity() {
        // Client 1 was told of one until 85, and at 90 of the other.
        let got_at = |got_ns| {
            let tape = both(300).register_left(1).waited(1, 1, 60..got_ns).valid(1, 70, 85);
            outcomes(&tape.timely_writes())
        };
        assert_eq!(got_at(95), [Inconclusive; 2], "it got the lock by the second");
        assert_eq!(got_at(75), [Violated; 2], "of its hold it was told too late");
    }

    #[test]
    fn what_was_harmed_before_is_held_against_the_lock() {
        let early = |first_ns| {
            let tape = Tape::register().update(4, 10..20, 0, None).update(5, 12..first_ns, 0, None);
            decided(tape, 1, 300, 1).register_left(2).timely_writes()
        };
        assert_eq!(outcomes(&early(199)), [Violated, Inconclusive]);
        assert_eq!(outcomes(&early(250)), [Inconclusive; 2]);
    }

    #[test]
    fn nothing_lost_is_held_whatever_came_late() {
        let tape = decided(Tape::register(), 1, 300, 0).update(2, 310..400, 1, None);
        assert_eq!(outcomes(&tape.register_left(2).timely_writes()), [Held; 2]);
    }

    #[test]
    fn a_pool_is_judged_alike() {
        let tape = |end_ns| {
            let tape = Tape::new().valid(1, 90, 200).phase(1, 180, Phase::HoldBeforeWrite);
            tape.take(1, 100..end_ns, 10, 9).take(2, 110..190, 10, 8).timely_writes()
        };
        assert_eq!(tape(200).outcome("distinct-prizes"), Violated);
        assert_eq!(tape(201).outcome("distinct-prizes"), Inconclusive);
    }
}
