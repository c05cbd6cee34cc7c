//! Availability: a client that wants a lock that nobody has gets it in time.
//!
//! Invariant: a stall is a time in which two or more clients wanted the lock all along, nobody had it (or
//! believed so), and nobody got it. One client alone does not count: the reason may be its own connection. The
//! longest stall is compared with the scenario's limit; without a limit nothing is judged.

use std::collections::BTreeSet;

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Verdict, Witness, WitnessStep};
use history::{Event, Head, Recent, What};

use super::interface::{Checker, EventView, HistoryEnd};
use super::story;

pub(super) const NAME: &str = "availability";

/// An acquisition under way.
#[derive(Clone, Copy, Debug)]
struct PendingWant {
    client: u32,
    since_ns: u64,
    /// It has been told of its loss, or has begun to release.
    ended: bool,
}

/// An acquisition that has the lock.
#[derive(Clone, Copy, Debug)]
struct Holder {
    acquisition: u32,
    client: u32,
    until_ns: u64,
}

/// A time in which nobody got what somebody wanted.
#[derive(Clone, Copy, Debug, Default)]
struct Stall {
    from_ns: u64,
    until_ns: u64,
    /// Who has wanted it for longest: the acquisition, and its client.
    first: (u32, u32),
}

impl Stall {
    fn span_ns(self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }
}

/// Who wants the lock and who has it.
#[derive(Default)]
pub(super) struct Availability {
    within_ns: u64,
    tracked: bool,
    wanting: Recent<PendingWant>,
    /// The same acquisitions, by since when they want it.
    waiting: BTreeSet<(u64, u32)>,
    /// How many acquisitions of each client want it, by client.
    wants: Recent<u32>,
    /// How many clients want it.
    clients: u32,
    /// Until when they may rely on their locks that have not been answered yet.
    promised: Recent<u64>,
    holders: Vec<Holder>,
    /// Since when nobody has had it, where nobody has.
    free_ns: u64,
    /// Since when two clients or more have wanted it, where they have.
    wanted_ns: u64,
    longest: Stall,
    /// How many were longer than allowed, and when the last of these began.
    stalls: u64,
    counted_ns: Option<u64>,
    now_ns: u64,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let within_ns = head.available_within_ns?;
    Some(Box::new(Availability { within_ns, ..Availability::new(head) }))
}

impl Checker for Availability {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, what, .. } = *seen.event;
        match what {
            What::Fault { fault: Fault::Crash, .. } => return self.died(client, at_ns),
            // The last stall lasts until a client was last heard of: what the run looks at in the end does not make it longer.
            What::Fault { .. } => return,
            _ if client == 0 => return,
            _ => self.now_ns = at_ns,
        }
        match what {
            What::Acquire => {
                self.look(at_ns);
                if self.first_of_many().is_none() {
                    self.wanted_ns = at_ns;
                }
                let wanting = PendingWant { client, since_ns: at_ns, ended: false };
                self.wanting.insert(acquisition, wanting);
                self.waiting.insert((at_ns, acquisition));
                let wants = self.wants.entry(client);
                *wants += 1;
                self.clients += u32::from(*wants == 1);
            }
            What::Acquired => {
                self.look(at_ns);
                let ended = self.wants_no_more(acquisition).is_some_and(|it| it.ended);
                let until_ns = match self.promised.remove(acquisition) {
                    _ if ended => at_ns,
                    promised if self.tracked => promised.unwrap_or(at_ns).max(at_ns),
                    _ => u64::MAX,
                };
                self.holders.push(Holder { acquisition, client, until_ns });
            }
            What::NotAcquired(_) | What::AcquireUnknown(_) => {
                self.look(at_ns);
                self.wants_no_more(acquisition);
                self.promised.remove(acquisition);
            }
            What::ValidUntil(until_ns) => {
                // What became known too late does not bring it back.
                self.forget(at_ns);
                self.promise(acquisition, until_ns);
            }
            What::Release | What::Lost => {
                self.ends(at_ns, |it| it.acquisition == acquisition);
                if let Some(it) = self.wanting.get_mut(acquisition) {
                    it.ended = true;
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        vec![Finding::new(NAME, Level::Progress, self.verdict(end.head))]
    }
}

impl Availability {
    /// Nothing has happened, and nothing is allowed.
    pub(super) fn new(head: &Head) -> Self {
        Self { tracked: head.tracked, ..Self::default() }
    }

    /// How long the longest stall was, at the end.
    pub(super) fn longest_ns(&mut self) -> u64 {
        self.look(self.now_ns);
        self.longest.span_ns()
    }

    /// A client is dead: it wants and has nothing any more.
    fn died(&mut self, client: u32, at_ns: u64) {
        self.look(at_ns);
        if self.wants.contains(client) {
            let theirs = self.wanting.iter().filter(|(_, it)| it.client == client);
            let theirs: Vec<u32> = theirs.map(|(acquisition, _)| acquisition).collect();
            theirs.into_iter().for_each(|it| _ = self.wants_no_more(it));
        }
        self.ends(at_ns, |it| it.client == client);
    }

    /// An acquisition has got the lock, or gives up.
    fn wants_no_more(&mut self, acquisition: u32) -> Option<PendingWant> {
        let it = self.wanting.remove(acquisition)?;
        self.waiting.remove(&(it.since_ns, acquisition));
        let wants = self.wants.entry(it.client);
        *wants -= 1;
        if *wants == 0 {
            self.wants.remove(it.client);
            self.clients -= 1;
        }
        Some(it)
    }

    fn promise(&mut self, acquisition: u32, until_ns: u64) {
        match self.holders.iter_mut().find(|it| it.acquisition == acquisition) {
            Some(it) => it.until_ns = it.until_ns.max(until_ns),
            None => {
                let promised = self.promised.entry(acquisition);
                *promised = (*promised).max(until_ns);
            }
        }
    }

    fn ends(&mut self, at_ns: u64, whose: impl Fn(&Holder) -> bool) {
        let ended = self.holders.iter_mut().filter(|it| whose(it));
        ended.for_each(|it| it.until_ns = it.until_ns.min(at_ns));
        self.forget(at_ns);
    }

    /// Those whose holds are over have them no more.
    fn forget(&mut self, now_ns: u64) {
        let free_ns = &mut self.free_ns;
        self.holders.retain(|it| {
            let is_over = it.until_ns <= now_ns;
            if is_over {
                *free_ns = (*free_ns).max(it.until_ns);
            }
            !is_over
        });
    }

    /// Who has wanted it for longest, where two clients or more do.
    fn first_of_many(&self) -> Option<(u32, u32)> {
        let (_, first) = self.waiting.first().filter(|_| self.clients > 1)?;
        self.wanting.get(*first).map(|it| (*first, it.client))
    }

    /// Whether there has been a stall up to now.
    fn look(&mut self, now_ns: u64) {
        self.forget(now_ns);
        if !self.holders.is_empty() {
            return;
        }
        let Some(first) = self.first_of_many() else { return };
        let from_ns = self.free_ns.max(self.wanted_ns);
        let stall = Stall { from_ns, until_ns: now_ns, first };
        if stall.span_ns() > self.within_ns && self.counted_ns.replace(from_ns) != Some(from_ns) {
            self.stalls += 1;
        }
        if stall.span_ns() > self.longest.span_ns() {
            self.longest = stall;
        }
    }

    fn verdict(&mut self, head: &Head) -> Verdict {
        if !head.locks {
            return Verdict::NotApplicable("this recipe keeps no key".to_owned());
        }
        let span_ns = self.longest_ns();
        let Stall { from_ns, until_ns, first } = self.longest;
        let (_, client) = first;
        if span_ns <= self.within_ns {
            return Verdict::Held;
        }
        let summary = format!(
            "client {client} wanted the lock, and for {} nobody had it and nobody got it: {} is what \
             the scenario allows",
            rounded(span_ns),
            rounded(self.within_ns)
        );
        if let Some(promise) = head.promise.as_ref().filter(|it| !it.is_broken_by(span_ns)) {
            return Verdict::NotApplicable(format!("{summary}, but {}", promise.because));
        }
        if let Some(excuse) = head.excuse(self.within_ns, span_ns) {
            return Verdict::Inconclusive(format!("{summary}, but {excuse}"));
        }
        let step = |at_ns, text: &str| WitnessStep { at_ns, client, text: text.to_owned() };
        let steps = vec![
            step(from_ns, "wants the lock, and nobody has it from now on"),
            step(until_ns, "the stall ends"),
        ];
        let occurrences = self.stalls;
        Verdict::Violated(Witness { steps, occurrences, ..story::witness(summary, &[first]) })
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use crate::testing::Tape;
    use history::verdict::Outcome::{Held, Inconclusive, NotApplicable, Violated};
    use history::verdict::{Verdict, Witness};

    const WITHIN_NS: u64 = 100;

    /// Client 9 wants the lock all the time, and never gets it.
    fn outcome(tape: Tape) -> history::verdict::Outcome {
        let tape = tape.refused(9, 9, 40..5_000);
        tape.available_within(WITHIN_NS).outcome("availability")
    }

    #[test]
    fn two_that_ask_for_one_client_are_one() {
        let asks = |client| Tape::new().refused(1, 9, 50..5_000).refused(2, client, 60..5_000);
        assert_eq!(outcome(asks(9)), Held);
        assert_eq!(outcome(asks(8)), Violated);
        let later = |end| Tape::new().refused(1, 9, 50..5_000).refused(2, 8, 400..end);
        assert_eq!(outcome(later(500)), Held, "it counts from when the second wanted it");
        assert_eq!(outcome(later(501)), Violated);
    }

    #[test]
    fn what_a_busy_machine_may_have_held_up_is_inconclusive() {
        let stalled = |late_ns| Tape::new().with(|it| it.late_ns = late_ns);
        let stalled = |late_ns| outcome(stalled(late_ns).refused(1, 8, 60..500));
        assert_eq!(stalled(None), Violated);
        assert_eq!(stalled(Some(16)), Violated);
        assert_eq!(stalled(Some(17)), Inconclusive);
    }

    #[test]
    fn who_had_lost_the_lock_before_it_was_answered_never_had_it() {
        let stalled = |tape: Tape| tape.waited(1, 1, 45..50).refused(2, 2, 60..400);
        assert_eq!(outcome(stalled(Tape::new())), Held);
        assert_eq!(outcome(stalled(Tape::new().lost(1, 48))), Violated);
    }

    #[test]
    fn a_stall_is_measured_from_when_it_is_free_and_wanted() {
        let free = |end| Tape::new().hold(1, 1, 50..200).waited(2, 2, 60..end);
        assert_eq!(outcome(free(300)), Held);
        assert_eq!(outcome(free(301)), Violated);
        let wanted = |end| Tape::new().hold(1, 1, 50..200).waited(2, 2, 250..end);
        assert_eq!(outcome(wanted(350)), Held);
        assert_eq!(outcome(wanted(351)), Violated);
        let never = Tape::new().hold(1, 1, 50..200).refused(2, 2, 150..301);
        assert_eq!(outcome(never), Violated, "who gives up has been stalled all the same");
        let alone = Tape::new().hold(1, 1, 50..200);
        assert_eq!(outcome(alone), Held, "the trouble of one may be its own");
        let held = Tape::new().hold(1, 1, 50..900).waited(2, 2, 60..950);
        assert_eq!(outcome(held), Held, "somebody had it");
        assert_eq!(outcome(Tape::new().with(|it| it.locks = false)), NotApplicable);
    }

    #[test]
    fn the_dead_have_and_want_nothing() {
        let holder = |end| Tape::new().hold(1, 1, 50..900).crash(1, 200).waited(2, 2, 60..end);
        assert_eq!(outcome(holder(300)), Held);
        assert_eq!(outcome(holder(301)), Violated);
        let waiter = Tape::new().hold(1, 1, 50..60).refused(2, 2, 100..900).crash(2, 150);
        assert_eq!(outcome(waiter), Held);
    }

    #[test]
    fn a_validity_that_has_ended_holds_nobody_up() {
        let tape = |end| {
            let tape = Tape::tracked().hold(1, 1, 50..900).valid(1, 49, 200);
            tape.waited(2, 2, 60..end).valid(2, end - 1, end + 50)
        };
        assert_eq!(outcome(tape(300)), Held);
        assert_eq!(outcome(tape(301)), Violated);
        assert_eq!(outcome(tape(301).valid(1, 199, 400)), Held);
        assert_eq!(outcome(tape(301).valid(1, 250, 400)), Violated, "known too late");
        let late = |until_ns| {
            let tape = Tape::tracked().available_within(WITHIN_NS).valid(1, 5, 10);
            outcome(tape.waited(1, 1, 0..60).refused(2, 2, 0..until_ns).refused(3, 3, 0..until_ns))
        };
        assert_eq!((late(160), late(161)), (Held, Violated), "it got it when that was over");
    }

    #[test]
    fn what_the_run_looks_at_in_the_end_lengthens_no_stall() {
        let open = || Tape::new().acquires(1, 900).acquires(2, 910);
        let outcome = |tape: Tape| tape.available_within(WITHIN_NS).outcome("availability");
        assert_eq!(outcome(open().pool_left(10)), Held);
        assert_eq!(outcome(open().refused(3, 3, 4_000..5_000)), Violated);
    }

    #[test]
    fn what_is_not_promised_is_not_held_against_the_lock() {
        let free = |end, promise| {
            let tape = Tape::new().hold(1, 1, 50..200).waited(2, 2, 60..end).promising(promise);
            let tape = tape.refused(9, 9, 40..5_000).available_within(WITHIN_NS);
            tape.finding("availability")
        };
        assert_eq!(free(300, Some(150)).outcome(), Held, "it has done what was asked");
        let Verdict::NotApplicable(why) = free(301, Some(150)) else { panic!("it is judged") };
        assert!(why.contains("for 101 ns nobody had it"), "{why}");
        assert!(why.contains("100 ns is what") && why.contains("messages are slow"), "{why}");
        assert_eq!(free(350, Some(150)).outcome(), NotApplicable);
        assert_eq!(free(351, Some(150)).outcome(), Violated, "nor what was promised");
        assert_eq!(free(4_000, None).outcome(), NotApplicable);
    }

    fn witness(tape: Tape) -> Witness {
        let tape = tape.refused(9, 9, 40..5_000).available_within(WITHIN_NS);
        tape.witness("availability")
    }

    #[test]
    fn who_has_given_up_wants_nothing() {
        let left_alone = Tape::new().hold(1, 1, 50..200).refused(2, 2, 150..250);
        assert_eq!(outcome(left_alone.waited(3, 3, 310..350)), Held);
        let unknown = Tape::new().hold(1, 1, 50..200).unknown(2, 2, 150..250);
        assert_eq!(outcome(unknown.waited(3, 3, 310..350)), Held);
    }

    #[test]
    fn a_promise_of_who_did_not_get_it_is_forgotten() {
        // The number is used again, which has no promise then: it holds for no time at all.
        let tape = Tape::tracked().refused(1, 1, 45..50).valid(1, 48, 2_000).waited(1, 1, 60..70);
        assert_eq!(outcome(tape.waited(2, 2, 60..171)), Violated);
    }

    #[test]
    fn the_witness_tells_the_longest_and_counts_them_all() {
        // Free and wanted from 200 to 320, from 400 to 540, from 600 to 740; somebody looks within.
        let tape = Tape::new().hold(1, 1, 50..200).refused(2, 2, 60..317).hold(3, 3, 320..400);
        let tape = tape.refused(4, 4, 330..510).refused(5, 5, 330..537).hold(6, 6, 540..600);
        let witness =
            witness(tape.refused(7, 7, 550..715).refused(8, 8, 550..737).hold(10, 10, 740..6_000));
        assert_eq!((witness.occurrences, witness.clients), (3, vec![9]));
        assert!(witness.summary.contains("client 9 wanted the lock, and for 140 ns"));
        assert!(witness.summary.contains("100 ns is what"), "{}", witness.summary);
        let steps: Vec<u64> = witness.steps.iter().map(|step| step.at_ns).collect();
        assert_eq!(steps, [40, 400, 540, 5_000], "the first of two that are as long");
    }

    #[test]
    fn a_stall_that_is_shorter_than_another_counts_once() {
        let tape = Tape::new().hold(1, 1, 50..200).refused(2, 2, 60..497).hold(3, 3, 500..600);
        let tape = tape.refused(4, 4, 550..720).refused(5, 5, 550..727);
        // Nor does one that the scenario just allows.
        let tape = tape.hold(6, 6, 730..800).refused(8, 8, 750..897).hold(7, 7, 900..6_000);
        assert_eq!(witness(tape).occurrences, 2);
    }
}
