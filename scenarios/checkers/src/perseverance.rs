//! Perseverance: a client that may try again does, after an error that passes, after a request without an answer, and
//! without a connection.
//!
//! Invariant: a client is blamed only where a server had answered its last request for the lock with an error that
//! passes, or the last had no answer, or it says that it got no connection, and it ended without the lock before its retries can
//! have been used up; or where a
//! quorum of the servers had granted the lock in its last round, and it ended without it within half a TTL from when that
//! began. A client that its caller has stopped, or that is refused for good, be it by the channel that it would listen to or
//! by so many servers that the others are no quorum, is not blamed; nor is one with a grant, where clocks drift or replicas are
//! asked as well. Who listens tries again without a pause, so that its retries are used up once it has begun as many attempts as
//! it may.

use std::collections::BTreeSet;

use durations::span::rounded;
use history::fault::{ErrorAnswer, Fault};
use history::verdict::{Finding, Level, Witness};
use history::words::{DROPPED, NOT_SENT};
use history::{Event, Head, Intent, Recent, Touch, What};
use picklock::env::Phase;
use smallvec::SmallVec;

use super::interface::{
    Checker, EventView, HistoryEnd, SUBSCRIBE, frees, lasting, makes, passing, servers, verdict,
};
use super::last_requests::LastRequests;
use super::story;

pub(super) const NAME: &str = "perseverance";

/// The commands with which a client waits for replicas.
const WAITS: [&str; 2] = ["WAIT", "WAITAOF"];

/// What became of a request for the lock, or of a try to send one, that may be repeated.
#[derive(Clone, Copy, Debug)]
enum RequestFailure {
    Refused(ErrorAnswer),
    Unanswered,
    NotSent,
}

/// An acquisition that wants the lock.
#[derive(Clone, Debug)]
struct Tries {
    client: u32,
    began_ns: u64,
    /// The attempts that it has begun.
    attempts: u32,
    /// It has asked to be told of a release.
    listens: bool,
    /// When its last round began.
    round_ns: u64,
    /// The servers that have granted it the lock in this round, and that it has sent nothing to give it back.
    granted: SmallVec<[u16; 4]>,
    /// The last command to each server that gives the lock back.
    given_back: SmallVec<[(u16, u32); 1]>,
    /// It needs more than a grant.
    needs_more: bool,
    /// What became of its last request that has ended, where that passes.
    failure: Option<RequestFailure>,
    /// Its last request, while that has not ended.
    open: Option<u32>,
    /// Those to each server.
    last: LastRequests<bool>,
}

/// Who wants the lock, and how long a client tries.
#[derive(Default)]
struct Perseverance {
    tries_for_ns: u64,
    /// By acquisition.
    wanting: Recent<Tries>,
    /// Subscriptions that have no answer yet.
    subscribing: BTreeSet<u32>,
    /// A clock may have run off.
    drifting: bool,
    tested: bool,
    first: Option<Witness>,
}

pub(super) fn checker(head: &Head) -> Option<Box<dyn Checker>> {
    let tries_for_ns = head.tries_for_ns?;
    Some(Box::new(Perseverance { tries_for_ns, ..Perseverance::default() }))
}

impl Checker for Perseverance {
    fn see(&mut self, seen: &EventView<'_>) {
        let Event { at_ns, client, acquisition, what, .. } = *seen.event;
        match what {
            What::Acquire => {
                let it = Tries {
                    client,
                    began_ns: at_ns,
                    attempts: 0,
                    listens: false,
                    round_ns: at_ns,
                    granted: SmallVec::new(),
                    given_back: SmallVec::new(),
                    needs_more: false,
                    failure: None,
                    open: None,
                    last: LastRequests::default(),
                };
                self.wanting.insert(acquisition, it);
            }
            What::Phase(Phase::AcquireBeforeSend) => {
                let Some(it) = self.wanting.get_mut(acquisition) else { return };
                it.attempts += 1;
                it.round_ns = at_ns;
                it.granted.clear();
            }
            What::Phase(Phase::AcquireBetween) => {
                let Some(it) = self.wanting.get_mut(acquisition) else { return };
                it.needs_more = true;
            }
            What::Fault { fault: Fault::Drift, .. } => self.drifting = true,
            What::Command { name, .. } => {
                let listens = seen.texts.get(name) == SUBSCRIBE;
                if listens {
                    self.subscribing.insert(seen.event.op);
                }
                let Some(it) = self.wanting.get_mut(acquisition) else { return };
                it.listens |= listens;
                let Some(command) = seen.command else {
                    it.needs_more |= WAITS.contains(&seen.texts.get(name));
                    return;
                };
                if asks(command.intent) {
                    it.open = Some(seen.event.op);
                    it.last.add(command.node, seen.event.op, false);
                }
                if frees(command.intent.touch) {
                    it.granted.retain(|node| *node != command.node);
                    it.given_back.retain(|(node, _)| *node != command.node);
                    it.given_back.push((command.node, seen.event.op));
                }
            }
            What::Acquired => _ = self.wanting.remove(acquisition),
            What::NotAcquired(why) | What::AcquireUnknown(why)
                if seen.texts.get(why).starts_with(DROPPED) =>
            {
                self.wanting.remove(acquisition);
            }
            What::NotAcquired(why) => {
                let not_sent = seen.texts.get(why).starts_with(NOT_SENT);
                let failure = not_sent.then_some(RequestFailure::NotSent);
                self.gives_up(acquisition, seen, failure);
            }
            What::AcquireUnknown(_) => self.gives_up(acquisition, seen, None),
            What::Refused(_) | What::Answered { .. } | What::Unanswered(_)
                if seen.command.is_some() =>
            {
                let Some(it) = self.wanting.get_mut(acquisition) else { return };
                let is_last = it.open == Some(seen.event.op);
                // What was sent before the last to the one server says nothing any more.
                let counts = is_last || servers(seen.head) != Some(1);
                if let Some(command) = seen.command.filter(|it| counts && asks(it.intent)) {
                    let lasts = |why| lasting(seen.texts.get(why)).is_some();
                    let is_final = matches!(what, What::Refused(why) if lasts(why));
                    it.last.add(command.node, seen.event.op, is_final);
                    it.open = it.open.filter(|_| !is_last);
                    it.failure = match what {
                        What::Refused(why) => {
                            passing(seen.texts.get(why)).map(RequestFailure::Refused)
                        }
                        What::Unanswered(_) => Some(RequestFailure::Unanswered),
                        _ => None,
                    };
                    self.tested |= it.failure.is_some();
                }
                let made = matches!(what, What::Answered { touch, .. } if makes(touch));
                let is_given_back = |node| {
                    it.given_back.iter().any(|(from, by)| *from == node && *by > seen.event.op)
                };
                if let Some(command) = seen.command.filter(|it| made && !frees(it.intent.touch))
                    && command.invoke_ns >= it.round_ns
                    && !is_given_back(command.node)
                    && !it.granted.contains(&command.node)
                {
                    it.granted.push(command.node);
                }
            }
            What::Refused(_) | What::Answered { .. } | What::Unanswered(_) => {
                let listened = self.subscribing.remove(&seen.event.op);
                let lasts = |why| lasting(seen.texts.get(why)).is_some();
                if listened && matches!(what, What::Refused(why) if lasts(why)) {
                    self.may_not_listen(client);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let vacuous = "every request was answered, and with no transient error";
        let verdict = verdict(self.first.take(), self.tested, vacuous);
        vec![Finding::new(NAME, Level::Progress, verdict)]
    }
}

/// Whether a command asks for the lock. What compares goes on from what was had before.
fn asks(intent: Intent) -> bool {
    makes(intent.touch) || (intent.touch == Touch::Unknown && !intent.compares)
}

impl Perseverance {
    /// Whether it knows that it has the lock, and for long enough.
    fn has_it(&self, it: &Tries, at_ns: u64, head: &Head) -> bool {
        let quorum = servers(head).is_some_and(|all| 2 * it.granted.len() > usize::from(all));
        let early = at_ns <= it.round_ns.saturating_add(head.ttl_ns / 2);
        quorum && early && !it.needs_more && !self.drifting
    }

    /// A client is refused for good where it would listen, for all of its tasks: none of them can go on.
    fn may_not_listen(&mut self, client: u32) {
        for (_, it) in self.wanting.iter_mut().filter(|(_, it)| it.client == client) {
            (it.failure, it.open) = (None, None);
        }
    }

    /// It ends without the lock; by this failure, as it says.
    fn gives_up(
        &mut self,
        acquisition: u32,
        seen: &EventView<'_>,
        failure: Option<RequestFailure>,
    ) {
        let Event { at_ns, client, .. } = *seen.event;
        let head = seen.head;
        let Some(it) = self.wanting.remove(acquisition) else { return };
        if self.has_it(&it, at_ns, head) {
            let summary = format!(
                "client {client} ended without the lock, though it had been granted {} before, for {}",
                rounded(at_ns.saturating_sub(it.round_ns)),
                rounded(head.ttl_ns)
            );
            return story::note(&mut self.first, summary, &[(acquisition, client)]);
        }
        if it.last.leave_no_quorum(servers(head).map_or(1, usize::from)) {
            return;
        }
        // Of several servers, nobody has to wait for all.
        let is_open = it.open.is_some() && servers(head) == Some(1);
        let unanswered = is_open.then_some(RequestFailure::Unanswered);
        self.tested |= unanswered.is_some() || failure.is_some();
        let Some(failure) = unanswered.or(failure).or(it.failure) else { return };
        let began_ns = it.began_ns;
        let tried_ns = at_ns.saturating_sub(began_ns);
        let used_up = it.listens && head.attempts_most.is_some_and(|most| it.attempts >= most);
        if tried_ns >= self.tries_for_ns || used_up {
            return;
        }
        let because = match failure {
            RequestFailure::Refused(error) => {
                format!("a server answered {}: that passes", error.name().to_uppercase())
            }
            RequestFailure::Unanswered => {
                "a request had no answer: another may have one".to_owned()
            }
            RequestFailure::NotSent => "it got no connection: there may be one later".to_owned(),
        };
        let summary = format!(
            "client {client} gave up {} after it had asked for the lock, because {because}, and its retries take {} \
             at least",
            rounded(tried_ns),
            rounded(self.tries_for_ns)
        );
        story::note(&mut self.first, summary, &[(acquisition, client)]);
    }
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
