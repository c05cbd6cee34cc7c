//! What a picture of an incident shows: lanes, bars, marks, messages and bands, in nanoseconds of the run.
//!
//! Invariant: everything here follows from the history and the witnesses. Nothing knows how wide a picture is or how it is
//! painted, so one layout serves SVG, PNG and Mermaid.

use history::exchange::{Delivery, server, server_name};

/// More lanes are left out, which a note says.
pub(crate) const LANES_MOST: usize = 12;
/// More servers are left out, which a note says.
pub(crate) const KEY_LANES_MOST: usize = 5;

/// More marks of a lane are left out, which a note says: without that, a client that tries for hours makes a picture
/// that nobody can read.
pub(crate) const MARKS_MOST: usize = 16;

/// An incident as it is drawn. Texts contain no control characters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IncidentLayout {
    /// What it came from, or the summary of the first finding.
    pub(crate) title: String,
    /// The summaries of the findings that the title is not, with their levels.
    pub(crate) also: Vec<String>,
    /// What had struck its clients, and what the lock is known to do wrong; empty where nothing is.
    pub(crate) why: String,
    /// What was run.
    pub(crate) run: String,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
    /// The lanes of the key first, then those of clients.
    pub(crate) lanes: Vec<IncidentLane>,
    pub(crate) messages: Vec<IncidentMessage>,
    pub(crate) missed: Vec<MissedNotice>,
    pub(crate) bands: Vec<Band>,
    /// What is left out or estimated.
    pub(crate) notes: Vec<String>,
}

/// What belongs to one client, or to the key on one server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IncidentLane {
    pub(crate) owner: LaneOwner,
    /// In the order in which they are painted.
    pub(crate) bars: Vec<Bar>,
    /// In order of time.
    pub(crate) marks: Vec<LaneMark>,
}

/// Whose lane it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneOwner {
    /// The lock's key; on which server, if there are several.
    Key(Option<u16>),
    /// This client.
    Client(u32),
}

/// A stretch of time in a lane, within the window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
    pub(crate) kind: BarKind,
    /// Its text, and a shorter one.
    pub(crate) texts: [String; 2],
    /// Whether it goes on at either end beyond the window.
    pub(crate) open: [bool; 2],
}

/// What a stretch of time was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BarKind {
    /// The key is this client's.
    Owned(u32),
    /// The key may be this client's: its command has no answer.
    PerhapsOwned(u32),
    /// Nobody will give the key back.
    Left,
    /// The client waits for the lock.
    Waits,
    /// It has the lock, or it is at work without one.
    Holds,
    /// It is still at work after the end of its validity.
    Overstays,
    /// It releases.
    Releases,
    /// It stands still.
    Stands,
    /// It is cut off.
    CutOff,
    /// It is dead.
    Dead,
    /// The server stands still or is down.
    Down,
}

/// A moment in a lane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LaneMark {
    pub(crate) at_ns: u64,
    pub(crate) kind: MarkKind,
    pub(crate) text: String,
    /// Whether it does harm.
    pub(crate) harms: bool,
}

/// What happened at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MarkKind {
    /// The resource is read.
    Reads,
    /// The resource is written.
    Writes,
    /// A tenure of the key, or a validity, ends.
    Ends,
    /// The client learns something.
    Event,
    /// A fault strikes.
    Fault,
}

/// A command and its answer, as two arrows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IncidentMessage {
    pub(crate) client: u32,
    /// The lane of the key to which it goes.
    pub(crate) key: LaneOwner,
    pub(crate) sent_ns: u64,
    pub(crate) done_ns: u64,
    /// When the answer came; none if none did.
    pub(crate) answered_ns: Option<u64>,
    pub(crate) request: Delivery,
    pub(crate) reply: Delivery,
    pub(crate) text: String,
    /// What the answer said, for pictures that have room for it.
    pub(crate) answer: String,
    pub(crate) harms: bool,
}

/// What the server told of a release, to a client that did not listen yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MissedNotice {
    pub(crate) client: u32,
    /// The lane of the key from which it comes.
    pub(crate) key: LaneOwner,
    pub(crate) at_ns: u64,
    /// From when on the client listens.
    pub(crate) listens_ns: u64,
    pub(crate) text: String,
}

/// A stretch of time across all lanes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Band {
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
    pub(crate) text: String,
    /// Whether two hold at once, rather than nobody getting on.
    pub(crate) overlap: bool,
}

impl IncidentLayout {
    /// Every moment at which something is drawn, in order, each once.
    pub(crate) fn instants(&self) -> Vec<u64> {
        let mut all = vec![self.from_ns, self.until_ns];
        for lane in &self.lanes {
            all.extend(lane.bars.iter().flat_map(|it| [it.from_ns, it.until_ns]));
            all.extend(lane.marks.iter().map(|it| it.at_ns));
        }
        all.extend(self.bands.iter().flat_map(|it| [it.from_ns, it.until_ns]));
        all.extend(self.missed.iter().map(|it| it.at_ns));
        for it in &self.messages {
            all.extend([Some(it.sent_ns), Some(it.done_ns), it.answered_ns].into_iter().flatten());
        }
        all.retain(|at_ns| (self.from_ns..=self.until_ns).contains(at_ns));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The clients that have lanes, in their order.
    pub(crate) fn clients(&self) -> impl Iterator<Item = u32> {
        self.lanes.iter().filter_map(|it| match it.owner {
            LaneOwner::Client(client) => Some(client),
            LaneOwner::Key(_) => None,
        })
    }
}

impl LaneMark {
    /// Whether it belongs to the harm, though it does none: the write of whoever is harmed.
    pub(crate) fn tells(&self) -> bool {
        self.kind == MarkKind::Writes && self.text.contains(':')
    }
}

impl LaneOwner {
    /// Its name.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Key(None) => "lock's key".to_owned(),
            Self::Key(Some(node)) if server(node) != node => server_name(node),
            Self::Key(Some(node)) => format!("key, {}", server_name(node)),
            Self::Client(client) => format!("client {client}"),
        }
    }
}
