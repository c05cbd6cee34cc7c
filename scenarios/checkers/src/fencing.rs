//! Fencing tokens: a client that gets the lock later has a greater one.
//!
//! Invariant: no two acquisitions are given the same token; and one that surely got the lock after
//! another one had been answered with yes has the greater token of the two. It surely did so where it
//! began only then, or where whatever it sent to make the lock's key before then surely made none.
//! Tokens that go back because a server lost its memory have gone back all the same.

use std::cmp::{max_by_key, min_by_key};
use std::collections::hash_map::Entry;

use history::verdict::{Finding, Level, Verdict, Witness};
use history::{CommandOp, Event, Head, Recent, Touch, What};
use rustc_hash::FxHashMap;

use super::interface::{Checker, EventView, HistoryEnd, makes};
use super::story;

/// An acquisition that was answered with yes, and its token.
#[derive(Clone, Copy, Debug)]
struct Grant {
    token: u64,
    acquisition: u32,
    client: u32,
    at_ns: u64,
}

/// An acquisition under way.
#[derive(Clone, Copy, Debug, Default)]
struct PendingGrant {
    token: Option<u64>,
    /// The greatest grant when it began.
    begun: Option<Grant>,
    /// The greatest grant when the first of the commands was sent that may have made the key for it;
    /// nothing where there is no such command.
    made: Option<Option<Grant>>,
    /// When it was answered with yes, if its token is told only after that.
    granted_ns: Option<u64>,
}

/// The tokens that have been handed out.
#[derive(Default)]
struct Fencing {
    greatest: Option<Grant>,
    /// Acquisitions under way of which there is anything to say.
    asking: Recent<PendingGrant>,
    /// Commands under way that may make the key: the acquisition, and the greatest grant when each was sent, if any.
    sent: Recent<(u32, Option<Grant>)>,
    /// Whose each token is: the acquisition, and the client.
    owners: FxHashMap<u64, (u32, u32)>,
    /// The last server that lost its memory, and when.
    lost: Option<(u16, u64)>,
    first: Option<Witness>,
}

pub(super) fn checker(_: &Head) -> Option<Box<dyn Checker>> {
    Some(Box::new(Fencing::default()))
}

impl Checker for Fencing {
    fn see(&mut self, seen: &EventView<'_>) {
        let event = seen.event;
        let acquisition = event.acquisition;
        let may_make = |touch| makes(touch) || touch == Touch::Unknown;
        if let Some(command) = seen.command.filter(|it| may_make(it.intent.touch)) {
            self.asked(event, command);
        }
        match event.what {
            What::Fault { fault, node: Some(node), .. } if fault.loses_keys() => {
                self.lost = Some((node, event.at_ns));
            }
            What::Acquire if self.greatest.is_some() => {
                let asking = PendingGrant { begun: self.greatest, ..PendingGrant::default() };
                self.asking.insert(acquisition, asking);
            }
            What::Fence(token) => {
                self.handed_out(token, event);
                let asking = self.asking.entry(acquisition);
                asking.token = Some(token);
                if let Some(at_ns) = asking.granted_ns {
                    let asking = *asking;
                    self.asking.remove(acquisition);
                    self.granted(at_ns, event, asking);
                }
            }
            What::Acquired => {
                let asking = self.asking.remove(acquisition).unwrap_or_default();
                if asking.token.is_some() {
                    self.granted(event.at_ns, event, asking);
                } else {
                    let granted_ns = Some(event.at_ns);
                    self.asking.insert(acquisition, PendingGrant { granted_ns, ..asking });
                }
            }
            What::NotAcquired(_) | What::AcquireUnknown(_) | What::Release | What::Lost => {
                self.asking.remove(acquisition);
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &HistoryEnd<'_>) -> Vec<Finding> {
        let verdict = match self.first.take() {
            Some(witness) => Verdict::Violated(witness),
            None if self.owners.is_empty() => {
                Verdict::NotApplicable("no fencing token was handed out".to_owned())
            }
            None => Verdict::Held,
        };
        vec![Finding::new("rising-tokens", Level::Effect, verdict)]
    }
}

impl Fencing {
    /// A command is sent that may make the lock's key, or has ended.
    fn asked(&mut self, event: &Event, command: &CommandOp) {
        let may_have_made = match event.what {
            What::Answered { touch: Touch::None, .. } | What::Refused(_) => false,
            What::Answered { .. } | What::Unanswered(_) => true,
            _ => {
                self.sent.insert(event.op, (command.acquisition, self.greatest));
                return;
            }
        };
        let greatest = self.sent.remove(event.op).and_then(|(_, greatest)| greatest);
        if may_have_made {
            let made = &mut self.asking.entry(command.acquisition).made;
            *made = Some(made.map_or(greatest, |made| min_by_key(made, greatest, token_of)));
        }
    }

    fn handed_out(&mut self, token: u64, event: &Event) {
        let Event { acquisition, client, .. } = *event;
        let other = match self.owners.entry(token) {
            Entry::Vacant(place) => {
                place.insert((acquisition, client));
                return;
            }
            Entry::Occupied(place) => *place.get(),
        };
        if other.0 != acquisition {
            let summary = match other.1 {
                it if it == client => format!("client {client} was given token {token} twice"),
                it => format!("client {it} and client {client} were both given token {token}"),
            };
            story::note(&mut self.first, summary, &[other, (acquisition, client)]);
        }
    }

    fn granted(&mut self, at_ns: u64, event: &Event, asking: PendingGrant) {
        let Event { client, acquisition, .. } = *event;
        let Some(token) = asking.token else { return };
        if self.greatest.is_some_and(|it| it.token > token) {
            self.fell(token, event, asking);
        }
        let grant = Grant { token, acquisition, client, at_ns };
        self.greatest =
            Some(self.greatest.map_or(grant, |it| max_by_key(grant, it, |it| it.token)));
    }

    /// It got the lock with a token that is not the greatest so far.
    fn fell(&mut self, token: u64, event: &Event, asking: PendingGrant) {
        let Event { client, acquisition, .. } = *event;
        // What has no answer yet may have made the key, too.
        let unanswered = self.sent.iter().filter(|(_, it)| it.0 == acquisition).map(|(_, it)| it.1);
        let made = asking.made.into_iter().chain(unanswered).min_by_key(token_of);
        let before = made.unwrap_or(asking.begun).filter(|it| it.token > token);
        let Some(before) = before else { return };
        let since = match self.lost {
            Some((node, lost_ns)) if lost_ns >= before.at_ns => {
                format!(": in between, server {node} lost its memory")
            }
            _ => String::new(),
        };
        let summary = format!(
            "client {client} got the lock with token {token} after client {} had got it with token {}{since}",
            before.client, before.token
        );
        let of = [(before.acquisition, before.client), (acquisition, client)];
        story::note(&mut self.first, summary, &of);
    }
}

fn token_of(grant: &Option<Grant>) -> Option<u64> {
    grant.map(|it| it.token)
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
