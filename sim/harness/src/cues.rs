//! When staged faults strike: whoever comes to the place that a scenario names is met there.
//!
//! Invariant: a fault with a phase, a command or a time strikes once, at the nth such place, and what is
//! staged strikes at the same places in every world. Deliberately absent: how a world makes it happen,
//! and chains of faults that wait for each other.

use std::sync::Arc;

use picklock::env::{Mark, Phase};
use scenarios::fault::{By, Chance, Staged, Until, When, Whom};

/// A world in which faults are staged.
pub trait Stage {
    /// What ends a fault that lasts until somebody comes to a phase.
    type End: Copy;

    /// What is staged.
    fn cues(&mut self) -> &mut Cues<Self::End>;

    /// The fault of this cue strikes this client, or the server that it names.
    fn enter(&mut self, place: u32, client: u32);

    /// The world is to [call](due) so many nanoseconds later.
    fn later(&mut self, place: u32, in_ns: u64);

    /// A fault is over.
    fn end(&mut self, end: Self::End);

    /// Whether something that happens by chance happens now.
    fn strikes(&mut self, chance: Chance) -> bool;

    /// Any client at all, from 1; none in particular (0) where a message is meant.
    fn anybody(&mut self, place: u32) -> u32;
}

/// What is staged, and how far it has come. Clients are numbered from 1, cues from 0.
#[derive(Debug)]
pub struct Cues<E> {
    /// Whether anything is staged.
    on: bool,
    all: Arc<[Staged]>,
    /// How many times each cue's place has been reached.
    reached: Vec<u32>,
    /// Whether each client has the lock, its release included.
    holders: Vec<bool>,
    /// Faults that wait for somebody to hold the lock.
    awaiting_holder: Vec<u32>,
    /// What lasts until somebody comes to a phase.
    lasting: Vec<Lasting<E>>,
}

/// A fault that lasts until somebody comes to a phase.
#[derive(Clone, Copy, Debug)]
struct Lasting<E> {
    client: u32,
    until: Until,
    end: E,
}

impl<E> Default for Cues<E> {
    fn default() -> Self {
        Self {
            on: false,
            all: Arc::new([]),
            reached: Vec::new(),
            holders: Vec::new(),
            awaiting_holder: Vec::new(),
            lasting: Vec::new(),
        }
    }
}

impl<E: Copy> Cues<E> {
    /// Stages these, for clients up to this number. What has a time is given with it, in nanoseconds
    /// from now: the world is to [call](due) when it has come.
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

    /// Nothing is staged.
    pub fn reset(&mut self) {
        self.on = false;
        self.reached.clear();
        self.holders.clear();
        self.awaiting_holder.clear();
        self.lasting.clear();
    }

    /// Whether anything is staged.
    pub const fn on(&self) -> bool {
        self.on
    }

    /// Nothing strikes any more; what lasts, to be ended.
    pub fn close(&mut self) -> Vec<E> {
        self.on = false;
        std::mem::take(&mut self.lasting).into_iter().map(|it| it.end).collect()
    }

    /// All cues.
    pub fn all(&self) -> Arc<[Staged]> {
        Arc::clone(&self.all)
    }

    /// A cue by its place.
    pub fn get(&self, place: u32) -> Option<&Staged> {
        self.all.get(place as usize)
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

    /// A fault that strikes this client lasts until what its cue says, if it says so.
    pub fn lasts(&mut self, cue: &Staged, client: u32, end: E) {
        if let Some(until) = cue.until {
            self.lasting.push(Lasting { client, until, end });
        }
    }

    /// What ends now that this client has come to this phase; to be asked until there is nothing.
    fn ended_by(&mut self, client: u32, phase: Phase) -> Option<E> {
        let ends = |it: &Lasting<E>| {
            let is_theirs = match it.until.by {
                By::Another => it.client != client,
                By::Any => true,
                By::Itself => it.client == client,
            };
            it.until.phase == phase && is_theirs
        };
        let place = self.lasting.iter().position(ends)?;
        Some(self.lasting.remove(place).end)
    }

    /// Whether it is this client whose coming somewhere counts.
    fn concerns(&self, whom: Whom, client: u32) -> bool {
        match whom {
            Whom::Any | Whom::Primary | Whom::Server(_) => true,
            Whom::Holder => self.holds(client),
            Whom::Client(which) => which == client,
        }
    }

    /// Counts a client's coming to a cue's place; whether it was the nth.
    fn comes(&mut self, place: u32, whom: Whom, client: u32, nth: u32) -> bool {
        if !self.concerns(whom, client) {
            return false;
        }
        let reached = &mut self.reached[place as usize];
        *reached = reached.saturating_add(1);
        *reached == nth
    }
}

/// A client has said where its locking has come to.
pub fn marked<S: Stage>(stage: &mut S, client: u32, mark: Mark) {
    if !stage.cues().on {
        return;
    }
    match mark {
        Mark::Phase(phase) => reaches(stage, client, phase),
        Mark::Lost => stage.cues().holders[client as usize] = false,
        Mark::ValidUntil(_) | Mark::Fence(_) => {}
    }
}

fn reaches<S: Stage>(stage: &mut S, client: u32, phase: Phase) {
    if phase == Phase::AcquireApplied {
        stage.cues().holders[client as usize] = true;
    }
    while let Some(end) = stage.cues().ended_by(client, phase) {
        stage.end(end);
    }
    if phase == Phase::AcquireApplied {
        for place in std::mem::take(&mut stage.cues().awaiting_holder) {
            stage.enter(place, client);
        }
    }
    let cues = stage.cues().all();
    for (place, cue) in (0_u32..).zip(cues.iter()) {
        if let Some(When::Phase(of, nth)) = cue.at.when()
            && of == phase
            && stage.cues().comes(place, cue.whom(), client, nth)
        {
            come(stage, place, cue, client);
        }
    }
    if phase == Phase::Released {
        stage.cues().holders[client as usize] = false;
    }
}

/// A client is about to send a command of this name.
pub fn about_to_send<S: Stage>(stage: &mut S, client: u32, name: &[u8]) {
    // The run itself is nobody's client.
    if client == 0 || !stage.cues().on {
        return;
    }
    let cues = stage.cues().all();
    for (place, cue) in (0_u32..).zip(cues.iter()) {
        let enters = match cue.at.when() {
            Some(When::Command(of, nth)) if of.as_bytes().eq_ignore_ascii_case(name) => {
                stage.cues().comes(place, cue.whom(), client, nth)
            }
            Some(When::Chance(chance)) => {
                stage.cues().concerns(cue.whom(), client) && stage.strikes(chance)
            }
            _ => false,
        };
        if enters {
            come(stage, place, cue, client);
        }
    }
}

/// A client has come to a cue's place, and it strikes now or somewhat later.
fn come<S: Stage>(stage: &mut S, place: u32, cue: &Staged, client: u32) {
    match cue.at.after_ns() {
        Some(in_ns) => stage.later(place, in_ns),
        None => stage.enter(place, client),
    }
}

/// It is time for a fault that waited for it.
pub fn due<S: Stage>(stage: &mut S, place: u32) {
    if !stage.cues().on {
        return;
    }
    let Some(whom) = stage.cues().get(place).map(Staged::whom) else { return };
    let client = match whom {
        Whom::Client(client) => client,
        Whom::Holder => match stage.cues().holder() {
            Some(holder) => holder,
            None => return stage.cues().awaiting_holder.push(place),
        },
        Whom::Any => stage.anybody(place),
        Whom::Primary | Whom::Server(_) => 0,
    };
    stage.enter(place, client);
}
