//! The staged faults of a run and their state: which cue strikes which client, and which faults last.
//!
//! Invariant: a fault with a phase, a command or a time strikes once, at the nth such place.

use std::sync::Arc;

use history::fault::{By, Staged, Until, When, Whom};
use picklock::env::Phase;

/// The staged faults and their state. Clients are numbered from 1, cues from 0.
#[derive(Debug)]
pub struct Cues<H> {
    /// Whether anything is staged.
    on: bool,
    all: Arc<[Staged]>,
    /// How many times each cue's place has been reached.
    reached: Vec<u32>,
    /// Whether each client has the lock, its release included.
    pub(crate) holders: Vec<bool>,
    /// Cues that are due and wait for a client to get the lock.
    pub(crate) awaiting_holder: Vec<u32>,
    /// Faults that last until a client comes to a phase, each with the client that it struck.
    lasting: Vec<(u32, Until, Recovery<H>)>,
    /// The cue that is striking, and the client that came to its place.
    striking: Option<(u32, u32)>,
}

/// The end of a fault that lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery<H> {
    /// This client goes on.
    Resume(u32),
    /// This client reaches the servers again.
    Mend(u32),
    /// This client, which has died, is there again as a new process.
    Revive(u32),
    /// These messages are delivered.
    Deliver(H),
    /// The requests of this client (0: of any) are no longer struck by this cue's fault.
    Disarm(u32, u32),
}

impl<H> Default for Cues<H> {
    fn default() -> Self {
        Self {
            on: false,
            all: Arc::new([]),
            reached: Vec::new(),
            holders: Vec::new(),
            awaiting_holder: Vec::new(),
            lasting: Vec::new(),
            striking: None,
        }
    }
}

impl<H: Copy> Cues<H> {
    /// Stages these, for clients up to this number. Returns those that have a time, with the nanoseconds from now after which
    /// the world calls [`due`](crate::injector::due).
    pub fn set(&mut self, cues: &Arc<[Staged]>, clients: usize) -> Vec<(u32, u64)> {
        self.reset();
        self.on = !cues.is_empty();
        self.all = Arc::clone(cues);
        self.reached.resize(cues.len(), 0);
        self.holders.resize(clients + 1, false);
        let timed = (0_u32..).zip(cues.iter()).filter_map(|(place, cue)| match cue.at.when() {
            Some(When::Time(at_ns)) => Some((place, at_ns)),
            _ => None,
        });
        timed.collect()
    }

    /// Stages nothing.
    pub fn reset(&mut self) {
        self.on = false;
        self.reached.clear();
        self.holders.clear();
        self.awaiting_holder.clear();
        self.lasting.clear();
        self.striking = None;
    }

    /// Whether anything is staged.
    pub const fn on(&self) -> bool {
        self.on
    }

    /// Has nothing strike any more. Returns the faults that last, which the caller ends.
    pub fn close(&mut self) -> Vec<Recovery<H>> {
        self.on = false;
        std::mem::take(&mut self.lasting).into_iter().map(|(_, _, end)| end).collect()
    }

    /// All cues.
    pub fn all(&self) -> Arc<[Staged]> {
        Arc::clone(&self.all)
    }

    /// A cue by its place.
    pub fn get(&self, place: u32) -> Option<&Staged> {
        self.all.get(place as usize)
    }

    /// Notes that this cue strikes, because this client came to its place; returns what was noted before.
    pub(crate) fn set_striking(&mut self, cue: Option<(u32, u32)>) -> Option<(u32, u32)> {
        std::mem::replace(&mut self.striking, cue)
    }

    /// The cue that is striking, as a history has it.
    pub fn striking(&self) -> Option<u16> {
        self.striking.and_then(|(cue, _)| u16::try_from(cue).ok())
    }

    /// The client that came to the place of the striking cue; 0 if none did.
    pub fn came(&self) -> u32 {
        self.striking.map_or(0, |(_, client)| client)
    }

    /// A client that has the lock.
    pub fn holder(&self) -> Option<u32> {
        let holder = self.holders.iter().position(|holds| *holds)?;
        u32::try_from(holder).ok()
    }

    /// Whether this client has the lock.
    pub fn holds(&self, client: u32) -> bool {
        self.holders.get(client as usize).copied().unwrap_or_default()
    }

    /// Notes that this client has died: it no longer has the lock.
    pub fn dies(&mut self, client: u32) {
        if let Some(holds) = self.holders.get_mut(client as usize) {
            *holds = false;
        }
    }

    /// Notes a fault that strikes this client and lasts until a phase, if its cue says so.
    pub fn lasts(&mut self, cue: &Staged, client: u32, end: Recovery<H>) {
        if let Some(until) = cue.until {
            self.lasting.push((client, until, end));
        }
    }

    /// A fault that ends now that this client has come to this phase; to be called until there is none.
    pub(crate) fn ended_by(&mut self, client: u32, phase: Phase) -> Option<Recovery<H>> {
        let ends = |(struck, until, _): &(u32, Until, Recovery<H>)| {
            let is_theirs = match until.by {
                By::Another => *struck != client,
                By::Any => true,
                By::Itself => *struck == client,
            };
            until.phase == phase && is_theirs
        };
        let place = self.lasting.iter().position(ends)?;
        Some(self.lasting.remove(place).2)
    }

    /// Whether a place counts if this client comes to it.
    pub(crate) fn concerns(&self, whom: Whom, client: u32) -> bool {
        match whom {
            Whom::Any | Whom::Primary | Whom::Server(_) => true,
            Whom::Holder => self.holds(client),
            Whom::Client(which) => which == client,
        }
    }

    /// Notes that a client has come to a cue's place; whether this is the nth time.
    pub(crate) fn comes(&mut self, place: u32, whom: Whom, client: u32, nth: u32) -> bool {
        if !self.concerns(whom, client) {
            return false;
        }
        let reached = &mut self.reached[place as usize];
        *reached = reached.saturating_add(1);
        *reached == nth
    }
}
