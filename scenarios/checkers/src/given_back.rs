//! Given back: a client that is told that it has not got the lock does not keep its key.
//!
//! Invariant: an acquisition is blamed only where a server had answered that it has the lock, and either it ended
//! without it while at least half of the key's TTL was left, and until that was over it had sent nothing there that could
//! give the key back; or it asked the same server for the lock anew while its own key might still be there, and had sent
//! nothing of that kind before, unless its caller may give up and ask anew. A client that was dead or cut off meanwhile is
//! excused; one that stood still after it had asked, for keeping the key but not for asking anew; and all clients, by what
//! happens to a server. Each of several servers counts for itself: a key on a minority is in everybody's way, too.

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Witness};
use history::{CommandOp, Event, Head, Recent, Touch, What};

use super::interface::{
    Checker, EventView, HistoryEnd, frees, keeps_from_sending, lasts_until_ns, makes, verdict,
};
use super::story;
use super::struck::LastStruck;

pub(super) const NAME: &str = "given-back";

/// What a server has granted an acquisition that has sent nothing since which could give it back.
#[derive(Clone, Copy, Debug)]
struct KeptGrant {
    acquisition: u32,
    node: u16,
    client: u32,
    /// When it sent what the server answered with yes.
    sent_ns: u64,
    /// How long the key lives that it made.
    ttl_ns: u64,
    /// When its key surely is gone that is in the way of what it asks next.
    gone_ns: u64,
    /// It stood still after it had asked, so what it ends with may come late.
    stood_still: bool,
    /// When it ended without the lock.
    ended_ns: Option<u64>,
}

/// Who was granted the lock, and does not have it.
#[derive(Default)]
struct GivenBack {
    /// In the order in which they were granted.
    open: Vec<KeptGrant>,
    /// Acquisitions that have not ended.
    wanting: Recent<()>,
    /// What they have sent that may give the key back: the acquisition, the server, the operation.
    freed: Vec<(u32, u16, u32)>,
    /// Who stood still, and when; and who was kept from sending, and until when.
    stood_still: LastStruck,
    kept_silent: LastStruck,
    /// When the first of those that have ended is to have given its key back.
    due_ns: Option<u64>,
    tested: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    head.honest.then(|| Box::new(GivenBack::default()) as Box<dyn Checker>)
}

impl Checker for GivenBack {
    fn see(&mut self, seen: &EventView<'_>) {
        let EventView { event, head, .. } = *seen;
        let Event { at_ns, client, acquisition, what, .. } = *event;
        if self.due_ns.is_some_and(|due_ns| at_ns > due_ns) {
            self.look(at_ns);
        }
        if let Some(command) = seen.command {
            return self.command(command, event, head);
        }
        match what {
            What::Acquire => self.wanting.insert(acquisition, ()),
            What::Acquired => {
                self.ends(acquisition);
                self.open.retain(|it| it.acquisition != acquisition);
            }
            What::NotAcquired(_) | What::AcquireUnknown(_) => {
                self.ends(acquisition);
                self.refused(acquisition, at_ns);
            }
            What::Fault { fault: Fault::Pause, .. } => {
                self.stood_still.strike(client, at_ns);
                let theirs = |it: &KeptGrant| client == 0 || it.client == client;
                self.open.retain(|it| !theirs(it) || it.ended_ns.is_none());
                let theirs = self.open.iter_mut().filter(|it| theirs(it));
                theirs.for_each(|it| it.stood_still = true);
            }
            What::Fault { fault, for_ns, .. } if keeps_from_sending(fault) || client == 0 => {
                self.kept_silent.strike(client, lasts_until_ns(fault, at_ns, for_ns));
                self.open.retain(|it| client != 0 && it.client != client);
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        // It is not shown every event.
        self.look(end.last_ns);
        let verdict = verdict(
            self.first.take(),
            self.tested,
            "nobody was granted the lock and ended without it",
        );
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

impl GivenBack {
    fn command(&mut self, command: &CommandOp, event: &Event, head: &Head) {
        let CommandOp { acquisition, node, client, invoke_ns: sent_ns, .. } = *command;
        let touch = command.intent.touch;
        let theirs = |it: &KeptGrant| it.acquisition == acquisition && it.node == node;
        match event.what {
            What::Command { .. } if frees(touch) => {
                self.open.retain(|it| !theirs(it));
                if self.wanting.contains(acquisition) {
                    self.freed.push((acquisition, node, event.op));
                }
            }
            // Where its caller may give up and ask anew, that is no retry of the lock.
            What::Command { .. }
                if makes(touch)
                    && head.gives_up_ns.is_none()
                    && self.wanting.contains(acquisition) =>
            {
                let before = self.open.len();
                self.open.retain(|it| !theirs(it) || event.at_ns >= it.gone_ns);
                if self.open.len() < before {
                    self.asked_anew(acquisition, client);
                }
            }
            What::Answered { touch, .. } if makes(touch) && self.wanting.contains(acquisition) => {
                // It may have given back what it had not been told of yet.
                let freed =
                    |it: &(u32, u16, u32)| (it.0, it.1) == (acquisition, node) && it.2 > event.op;
                if self.kept_silent.since(client, sent_ns) || self.freed.iter().any(freed) {
                    return;
                }
                let ttl_ns = ttl(touch).unwrap_or(head.ttl_ns);
                self.open.push(KeptGrant {
                    acquisition,
                    node,
                    client,
                    sent_ns,
                    ttl_ns,
                    gone_ns: event.at_ns.saturating_add(ttl_ns),
                    stood_still: self.stood_still.since(client, sent_ns),
                    ended_ns: None,
                });
            }
            _ => {}
        }
    }

    /// It asks again for what it has been granted, and has not given back.
    fn asked_anew(&mut self, acquisition: u32, client: u32) {
        let summary = format!(
            "client {client} asked for the lock anew, though a server had granted it and nobody had given that back: its \
             own key was in everybody's way"
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    fn ends(&mut self, acquisition: u32) {
        self.wanting.remove(acquisition);
        self.freed.retain(|it| it.0 != acquisition);
    }

    /// It has ended without the lock.
    fn refused(&mut self, acquisition: u32, at_ns: u64) {
        let early = |it: &KeptGrant| at_ns <= it.sent_ns.saturating_add(it.ttl_ns / 2);
        self.open.retain(|it| it.acquisition != acquisition || early(it) && !it.stood_still);
        for it in self.open.iter_mut().filter(|it| it.acquisition == acquisition) {
            it.ended_ns = Some(at_ns);
            self.due_ns = Some(self.due_ns.unwrap_or(u64::MAX).min(it.due_ns()));
            self.tested = true;
        }
    }

    /// Who should have given its key back by now.
    fn look(&mut self, now_ns: u64) {
        let is_due = |it: &mut KeptGrant| it.ended_ns.is_some() && now_ns > it.due_ns();
        let kept: Vec<KeptGrant> = self.open.extract_if(.., is_due).collect();
        for KeptGrant { acquisition, client, ttl_ns, .. } in kept {
            let summary = format!(
                "client {client} was told that it had not got the lock, though a server had granted it, and nobody \
                 gave it back: its key was in everybody's way for the TTL of {}",
                rounded(ttl_ns)
            );
            story::note(&mut self.first, summary, &[(acquisition, client)]);
        }
        let ended = self.open.iter().filter(|it| it.ended_ns.is_some());
        self.due_ns = ended.map(|it| it.due_ns()).min();
    }
}

impl KeptGrant {
    /// When the TTL of its key is over.
    fn due_ns(&self) -> u64 {
        self.sent_ns.saturating_add(self.ttl_ns)
    }
}

/// How long what this makes lives, where that is said.
fn ttl(touch: Touch) -> Option<u64> {
    match touch {
        Touch::Create(ttl_ns) | Touch::Overwrite(ttl_ns) => ttl_ns,
        _ => None,
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests {
    use crate::testing::{CREATE, DELETE, TTL_NS, Tape};
    use history::fault::Fault;
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
    use history::{Intent, Touch};

    const SHORT: Intent = Intent { touch: Touch::Create(Some(50)), compares: false };

    fn asked() -> Tape {
        Tape::new().with(|it| it.honest = true)
    }

    /// Client 1 is granted the lock, by a request of 100, and told that it has not got it.
    fn told_no() -> Tape {
        asked().did(1, 100..110, CREATE).refused(1, 1, 90..200)
    }

    fn outcome(tape: Tape) -> Outcome {
        tape.outcome("given-back")
    }

    #[test]
    fn time_goes_on_with_any_event() {
        let idle = told_no().to(0, "another").did(2, 120..100 + TTL_NS + 1, CREATE);
        assert_eq!(outcome(idle), Violated);
    }

    /// Time goes on.
    fn later(tape: Tape) -> Outcome {
        outcome(tape.probe(100 + TTL_NS + 1, -2))
    }

    #[test]
    fn who_does_not_get_what_it_was_granted_gives_it_back() {
        assert_eq!(later(told_no()), Violated);
        assert_eq!(later(told_no().sends(1, 100 + TTL_NS, DELETE)), Held);
        assert_eq!(later(told_no().sends(1, 150, DELETE)), NotApplicable, "before it was told");
        assert_eq!(later(told_no().sends(2, 300, DELETE)), Violated, "another's");
        assert_eq!(outcome(told_no().probe(100 + TTL_NS, -2)), Held, "there is time yet");
        let margin = told_no().with(|it| it.margin_ns = 100);
        assert_eq!(later(margin.sends(1, 100 + TTL_NS, DELETE)), Held);
        let unknown = asked().did(1, 100..110, CREATE).unknown(1, 1, 90..200);
        assert_eq!(later(unknown), Violated);
        let extend = Intent { touch: Touch::Extend(TTL_NS), compares: true };
        assert_eq!(later(told_no().did(1, 300..310, extend)), Violated, "and it is renewed");
    }

    #[test]
    fn only_a_certain_grant_of_the_last_request_counts() {
        let refused = asked().command(1, 100..110, CREATE, Some(Touch::None));
        assert_eq!(later(refused.refused(1, 1, 90..200)), NotApplicable);
        let unanswered = asked().command(1, 100..110, CREATE, None).refused(1, 1, 90..200);
        assert_eq!(later(unanswered), NotApplicable);
        let got = asked().did(1, 100..110, CREATE).waited(1, 1, 90..200);
        assert_eq!(later(got), NotApplicable);
        let late = asked().did(1, 100..110, CREATE).refused(1, 1, 90..101 + TTL_NS / 2);
        assert_eq!(later(late), NotApplicable, "hardly anything was left of it");
        let short = |end_ns| later(asked().did(1, 100..110, SHORT).refused(1, 1, 90..end_ns));
        assert_eq!((short(125), short(126)), (Violated, NotApplicable), "its key lives 50");
        let again = asked().did(1, 100..110, CREATE).did(1, 120..130, DELETE);
        let again = again.did(1, 140..150, CREATE).refused(1, 1, 90..200);
        assert_eq!(outcome(again.probe(141 + TTL_NS, -2)), Violated, "another attempt");
    }

    #[test]
    fn each_of_several_servers_has_its_key_back() {
        let several = || {
            let tape = asked().acquires(1, 90).did(1, 100..110, CREATE).to(1, "lock");
            tape.did(1, 100..110, CREATE)
        };
        let no = |tape: Tape| later(tape.refused(1, 1, 95..200));
        assert_eq!(no(several()), Violated);
        assert_eq!(no(several().sends(1, 300, DELETE)), Violated, "the other has not");
        let both = several().sends(1, 300, DELETE).to(0, "lock").sends(1, 300, DELETE);
        assert_eq!(no(both), Held);
        let other = several().to(2, "lock").sends(1, 150, CREATE);
        assert_eq!(outcome(other), NotApplicable, "another server is asked");
        assert_eq!(outcome(several().sends(1, 150, CREATE)), Violated, "the same one");
    }

    #[test]
    fn who_stood_still_before_it_asked_has_its_time() {
        let stood = |at_ns| {
            let tape = asked().acquires(1, 10).struck(Fault::Pause, 1, at_ns);
            later(tape.did(1, 100..110, CREATE).refused(1, 1, 11..200))
        };
        assert_eq!(stood(50), Violated);
        assert_eq!(stood(105), NotApplicable);
    }

    #[test]
    fn who_cannot_send_anything_is_excused() {
        for fault in [Fault::Crash, Fault::Pause, Fault::Partition, Fault::Reset] {
            assert_ne!(later(told_no().struck(fault, 1, 150)), Violated, "{fault:?}");
            assert_eq!(later(told_no().struck(fault, 2, 150)), Violated, "{fault:?}");
        }
        assert_eq!(later(told_no().struck(Fault::LoseReply, 1, 150)), Violated);
        assert_ne!(later(told_no().struck(Fault::ServerCrash, 0, 150)), Violated);
        assert_ne!(later(told_no().struck(Fault::Pause, 1, 300)), Violated, "afterwards");
        let cut_off = |span| later(told_no().struck_for(Fault::Partition, 1, span));
        assert_eq!((cut_off(50..99), cut_off(50..100)), (Violated, NotApplicable), "still");
        assert_eq!(cut_off(50..50), NotApplicable, "nobody knows until when");
    }

    #[test]
    fn who_asks_anew_has_given_back_what_it_was_granted() {
        let again = |tape: Tape, at_ns| outcome(tape.sends(1, at_ns, CREATE));
        let granted = || asked().acquires(1, 90).did(1, 100..110, CREATE);
        assert_eq!(again(granted(), 109 + TTL_NS), Violated);
        assert_eq!(again(granted(), 110 + TTL_NS), NotApplicable, "the key is gone");
        let short = || asked().acquires(1, 90).did(1, 100..110, SHORT);
        assert_eq!((again(short(), 159), again(short(), 160)), (Violated, NotApplicable));
        assert_eq!(again(granted().sends(1, 150, DELETE), 200), NotApplicable);
        let before_its_answer =
            asked().acquires(1, 90).did(1, 100..160, CREATE).sends(1, 150, DELETE);
        assert_eq!(again(before_its_answer.clone(), 200), NotApplicable);
        assert_eq!(later(before_its_answer.refused(1, 1, 91..200)), NotApplicable);
        let refused = asked().acquires(1, 90).command(1, 100..110, CREATE, Some(Touch::None));
        assert_eq!(again(refused, 200), NotApplicable);
        let two = |tape: Tape| again(tape.did(1, 105..150, SHORT), 300);
        assert_eq!(two(granted()), Violated, "the other key is gone, this one is not");
        assert_eq!(outcome(granted().sends(2, 200, CREATE)), NotApplicable, "another");
        let anew_by_itself = granted().with(|it| it.gives_up_ns = Some(50));
        assert_eq!(again(anew_by_itself, 200), NotApplicable, "its caller asks anew");
        assert_eq!(again(granted().struck(Fault::Pause, 1, 150), 200), Violated);
        assert_eq!(again(granted().struck(Fault::Partition, 1, 150), 200), NotApplicable);
    }

    #[test]
    fn the_witness_says_who_was_told_so() {
        let witness = told_no().probe(100 + TTL_NS + 1, -2).witness("given-back");
        assert!(witness.summary.starts_with("client 1 was told that it had not got the lock"));
        assert_eq!((witness.acquisitions, witness.occurrences), (vec![1], 1));
        let tape = told_no().with(|it| it.honest = false);
        assert!(tape.findings().iter().all(|it| it.name != "given-back"));
    }
}
