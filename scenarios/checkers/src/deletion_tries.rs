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
    Checker, EventView, HistoryEnd, frees, keeps_from_sending, lasts_until_ns, makes, passing,
    verdict,
};
use super::story;
use super::struck::LastStruck;

pub(super) const NAME: &str = "deletion-tries";

/// The tries of a release last for this part of a TTL at least, and need not last for longer than so long.
const RELEASE_PART: u64 = 20;
const RELEASE_NS: u64 = 250_000_000;

/// What an acquisition has sent to a server to have its key deleted.
#[derive(Clone, Copy, Debug, Default)]
struct Deletions {
    client: u32,
    /// When it first sent anything there.
    since_ns: u64,
    /// How often it has asked for the key, and was not told no, nor has deleted it.
    asks: u32,
    /// The same, also of keys that were deleted since; and when first.
    asked: u32,
    asked_ns: Option<u64>,
    /// The request that was sent then.
    asked_by: u32,
    /// When it last asked.
    last_ns: u64,
    /// When the first deletion was sent, and whether that was one of a release.
    first_ns: u64,
    of_release: bool,
    sent: u32,
    /// Those that have not been answered, or never were.
    open: u32,
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
            it.asks += 1;
            it.asked += 1;
            if it.asked_ns.is_none() {
                (it.asked_ns, it.asked_by) = (Some(command.invoke_ns), op);
            }
            it.last_ns = command.invoke_ns;
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
        let before = it.asks > 1 || it.last_ns < attempt.began_ns;
        it.mixed |= it.of_release != of_release || of_release && before;
        it.sent += 1;
        it.open += 1;
    }

    fn ends(&mut self, command: &CommandOp, seen: &EventView<'_>) {
        let Some(nodes) = self.nodes.get_mut(command.acquisition) else { return };
        let Some(place) = nodes.iter().position(|(node, _)| *node == command.node) else { return };
        let (_, it) = &mut nodes[place];
        let did_nothing =
            matches!(seen.event.what, What::Answered { touch: Touch::None, .. } | What::Refused(_));
        if makes(command.intent.touch) && it.asks > 0 && did_nothing {
            it.asks -= 1;
            it.asked -= 1;
            if it.asks == 0 || it.asked_by == seen.event.op {
                it.asked_ns = None;
            }
        }
        if frees(command.intent.touch) && it.open > 0 {
            match seen.event.what {
                What::Answered { touch, .. } => {
                    (it.open, it.refused) = (it.open - 1, None);
                    if touch == Touch::Delete && command.intent.compares {
                        it.asks = it.asks.saturating_sub(1);
                        it.asked_ns = it.asked_ns.filter(|_| it.asks > 0);
                    }
                }
                What::Refused(why) => {
                    it.open -= 1;
                    let at_ns = seen.event.at_ns;
                    it.refused = passing(seen.texts.get(why)).map(|error| (at_ns, error));
                    self.tested |= it.refused.is_some();
                    if let Some(due_ns) = it.due(seen.head) {
                        let first_ns = self.due_ns.unwrap_or(due_ns);
                        self.due_ns = Some(first_ns.min(due_ns));
                    }
                }
                // One without an answer stays open: it may have deleted the key.
                _ => {}
            }
        }
        let is_done = it.of_release && !it.mixed && it.sent > 0 && it.refused.is_none();
        if it.open == 0 && (is_done || it.asks == 0 && it.sent == 0) {
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
                due.push((acquisition, *node, *it));
                (it.refused, it.asked_ns) = (None, None);
            }
        }
        let left = self.nodes.iter().flat_map(|(_, nodes)| nodes);
        self.due_ns = left.filter_map(|(_, it)| it.due(head)).min();
        due.sort_unstable_by_key(|(acquisition, node, _)| (*acquisition, *node));
        due.iter().for_each(|(acquisition, _, it)| self.gave_up(*acquisition, it, head));
    }

    /// It sends no more there.
    fn gave_up(&mut self, acquisition: u32, it: &Deletions, head: &Head) {
        let Deletions { client, since_ns, first_ns, sent, .. } = *it;
        let excused = self.kept_silent.since(client, since_ns);
        let certain = it.open == 0 && !it.mixed && !excused;
        let Some((refused_ns, error)) = it.refused.filter(|_| certain) else { return };
        let error = error.name().to_uppercase();
        let tried_ns = refused_ns.saturating_sub(first_ns);
        let summary = if it.of_release {
            let least_ns = (head.ttl_ns / RELEASE_PART).min(RELEASE_NS);
            if sent < 2 || tried_ns >= least_ns {
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
            let Some(asked_ns) = it.asked_ns.filter(|_| it.asked == 1 && !got) else { return };
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
    /// When the key is gone whose clean-up was refused last; none where no clean-up was.
    fn due(&self, head: &Head) -> Option<u64> {
        let is_refused = self.refused.is_some() && self.open == 0;
        let asked_ns = self.asked_ns.filter(|_| is_refused && !self.of_release && !self.mixed)?;
        Some(asked_ns.saturating_add(head.ttl_ns))
    }
}

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
        let mixed = Tape::new().with(|it| it.honest = true).refused_command(1, 90..95, DELETE);
        let mixed = mixed.opens(1, 100, What::Release).refused_command(1, 101..102, DELETE);
        assert_eq!(outcome(mixed), Held, "one of them is no release");
        // The clean-up of an attempt before may go on, and ends when it likes.
        let before = Tape::new().with(|it| it.honest = true).command(1, 10..20, CREATE, None);
        let before = before.did(1, 80..90, CREATE).opens(1, 100, What::Release);
        let before = before.refused_command(1, 100..102, DELETE);
        assert_eq!(outcome(before.refused_command(1, 110..112, DELETE)), Held);
        let late = Tape::new().with(|it| it.honest = true).command(1, 10..20, CREATE, None);
        let late = late.phase(1, 50, Phase::AcquireBeforeSend).opens(1, 100, What::Release);
        let late = late.refused_command(1, 100..102, DELETE);
        assert_eq!(outcome(late.refused_command(1, 110..112, DELETE)), Held, "not of the hold");
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
