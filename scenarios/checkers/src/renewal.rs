//! Renewal: a hold that is to be renewed does not end because nobody tried.
//!
//! Invariant: a hold is blamed if its validity ended although its client was able to renew it and made no try in the
//! last three fifths of a TTL; waiting for one answer for so long is no try. Where nothing kept its messages from the
//! server, only sending something is a try, and after a failed one another has to follow before the last quarter. Other
//! failed renewals are not blamed, unless the server refused all of them, several times, and served others meanwhile:
//! the client asked the same connection again and got the same answer. A client that stood still or whose clock drifted
//! may not have known that it was time, and no hold has to be renewed beyond the longest that the recipe is set to.
//! Judged only where nothing comes between what a client does and its stamp.

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Verdict, Witness, WitnessStep};
use history::{Event, Head, Recent, Touch, What};
use picklock::env::Phase;

use super::interface::{Checker, EventView, HistoryEnd, lasts_until_ns};
use super::story;

pub(super) const NAME: &str = "renewal";

/// A client that renews every third of a TTL, and waits in vain for a connection for a third, tries again within
/// three fifths.
const FIFTHS: u64 = 3;
/// A client whose renewal has failed is idle for this part of a TTL at most, before the end.
const IDLE_PART: u64 = 4;
/// So many refusals in a row show that a client asks the same connection again.
const REFUSED_AGAIN: u32 = 2;
/// So many tries in vain, one after the other, are too many for each to have waited for a connection.
const TRIES: u32 = 4;

/// The renewals that a server has refused, one after the other.
#[derive(Clone, Copy, Debug)]
struct RefusedRenewals {
    node: u16,
    count: u32,
    /// Another client has been served by this server since the first.
    others_served: bool,
}

/// An acquisition, from its begin to the end of its hold.
#[derive(Clone, Copy, Debug)]
struct Hold {
    client: u32,
    /// When it last began to ask for the lock.
    sent_ns: u64,
    /// The end of its validity; none before it is granted.
    until_ns: Option<u64>,
    /// When it was last seen to do anything for it.
    moved_ns: u64,
    /// When it last sent something, or was answered.
    heard_ns: u64,
    /// Tries since it last sent a renewal, or was answered one.
    tries: u32,
    /// Its last renewal was refused, or had no answer.
    failed: bool,
    /// When a fault first may have kept what it sends from the server.
    hindered_ns: Option<u64>,
    /// Renewals without an answer.
    open: u32,
    /// None where the last one was not refused.
    refusals: Option<RefusedRenewals>,
    /// A fault may have kept its client from it.
    excused: bool,
}

impl Hold {
    /// Whether it is granted, or asked for, and its validity not over yet.
    fn is_valid(&self, at_ns: u64) -> bool {
        self.until_ns.is_none_or(|until_ns| at_ns < until_ns)
    }

    /// It sends something, or is answered. A try that is under way is none the less so for a clean-up that is answered.
    fn hears(&mut self, at_ns: u64, renews: bool) {
        (self.moved_ns, self.heard_ns) = (at_ns, at_ns);
        if renews {
            self.tries = 0;
        }
    }

    fn refused(&mut self, node: u16) {
        let begun = RefusedRenewals { node, count: 0, others_served: false };
        let so_far = self.refusals.filter(|it| it.node == node).unwrap_or(begun);
        self.refusals = Some(RefusedRenewals { count: so_far.count + 1, ..so_far });
    }
}

/// Which holds are renewed.
#[derive(Default)]
struct Renewals {
    /// By acquisition.
    holds: Recent<Hold>,
    /// A renewal was refused. Until then nobody has to be told who is served.
    refused: bool,
    /// Every clock may have run off.
    drifting: bool,
    /// Clients whose own clock may have.
    struck: Vec<u32>,
    /// Clients, or with 0 all, that could reach not every server, and until when.
    hindered: Vec<(u32, u64)>,
    renewed: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    head.renewed.then(|| Box::new(Renewals::default()) as Box<dyn Checker>)
}

impl Checker for Renewals {
    fn see(&mut self, seen: &EventView<'_>) {
        let EventView { event, head, command, .. } = *seen;
        let Event { at_ns, client, acquisition, what, .. } = *event;
        if let Some(command) = command {
            let renews = matches!(command.intent.touch, Touch::Extend(_));
            let node = command.node;
            self.refused |= renews && matches!(what, What::Refused(_));
            if self.refused && matches!(what, What::Answered { .. }) {
                self.served(node, client);
            }
            return self.with(acquisition, |it| {
                if it.is_valid(command.invoke_ns) {
                    it.hears(at_ns, renews);
                }
                match what {
                    What::Refused(_) | What::Unanswered(_) => it.failed |= renews,
                    What::Answered { .. } if renews => it.failed = false,
                    _ => {}
                }
                match what {
                    What::Command { .. } => it.open += u32::from(renews),
                    _ => it.open -= u32::from(renews),
                }
                match what {
                    What::Command { .. } => {}
                    _ if !renews => {}
                    What::Refused(_) => it.refused(node),
                    _ => it.refusals = None,
                }
            });
        }
        match what {
            What::Acquire => {
                let excused = self.drifting || self.struck.contains(&client);
                let (until_ns, refusals) = (None, None);
                let (sent_ns, moved_ns) = (at_ns, at_ns);
                let (heard_ns, failed, open) = (at_ns, false, 0);
                let cut_off = |it: &(u32, u64)| [0, client].contains(&it.0) && at_ns < it.1;
                let hindered_ns = self.hindered.iter().any(cut_off).then_some(at_ns);
                let it = Hold {
                    client,
                    sent_ns,
                    until_ns,
                    moved_ns,
                    heard_ns,
                    tries: 0,
                    failed,
                    hindered_ns,
                    open,
                    refusals,
                    excused,
                };
                self.holds.insert(acquisition, it);
            }
            What::Acquired => self.with(acquisition, |it| it.hears(at_ns, true)),
            What::ValidUntil(until_ns) => self.with(acquisition, |it| {
                // What became known too late does not bring it back.
                if it.is_valid(at_ns) {
                    it.hears(at_ns, true);
                    it.until_ns = it.until_ns.max(Some(until_ns));
                }
            }),
            What::Phase(Phase::AcquireBeforeSend) => {
                self.with(acquisition, |it| it.sent_ns = at_ns);
            }
            What::Phase(Phase::RenewBeforeSend) => {
                self.renewed = true;
                self.with(acquisition, |it| {
                    if it.is_valid(at_ns) {
                        it.moved_ns = at_ns;
                        it.tries += 1;
                    }
                });
            }
            What::Lost | What::Release => self.ended(acquisition, at_ns, head),
            What::NotAcquired(_) | What::AcquireUnknown(_) => _ = self.holds.remove(acquisition),
            What::Fault { fault, for_ns, .. } => {
                if hinders(fault) {
                    self.hinders(client, at_ns, lasts_until_ns(fault, at_ns, for_ns));
                }
                self.strikes(fault, client);
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        for (acquisition, _) in self.holds.clone().into_sorted() {
            self.ended(acquisition, end.last_ns, end.head);
        }
        let verdict = match self.first.take() {
            _ if !end.head.exact => Verdict::NotApplicable(
                "in real time a client may be stopped by its machine, and not renew in time"
                    .to_owned(),
            ),
            Some(witness) => Verdict::Violated(witness),
            None if self.renewed => Verdict::Held,
            None => Verdict::NotApplicable("no hold lasted until its renewal".to_owned()),
        };
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

impl Renewals {
    fn with(&mut self, acquisition: u32, change: impl FnOnce(&mut Hold)) {
        if let Some(it) = self.holds.get_mut(acquisition) {
            change(it);
        }
    }

    /// A server has carried out a command of this client.
    fn served(&mut self, node: u16, client: u32) {
        for (_, it) in self.holds.iter_mut().filter(|(_, it)| it.client != client) {
            if let Some(refusals) = it.refusals.as_mut().filter(|it| it.node == node) {
                refusals.others_served = true;
            }
        }
    }

    fn hinders(&mut self, client: u32, at_ns: u64, until_ns: u64) {
        self.hindered.push((client, until_ns));
        let theirs = self.holds.iter_mut().filter(|(_, it)| client == 0 || it.client == client);
        theirs.for_each(|(_, it)| it.hindered_ns = it.hindered_ns.or(Some(at_ns)));
    }

    fn strikes(&mut self, fault: Fault, client: u32) {
        if fault.is_of_message() {
            // An error that was injected, or an answer that was lost: none of the server's own.
            let theirs = self.holds.iter_mut().filter(|(_, it)| it.client == client);
            theirs.for_each(|(_, it)| it.refusals = None);
        }
        let drifts = fault == Fault::Drift;
        if !drifts && !matches!(fault, Fault::Pause | Fault::Crash) {
            return;
        }
        match client {
            0 => self.drifting |= drifts,
            _ if drifts => self.struck.push(client),
            _ => {}
        }
        let theirs = self.holds.iter_mut().filter(|(_, it)| client == 0 || it.client == client);
        theirs.for_each(|(_, it)| it.excused = true);
    }

    /// A client has learnt that its hold is over, gives it up, or was never seen to do either.
    fn ended(&mut self, acquisition: u32, at_ns: u64, head: &Head) {
        let Some(it) = self.holds.remove(acquisition) else { return };
        let Hold { client, moved_ns, refusals, .. } = it;
        let Some(until_ns) = it.until_ns.filter(|until_ns| *until_ns <= at_ns) else { return };
        let idle_ns = until_ns.saturating_sub(moved_ns);
        let refused = refusals.filter(|it| it.count >= REFUSED_AGAIN && it.others_served);
        let most_ns = head.ttl_ns / 5 * FIFTHS;
        // Who waits for an answer is blamed only where that takes longer than any call may.
        let waits = it.open > 0 && (idle_ns <= most_ns || it.hindered_ns.is_some());
        if it.excused || waits {
            return;
        }
        // A hold that has a longest is not renewed beyond it.
        let longest_ns = head.longest_hold_ns.unwrap_or(u64::MAX);
        if until_ns > it.sent_ns.saturating_add(longest_ns) {
            return;
        }
        if let Some(RefusedRenewals { count, .. }) = refused {
            let summary = format!(
                "client {client} lost its lock because its validity ended: its last {count} renewals were refused, by a \
                 server that served others meanwhile"
            );
            return story::note(&mut self.first, summary, &[(acquisition, client)]);
        }
        // What it did not send before, no fault had kept it from sending.
        let free_until_ns = it.hindered_ns.unwrap_or(u64::MAX).min(until_ns);
        let silent_ns = free_until_ns.saturating_sub(it.heard_ns);
        let (at_ns, what, text, for_ns) = if it.open > 0 {
            let text = "waits for an answer, and does nothing more to renew its lock";
            (moved_ns, "had waited for one answer", text, idle_ns)
        } else if idle_ns > most_ns {
            (moved_ns, "had not tried to renew it", "does nothing to renew its lock", idle_ns)
        } else if silent_ns > head.ttl_ns / 2 && it.tries >= TRIES {
            let text = "sends nothing to renew its lock";
            (it.heard_ns, "had sent nothing to renew it", text, silent_ns)
        } else if it.hindered_ns.is_some() {
            return;
        } else if it.failed && it.tries == 0 && idle_ns > head.ttl_ns / IDLE_PART {
            let text = "does nothing more to renew its lock";
            (moved_ns, "had not tried again, after a renewal in vain,", text, idle_ns)
        } else {
            return;
        };
        let summary = format!(
            "client {client} lost its lock because its validity ended, and {what} for {}: the recipe claims to renew it \
             until it is released",
            rounded(for_ns)
        );
        let text = format!("{text} from now on");
        let steps = vec![WitnessStep { at_ns, client, text }];
        let is_first = self.first.is_none();
        story::note(&mut self.first, summary, &[(acquisition, client)]);
        if let Some(first) = self.first.as_mut().filter(|_| is_first) {
            first.steps = steps;
        }
    }
}

/// Whether this may keep what clients send from a server, for a while or from then on, other than message by message.
fn hinders(fault: Fault) -> bool {
    !fault.is_of_message()
        && !matches!(
            fault,
            Fault::ClockStep | Fault::Drift | Fault::ScriptFlush | Fault::Evict | Fault::Flush
        )
}

#[cfg(test)]
mod tests {
    use picklock::env::Phase;

    use crate::testing::{TTL_NS, Tape};
    use history::fault::Fault;
    use history::verdict::Outcome::{self, Held, NotApplicable, Violated};
    use history::{Intent, Touch};

    const EXTEND: Intent = Intent { touch: Touch::Extend(TTL_NS), compares: true };

    fn outcome(tape: Tape) -> Outcome {
        tape.with(|it| (it.renewed, it.exact) = (true, true)).outcome("renewal")
    }

    /// Client 1 has the lock from 100, valid until 1,100.
    fn held() -> Tape {
        Tape::tracked().waited(1, 1, 90..100).valid(1, 100, 1_100)
    }

    /// It tries to renew, at this time, and is refused at once.
    fn tried(at_ns: u64) -> Tape {
        let tape = held().phase(1, at_ns, Phase::RenewBeforeSend);
        tape.refused_command(1, at_ns..at_ns + 10, EXTEND)
    }

    #[test]
    fn a_hold_that_nobody_tried_to_renew_is_blamed_when_it_ends() {
        let moved = |at_ns| {
            let tape = held().phase(1, at_ns, Phase::RenewBeforeSend);
            tape.command(1, at_ns..at_ns + 10, EXTEND, Some(Touch::None)).lost(1, 1_100)
        };
        assert_eq!(outcome(moved(490)), Held, "600 is the most");
        assert_eq!(outcome(moved(489)), Violated);
        assert_eq!(outcome(held().lost(1, 1_100)), Violated, "it was never tried");
        assert_eq!(outcome(held()), NotApplicable);
        assert_eq!(outcome(tried(200).releases(1, 1_050..1_060)), Held, "it did not end by itself");
        let renewed = tried(200).did(1, 220..230, EXTEND).valid(1, 230, 1_220).lost(1, 1_220);
        assert_eq!(outcome(renewed), Violated, "after a renewal as after the grant");
        let nobody_saw = tried(200).releases(1, 1_200..1_210);
        assert_eq!(outcome(nobody_saw), Violated, "its client has not noticed");
        assert_eq!(outcome(held().probe(1_200, -2)), Violated, "nor has it ever");
        assert_eq!(outcome(held().crash(1, 500).probe(1_200, -2)), NotApplicable);
        let too_late = held().phase(1, 1_200, Phase::RenewBeforeSend);
        let too_late = too_late.command(1, 1_200..1_210, EXTEND, Some(Touch::None));
        assert_eq!(outcome(too_late.lost(1, 1_210)), Violated, "it was over by then");
    }

    #[test]
    fn who_waits_for_an_answer_tries() {
        let open = |at_ns| {
            let tape = held().phase(1, 400, Phase::RenewBeforeSend).sends(1, at_ns, EXTEND);
            tape.lost(1, 1_100)
        };
        assert_eq!(outcome(open(500)), Held);
        assert_eq!(outcome(open(499)), Violated, "no call may take so long");
        let stalled = open(499).struck_for(Fault::Stall, 0, 450..460);
        assert_eq!(outcome(stalled), Held, "it may not reach the server");
        let unanswered = |end_ns| {
            let tape = held().phase(1, 400, Phase::RenewBeforeSend);
            tape.command(1, 401..end_ns, EXTEND, None).lost(1, 1_100)
        };
        assert_eq!(outcome(unanswered(850)), Held);
        assert_eq!(outcome(unanswered(499)), Violated);
    }

    /// Its renewal has no answer from 600 to this time.
    fn in_vain(end_ns: u64) -> Tape {
        let tape = held().phase(1, 600, Phase::RenewBeforeSend);
        tape.command(1, 601..end_ns, EXTEND, None)
    }

    #[test]
    fn who_has_tried_in_vain_tries_again_while_there_is_time() {
        assert_eq!(outcome(in_vain(849).lost(1, 1_100)), Violated);
        assert_eq!(outcome(in_vain(850).lost(1, 1_100)), Held);
        let again = in_vain(700).phase(1, 900, Phase::RenewBeforeSend);
        assert_eq!(outcome(again.lost(1, 1_100)), Held, "it cannot send anything");
        let stalled = in_vain(700).struck_for(Fault::Stall, 0, 650..660);
        assert_eq!(outcome(stalled.lost(1, 1_100)), Held, "it may not reach the server");
    }

    /// A false alarm of `ghost-renewal` with `native-cas`: a try waited for its connection when a clean-up was answered.
    #[test]
    fn a_clean_up_that_is_answered_ends_no_try() {
        let delete = Intent { touch: Touch::Delete, compares: true };
        let answered = |tape: Tape| tape.command(1, 780..800, delete, Some(Touch::None));
        let again = in_vain(700).phase(1, 740, Phase::RenewBeforeSend);
        assert_eq!(outcome(answered(again).lost(1, 1_100)), Held);
        assert_eq!(outcome(answered(in_vain(700)).lost(1, 1_100)), Violated, "no try at all");
    }

    #[test]
    fn to_try_is_to_send_something_where_nothing_is_in_the_way() {
        let tries = |tape: Tape| {
            [400, 600, 800, 1_000]
                .iter()
                .fold(tape, |tape, at_ns| tape.phase(1, *at_ns, Phase::RenewBeforeSend))
        };
        assert_eq!(outcome(tries(held()).lost(1, 1_100)), Violated);
        let cut_off = |client| held().struck_for(Fault::Partition, client, 300..900);
        assert_eq!(outcome(tries(cut_off(1)).lost(1, 1_100)), Held);
        assert_eq!(outcome(tries(cut_off(2)).lost(1, 1_100)), Violated, "another is cut off");
        let before = Tape::tracked().struck_for(Fault::Partition, 1, 10..95);
        let before = before.waited(1, 1, 90..100).valid(1, 100, 1_100);
        assert_eq!(outcome(tries(before).lost(1, 1_100)), Held, "from before");
        let reset = held().struck(Fault::Reset, 1, 395);
        assert_eq!(outcome(tries(reset).lost(1, 1_100)), Violated, "it can connect anew");
    }

    #[test]
    fn a_key_that_is_gone_is_another_story() {
        assert_eq!(outcome(tried(200).lost(1, 1_099)), Held);
        assert_eq!(outcome(tried(200).lost(1, 1_100)), Violated);
    }

    #[test]
    fn who_cannot_know_the_time_is_excused() {
        let by =
            |fault, client, at_ns| outcome(tried(200).struck(fault, client, at_ns).lost(1, 1_100));
        for fault in [Fault::Pause, Fault::Drift] {
            assert_eq!(by(fault, 1, 300), Held, "{fault:?}");
            assert_eq!(by(fault, 2, 300), Violated, "{fault:?} of another");
        }
        assert_eq!(by(Fault::Pause, 1, 95), Held, "while it asked for the lock");
        assert_eq!(by(Fault::Pause, 1, 80), Violated, "before it asked");
        assert_eq!(by(Fault::Drift, 1, 80), Held, "a clock that runs off goes on doing so");
        assert_eq!(by(Fault::Drift, 0, 80), Held, "any clock");
        assert_eq!(
            by(Fault::ClockStep, 1, 300),
            Violated,
            "a wall clock is no way to measure time"
        );
        assert_eq!(by(Fault::Refuse, 1, 300), Violated, "one error is no reason to give up");
    }

    #[test]
    fn who_is_refused_again_by_a_server_that_serves_others_is_blamed() {
        let refused = |tape: Tape, at_ns| {
            let tape = tape.phase(1, at_ns, Phase::RenewBeforeSend);
            tape.refused_command(1, at_ns..at_ns + 10, EXTEND)
        };
        let create = Intent { touch: Touch::Create(Some(TTL_NS)), compares: false };
        let other = |tape: Tape| tape.command(2, 650..660, create, Some(Touch::None));
        let twice = || refused(tried(600), 900);
        assert_eq!(outcome(refused(other(tried(600)), 900).lost(1, 1_100)), Violated);
        assert_eq!(outcome(twice().lost(1, 1_100)), Held, "it served nobody");
        let once = held().command(2, 850..860, create, Some(Touch::None));
        let once = refused(once, 900);
        assert_eq!(outcome(once.lost(1, 1_100)), Held, "refused once");
        let injected = refused(other(tried(600)).struck(Fault::Refuse, 1, 695), 900);
        assert_eq!(outcome(injected.lost(1, 1_100)), Held, "an error that was injected");
        let served = other(tried(600)).did(1, 670..680, EXTEND).valid(1, 680, 1_600);
        assert_eq!(outcome(refused(refused(served, 1_200), 1_400).lost(1, 1_600)), Held);
    }

    #[test]
    fn it_is_asked_of_recipes_that_renew_where_times_are_exact() {
        let tape = tried(200).lost(1, 1_100);
        assert!(tape.findings().iter().all(|it| it.name != "renewal"));
        assert_eq!(tape.with(|it| it.renewed = true).outcome("renewal"), NotApplicable);
    }

    #[test]
    fn the_witness_says_for_how_long_nobody_tried() {
        let tape = tried(200).lost(1, 1_100).with(|it| (it.renewed, it.exact) = (true, true));
        let witness = tape.witness("renewal");
        assert!(witness.summary.contains("client 1 lost its lock"), "{}", witness.summary);
        assert!(witness.summary.contains("for 890 ns"), "{}", witness.summary);
        let idle = witness.steps.iter().find(|it| it.text.contains("does nothing to renew"));
        assert_eq!(idle.map(|it| it.at_ns), Some(210));
        assert_eq!((witness.occurrences, witness.acquisitions), (1, vec![1]));
    }
}
