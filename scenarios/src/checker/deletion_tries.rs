//! Deletion tries: who is refused the deletion of its key tries again, and not at once.
//!
//! Invariant: a client is blamed only where the last command by which it was to delete its key from a server was
//! refused with an error that passes, and it sent no other there: before half of the TTL was over of a key that it had
//! asked for and not got, or after the tries of its release, two at least, had lasted for hardly any time. A client
//! that could not send is excused, and so are all by what happens to a server.

use std::collections::{BTreeMap, BTreeSet};

use history::fault::{ErrorAnswer, Fault};
use history::verdict::{Finding, Level, Witness};
use history::{CommandOp, Event, Head, Touch, What};

use super::interface::{Checker, EventView, HistoryEnd, frees, keeps_from_sending, verdict};
use super::perseverance::passing;
use super::story;
use crate::span::rounded;

pub(super) const NAME: &str = "deletion-tries";

/// The tries of a release last for this part of a TTL at least, and need not last for longer than so long.
const RELEASE_PART: u64 = 20;
const RELEASE_NS: u64 = 250_000_000;

/// What an acquisition has sent to a server to have its key deleted.
#[derive(Clone, Copy, Debug, Default)]
struct Deletions {
    client: u32,
    /// When it first asked for the key that may be there; none where nothing may be.
    asked_ns: Option<u64>,
    /// When the first deletion was sent of those that count.
    first_ns: u64,
    sent: u32,
    /// Those that have not been answered, or never were.
    open: u32,
    /// They are those of a release.
    of_release: bool,
    /// Some are those of a release and some are not, and which is which cannot be told.
    mixed: bool,
    /// The error that the last one was answered with, and when.
    refused: Option<(u64, ErrorAnswer)>,
}

/// Who was refused what, and tries again.
#[derive(Default)]
struct DeletionTries {
    /// By acquisition and server.
    nodes: BTreeMap<(u32, u16), Deletions>,
    /// Acquisitions whose release has begun.
    releasing: BTreeSet<u32>,
    tested: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    head.honest.then(|| Box::new(DeletionTries::default()) as Box<dyn Checker>)
}

impl Checker for DeletionTries {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { client, acquisition, what, .. } = *seen.event;
        if let Some(command) = seen.command {
            return match what {
                What::Command { .. } => self.sends(&command),
                _ => self.ends(&command, seen),
            };
        }
        match what {
            What::Release => _ = self.releasing.insert(acquisition),
            What::Fault { fault: Fault::ScriptFlush, .. } => {}
            What::Fault { fault, .. } if client == 0 || keeps_from_sending(fault) => {
                self.nodes.retain(|_, it| client != 0 && it.client != client);
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        for ((acquisition, _), it) in std::mem::take(&mut self.nodes) {
            self.gave_up(acquisition, &it, end.head);
        }
        let vacuous = "no deletion was refused with an error that passes";
        let verdict = verdict(self.first.take(), self.tested, vacuous);
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

impl DeletionTries {
    fn sends(&mut self, command: &CommandOp) {
        let of_release = self.releasing.contains(&command.acquisition);
        let place = (command.acquisition, command.node);
        let it = self.nodes.entry(place).or_default();
        it.client = command.client;
        if matches!(command.intent.touch, Touch::Create(_) | Touch::Overwrite(_)) {
            it.asked_ns.get_or_insert(command.invoke_ns);
        }
        if !frees(command.intent.touch) {
            return;
        }
        if it.sent == 0 {
            (it.first_ns, it.of_release) = (command.invoke_ns, of_release);
        }
        it.mixed |= it.of_release != of_release;
        it.sent += 1;
        it.open += 1;
    }

    fn ends(&mut self, command: &CommandOp, seen: &EventView<'_>) {
        if !frees(command.intent.touch) {
            return;
        }
        let place = (command.acquisition, command.node);
        let Some(it) = self.nodes.get_mut(&place).filter(|it| it.open > 0) else { return };
        match seen.event.what {
            What::Answered { .. } => _ = self.nodes.remove(&place),
            What::Refused(why) => {
                it.open -= 1;
                let at_ns = seen.event.at_ns;
                it.refused = passing(seen.texts.get(why)).map(|error| (at_ns, error));
                self.tested |= it.refused.is_some();
            }
            // One without an answer stays open: it may have deleted the key.
            _ => {}
        }
    }

    /// It sends no more there.
    fn gave_up(&mut self, acquisition: u32, it: &Deletions, head: &Head) {
        let Some((refused_ns, error)) = it.refused.filter(|_| it.open == 0 && !it.mixed) else {
            return;
        };
        let Deletions { client, first_ns, sent, .. } = *it;
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
            let Some(asked_ns) = it.asked_ns else { return };
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

#[cfg(test)]
mod tests {
    use crate::checker::testing::{CREATE, DELETE, TTL_NS, Tape};
    use history::fault::Fault;
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
    use history::What;

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
        assert_eq!(outcome(refused(200).sends(1, 210, DELETE)), Held, "it may have been done");
        assert_eq!(outcome(refused(200).command(1, 210..220, DELETE, None)), Held);
        assert_eq!(outcome(refused(200).refused_command(1, 210..220, DELETE)), Violated);
        assert_eq!(outcome(refused(200).refused_command(1, 590..600, DELETE)), Held);
        assert_eq!(outcome(refused(200).did(2, 210..220, DELETE)), Violated, "another's");
        let elsewhere = refused(200).to(1, "lock").did(1, 210..220, DELETE);
        assert_eq!(outcome(elsewhere), Violated, "on another server");
        let never_asked = Tape::new().with(|it| it.honest = true);
        assert_eq!(outcome(never_asked.refused_command(1, 160..170, DELETE)), Held);
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
