//! Whether an event could have happened where it stands: the rules of docs/history.md across lines.
//!
//! Invariant: memory is bounded by what is under way, besides four bytes for an acquisition. Numbers
//! that leave gaps take more, never as much as the gap.

use rustc_hash::FxHashMap;

use crate::event::{Event, Stage, What};
use crate::fault::Fault;
use crate::flaw::Flaw;
use crate::head::Head;
use crate::{Recent, jsonl};

/// What is known of the events so far.
#[derive(Debug)]
pub(super) struct EventOrder {
    clients: u32,
    staged: Vec<Fault>,
    at_ns: u64,
    begun: OpenOperations,
    acquisitions: Acquisitions,
}

impl EventOrder {
    /// No event yet, of a history that begins with this head.
    pub(super) fn new(head: &Head) -> Self {
        let staged = head.staged.iter().map(|declared| declared.kind).collect();
        let (begun, acquisitions) = (OpenOperations::default(), Acquisitions::default());
        Self { clients: head.clients, staged, at_ns: 0, begun, acquisitions }
    }

    /// Takes the next event, or says why it cannot be the next.
    pub(super) fn see(&mut self, event: &Event) -> Result<(), Flaw> {
        let Event { at_ns, client, acquisition, op, what } = *event;
        if at_ns < self.at_ns {
            return Err(Flaw::TimeFalls { before_ns: self.at_ns, at_ns });
        }
        self.at_ns = at_ns;
        if client > self.clients {
            return Err(Flaw::UnknownClient { client, clients: self.clients });
        }
        let stage = what.stage();
        match stage {
            Stage::Note if op != 0 => return Err(Flaw::OpOfNote(op)),
            Stage::Note => {}
            _ if op == 0 => return Err(Flaw::NoOp),
            Stage::Invoke => self.begun.begin(op, OpenOperation::of(event))?,
            Stage::Ok | Stage::Fail | Stage::Info => return self.end(event),
        }
        if let What::Fault { fault, staged: Some(staged), .. } = what {
            self.staged(fault, staged)?;
        }
        let kind = jsonl::kind(what);
        if acquisition == 0 {
            return if needs_acquisition(what) { Err(Flaw::NoAcquisition(kind)) } else { Ok(()) };
        }
        match what {
            What::Acquire if client == 0 => Err(Flaw::ClientZero(kind)),
            What::Acquire => self.acquisitions.begin(acquisition, client),
            _ => self.acquisitions.use_by(acquisition, client, matches!(what, What::Release)),
        }
    }

    /// A fault that says which of the head's it is.
    fn staged(&self, fault: Fault, staged: u16) -> Result<(), Flaw> {
        match self.staged.get(usize::from(staged)) {
            None => Err(Flaw::UnknownStaged { staged, known: self.staged.len() }),
            Some(known) if *known != fault => {
                Err(Flaw::OtherStaged { staged, known: known.name(), fault: fault.name() })
            }
            Some(_) => Ok(()),
        }
    }

    fn end(&mut self, event: &Event) -> Result<(), Flaw> {
        let (op, end) = (event.op, OpenOperation::of(event));
        let begun = self.begun.end(op)?;
        if let What::Answered { found, .. } = event.what
            && (found == op || found > self.begun.greatest)
        {
            return Err(Flaw::FoundUnwritten { op, found });
        }
        if begun.kind != end.kind {
            return Err(Flaw::OtherKind { op, began: begun.kind, ends: end.kind });
        }
        if begun.client != end.client {
            return Err(Flaw::OtherClient { op, began: begun.client, ends: end.client });
        }
        if begun.acquisition != end.acquisition {
            let (began, ends) = (begun.acquisition, end.acquisition);
            return Err(Flaw::OtherAcquisition { op, began, ends });
        }
        Ok(())
    }
}

/// What says nothing unless it is known of which acquisition.
fn needs_acquisition(what: What) -> bool {
    match what {
        What::Command { .. }
        | What::PoolLeft(_)
        | What::RegisterLeft(_)
        | What::Probe(_)
        | What::Phase(_)
        | What::Fault { .. } => false,
        // The ends of operations are held to their beginnings.
        _ => true,
    }
}

/// What both ends of an operation say of it.
#[derive(Clone, Copy, Debug)]
struct OpenOperation {
    client: u32,
    acquisition: u32,
    kind: &'static str,
}

impl OpenOperation {
    fn of(event: &Event) -> Self {
        let Event { client, acquisition, what, .. } = *event;
        Self { client, acquisition, kind: jsonl::kind(what) }
    }
}

/// The operations that are under way, and how many numbers have been used.
#[derive(Debug, Default)]
struct OpenOperations {
    open: Recent<OpenOperation>,
    greatest: u32,
    count: u32,
}

impl OpenOperations {
    fn begin(&mut self, op: u32, operation: OpenOperation) -> Result<(), Flaw> {
        if op <= self.greatest {
            return Err(if self.open.contains(op) || self.is_gapless() {
                Flaw::BegunTwice(op)
            } else {
                Flaw::NotRising { op, after: self.greatest }
            });
        }
        self.greatest = op;
        self.count += 1;
        self.open.insert(op, operation);
        Ok(())
    }

    fn end(&mut self, op: u32) -> Result<OpenOperation, Flaw> {
        self.open.remove(op).ok_or(match () {
            () if op > self.greatest => Flaw::NotBegun(op),
            () if self.is_gapless() => Flaw::EndedTwice(op),
            () => Flaw::NotUnderWay(op),
        })
    }

    /// Whether every number up to the greatest has begun.
    fn is_gapless(&self) -> bool {
        self.count == self.greatest
    }
}

/// Whose acquisitions are.
#[derive(Debug, Default)]
struct Acquisitions {
    /// By number, as long as numbers leave few gaps.
    near: Vec<u32>,
    far: FxHashMap<u32, u32>,
    count: usize,
}

/// The most clients there can be: one bit is needed beside the client.
pub(super) const CLIENTS_MOST: u32 = RELEASED - 1;
/// Set beside the client where the release has begun. An acquisition of client 0 there is not.
const RELEASED: u32 = 1 << 31;

impl Acquisitions {
    /// How many numbers may be left out at all, and for every one that is used.
    const LEFT_OUT: usize = 1 << 16;
    const LEFT_OUT_EACH: usize = 4;

    fn begin(&mut self, acquisition: u32, client: u32) -> Result<(), Flaw> {
        self.count += 1;
        let near = acquisition as usize;
        let place = if near < Self::LEFT_OUT + Self::LEFT_OUT_EACH * self.count {
            if self.near.len() <= near {
                self.near.resize(near + 1, 0);
            }
            // It was far ahead once, perhaps, and no longer is.
            if self.far.contains_key(&acquisition) {
                return Err(Flaw::AcquiredTwice(acquisition));
            }
            &mut self.near[near]
        } else {
            self.far.entry(acquisition).or_default()
        };
        match *place {
            0 => *place = client,
            _ => return Err(Flaw::AcquiredTwice(acquisition)),
        }
        Ok(())
    }

    fn use_by(&mut self, acquisition: u32, client: u32, releases: bool) -> Result<(), Flaw> {
        let near = self.near.get_mut(acquisition as usize).filter(|place| **place != 0);
        let place = near.or_else(|| self.far.get_mut(&acquisition));
        let place = place.ok_or(Flaw::UnknownAcquisition(acquisition))?;
        let owner = *place & !RELEASED;
        if owner != client {
            return Err(Flaw::SharedAcquisition { acquisition, owner, client });
        }
        if releases {
            if *place & RELEASED != 0 {
                return Err(Flaw::ReleasedTwice(acquisition));
            }
            *place |= RELEASED;
        }
        Ok(())
    }
}
