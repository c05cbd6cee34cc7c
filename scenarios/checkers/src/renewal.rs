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

    /// It has it for another while.
    fn is_renewed(&mut self, at_ns: u64) {
        (self.moved_ns, self.heard_ns, self.tries) = (at_ns, at_ns, 0);
    }

    /// A renewal is sent to this server, or ends.
    fn renews(&mut self, at_ns: u64, node: u16, what: What) {
        (self.moved_ns, self.tries) = (at_ns, 0);
        if matches!(what, What::Command { .. }) {
            self.open += 1;
            return;
        }
        self.open -= 1;
        self.failed = matches!(what, What::Refused(_) | What::Unanswered(_));
        match what {
            What::Refused(_) => self.refused(node),
            _ => self.refusals = None,
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
            let (node, touch) = (command.node, command.intent.touch);
            let renews = matches!(touch, Touch::Extend(_));
            self.refused |= renews && matches!(what, What::Refused(_));
            if self.refused && matches!(what, What::Answered { .. }) {
                self.served(node, client, at_ns);
            }
            return self.with(acquisition, at_ns, |it| {
                it.heard_ns = at_ns;
                match touch {
                    Touch::Extend(_) => it.renews(at_ns, node, what),
                    // It may be a renewal.
                    Touch::Unknown => it.moved_ns = at_ns,
                    _ => {}
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
            What::Acquired => self.with(acquisition, at_ns, |it| it.is_renewed(at_ns)),
            What::ValidUntil(until_ns) => self.with(acquisition, at_ns, |it| {
                it.is_renewed(at_ns);
                it.until_ns = it.until_ns.max(Some(until_ns));
            }),
            What::Phase(Phase::AcquireBeforeSend) => {
                self.with(acquisition, at_ns, |it| it.sent_ns = at_ns);
            }
            What::Phase(Phase::RenewBeforeSend) => {
                self.renewed = true;
                self.with(acquisition, at_ns, |it| {
                    it.moved_ns = at_ns;
                    // Of the others nobody knows what they have waited for.
                    it.tries += u32::from(it.hindered_ns.is_none());
                });
            }
            What::Lost | What::Release => self.ended(acquisition, at_ns, head),
            What::NotAcquired(_) | What::AcquireUnknown(_) => _ = self.holds.remove(acquisition),
            What::Fault { fault, for_ns, .. } => {
                if hinders(fault) {
                    self.hinders(client, at_ns, lasts_until_ns(fault, at_ns, for_ns));
                }
                self.strikes(fault, client, at_ns);
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
    /// What comes when its validity is over does not bring it back.
    fn with(&mut self, acquisition: u32, at_ns: u64, change: impl FnOnce(&mut Hold)) {
        if let Some(it) = self.holds.get_mut(acquisition).filter(|it| it.is_valid(at_ns)) {
            change(it);
        }
    }

    /// Those of this client, or with 0 all, that may be renewed.
    fn of(&mut self, client: u32, at_ns: u64) -> impl Iterator<Item = &mut Hold> {
        let is_theirs = move |it: &Hold| [0, it.client].contains(&client) && it.is_valid(at_ns);
        self.holds.iter_mut().map(|(_, it)| it).filter(move |it| is_theirs(it))
    }

    /// A server has carried out a command of this client.
    fn served(&mut self, node: u16, client: u32, at_ns: u64) {
        for it in self.of(0, at_ns).filter(|it| it.client != client) {
            if let Some(refusals) = it.refusals.as_mut().filter(|it| it.node == node) {
                refusals.others_served = true;
            }
        }
    }

    fn hinders(&mut self, client: u32, at_ns: u64, until_ns: u64) {
        self.hindered.push((client, until_ns));
        self.of(client, at_ns).for_each(|it| it.hindered_ns = it.hindered_ns.or(Some(at_ns)));
    }

    fn strikes(&mut self, fault: Fault, client: u32, at_ns: u64) {
        if fault.is_of_message() {
            // An error that was injected, or an answer that was lost: none of the server's own.
            self.of(client, at_ns).for_each(|it| it.refusals = None);
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
        self.of(client, at_ns).for_each(|it| it.excused = true);
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
mod reference;
#[cfg(test)]
mod tests;
