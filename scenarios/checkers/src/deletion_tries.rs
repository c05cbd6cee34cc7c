//! Deletion tries: a client whose deletion of its key is refused tries again, and not at once.
//!
//! Invariant: a client is blamed only where its last deletion of its key on a server was refused with an error that
//! passes, and it sent no other there. For a key that it had asked for and not got, that counts before half of the TTL
//! was over; for a release, if its two or more tries lasted for hardly any time, and nothing else of the acquisition can
//! be cleaned up on that server. A client that could not send is excused, and a fault of a server excuses all.

use durations::span::rounded;
use history::fault::{ErrorAnswer, Fault};
use history::verdict::{Finding, Level, Witness};
use history::{CommandOp, Event, Head, Recent, Touch, What};
use picklock::env::Phase;
use smallvec::SmallVec;

use super::interface::{
    Checker, EventView, HistoryEnd, bit, frees, keeps_from_sending, lasts_until_ns, makes, passing,
    verdict,
};
use super::story;
use super::struck::LastStruck;

pub(super) const NAME: &str = "deletion-tries";

/// The tries of a release last for this part of a TTL at least, and need not last for longer than so long.
const RELEASE_PART: u64 = 20;
const RELEASE_NS: u64 = 250_000_000;

/// What an acquisition has sent to a server to have its key deleted.
#[derive(Clone, Debug, Default)]
struct Deletions {
    client: u32,
    /// When it first sent anything there.
    since_ns: u64,
    /// The requests that may have made the key, and when they were sent; and how many keys were deleted since.
    asked: SmallVec<[(u32, u64); 1]>,
    deleted: usize,
    /// When the first deletion was sent, whether that was one of a release, and which was sent last.
    first_ns: u64,
    of_release: bool,
    sent: u32,
    last_op: u32,
    /// Those that have not been answered, or never were; and those that were answered with an error that passes.
    open: u32,
    refusals: u32,
    /// Which of them are those of a release cannot be told.
    mixed: bool,
    /// The error that the last one was answered with, and when.
    refused: Option<(u64, ErrorAnswer)>,
}

/// The last attempt of an acquisition, whether it got the lock, and whether it is being released.
#[derive(Clone, Copy, Debug, Default)]
struct LastAttempt {
    began_ns: u64,
    got: bool,
    releasing: bool,
    /// The servers that have answered its release, a bit each.
    answered: u64,
}

/// Who was refused what, and tries again.
#[derive(Default)]
struct DeletionTries {
    /// By acquisition, on each server.
    nodes: Recent<SmallVec<[(u16, Deletions); 1]>>,
    /// By acquisition.
    last_attempts: Recent<LastAttempt>,
    /// Who was kept from sending, and until when.
    kept_silent: LastStruck,
    /// When the first key is gone whose clean-up was refused last.
    due_ns: Option<u64>,
    tested: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    head.honest.then(|| Box::new(DeletionTries::default()) as Box<dyn Checker>)
}

impl Checker for DeletionTries {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, what, .. } = *seen.event;
        if self.due_ns.is_some_and(|due_ns| at_ns > due_ns) {
            self.look(at_ns, seen.head);
        }
        if let Some(command) = seen.command {
            return match what {
                What::Command { .. } => self.sends(seen.event.op, command),
                _ => self.ends(command, seen),
            };
        }
        match what {
            What::Phase(Phase::AcquireBeforeSend) => {
                self.last_attempts.entry(acquisition).began_ns = at_ns;
            }
            What::Acquired => self.last_attempts.entry(acquisition).got = true,
            What::Release => self.last_attempts.entry(acquisition).releasing = true,
            What::Fault { fault: Fault::ScriptFlush, .. } => {}
            What::Fault { fault, for_ns, .. } if client == 0 || keeps_from_sending(fault) => {
                self.kept_silent.strike(client, lasts_until_ns(fault, at_ns, for_ns));
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        for (acquisition, mut nodes) in std::mem::take(&mut self.nodes).into_sorted() {
            nodes.sort_unstable_by_key(|(node, _)| *node);
            nodes.iter().for_each(|(_, it)| self.gave_up(acquisition, it, end.head));
        }
        let vacuous = "no deletion was refused with a transient error";
        let verdict = verdict(self.first.take(), self.tested, vacuous);
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

impl DeletionTries {
    fn sends(&mut self, op: u32, command: &CommandOp) {
        let nodes = self.nodes.entry(command.acquisition);
        let place = nodes.iter().position(|(node, _)| *node == command.node);
        let place = place.unwrap_or_else(|| {
            let since_ns = command.invoke_ns;
            nodes.push((command.node, Deletions { since_ns, ..Deletions::default() }));
            nodes.len() - 1
        });
        let (_, it) = &mut nodes[place];
        it.client = command.client;
        if makes(command.intent.touch) {
            it.asked.push((op, command.invoke_ns));
        }
        if !frees(command.intent.touch) {
            return;
        }
        let attempt = self.last_attempts.get(command.acquisition).copied().unwrap_or_default();
        let of_release = attempt.releasing;
        if it.sent == 0 {
            (it.first_ns, it.of_release) = (command.invoke_ns, of_release);
        }
        // The clean-up of an attempt before may go on behind the release, or begin there.
        let last_ns = it.asked.last().map_or(0, |(_, asked_ns)| *asked_ns);
        let before = it.asked.len() > it.deleted + 1 || last_ns < attempt.began_ns;
        let answered = attempt.answered & bit(command.node) > 0;
        it.mixed |= it.of_release != of_release || of_release && (before || answered);
        (it.sent, it.open, it.last_op) = (it.sent + 1, it.open + 1, op);
    }

    fn ends(&mut self, command: &CommandOp, seen: &EventView<'_>) {
        let Some(nodes) = self.nodes.get_mut(command.acquisition) else { return };
        let Some(place) = nodes.iter().position(|(node, _)| *node == command.node) else { return };
        let (_, it) = &mut nodes[place];
        let Event { at_ns, op, what, .. } = *seen.event;
        if matches!(what, What::Answered { touch: Touch::None, .. } | What::Refused(_)) {
            it.asked.retain(|asked| asked.0 != op);
        }
        let error = match what {
            What::Refused(why) => passing(seen.texts.get(why)),
            _ => None,
        };
        // One without an answer stays open: it may have deleted the key.
        if frees(command.intent.touch) && !matches!(what, What::Unanswered(_)) {
            it.open -= 1;
            it.refusals += u32::from(error.is_some());
            self.tested |= error.is_some();
            if op == it.last_op {
                it.refused = error.map(|error| (at_ns, error));
            }
            let deleted = matches!(what, What::Answered { touch: Touch::Delete, .. });
            it.deleted += usize::from(deleted && command.intent.compares);
        }
        match it.due(seen.head) {
            // Until its key was gone, nobody could tell.
            Some(due_ns) if at_ns > due_ns => it.refused = None,
            Some(due_ns) => self.due_ns = Some(self.due_ns.unwrap_or(due_ns).min(due_ns)),
            None => {}
        }
        let is_done = it.of_release && !it.mixed && it.sent > 0 && it.refused.is_none();
        if it.open == 0 && (is_done || it.asked.is_empty() && it.sent == 0) {
            if is_done {
                self.last_attempts.entry(command.acquisition).answered |= bit(command.node);
            }
            nodes.remove(place);
            if nodes.is_empty() {
                self.nodes.remove(command.acquisition);
            }
        }
    }

    /// Whose keys are gone by now, and nobody has tried again.
    fn look(&mut self, now_ns: u64, head: &Head) {
        let is_due = |it: &Deletions| it.due(head).is_some_and(|due_ns| now_ns > due_ns);
        let mut due = Vec::new();
        for (acquisition, nodes) in self.nodes.iter_mut() {
            for (node, it) in nodes.iter_mut().filter(|(_, it)| is_due(it)) {
                due.push((acquisition, *node, it.clone()));
                it.refused = None;
            }
        }
        let left = self.nodes.iter().flat_map(|(_, nodes)| nodes);
        self.due_ns = left.filter_map(|(_, it)| it.due(head)).min();
        due.sort_unstable_by_key(|(acquisition, node, _)| (*acquisition, *node));
        due.iter().for_each(|(acquisition, _, it)| self.gave_up(*acquisition, it, head));
    }

    /// It sends no more there.
    fn gave_up(&mut self, acquisition: u32, it: &Deletions, head: &Head) {
        let &Deletions { client, since_ns, first_ns, sent, .. } = it;
        let excused = self.kept_silent.since(client, since_ns);
        let certain = it.open == 0 && !it.mixed && !excused;
        let Some((refused_ns, error)) = it.refused.filter(|_| certain) else { return };
        let error = error.name().to_uppercase();
        let tried_ns = refused_ns.saturating_sub(first_ns);
        let summary = if it.of_release {
            let least_ns = (head.ttl_ns / RELEASE_PART).min(RELEASE_NS);
            if sent < 2 || it.refusals < sent || tried_ns >= least_ns {
                return;
            }
            format!(
                "client {client} tried {sent} times within {} to release its lock, and was answered {error} each time: a \
                 server that refuses for a moment has refused all of them, and the key stays",
                rounded(tried_ns)
            )
        } else {
            // The clean-up of an attempt before may end in time, and the one that follows it goes on.
            let got = self.last_attempts.get(acquisition).is_some_and(|it| it.got);
            let Some(asked_ns) = it.kept_ns().filter(|_| !got) else { return };
            let after_ns = refused_ns.saturating_sub(asked_ns);
            if after_ns >= head.ttl_ns / 2 {
                return;
            }
            format!(
                "client {client} had asked for the lock and did not get it; a server answered {error} when it was to delete \
                 the key, {} after that, and nobody tried again: that passes, and the key may stay for the TTL of {}",
                rounded(after_ns),
                rounded(head.ttl_ns)
            )
        };
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }
}

impl Deletions {
    /// When it asked for the only key that it may have there, if it was to delete this one.
    fn kept_ns(&self) -> Option<u64> {
        match self.asked[..] {
            [(op, asked_ns)] if self.deleted == 0 && op < self.last_op => Some(asked_ns),
            _ => None,
        }
    }

    /// When the key is gone whose clean-up was refused last; none where no clean-up was.
    fn due(&self, head: &Head) -> Option<u64> {
        let is_refused = self.refused.is_some() && self.open == 0;
        let asked_ns = self.kept_ns().filter(|_| is_refused && !self.of_release && !self.mixed)?;
        Some(asked_ns.saturating_add(head.ttl_ns))
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use crate::testing::{CREATE, DELETE, TTL_NS, Tape};
    use history::fault::Fault;
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
    use history::{Intent, Touch, What};
    use picklock::env::Phase;

    /// Client 1 asks at 100, has no answer, and is refused the deletion by the end of this span.
    fn refused(end_ns: u64) -> Tape {
        let tape = Tape::new().with(|it| it.honest = true).command(1, 100..150, CREATE, None);
        tape.refused_command(1, 160..end_ns, DELETE)
    }

    /// Client 1 begins to release at 100.
    fn releases() -> Tape {
        Tape::new().with(|it| it.honest = true).opens(1, 100, What::Release)
    }

    fn outcome(tape: Tape) -> Outcome {
        tape.outcome("deletion-tries")
    }

    #[test]
    fn who_is_refused_a_clean_up_tries_again_for_half_a_ttl() {
        assert_eq!(outcome(refused(99 + TTL_NS / 2)), Violated);
        assert_eq!(outcome(refused(100 + TTL_NS / 2)), Held);
        assert_eq!(outcome(refused(200).did(1, 210..220, DELETE)), Held);
        let nothing = refused(200).command(1, 210..220, DELETE, Some(Touch::None));
        assert_eq!(
            outcome(nothing.refused_command(1, 590..599, DELETE)),
            Violated,
            "not found yet"
        );
        assert_eq!(outcome(refused(200).sends(1, 210, DELETE)), Held, "it may have been done");
        assert_eq!(outcome(refused(200).command(1, 210..220, DELETE, None)), Held);
        assert_eq!(outcome(refused(200).refused_command(1, 210..220, DELETE)), Violated);
        assert_eq!(outcome(refused(200).refused_command(1, 590..600, DELETE)), Held);
        assert_eq!(outcome(refused(200).did(2, 210..220, DELETE)), Violated, "another's");
        let elsewhere = refused(200).to(1, "lock").did(1, 210..220, DELETE);
        assert_eq!(outcome(elsewhere), Violated, "on another server");
        let holds = refused(170).waited(1, 1, 90..140);
        assert_eq!(outcome(holds.probe(2_000, -2)), Held, "it had got it");
        let unended = Tape::new().with(|it| it.honest = true).sends(1, 100, CREATE);
        let unended = unended.refused(1, 1, 90..150).refused_command(1, 160..170, DELETE);
        assert_eq!(outcome(unended), Violated, "it has no answer yet");
        let again = refused(200).refused_command(1, 100 + TTL_NS..110 + TTL_NS, DELETE);
        let again = again.command(1, 130 + TTL_NS..140 + TTL_NS, CREATE, Some(Touch::None));
        let again = again.refused_command(1, 150 + TTL_NS..160 + TTL_NS, DELETE);
        assert_eq!(outcome(again), Held, "it asked in vain once more, when the TTL was over");
        let never_asked = Tape::new().with(|it| it.honest = true);
        assert_eq!(outcome(never_asked.refused_command(1, 160..170, DELETE)), Held);
        let late = || refused(200).refused_command(1, 101 + TTL_NS..110 + TTL_NS, DELETE);
        assert_eq!(outcome(late()), Violated, "the key has gone meanwhile");
        assert_eq!(outcome(late().sends(1, 100 + TTL_NS, DELETE)), Held);
        let told_no = Tape::new().with(|it| it.honest = true);
        let told_no = told_no.command(1, 100..110, CREATE, Some(Touch::None));
        assert_eq!(outcome(told_no.refused_command(1, 160..170, DELETE)), Held);
        let again = |tape: Tape| tape.did(1, 210..220, CREATE).refused_command(1, 230..240, DELETE);
        assert_eq!(outcome(again(refused(200))), Held, "it may be the end of the first clean-up");
        assert_eq!(outcome(again(refused(200).struck(Fault::Reset, 1, 205))), Held);
    }

    /// Of two requests without an answer, one has found another's key: a false alarm.
    #[test]
    fn who_has_deleted_its_key_need_not_delete_it_again() {
        let deleted = |tape: Tape, compares| {
            let tape = tape.did(1, 160..170, Intent { compares, ..DELETE });
            outcome(tape.refused_command(1, 190..200, DELETE))
        };
        let asked = || Tape::new().with(|it| it.honest = true).command(1, 100..150, CREATE, None);
        assert_eq!(deleted(asked(), true), Held);
        assert_eq!(deleted(asked(), false), Violated, "it may have been another's");
        let again = asked().command(1, 155..180, CREATE, Some(Touch::None));
        assert_eq!(deleted(again, true), Held);
    }

    #[test]
    fn a_late_answer_to_an_earlier_one_changes_nothing() {
        let asked = || Tape::new().with(|it| it.honest = true).command(1, 100..150, CREATE, None);
        let late = asked().command(1, 160..300, DELETE, Some(Touch::None));
        assert_eq!(outcome(late.refused_command(1, 170..200, DELETE)), Violated, "a deletion");
        let no = |tape: Tape, span| tape.command(1, span, CREATE, Some(Touch::None));
        let refused = |tape: Tape| outcome(tape.refused_command(1, 160..200, DELETE));
        assert_eq!(refused(no(asked(), 110..190)), Violated, "a request");
        let before = no(Tape::new().with(|it| it.honest = true), 90..130);
        assert_eq!(refused(before.command(1, 100..150, CREATE, None)), Violated);
        assert_eq!(refused(no(asked(), 110..100 + TTL_NS)), Violated);
        let too_late = no(asked(), 110..101 + TTL_NS);
        assert_eq!(refused(too_late), Held, "until then it was not known which");
    }

    #[test]
    fn what_was_refused_before_the_key_was_asked_for_is_of_no_concern() {
        let refused = |end_ns| {
            let tape =
                Tape::new().with(|it| it.honest = true).refused_command(1, 90..end_ns, DELETE);
            outcome(tape.command(1, 100..150, CREATE, None))
        };
        assert_eq!((refused(95), refused(120)), (Held, Held));
    }

    #[test]
    fn only_errors_that_pass_are_worth_another_try() {
        let with = |error| {
            let tape = Tape::new().with(|it| it.honest = true).command(1, 100..150, CREATE, None);
            outcome(tape.refused_with(1, 160..170, DELETE, error))
        };
        assert_eq!(with("BUSY"), Violated);
        assert_eq!(with("NOPERM this user has no permissions"), NotApplicable);
        assert_eq!(with("not sent: no connection"), NotApplicable);
    }

    #[test]
    fn the_tries_of_a_release_do_not_follow_each_other_at_once() {
        let least = TTL_NS / 20;
        let twice = |second_ns: u64| {
            let tape = releases().refused_command(1, 100..102, DELETE);
            tape.refused_command(1, 110..second_ns, DELETE)
        };
        assert_eq!(outcome(twice(99 + least)), Violated);
        assert_eq!(outcome(twice(100 + least)), Held);
        assert_eq!(outcome(twice(120).did(1, 125..130, DELETE)), Held, "the third was done");
        assert_eq!(outcome(twice(120).sends(1, 125, DELETE)), Held);
        assert_eq!(outcome(releases().refused_command(1, 100..102, DELETE)), Held, "only one");
        let for_good = releases().refused_with(1, 100..102, DELETE, "NOPERM");
        assert_eq!(outcome(for_good.refused_command(1, 110..112, DELETE)), Held, "only one again");
        let found_none = releases().command(1, 100..105, DELETE, Some(Touch::None));
        assert_eq!(outcome(found_none.refused_command(1, 101..112, DELETE)), Held, "nor here");
        let answered = releases().command(1, 100..102, DELETE, Some(Touch::None));
        let answered = answered.refused_command(1, 103..105, DELETE);
        assert_eq!(outcome(answered.refused_command(1, 106..108, DELETE)), Held, "it was done");
        let mixed = Tape::new().with(|it| it.honest = true).refused_command(1, 90..95, DELETE);
        let mixed = mixed.opens(1, 100, What::Release).refused_command(1, 101..102, DELETE);
        assert_eq!(outcome(mixed), Held, "one of them is no release");
        // The clean-up of an attempt before may go on, and ends when it likes.
        let before = Tape::new().with(|it| it.honest = true).command(1, 10..20, CREATE, None);
        let before = before.did(1, 80..90, CREATE).opens(1, 100, What::Release);
        let before = before.refused_command(1, 100..102, DELETE);
        assert_eq!(outcome(before.refused_command(1, 110..112, DELETE)), Held);
        let late = Tape::new().with(|it| it.honest = true).command(1, 10..20, CREATE, None);
        let late = late.phase(1, 50, Phase::AcquireBeforeSend);
        let released = |tape: Tape| {
            let tape = tape.opens(1, 100, What::Release).refused_command(1, 100..102, DELETE);
            outcome(tape.refused_command(1, 110..112, DELETE))
        };
        assert_eq!(released(late.clone()), Held, "not of the hold");
        assert_eq!(released(late.command(1, 60..70, CREATE, Some(Touch::None))), Held);
        let no = Tape::new().with(|it| it.honest = true);
        let no = no.command(1, 10..20, CREATE, Some(Touch::None)).did(1, 80..90, CREATE);
        let no = no.opens(1, 100, What::Release).refused_command(1, 100..102, DELETE);
        assert_eq!(outcome(no.refused_command(1, 110..112, DELETE)), Violated);
    }

    #[test]
    fn who_could_not_send_is_excused() {
        for fault in [Fault::Crash, Fault::Pause, Fault::Partition, Fault::Reset] {
            assert_ne!(outcome(refused(200).struck(fault, 1, 300)), Violated, "{fault:?}");
            assert_eq!(outcome(refused(200).struck(fault, 2, 300)), Violated, "{fault:?}");
        }
        assert_eq!(outcome(refused(200).struck(Fault::Refuse, 1, 300)), Violated);
        assert_eq!(outcome(refused(200).struck(Fault::ScriptFlush, 0, 300)), Violated);
        assert_ne!(outcome(refused(200).struck(Fault::ServerCrash, 0, 300)), Violated);
    }

    #[test]
    fn the_witness_says_what_was_refused() {
        let says = "client 1 had asked for the lock and did not get it; a server answered OOM when it was to delete the \
                    key, 100 ns after that, and nobody tried again: that passes, and the key may stay for the TTL of 1 µs";
        assert_eq!(refused(200).witness("deletion-tries").summary, says);
        let tape = releases().refused_command(1, 100..102, DELETE);
        let witness = tape.refused_command(1, 103..105, DELETE).witness("deletion-tries");
        assert!(witness.summary.starts_with("client 1 tried 2 times within 5 ns to release"));
        let tape = refused(200).with(|it| it.honest = false);
        assert!(tape.findings().iter().all(|it| it.name != "deletion-tries"));
    }
}
