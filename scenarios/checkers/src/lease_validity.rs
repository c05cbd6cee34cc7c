//! Lease validity: no client acts on a lock that it knows to be over, and none gives up one that it knows to have.
//!
//! Invariant: a client with a validity begins to use the resource, and decides to write, only before the
//! validity's end as then known to it, and before it has learnt of the loss or begun the release; nor is its work told before
//! that end that the lock is lost. It learns of a loss before that end only where no quorum of the servers, by the last answer
//! of each, has its key. A client that has renewed its lock in time (on several servers: on more than half of them at
//! once) has it for half of the TTL from when it asked, whatever end it has noted. And nobody relies on a lock to the very
//! end of its key, counted from the requests that made or extended it: the drift allowance is subtracted, unless a clock
//! has drifted further. A client that was told an end before its clock began to drift comes to it sooner or later than the
//! history says, by nobody knows how much. All of this is judged only where nothing comes between a decision and its stamp.

use std::collections::BTreeMap;

use durations::span::rounded;
use history::fault::Fault;
use history::verdict::{Finding, Level, Vacuous, Verdict, Witness};
use history::words::LOST;
use history::{CommandOp, Event, Head, Recent, Touch, What};
use picklock::env::Phase;
use smallvec::SmallVec;

use super::interface::{Checker, EventView, HistoryEnd, bit, frees, servers};
use super::story;
use super::struck::LastStruck;

/// An answer within this part of a TTL comes at once.
const AT_ONCE: u64 = 20;
/// A server tells its time in microseconds, rounded down.
const SERVER_TIME_NS: u64 = 1_000;
/// A renewal is over when this part of a TTL has passed.
const APART: u64 = 4;

/// Until when an acquisition may be relied on, and whether that is over.
#[derive(Clone, Copy, Debug)]
struct LeaseEnd {
    until_ns: u64,
    /// When its client was told of this end.
    told_ns: u64,
    /// By the renewals that were answered in time it surely has the lock until then.
    renewed_until_ns: u64,
    /// The shortest life that any of its renewals would give the key.
    least_ttl_ns: u64,
    acquired: bool,
    ended_by: Option<&'static str>,
    /// When its last renewal began, and which servers have granted that at once.
    round_ns: u64,
    granted: u64,
    /// No other renewal may be under way beside it, as where a client renews by hand as well.
    alone: bool,
}

impl Default for LeaseEnd {
    fn default() -> Self {
        Self {
            until_ns: 0,
            told_ns: 0,
            renewed_until_ns: 0,
            least_ttl_ns: u64::MAX,
            acquired: false,
            ended_by: None,
            round_ns: u64::MAX,
            granted: 0,
            alone: false,
        }
    }
}

/// Whether a server has an acquisition's key, by its last answer.
#[derive(Clone, Copy, Debug, Default)]
struct LastAnswer {
    node: u16,
    op: u32,
    has_key: bool,
    /// When its key may be gone, by the last request that has made or extended it; 0 where none has.
    gone_ns: u64,
    /// The last command that may have given the key back: what was asked for before it says nothing of the next hold.
    freed_op: u32,
}

/// The commands that may hand the key on to whoever is next in line.
#[derive(Debug, Default)]
struct Handovers {
    /// How many may have been carried out at any moment up to now: they have no answer.
    open: u32,
    /// When the last was answered that may have handed the key on.
    last_ns: Option<u64>,
    /// A server's clock may have jumped. By its time a client counts how long it had stood in line.
    clock_jumped: bool,
}

/// What clients may rely on.
#[derive(Default)]
struct LeaseValidity {
    leases: Recent<LeaseEnd>,
    answers: Recent<SmallVec<[LastAnswer; 1]>>,
    /// Requests that may have made or extended the key, and when it may be gone if they did; number 0 has surely done so.
    may_have_made: Recent<SmallVec<[(u32, u64); 1]>>,
    handovers: Handovers,
    /// Commands under way that only read the lock's key: whose they are, to which server.
    reads: BTreeMap<u32, (u32, u16)>,
    /// Who got the lock at this moment and has not been told yet until when it may rely on it.
    untold: Vec<Event>,
    /// A clock drifts; and whose have begun to, and when.
    drifting: bool,
    drifted: LastStruck,
    acted: bool,
    first: Option<Witness>,
}

pub(super) fn checker(_: &Head) -> Option<Box<dyn Checker>> {
    Some(Box::new(LeaseValidity::default()))
}

impl Checker for LeaseValidity {
    fn see(&mut self, seen: &EventView<'_>) {
        // Of other histories nothing is said, whatever they show.
        if !(seen.head.tracked && seen.head.exact) {
            return;
        }
        let event = seen.event;
        let Event { at_ns, acquisition, .. } = *event;
        if self.untold.first().is_some_and(|it| it.at_ns < at_ns) {
            self.judge_untold();
        }
        if let Some(command) = seen.command {
            self.asked(event, command);
            self.freed(event, command);
            self.renewed(event, command, seen.head);
            return self.answered(event, command);
        }
        match event.what {
            What::Fault { fault, .. } if fault == Fault::Switchover || fault.ends_server() => {
                self.handovers.clock_jumped = true;
            }
            What::Fault { fault: Fault::ClockStep, .. } if event.client == 0 => {
                self.handovers.clock_jumped = true;
            }
            What::Fault { fault: Fault::Drift, .. } => {
                self.drifting = true;
                // A server's clock moves no end, and where all clocks drift, they do from the beginning.
                if event.client > 0 {
                    self.drifted.strike(event.client, at_ns);
                }
            }
            What::ValidUntil(until_ns) => {
                self.relies(event, until_ns, seen.head);
                let lease = self.leases.entry(acquisition);
                // Of a hold, what became known too late does not bring it back.
                if until_ns > lease.until_ns && (!lease.acquired || at_ns < lease.until_ns) {
                    (lease.until_ns, lease.told_ns) = (until_ns, at_ns);
                }
                if let Some(place) = self.untold.iter().position(|it| it.acquisition == acquisition)
                {
                    let event = self.untold.swap_remove(place);
                    self.takes(&event);
                }
            }
            What::Command { node, .. } if seen.sends_on_key => {
                self.reads.insert(event.op, (acquisition, node));
            }
            What::Answered { .. } => self.has_read(event.op),
            What::Refused(_) | What::Unanswered(_) => _ = self.reads.remove(&event.op),
            What::Lost => {
                self.gave_up(event, seen.head);
                self.end(acquisition, "it had learnt that the lock was lost");
            }
            What::Release => self.end(acquisition, "it had begun to release"),
            What::NotAcquired(_) | What::AcquireUnknown(_) | What::Released(_) => {
                self.leases.remove(acquisition);
                self.answers.remove(acquisition);
                self.may_have_made.remove(acquisition);
            }
            What::Acquired if self.leases.contains(acquisition) => self.takes(event),
            What::Acquired => self.untold.push(*event),
            What::Take | What::Update => self.acts(event, "began to use the resource"),
            What::Phase(Phase::HoldBeforeWrite) => self.acts(event, "decided to write"),
            What::Phase(Phase::RenewBeforeSend) => self.renews(acquisition, at_ns, seen.head),
            What::NotUpdated(why) | What::NotTaken(why) if seen.texts.get(why) == LOST => {
                self.told_lost(event);
            }
            _ => {}
        }
    }

    fn finish(&mut self, end: &HistoryEnd<'_>) -> Vec<Finding> {
        self.judge_untold();
        vec![Finding::new("lease-validity", Level::Belief, self.verdict(end.head))]
    }
}

impl LeaseValidity {
    fn takes(&mut self, event: &Event) {
        self.acts(event, "took the lock for its own");
        if let Some(lease) = self.leases.get_mut(event.acquisition) {
            lease.acquired = true;
        }
    }

    /// The moment is over at which these might have been told.
    fn judge_untold(&mut self) {
        std::mem::take(&mut self.untold).iter().for_each(|it| self.takes(it));
    }

    /// What only reads is answered: it may have shown that the key is another's, or nobody's.
    fn has_read(&mut self, op: u32) {
        let Some((acquisition, node)) = self.reads.remove(&op) else { return };
        let Some(answers) = self.answers.get_mut(acquisition) else { return };
        if let Some(last) = answers.iter_mut().find(|it| it.node == node && it.op < op) {
            (last.op, last.has_key) = (op, false);
        }
    }

    /// It is over, whatever it is told afterwards.
    fn end(&mut self, acquisition: u32, what: &'static str) {
        self.leases.entry(acquisition).ended_by.get_or_insert(what);
    }

    /// A command is sent that may make or extend the key, or is answered.
    fn asked(&mut self, event: &Event, command: &CommandOp) {
        if command.intent.touch == Touch::Unknown {
            self.handovers.see(event);
        }
        let may_have_made = self.may_have_made.entry(command.acquisition);
        match event.what {
            What::Command { .. } => {
                let gone_ns = gone_ns(command.intent.touch, event.at_ns);
                if gone_ns > 0 {
                    may_have_made.push((event.op, gone_ns));
                }
            }
            What::Answered { touch, .. } => {
                // Of those that surely have, the last is enough.
                let gone_ns = gone_ns(touch, command.invoke_ns);
                may_have_made.retain(|it| it.0 != event.op && (it.0 != 0 || it.1 > gone_ns));
                if gone_ns > 0 {
                    may_have_made.push((0, gone_ns));
                }
            }
            What::Refused(_) => may_have_made.retain(|it| it.0 != event.op),
            _ => {}
        }
    }

    /// A command on the lock's key is answered; one that is refused, or has no answer, says nothing of the key.
    fn answered(&mut self, event: &Event, command: &CommandOp) {
        let What::Answered { touch, .. } = event.what else { return };
        let has_key = matches!(touch, Touch::Create(_) | Touch::Overwrite(_) | Touch::Extend(_));
        let gone_ns = gone_ns(touch, command.invoke_ns);
        let (node, op) = (command.node, event.op);
        let answer = LastAnswer { node, op, has_key, gone_ns, freed_op: 0 };
        let answers = self.answers.entry(command.acquisition);
        match answers.iter_mut().find(|it| it.node == answer.node) {
            Some(last) => {
                if answer.op > last.freed_op {
                    last.gone_ns = last.gone_ns.max(gone_ns);
                }
                // What was sent earlier was carried out earlier, though its answer may come later.
                if last.op < answer.op {
                    (last.op, last.has_key) = (answer.op, answer.has_key);
                }
            }
            None => answers.push(answer),
        }
    }

    /// A command is sent that may give the key back.
    fn freed(&mut self, event: &Event, command: &CommandOp) {
        if !frees(command.intent.touch) || !matches!(event.what, What::Command { .. }) {
            return;
        }
        let answers = self.answers.entry(command.acquisition);
        if answers.is_empty() {
            answers.push(LastAnswer { node: command.node, ..LastAnswer::default() });
        }
        // Of several servers, each round asks all again, and its clean-up may still go on while the next has the lock.
        if let [only] = &mut answers[..]
            && only.node == command.node
        {
            (only.gone_ns, only.freed_op) = (0, event.op);
        }
    }

    /// A client says until when it relies on its lock.
    fn relies(&mut self, event: &Event, until_ns: u64, head: &Head) {
        let Event { client, acquisition, .. } = *event;
        let Some(servers) = servers(head).filter(|_| !self.drifting) else { return };
        let answers = self.answers.get(acquisition).map_or(&[][..], |it| it);
        let mut ends: Vec<u64> =
            answers.iter().map(|it| it.gone_ns).filter(|gone_ns| *gone_ns > 0).collect();
        ends.sort_unstable_by(|one, other| other.cmp(one));
        // A lock on one server may have replicas, of which it asks nothing.
        let others = if answers.len() == 1 { 0 } else { usize::from(servers) / 2 };
        let gone_ns = match ends.get(others) {
            Some(gone_ns) => *gone_ns,
            None if ends.is_empty() => self.unseen_gone_ns(event, head),
            None => return,
        };
        let safe_ns = gone_ns.saturating_sub(head.margin_ns);
        if until_ns > safe_ns {
            let summary = format!(
                "client {client} relies on its lock for {} too long: its clock may run slower than the server's by as \
                 much as it allows for, and then its key is another's by that time",
                rounded(until_ns - safe_ns)
            );
            story::note(&mut self.first, summary, &[(acquisition, client)]);
        }
    }

    /// When a key may be gone that may have been given back since it was last known to have been made, or never was known
    /// to be. If a request has no answer, one of these has made the key, unless it was handed on.
    fn unseen_gone_ns(&self, event: &Event, head: &Head) -> u64 {
        let own = self.may_have_made.get(event.acquisition).map_or(&[][..], |it| it);
        let unanswered = own.iter().any(|(op, _)| *op != 0);
        let made_ns = own.iter().map(|(_, gone_ns)| *gone_ns).max().filter(|_| unanswered);
        let handed_ns = self.handovers.last_ns(event.at_ns);
        let handed_ns = handed_ns.map(|handed_ns| handed_ns.saturating_add(head.ttl_ns));
        made_ns.max(handed_ns).unwrap_or(event.at_ns.saturating_add(head.ttl_ns))
    }

    /// The end that a client was told, if the moment is known: it is not once its clock has begun to drift.
    fn known_until_ns(&self, client: u32, lease: &LeaseEnd) -> u64 {
        if self.drifted.since(client, lease.told_ns) { 0 } else { lease.until_ns }
    }

    /// A renewal begins.
    fn renews(&mut self, acquisition: u32, at_ns: u64, head: &Head) {
        if let Some(lease) = self.leases.get_mut(acquisition) {
            let apart_ns = at_ns.checked_sub(lease.round_ns);
            lease.alone = apart_ns.is_none_or(|apart_ns| apart_ns >= head.ttl_ns / APART);
            (lease.round_ns, lease.granted) = (at_ns, 0);
        }
    }

    /// A renewal is answered with yes. The other half of the TTL is for clocks that run off, and for the drift allowance.
    fn renewed(&mut self, event: &Event, command: &CommandOp, head: &Head) {
        let Some(lease) = self.leases.get(command.acquisition) else { return };
        let known_until_ns = self.known_until_ns(event.client, lease);
        let Some(lease) = self.leases.get_mut(command.acquisition) else { return };
        if let Touch::Extend(ttl_ns) = command.intent.touch
            && ttl_ns < lease.least_ttl_ns
        {
            // It may be carried out last.
            lease.least_ttl_ns = ttl_ns;
            lease.renewed_until_ns = lease.renewed_until_ns.min(command.invoke_ns);
        }
        let What::Answered { touch: Touch::Extend(ttl_ns), .. } = event.what else { return };
        let ttl_ns = ttl_ns.min(lease.least_ttl_ns);
        // An answer that comes when the validity is over comes too late.
        if event.at_ns >= known_until_ns.max(lease.renewed_until_ns) {
            return;
        }
        let mut from_ns = command.invoke_ns;
        let servers = servers(head);
        if servers != Some(1) {
            // Of several servers, more than half have to say so in one round, and as soon as they are asked: nobody has to
            // wait for the others.
            let at_once = event.at_ns - command.invoke_ns <= head.ttl_ns / AT_ONCE;
            if command.invoke_ns < lease.round_ns || !at_once || !lease.alone {
                return;
            }
            lease.granted |= bit(command.node);
            if servers.is_none_or(|servers| 2 * lease.granted.count_ones() <= servers.into()) {
                return;
            }
            from_ns = lease.round_ns;
        }
        lease.renewed_until_ns = lease.renewed_until_ns.max(from_ns.saturating_add(ttl_ns / 2));
    }

    /// A client has learnt that the lock is lost.
    fn gave_up(&mut self, event: &Event, head: &Head) {
        let Event { at_ns, client, acquisition, .. } = *event;
        let is_valid = |it: &LeaseEnd| {
            let until_ns = self.known_until_ns(client, it).max(it.renewed_until_ns);
            it.ended_by.is_none() && at_ns < until_ns
        };
        let (Some(servers), true) =
            (servers(head), self.leases.get(acquisition).is_some_and(is_valid))
        else {
            return;
        };
        let answers = self.answers.get(acquisition).map_or(&[][..], |it| it);
        let have = answers.iter().filter(|it| it.has_key).count();
        if 2 * have > usize::from(servers) {
            let of = if servers == 1 {
                "the server".to_owned()
            } else {
                format!("{have} of {servers} servers")
            };
            let summary = format!(
                "client {client} gave the lock up for lost, though it was valid, and {of} had answered last that the key \
                 was its own"
            );
            story::note(&mut self.first, summary, &[(acquisition, client)]);
        }
    }

    /// Its work is told that the lock is lost.
    fn told_lost(&mut self, event: &Event) {
        let Event { at_ns, client, acquisition, .. } = *event;
        let Some(lease) = self.leases.get(acquisition) else { return };
        if lease.ended_by.is_some() || at_ns >= lease.until_ns || self.drifting {
            return;
        }
        let summary = format!(
            "the work of client {client} was told that its lock was lost, though it may rely on it for another {}",
            rounded(lease.until_ns - at_ns)
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    fn acts(&mut self, event: &Event, did: &str) {
        let Event { at_ns, client, acquisition, .. } = *event;
        if acquisition == 0 {
            return;
        }
        self.acted = true;
        let why = match self.leases.get(acquisition) {
            None => "it was never told until when it might".to_owned(),
            Some(LeaseEnd { ended_by: Some(why), .. }) => (*why).to_owned(),
            Some(it) if at_ns >= it.until_ns && !self.drifted.since(client, it.told_ns) => {
                format!("its validity had ended {} ago", rounded(at_ns - it.until_ns))
            }
            Some(_) => return,
        };
        let summary = format!("client {client} {did}, though {why}");
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }

    fn verdict(&mut self, head: &Head) -> Verdict {
        match self.first.take() {
            _ if !head.locks => Verdict::NotApplicable("this recipe keeps no key".to_owned()),
            _ if !head.tracked => {
                Verdict::NotApplicable("this recipe keeps no validity".to_owned())
            }
            _ if !head.exact => Verdict::NotApplicable(
                "in real time a client may be stopped between its decision and its stamp"
                    .to_owned(),
            ),
            Some(witness) => Verdict::Violated(witness),
            None if self.acted => Verdict::Held,
            None => Verdict::Vacuous(Vacuous::NobodyHeld),
        }
    }
}

impl Handovers {
    /// Such a command is sent, or ends.
    fn see(&mut self, event: &Event) {
        match event.what {
            What::Command { .. } => self.open += 1,
            What::Answered { touch, .. } => {
                self.open -= 1;
                if touch == Touch::Unknown {
                    self.last_ns = Some(event.at_ns);
                }
            }
            What::Refused(_) => self.open -= 1,
            _ => {}
        }
    }

    /// The last moment by now at which a key may have been handed on, as who has been handed it can tell; none if none was.
    fn last_ns(&self, now_ns: u64) -> Option<u64> {
        if self.open > 0 || self.clock_jumped && self.last_ns.is_some() {
            return Some(now_ns);
        }
        self.last_ns.map(|last_ns| now_ns.min(last_ns.saturating_add(SERVER_TIME_NS)))
    }
}

/// When the key may be gone, if a command that was sent then has done this to it; 0 if that gives it no life.
fn gone_ns(touch: Touch, sent_ns: u64) -> u64 {
    match touch {
        Touch::Create(Some(ttl_ns)) | Touch::Overwrite(Some(ttl_ns)) | Touch::Extend(ttl_ns) => {
            sent_ns.saturating_add(ttl_ns)
        }
        Touch::Create(None) | Touch::Overwrite(None) => u64::MAX,
        _ => 0,
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
