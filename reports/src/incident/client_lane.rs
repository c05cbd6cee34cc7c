//! The lane of a client: it waits, holds, works and releases, stands still, is cut off, dies.
//!
//! Invariant: a hold lasts as long as the checker of mutual exclusion takes its client to believe in it: until the release
//! begins, the loss is known or the client dies; behind the end of a validity it only overstays.

use std::collections::BTreeMap;

use history::fault::Fault;
use history::{Event, What, words};
use scenarios::span::rounded;

use super::facts::{IncidentFacts, text};
use super::layout::{Bar, BarKind, IncidentLane, LaneMark, LaneOwner, MarkKind};
use super::message::error_code;
use super::resource;

/// How it begins what a lock says of a release without an answer, and of one that a server has refused.
const UNANSWERED: &str = "outcome unknown";
const REFUSED: &str = "refused by the server: ";

/// From when to when a client believed that it held the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrawnHold {
    pub(super) acquisition: u32,
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
}

/// An acquisition of this client, as far as it is drawn.
#[derive(Clone, Copy, Debug, Default)]
struct DrawnAttempt {
    asked_ns: u64,
    acquired_ns: Option<u64>,
    valid_ns: Option<u64>,
    /// When it ceased to hold, or to want the lock.
    ended_ns: Option<u64>,
    releases_ns: Option<u64>,
    released_ns: Option<u64>,
}

/// The lane of this client, and when it held the lock.
pub(super) fn lane(facts: &IncidentFacts<'_>, client: u32) -> (IncidentLane, Vec<DrawnHold>) {
    let mut lane =
        ClientLane { facts, client, bars: Vec::new(), marks: Vec::new(), holds: Vec::new() };
    let mut attempts: BTreeMap<u32, DrawnAttempt> = BTreeMap::new();
    for event in facts.history.events.iter().filter(|it| it.client == client) {
        lane.attempted(&mut attempts, event);
        if let What::Fault { fault, for_ns, .. } = event.what {
            if fault == Fault::Crash {
                for it in attempts.values_mut() {
                    it.ended_ns = it.ended_ns.or(Some(event.at_ns));
                    it.released_ns = it.released_ns.or(Some(event.at_ns));
                }
            }
            lane.struck(fault, event.at_ns, for_ns);
        }
    }
    for (acquisition, attempt) in &attempts {
        lane.attempt(*acquisition, attempt);
    }
    lane.marks.extend(resource::marks(facts, client));
    lane.bars.sort_by_key(|it| (it.kind, it.from_ns));
    lane.marks.sort_by_key(|it| (it.at_ns, it.kind));
    let ClientLane { bars, marks, holds, .. } = lane;
    (IncidentLane { owner: LaneOwner::Client(client), bars, marks }, holds)
}

/// Why a client does not know what came of its release.
fn release_unknown(why: &str) -> String {
    if why.starts_with(UNANSWERED) {
        return "release: no answer".to_owned();
    }
    let Some(error) = why.strip_prefix(REFUSED) else { return why.to_owned() };
    format!("release fails: {}", error_code(error).unwrap_or(error))
}

/// The lane as it is put together.
struct ClientLane<'a> {
    facts: &'a IncidentFacts<'a>,
    client: u32,
    bars: Vec<Bar>,
    marks: Vec<LaneMark>,
    holds: Vec<DrawnHold>,
}

impl ClientLane<'_> {
    fn attempted(&mut self, attempts: &mut BTreeMap<u32, DrawnAttempt>, event: &Event) {
        let at_ns = event.at_ns;
        if event.what == What::Acquire {
            attempts.insert(
                event.acquisition,
                DrawnAttempt { asked_ns: at_ns, ..DrawnAttempt::default() },
            );
        }
        let Some(it) = attempts.get_mut(&event.acquisition) else { return };
        match event.what {
            What::Acquired => it.acquired_ns = Some(at_ns),
            What::ValidUntil(until_ns) if it.ended_ns.is_none() => {
                let is_late =
                    it.acquired_ns.is_some() && it.valid_ns.is_some_and(|known| known <= at_ns);
                if !is_late {
                    it.valid_ns = it.valid_ns.max(Some(until_ns));
                }
            }
            What::Lost => {
                it.ended_ns = it.ended_ns.or(Some(at_ns));
                self.says(at_ns, "learns: lock lost".to_owned());
            }
            What::NotAcquired(why) => {
                it.ended_ns = Some(at_ns);
                let why = text(self.facts.history.text(why));
                self.says(at_ns, format!("gives up, told: {why}"));
            }
            What::AcquireUnknown(_) => {
                it.ended_ns = Some(at_ns);
                self.says(at_ns, "gives up, not knowing if it has the lock".to_owned());
            }
            What::Fence(token) => self.says(at_ns, format!("given token {token}")),
            What::Release => {
                it.ended_ns = it.ended_ns.or(Some(at_ns));
                it.releases_ns = Some(at_ns);
            }
            What::Released(outcome) => {
                it.released_ns = Some(at_ns);
                let outcome = self.facts.history.text(outcome);
                if outcome != words::RELEASED && self.facts.history.head.locks {
                    self.says(at_ns, format!("told: {}", text(outcome)));
                }
            }
            What::ReleaseUnknown(why) => {
                it.released_ns = Some(at_ns);
                let why = text(self.facts.history.text(why));
                self.says(at_ns, release_unknown(&why));
            }
            _ => {}
        }
    }

    /// What an acquisition looks like.
    fn attempt(&mut self, acquisition: u32, it: &DrawnAttempt) {
        let head = &self.facts.history.head;
        let last_ns = self.facts.history.events.last().map_or(0, |it| it.at_ns);
        let ended_ns = it.ended_ns.unwrap_or(last_ns);
        if head.locks {
            let until_ns = it.acquired_ns.unwrap_or(ended_ns);
            self.bar(BarKind::Waits, it.asked_ns, until_ns, ["waits".to_owned(), String::new()]);
        }
        let Some(from_ns) = it.acquired_ns else { return };
        // A lock that keeps a validity and never said it may be relied on for no time.
        let valid_ns = if head.tracked { it.valid_ns.unwrap_or(from_ns) } else { u64::MAX };
        let until_ns = ended_ns.min(valid_ns).max(from_ns);
        self.holds.push(DrawnHold { acquisition, from_ns, until_ns });
        let did = if head.locks { "holds" } else { "at work" };
        let long = format!("{did} {}", rounded(until_ns - from_ns));
        self.bar(BarKind::Holds, from_ns, until_ns, [long, did.to_owned()]);
        if until_ns < ended_ns {
            let texts = ["validity is over".to_owned(), "not valid".to_owned()];
            self.bar(BarKind::Overstays, until_ns, ended_ns, texts);
            self.mark(until_ns, MarkKind::Ends, "validity ends".to_owned());
        }
        if let Some(releases_ns) = it.releases_ns.filter(|_| head.locks) {
            let until_ns = it.released_ns.unwrap_or(last_ns);
            let texts = ["releases".to_owned(), String::new()];
            self.bar(BarKind::Releases, releases_ns, until_ns, texts);
        }
    }

    /// What a fault does to this client. What it does to messages shows at their arrows.
    fn struck(&mut self, fault: Fault, at_ns: u64, for_ns: u64) {
        let next_ns = || {
            let stopped = self
                .facts
                .exchanges
                .iter()
                .find(|it| it.is_stopped && (it.client, it.sent_ns) == (self.client, at_ns));
            let next_ns = || self.facts.next_of_ns(self.client, at_ns);
            stopped.map(|it| it.left_ns).or_else(next_ns).unwrap_or(u64::MAX)
        };
        let until_ns = if for_ns > 0 { at_ns.saturating_add(for_ns) } else { next_ns() };
        let lasts = |what: &str| {
            let lasts = format!("{what} {}", rounded(until_ns.saturating_sub(at_ns)));
            [if until_ns == u64::MAX { what.to_owned() } else { lasts }, what.to_owned()]
        };
        match fault {
            Fault::Pause => self.bar(BarKind::Stands, at_ns, until_ns, lasts("stands still")),
            // Who is cut off acts all the same, so nothing says until when.
            Fault::Partition if for_ns == 0 => self.fault(at_ns, "is cut off".to_owned()),
            Fault::Partition => self.bar(BarKind::CutOff, at_ns, until_ns, lasts("cut off")),
            Fault::Crash => {
                let until_ns = if for_ns > 0 { until_ns } else { u64::MAX };
                self.bar(BarKind::Dead, at_ns, until_ns, ["dead".to_owned(), String::new()]);
                self.fault(at_ns, "dies".to_owned());
            }
            Fault::ClockStep if for_ns > 0 => {
                self.fault(at_ns, format!("its clock jumps {}", rounded(for_ns)));
            }
            Fault::ClockStep => self.fault(at_ns, "its clock jumps".to_owned()),
            Fault::Reset => self.fault(at_ns, "connection breaks".to_owned()),
            Fault::Refuse => self.fault(at_ns, "server answers: error".to_owned()),
            _ => {}
        }
    }

    fn bar(&mut self, kind: BarKind, from_ns: u64, until_ns: u64, texts: [String; 2]) {
        if let Some((from_ns, until_ns, open)) = self.facts.within(from_ns, until_ns) {
            // What touches the window with an end only is not in it.
            if from_ns < until_ns {
                self.bars.push(Bar { from_ns, until_ns, kind, texts, open });
            }
        }
    }

    fn says(&mut self, at_ns: u64, text: String) {
        self.mark(at_ns, MarkKind::Event, text);
    }

    fn fault(&mut self, at_ns: u64, text: String) {
        self.mark(at_ns, MarkKind::Fault, text);
    }

    fn mark(&mut self, at_ns: u64, kind: MarkKind, text: String) {
        let mark = LaneMark { at_ns, kind, text, harms: false };
        if self.facts.shows(at_ns) && !self.marks.contains(&mark) {
            self.marks.push(mark);
        }
    }
}

#[cfg(test)]
mod tests;
