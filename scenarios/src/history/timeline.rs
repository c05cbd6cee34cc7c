//! A history seen by acquisition and by command: what checkers and reports look at.
//!
//! Invariant: everything here follows from the events alone; an operation without an end is one of
//! unknown outcome.

use rustc_hash::FxHashMap;

use super::History;
use super::event::{Answer, Event, Intent, Touch, Update, What};
use super::text::Text;
use crate::fault::Fault;

/// A history, sorted out.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Every acquisition, in the order in which they began.
    pub acquisitions: Vec<Acquisition>,
    /// Every command, in the order in which they were sent.
    pub commands: Vec<CommandOp>,
    /// What the pool held at the end, and when that was read.
    pub pool_left: Option<(u64, i64)>,
    /// What the register held at the end, and when that was read.
    pub register_left: Option<(u64, i64)>,
    /// What the looks at the lock's key showed after the last client had done.
    pub probes: Vec<(u64, i64)>,
    /// Whether any fault struck.
    pub faulted: bool,
    /// When servers may have lost keys that they had granted.
    pub losses: Vec<Loss>,
    /// The time of the last event.
    pub end_ns: u64,
    /// Where each acquisition stands, by number.
    places: FxHashMap<u32, usize>,
}

/// One client's attempt to get the lock, retries included, and what it did with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acquisition {
    /// Its number, from 1.
    pub number: u32,
    /// Whose.
    pub client: u32,
    /// When it began.
    pub invoke_ns: u64,
    /// When and how it ended.
    pub end: Option<(u64, AcquireEnd)>,
    /// Until when it could be relied on: when that became known, and that time.
    pub validity: Vec<(u64, u64)>,
    /// Its fencing token, where it was given one.
    pub fence: Option<u64>,
    /// When its client learnt that the lock was lost.
    pub lost_ns: Option<u64>,
    /// When its client died.
    pub crashed_ns: Option<u64>,
    /// When its release began.
    pub release_ns: Option<u64>,
    /// When and how the release ended.
    pub released: Option<(u64, ReleaseEnd)>,
    /// When its client began to take a prize.
    pub take_ns: Option<u64>,
    /// When and how that ended.
    pub taken: Option<(u64, TakeEnd)>,
    /// What it did to the register, in the order in which it began.
    pub updates: Vec<UpdateOp>,
}

/// One update of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateOp {
    /// Which operation it is.
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
    /// It surely wrote nothing, for this reason.
    Fail(Text),
    /// Nobody knows whether it wrote.
    Info(Update),
}

/// A server has lost its memory, and perhaps what it had granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which, as clients name it.
    pub node: u16,
    /// From when on.
    pub from_ns: u64,
    /// Until it, or the one that took its place, could be used again.
    pub until_ns: u64,
}

/// How an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireEnd {
    /// It got the lock.
    Ok,
    /// It surely did not, for this reason.
    Fail(Text),
    /// It does not know.
    Info(Text),
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseEnd {
    /// It was answered so.
    Ok(Text),
    /// It does not know.
    Info(Text),
}

/// How taking a prize ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeEnd {
    /// With this prize, and so many left.
    Ok {
        /// The value read.
        prize: i64,
        /// What the decrement left.
        left: i64,
    },
    /// Surely without one, for this reason.
    Fail(Text),
    /// Having read this value, it does not know.
    Info {
        /// The value read.
        prize: i64,
    },
}

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandOp {
    /// Whose.
    pub client: u32,
    /// Of which acquisition; 0 for none.
    pub acquisition: u32,
    /// To which server.
    pub node: u16,
    /// Its name.
    pub name: Text,
    /// Its first key.
    pub key: Text,
    /// What it would do.
    pub intent: Intent,
    /// When it was sent.
    pub invoke_ns: u64,
    /// When and with what it was answered; `None` where its outcome is unknown.
    pub answer: Option<(u64, Touch, Answer)>,
    /// True where the server refused it: it surely did nothing.
    pub refused: bool,
}

impl CommandOp {
    /// What it surely did, and the time by which it had.
    pub fn done(&self) -> Option<(u64, Touch)> {
        self.answer.map(|(at_ns, touch, _)| (at_ns, touch))
    }

    /// True where nobody can say whether it was carried out.
    pub fn is_open(&self) -> bool {
        self.answer.is_none() && !self.refused
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

/// Where the commands stand that have not ended. Operations are numbered one by one as a rule, and
/// then found by their number; a history from elsewhere may number them as it likes.
#[derive(Default)]
struct OpenIndex {
    near: Vec<u32>,
    far: FxHashMap<u32, usize>,
}

impl OpenIndex {
    /// No command.
    const NONE: u32 = u32::MAX;
    /// By how much a number may be ahead of the greatest before.
    const AHEAD: usize = 1024;

    fn insert(&mut self, op: u32, place: usize) {
        let near = op as usize;
        match u32::try_from(place) {
            Ok(place) if place != Self::NONE && near < self.near.len() + Self::AHEAD => {
                if self.near.len() <= near {
                    self.near.resize(near + 1, Self::NONE);
                }
                self.near[near] = place;
                self.far.remove(&op);
            }
            _ => {
                self.far.insert(op, place);
            }
        }
    }

    fn remove(&mut self, op: u32) -> Option<usize> {
        match self.near.get_mut(op as usize) {
            Some(place) if *place != Self::NONE => {
                let place = std::mem::replace(place, Self::NONE);
                usize::try_from(place).ok()
            }
            _ => self.far.remove(&op),
        }
    }
}

impl Timeline {
    /// Sorts a history out.
    pub fn of(history: &History) -> Self {
        let mut timeline = Self::default();
        // At most a third of all events is the sending of a command, as a rule.
        timeline.commands.reserve(history.events.len() / 3);
        let mut open = OpenIndex::default();
        for event in &history.events {
            timeline.end_ns = event.at_ns;
            match event.what {
                What::Command { node, name, key, intent } => {
                    open.insert(event.op, timeline.commands.len());
                    timeline.commands.push(CommandOp {
                        client: event.client,
                        acquisition: event.acquisition,
                        node,
                        name,
                        key,
                        intent,
                        invoke_ns: event.at_ns,
                        answer: None,
                        refused: false,
                    });
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
                What::PoolLeft(left) => timeline.pool_left = Some((event.at_ns, left)),
                What::RegisterLeft(left) => timeline.register_left = Some((event.at_ns, left)),
                What::Probe(pttl_ms) => timeline.probes.push((event.at_ns, pttl_ms)),
                What::Fault { fault, node, for_ns, .. } => {
                    timeline.struck(event, fault, node, for_ns);
                }
                What::Unanswered(_) | What::Phase(_) => {}
                _ if event.acquisition == 0 => {}
                _ => timeline.of_acquisition(event),
            }
        }
        timeline
    }

    fn struck(&mut self, event: &Event, fault: Fault, node: Option<u16>, for_ns: u64) {
        self.faulted = true;
        if let Some(node) = node.filter(|_| fault.loses_keys()) {
            let (from_ns, until_ns) = (event.at_ns, event.at_ns.saturating_add(for_ns));
            self.losses.push(Loss { node, from_ns, until_ns });
        }
        if fault == Fault::Crash {
            let theirs = self.acquisitions.iter_mut().filter(|it| it.client == event.client);
            theirs.for_each(|it| it.crashed_ns = it.crashed_ns.or(Some(event.at_ns)));
        }
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
            What::ValidUntil(until_ns) => acquisition.validity.push((at_ns, until_ns)),
            What::Fence(token) => acquisition.fence = Some(token),
            What::Lost => acquisition.lost_ns = acquisition.lost_ns.or(Some(at_ns)),
            What::Release => acquisition.release_ns = Some(at_ns),
            What::Released(outcome) => {
                acquisition.released = Some((at_ns, ReleaseEnd::Ok(outcome)));
            }
            What::ReleaseUnknown(why) => {
                acquisition.released = Some((at_ns, ReleaseEnd::Info(why)));
            }
            What::Take => acquisition.take_ns = Some(at_ns),
            What::Taken { prize, left } => {
                acquisition.taken = Some((at_ns, TakeEnd::Ok { prize, left }));
            }
            What::NotTaken(why) => acquisition.taken = Some((at_ns, TakeEnd::Fail(why))),
            What::TakeUnknown { prize, .. } => {
                acquisition.taken = Some((at_ns, TakeEnd::Info { prize }));
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

    /// The acquisition of this number.
    pub fn acquisition(&self, number: u32) -> Option<&Acquisition> {
        self.places.get(&number).map(|place| &self.acquisitions[*place])
    }
}

#[cfg(test)]
mod tests;
