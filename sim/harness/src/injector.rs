//! What a world can do to its clients and servers, and what each staged fault does with that.
//!
//! Invariant: a staged fault means the same in every world. `strike_as` alone says what each kind does; a world says how.
//! So a new kind of fault is an arm of `strike_as` and, if no method of [`Injector`] can do it, a new method.

use history::fault::{Chance, Fault, Staged, Ways, When, Whom};
use picklock::env::{Mark, Phase};
use scenarios::span::Span;

use crate::cues::{Cues, Recovery};

/// A world in which faults are staged. Clients are numbered from 1, cues and servers from 0.
///
/// A method also [notes](Cues::striking) in the history what it strikes. A fault that meets nobody (a client that has died,
/// a primary without a replica) does nothing and is not noted. What a world cannot do it omits, and remarks on.
pub trait Injector {
    /// Messages that are held back on their way.
    type Held: Copy;

    /// What is staged.
    fn cues(&mut self) -> &mut Cues<Self::Held>;
    /// Has [`due`] called in so many nanoseconds.
    fn strike_later(&mut self, cue: u32, in_ns: u64);
    /// Has [`end`] called in so many nanoseconds.
    fn end_later(&mut self, end: Recovery<Self::Held>, in_ns: u64);

    /// Draws whether something with this chance happens now.
    fn happens(&mut self, chance: Chance) -> bool;
    /// Draws a client.
    fn any_client(&mut self) -> u32;
    /// Draws a server of the lock; `None` for the primary.
    fn any_server(&mut self) -> Option<u32>;

    /// Stops a client; false if it did not run.
    fn pause(&mut self, client: u32, cue: &Staged) -> bool;
    /// Has a stopped client go on.
    fn resume(&mut self, client: u32);
    /// Ends a client, once it has sent what it was about to send. If it comes back, the world calls [`end`] with
    /// [`Recovery::Revive`] so many nanoseconds after its death.
    fn kill(&mut self, client: u32, comes_back_ns: Option<u64>);
    /// Brings a dead client back: a new process with new connections, which begins its workload anew.
    fn revive(&mut self, client: u32);
    /// Cuts a client off from the servers of the lock.
    fn cut(&mut self, client: u32, ways: Ways, cue: &Staged);
    /// Ends the partition of a client.
    fn mend(&mut self, client: u32);
    /// Has this cue's fault strike the next request of this client (0: of any), or its reply. A fault that lasts strikes all
    /// requests until it is disarmed.
    fn arm(&mut self, client: u32, cue: u32);
    /// Has this cue's fault strike no more requests of this client.
    fn disarm(&mut self, client: u32, cue: u32);
    /// Delivers what was held back, in order.
    fn deliver(&mut self, held: Self::Held);
    /// Has a client's clocks run faster by so many parts per million, or slower.
    fn set_drift(&mut self, client: u32, ppm: i32);
    /// Has a client's wall clock jump.
    fn step_clock(&mut self, client: u32, by_ns: i64);
    /// Does this to a server; `None` for the primary.
    fn strike_server(&mut self, server: Option<u32>, with: ServerFault);
}

/// What can be done to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerFault {
    /// It forgets its scripts.
    FlushScripts,
    /// The lock's key is gone, as after an eviction.
    Evict,
    /// All its keys are gone, as after FLUSHALL.
    Flush,
    /// Something that is no lock's is kept under the lock's key, if that is free.
    Occupy {
        /// What: a string without a TTL, or a list.
        with: ForeignValue,
        /// For so many nanoseconds.
        for_ns: u64,
    },
    /// It stands still for so many nanoseconds, while its clocks go on. What reaches it meanwhile it then carries out.
    Stall {
        /// For how long.
        for_ns: u64,
    },
    /// It has no memory left for so many nanoseconds.
    Fill {
        /// For how long.
        for_ns: u64,
    },
    /// A replica that has caught up takes the place of this server, the primary, which becomes a replica and keeps its
    /// connections.
    Switchover {
        /// Who replaces it, if somebody is named.
        to: Option<u32>,
    },
    /// A replica takes the place of this server, the primary, which goes on for one client, until it steps down and
    /// forgets what the other does not know.
    SplitBrain {
        /// Who replaces it, if somebody is named.
        to: Option<u32>,
        /// Who stays with it.
        keeps: u32,
        /// For how many nanoseconds.
        for_ns: u64,
    },
    /// Its wall clock jumps by so many nanoseconds.
    StepClock(i64),
    /// From now on its clocks run faster by so many parts per million, or slower.
    Drift(i32),
    /// It ends, and is there again later, or has been replaced.
    End {
        /// How it ends.
        fault: Fault,
        /// Who replaces it, if it is a failover that names somebody.
        to: Option<u32>,
        /// When, in nanoseconds from its end.
        for_ns: u64,
    },
}

/// The command that limits a server's memory to so many bytes; 0: no limit.
pub const fn memory(bytes: &str) -> [&str; 4] {
    ["CONFIG", "SET", "maxmemory", bytes]
}

/// What an operator keeps under a lock's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignValue {
    /// A string that does not expire.
    Text,
    /// A list.
    List,
}

impl ForeignValue {
    /// The command that writes it if the key is free, and answers 1 if it did.
    pub const fn put(self, key: &str) -> [&str; 4] {
        let put = match self {
            Self::Text => "return redis.call('SETNX', KEYS[1], 'an operator')",
            Self::List => {
                "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end return redis.call('RPUSH', KEYS[1], 'a job')"
            }
        };
        ["EVAL", put, "1", key]
    }

    /// The command that deletes it, but not another value in its place.
    pub const fn remove(self, key: &str) -> [&str; 4] {
        let remove = match self {
            Self::Text => {
                "if redis.pcall('GET', KEYS[1]) == 'an operator' then return redis.call('DEL', KEYS[1]) end return 0"
            }
            Self::List => {
                "if redis.pcall('LINDEX', KEYS[1], 0) == 'a job' then return redis.call('DEL', KEYS[1]) end return 0"
            }
        };
        ["EVAL", remove, "1", key]
    }

    /// The fault that does so.
    pub const fn fault(self) -> Fault {
        match self {
            Self::Text => Fault::ForeignKey,
            Self::List => Fault::ForeignList,
        }
    }
}

/// A client has marked something: worlds call this.
pub fn marked<I: Injector>(world: &mut I, client: u32, mark: Mark) {
    if !world.cues().on() {
        return;
    }
    match mark {
        Mark::Phase(phase) => reaches(world, client, phase),
        Mark::Lost => world.cues().holders[client as usize] = false,
        Mark::ValidUntil(_) | Mark::Fence(_) => {}
    }
}

fn reaches<I: Injector>(world: &mut I, client: u32, phase: Phase) {
    if phase == Phase::AcquireApplied {
        world.cues().holders[client as usize] = true;
    }
    while let Some(over) = world.cues().ended_by(client, phase) {
        end(world, over);
    }
    if phase == Phase::AcquireApplied {
        for place in std::mem::take(&mut world.cues().awaiting_holder) {
            strike(world, place, client);
        }
    }
    let cues = world.cues().all();
    for (place, cue) in (0_u32..).zip(cues.iter()) {
        if let Some(When::Phase(of, nth)) = cue.at.when()
            && of == phase
            && world.cues().comes(place, cue.whom(), client, nth)
        {
            come(world, place, cue, client);
        }
    }
    if phase == Phase::Released {
        world.cues().holders[client as usize] = false;
    }
}

/// A client is about to send a command of this name: worlds call this.
pub fn about_to_send<I: Injector>(world: &mut I, client: u32, name: &[u8]) {
    // Client 0 is the run itself, which no fault strikes.
    if client == 0 || !world.cues().on() {
        return;
    }
    let is_named = |of: &str| of.as_bytes().eq_ignore_ascii_case(name);
    let cues = world.cues().all();
    for (place, cue) in (0_u32..).zip(cues.iter()) {
        let enters = match cue.at.when() {
            Some(When::Command(of, nth)) if is_named(of) => {
                world.cues().comes(place, cue.whom(), client, nth)
            }
            Some(When::Chance(chance, of)) if of.is_none_or(is_named) => {
                world.cues().concerns(cue.whom(), client) && world.happens(chance)
            }
            _ => false,
        };
        if enters {
            come(world, place, cue, client);
        }
    }
}

/// A client has come to the place of a cue, which strikes now or after a delay.
fn come<I: Injector>(world: &mut I, place: u32, cue: &Staged, client: u32) {
    match cue.at.after_ns() {
        Some(in_ns) => world.strike_later(place, in_ns),
        None => strike(world, place, client),
    }
}

/// A cue with a time or a delay is due: worlds call this.
pub fn due<I: Injector>(world: &mut I, place: u32) {
    if !world.cues().on() {
        return;
    }
    let all = world.cues().all();
    let Some(cue) = all.get(place as usize) else { return };
    let client = match cue.whom() {
        Whom::Client(client) => client,
        Whom::Holder => match world.cues().holder() {
            Some(holder) => holder,
            None => return world.cues().awaiting_holder.push(place),
        },
        Whom::Any if !cue.kind.is_of_message() => world.any_client(),
        Whom::Any | Whom::Primary | Whom::Server(_) => 0,
    };
    strike(world, place, client);
}

/// The fault of this cue strikes this client, or the server that it names.
fn strike<I: Injector>(world: &mut I, cue: u32, client: u32) {
    let all = world.cues().all();
    if let Some(staged) = all.get(cue as usize) {
        as_cue(world, cue, client, |world| strike_as(world, cue, staged, client));
    }
}

/// Does something that the history notes as this cue's.
pub fn as_cue<I: Injector>(world: &mut I, cue: u32, client: u32, act: impl FnOnce(&mut I)) {
    let before = world.cues().set_striking(Some((cue, client)));
    act(world);
    world.cues().set_striking(before);
}

fn strike_as<I: Injector>(world: &mut I, cue: u32, staged: &Staged, client: u32) {
    let server = match staged.whom() {
        Whom::Server(server) => Some(server),
        Whom::Any if staged.kind.loses_keys() || staged.kind == Fault::Stall => world.any_server(),
        _ => None,
    };
    let of_server = staged.whom().is_server();
    let to = match staged.to {
        Some(Whom::Server(to)) => Some(to),
        _ => None,
    };
    let for_ns = staged.lasts_ns().unwrap_or(0);
    match staged.kind {
        Fault::Pause => {
            if world.pause(client, staged) {
                lasts(world, staged, client, Recovery::Resume(client));
            }
        }
        Fault::Crash => world.kill(client, staged.comes_back.map(Span::ns)),
        Fault::Partition => {
            world.cut(client, staged.ways.unwrap_or_default(), staged);
            lasts(world, staged, client, Recovery::Mend(client));
        }
        Fault::Delay | Fault::LoseRequest | Fault::LoseReply | Fault::Reset | Fault::Refuse => {
            // A fault that lasts strikes all clients, not only the one that came to its place.
            let client =
                if staged.strikes_all() && staged.whom() == Whom::Any { 0 } else { client };
            world.arm(client, cue);
            if staged.strikes_all() {
                lasts(world, staged, client, Recovery::Disarm(client, cue));
            }
        }
        Fault::Drift => match staged.ppm.unwrap_or(0) {
            ppm if of_server => world.strike_server(server, ServerFault::Drift(ppm)),
            ppm => world.set_drift(client, ppm),
        },
        Fault::ClockStep => match staged.by_ns() {
            by_ns if of_server => world.strike_server(server, ServerFault::StepClock(by_ns)),
            by_ns => world.step_clock(client, by_ns),
        },
        Fault::ScriptFlush => world.strike_server(server, ServerFault::FlushScripts),
        Fault::Evict => world.strike_server(server, ServerFault::Evict),
        Fault::Flush => world.strike_server(server, ServerFault::Flush),
        Fault::ForeignKey | Fault::ForeignList => {
            let is_list = staged.kind == Fault::ForeignList;
            let with = if is_list { ForeignValue::List } else { ForeignValue::Text };
            world.strike_server(server, ServerFault::Occupy { with, for_ns });
        }
        Fault::Stall => world.strike_server(server, ServerFault::Stall { for_ns }),
        Fault::Full => world.strike_server(server, ServerFault::Fill { for_ns }),
        Fault::Switchover => world.strike_server(server, ServerFault::Switchover { to }),
        Fault::SplitBrain => {
            // The client that came to its place stays with the old primary; if none did, one that is drawn.
            let keeps = if client == 0 { world.any_client() } else { client };
            world.strike_server(server, ServerFault::SplitBrain { to, keeps, for_ns });
        }
        Fault::Failover | Fault::PowerLoss | Fault::ServerCrash => {
            let fault = staged.kind;
            world.strike_server(server, ServerFault::End { fault, to, for_ns });
        }
    }
}

/// Arranges the end of a fault that lasts, as the cue says.
pub fn lasts<I: Injector>(world: &mut I, staged: &Staged, client: u32, end: Recovery<I::Held>) {
    world.cues().lasts(staged, client, end);
    if let Some(for_ns) = staged.lasts_ns() {
        world.end_later(end, for_ns);
    }
}

/// Ends a fault that lasted: worlds call this.
pub fn end<I: Injector>(world: &mut I, end: Recovery<I::Held>) {
    match end {
        Recovery::Resume(client) => world.resume(client),
        Recovery::Mend(client) => world.mend(client),
        Recovery::Revive(client) => world.revive(client),
        Recovery::Deliver(held) => world.deliver(held),
        Recovery::Disarm(client, cue) => world.disarm(client, cue),
    }
}
