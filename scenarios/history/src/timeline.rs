//! A history seen by acquisition and by command: what checkers and reports look at.
//!
//! Invariant: everything here follows from the events alone; an operation without an end is one of
//! unknown outcome.

use rustc_hash::FxHashMap;

use super::event::{Answer, Event, Intent, Touch, Update, What};
use super::text::Text;
use super::{History, Recent};
use crate::fault::Fault;

/// A history by acquisition and command.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Every acquisition, in the order in which they began.
    pub acquisitions: Vec<Acquisition>,
    /// Every command, in the order in which they were sent.
    pub commands: Vec<CommandOp>,
    /// What the register held at the end, and when that was read.
    pub register_left: Option<(u64, i64)>,
    /// The index of each acquisition, by its number.
    places: FxHashMap<u32, usize>,
}

/// One client's attempt to get the lock, retries included, and what it did with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acquisition {
    /// Its number, from 1.
    pub number: u32,
    /// Its client.
    pub client: u32,
    /// When it began.
    pub invoke_ns: u64,
    /// When and how it ended.
    pub end: Option<(u64, AcquireEnd)>,
    /// When its client learnt that the lock was lost.
    pub lost_ns: Option<u64>,
    /// When its client died.
    pub crashed_ns: Option<u64>,
    /// When its release began.
    pub release_ns: Option<u64>,
    /// When and how the release ended.
    pub released: Option<(u64, ReleaseEnd)>,
    /// What it did to the register, in the order in which it began.
    pub updates: Vec<UpdateOp>,
}

/// One update of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateOp {
    /// Its operation.
    pub op: u32,
    /// When it began.
    pub invoke_ns: u64,
    /// When and how it ended.
    pub end: Option<(u64, UpdateEnd)>,
}

/// How an update of the register ended. Of one without an end nobody knows what it read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateEnd {
    /// It was carried out.
    Ok(Update),
    /// It certainly wrote nothing, for this reason.
    Fail(Text),
    /// It is unknown whether it wrote.
    Info(Update),
}

/// How an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireEnd {
    /// It got the lock.
    Ok,
    /// It certainly did not get the lock, for this reason.
    Fail(Text),
    /// It does not know.
    Info(Text),
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseEnd {
    /// It had this answer.
    Ok(Text),
    /// It does not know.
    Info(Text),
}

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandOp {
    /// Whose.
    pub client: u32,
    /// Its acquisition; 0 for none.
    pub acquisition: u32,
    /// Its server.
    pub node: u16,
    /// Its name.
    pub name: Text,
    /// Its first key.
    pub key: Text,
    /// What it would do to its key.
    pub intent: Intent,
    /// When it was sent.
    pub invoke_ns: u64,
    /// The time and effect of its answer; `None` if its outcome is unknown.
    pub answer: Option<(u64, Touch, Answer)>,
    /// Whether the server refused it: then it did nothing.
    pub refused: bool,
}

impl CommandOp {
    /// The command that this event sends, without an answer yet; none if it sends none.
    pub fn sent(event: &Event) -> Option<Self> {
        let Event { at_ns: invoke_ns, client, acquisition, .. } = *event;
        let What::Command { node, name, key, intent } = event.what else { return None };
        let (answer, refused) = (None, false);
        Some(Self { client, acquisition, node, name, key, intent, invoke_ns, answer, refused })
    }

    /// What it certainly did, and the time by which it had.
    pub fn done(&self) -> Option<(u64, Touch)> {
        self.answer.map(|(at_ns, touch, _)| (at_ns, touch))
    }
}

impl Acquisition {
    /// When it was answered with yes.
    pub fn acquired_ns(&self) -> Option<u64> {
        match self.end {
            Some((at_ns, AcquireEnd::Ok)) => Some(at_ns),
            _ => None,
        }
    }

    fn end_update(&mut self, op: u32, at_ns: u64, end: UpdateEnd) {
        if let Some(update) = self.updates.iter_mut().rfind(|it| it.op == op) {
            update.end = Some((at_ns, end));
        }
    }
}

impl Timeline {
    /// Sorts a history by acquisition and command.
    pub fn of(history: &History) -> Self {
        let mut timeline = Self::default();
        // At most a third of all events is the sending of a command, as a rule.
        timeline.commands.reserve(history.events.len() / 3);
        let mut open = Recent::default();
        for event in &history.events {
            match event.what {
                What::Command { .. } => {
                    open.insert(event.op, timeline.commands.len());
                    timeline.commands.extend(CommandOp::sent(event));
                }
                What::Answered { touch, answer, .. } => {
                    if let Some(place) = open.remove(event.op) {
                        timeline.commands[place].answer = Some((event.at_ns, touch, answer));
                    }
                }
                What::Refused(_) => {
                    if let Some(place) = open.remove(event.op) {
                        timeline.commands[place].refused = true;
                    }
                }
                What::RegisterLeft(left) => timeline.register_left = Some((event.at_ns, left)),
                What::Fault { fault: Fault::Crash, .. } => timeline.crashed(event),
                What::Unanswered(_) => _ = open.remove(event.op),
                What::Phase(_) => {}
                _ if event.acquisition == 0 => {}
                _ => timeline.of_acquisition(event),
            }
        }
        timeline
    }

    fn crashed(&mut self, event: &Event) {
        let theirs = self.acquisitions.iter_mut().filter(|it| it.client == event.client);
        theirs.for_each(|it| it.crashed_ns = it.crashed_ns.or(Some(event.at_ns)));
    }

    fn of_acquisition(&mut self, event: &Event) {
        let at_ns = event.at_ns;
        if event.what == What::Acquire {
            self.places.insert(event.acquisition, self.acquisitions.len());
            self.acquisitions.push(Acquisition {
                number: event.acquisition,
                client: event.client,
                invoke_ns: at_ns,
                ..Acquisition::default()
            });
            return;
        }
        let place = self.places.get(&event.acquisition).copied();
        let Some(acquisition) = place.map(|place| &mut self.acquisitions[place]) else { return };
        match event.what {
            What::Acquired => acquisition.end = Some((at_ns, AcquireEnd::Ok)),
            What::NotAcquired(why) => acquisition.end = Some((at_ns, AcquireEnd::Fail(why))),
            What::AcquireUnknown(why) => acquisition.end = Some((at_ns, AcquireEnd::Info(why))),
            What::Lost => acquisition.lost_ns = acquisition.lost_ns.or(Some(at_ns)),
            What::Release => acquisition.release_ns = Some(at_ns),
            What::Released(outcome) => {
                acquisition.released = Some((at_ns, ReleaseEnd::Ok(outcome)));
            }
            What::ReleaseUnknown(why) => {
                acquisition.released = Some((at_ns, ReleaseEnd::Info(why)));
            }
            What::Update => {
                let (op, invoke_ns) = (event.op, at_ns);
                acquisition.updates.push(UpdateOp { op, invoke_ns, end: None });
            }
            What::Updated(update) => {
                acquisition.end_update(event.op, at_ns, UpdateEnd::Ok(update));
            }
            What::NotUpdated(why) => acquisition.end_update(event.op, at_ns, UpdateEnd::Fail(why)),
            What::UpdateUnknown { update, .. } => {
                acquisition.end_update(event.op, at_ns, UpdateEnd::Info(update));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
