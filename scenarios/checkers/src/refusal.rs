//! Refusals: why acquisitions did not get the lock, and who was refused though surely nobody had it.
//!
//! Invariant: a refusal is blamed only where nobody can have had the lock from when the last command that asked for
//! it was sent until it was answered. A client that made the key, or may have, counts as having the lock until its
//! release is answered. Once that is not known, or the lock was handed over, nobody is blamed any more.

use history::words::NOT_SENT;
use history::{CommandOp, Event, Head, Recent, Touch, What};
use rustc_hash::FxHashSet;

use super::interface::{EventView, HistoryEnd, servers};
use super::last_requests::LastRequests;

/// What became of the last request for the lock that an acquisition has sent to a server.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum LastRequest {
    #[default]
    Open,
    /// It was sent at this time, was answered, and had no effect.
    InVain(u64),
    /// It was answered with an error.
    Refused,
}

/// An acquisition under way.
#[derive(Clone)]
struct PendingAttempt {
    began_ns: u64,
    asked: LastRequests<LastRequest>,
    /// When it sent the first.
    sent_ns: Option<u64>,
    made: bool,
}

/// A client that was refused though nobody had the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blamed {
    pub(super) client: u32,
    pub(super) acquisition: u32,
    /// Since when nobody had it.
    pub(super) free_ns: u64,
    pub(super) refused_ns: u64,
}

/// Why acquisitions did not get the lock.
#[derive(Clone, Default)]
pub(super) struct Refusals {
    asking: Recent<PendingAttempt>,
    /// Who has the lock, or may have it.
    having: FxHashSet<u32>,
    /// Since when nobody has had it; none from the beginning.
    free_ns: Option<u64>,
    /// Nobody knows any more whether it is free.
    unsure: bool,
    /// In the order in which they were refused.
    blamed: Vec<Blamed>,
    /// Refused while others had the lock, or may have had it; those that are blamed included.
    pub(super) gave_up: u64,
    /// Whose outcome is not known.
    pub(super) unknown: u64,
    /// That could not ask.
    pub(super) unsent: u64,
}

impl PendingAttempt {
    /// Whether its last requests were all sent after this, and answered and without effect.
    fn asked_in_vain(&self, after_ns: Option<u64>) -> bool {
        let in_vain = |asked| matches!(asked, LastRequest::InVain(at_ns) if Some(at_ns) > after_ns);
        let mut asked = self.asked.became();
        asked.len() > 0 && asked.all(in_vain)
    }

    /// Whether it was errors that kept it from a quorum.
    fn could_not_ask(&self, head: &Head) -> bool {
        let asked = || self.asked.became();
        let all = servers(head).map_or(asked().len(), usize::from);
        let answered = asked().filter(|it| matches!(it, LastRequest::InVain(_))).count();
        let refused = asked().any(|it| it == LastRequest::Refused);
        refused && 2 * all.saturating_sub(answered) > all
    }
}

impl Refusals {
    pub(super) fn see(&mut self, seen: &EventView<'_>) {
        let EventView { event, head, texts, .. } = *seen;
        let Event { at_ns, client, acquisition, .. } = *event;
        match event.what {
            What::Acquire => {
                let asked = LastRequests::default();
                let asking = PendingAttempt { began_ns: at_ns, asked, sent_ns: None, made: false };
                self.asking.insert(acquisition, asking);
            }
            What::Command { node, .. } if seen.sends_on_key => {
                if let Some(it) = self.asking.get_mut(acquisition) {
                    it.sent_ns.get_or_insert(at_ns);
                    // Who only reads does not ask for the lock: what it finds free may just have become so.
                    if seen.command.is_some() {
                        it.asked.add(node, event.op, LastRequest::Open);
                    }
                }
            }
            What::Answered { touch, .. } => {
                if let Some(command) = seen.command {
                    self.answered(event.op, command, touch);
                }
            }
            What::Unanswered(_) => {
                if let Some(command) = seen.command {
                    self.lose_track(command.invoke_ns);
                }
            }
            What::Refused(_) => {
                if let Some(command) = seen.command
                    && let Some(it) = self.asking.get_mut(command.acquisition)
                {
                    it.asked.add(command.node, event.op, LastRequest::Refused);
                }
            }
            What::Acquired => {
                if let Some(it) = self.asking.remove(acquisition)
                    && !it.made
                {
                    self.has(acquisition, it.sent_ns.unwrap_or(it.began_ns));
                }
            }
            What::AcquireUnknown(_) => {
                self.unknown += 1;
                let asking = self.asking.remove(acquisition);
                self.lose_track(asking.map_or(0, |it| it.sent_ns.unwrap_or(it.began_ns)));
            }
            What::NotAcquired(why) => {
                let Some(it) = self.asking.remove(acquisition) else { return };
                if it.sent_ns.is_none() || texts.get(why).starts_with(NOT_SENT) {
                    self.unsent += 1;
                    return;
                }
                if it.could_not_ask(head) {
                    self.unsent += 1;
                } else {
                    self.gave_up += 1;
                }
                self.refused(&it, Blamed { client, acquisition, free_ns: 0, refused_ns: at_ns });
            }
            What::Released(_) => self.gives_back(acquisition, at_ns),
            What::ReleaseUnknown(_) => self.lose_track(at_ns),
            _ => {}
        }
    }

    fn gives_back(&mut self, acquisition: u32, at_ns: u64) {
        if self.having.remove(&acquisition) && self.having.is_empty() {
            self.free_ns = Some(at_ns);
        }
    }

    fn answered(&mut self, op: u32, command: &CommandOp, touch: Touch) {
        let CommandOp { acquisition: whose, node, invoke_ns: sent_ns, .. } = *command;
        match touch {
            Touch::Create(_) | Touch::Overwrite(_) => {
                match self.asking.get_mut(whose) {
                    Some(it) => it.made = true,
                    // Made again by who has it already, or behind its back.
                    None if self.having.contains(&whose) => {}
                    None => return self.lose_track(sent_ns),
                }
                self.has(whose, sent_ns);
            }
            // What a lock that is handed over does is told by its own commands alone.
            Touch::Unknown => self.lose_track(sent_ns),
            Touch::None => {
                if let Some(it) = self.asking.get_mut(whose) {
                    it.asked.add(node, op, LastRequest::InVain(sent_ns));
                }
            }
            Touch::Delete | Touch::Extend(_) => {}
        }
    }

    fn refused(&mut self, it: &PendingAttempt, blamed: Blamed) {
        if it.made {
            // It gives back what it made, and nobody says when that is done.
            return self.lose_track(it.sent_ns.unwrap_or(it.began_ns));
        }
        let free = !self.unsure && self.having.is_empty();
        if free && it.asked_in_vain(self.free_ns) {
            self.blamed.push(Blamed { free_ns: self.free_ns.unwrap_or(0), ..blamed });
        }
    }

    /// Somebody has the lock, perhaps since then.
    fn has(&mut self, acquisition: u32, from_ns: u64) {
        self.having.insert(acquisition);
        self.excuse(from_ns);
    }

    /// From then on nobody knows who has it.
    fn lose_track(&mut self, from_ns: u64) {
        self.unsure = true;
        self.excuse(from_ns);
    }

    fn excuse(&mut self, from_ns: u64) {
        let kept = self.blamed.partition_point(|it| it.refused_ns < from_ns);
        self.blamed.truncate(kept);
    }

    /// The first that was refused though nobody had the lock, and how many there were.
    pub(super) fn blamed(&self, end: &HistoryEnd<'_>) -> Option<(Blamed, u64)> {
        // What is still under way may have made the key.
        let open_ns = end.unended.iter().map(|(_, it)| it.invoke_ns).min().unwrap_or(u64::MAX);
        let sure = self.blamed.iter().filter(|it| it.refused_ns < open_ns);
        Some((*sure.clone().next()?, sure.count() as u64))
    }
}

#[cfg(test)]
mod tests;
