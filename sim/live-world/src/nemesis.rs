//! The nemesis of a live run: it stages what a scenario stages, on real sockets and in real time.
//!
//! Invariant: a fault strikes at the same place as in the virtual world, and is written into the history
//! when it does, with whether it met a hold; after the heal nothing strikes any more, and nobody is left
//! standing. Deliberately absent: what is drawn and not staged.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

mod errand;
mod strike;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use picklock::command::Command;
use picklock::env::{Mark, Node, Phase};
use picklock::time::Instant;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use scenarios::fault::Staged;
use scenarios::history::Journal;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(super) use self::errand::{Errand, Task};
use self::strike::State;
use super::env::LiveEnv;
use fault_proxy::{Cut, Gate, Link, Proxy, Rules};
use harness::cues::Cues;
use harness::injector;

/// How long the breath may last in which a client dies.
const LAST_BREATH: Duration = Duration::from_millis(20);
/// How often is looked whether anybody is still at work.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The nemesis of a run. Cloning gives another handle.
#[derive(Clone)]
pub(super) struct Nemesis {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    rules: Arc<Rules>,
    journal: Journal,
    /// When the run began.
    origin: Instant,
    errands: UnboundedSender<Errand>,
    runtime: Handle,
}

/// Whom a nemesis has to do with, and by what. The clients are not those that it sees, or none of them
/// would ever end.
#[derive(Default)]
pub(super) struct Cast {
    /// The clients, from 0, which is the run itself.
    clients: Vec<LiveEnv>,
    /// Their ways to the lock's servers, by node; where sentinels lead them, to every server and sentinel.
    ways: Vec<Vec<Link>>,
    /// How many nodes are the lock's.
    nodes: usize,
    /// How each client is cut off.
    cuts: Vec<Cut>,
    /// The ways whose servers' machines are without power.
    dark: Vec<bool>,
}

impl Nemesis {
    /// One that has nobody to strike yet, and what it sends for. Belongs to the runtime it is called on.
    pub(super) fn new(
        proxy: &Proxy,
        journal: Journal,
        seed: u64,
        origin: Instant,
    ) -> (Self, UnboundedReceiver<Errand>) {
        let (errands, sent_for) = unbounded_channel();
        let state = State::new(Pcg64::seed_from_u64(seed));
        let (rules, runtime) = (proxy.rules(), Handle::current());
        let state = Mutex::new(state);
        let inner = Inner { state, rules, journal, origin, errands, runtime };
        (Self { inner: Arc::new(inner) }, sent_for)
    }

    /// Stages these faults, from now on.
    pub(super) fn stage(&self, cues: &Arc<[Staged]>, cast: Cast) {
        let mut state = self.state();
        let timed = state.cues.set(cues, cast.clients.len().saturating_sub(1));
        state.cast = cast;
        drop(state);
        for (place, at_ns) in timed {
            self.later(at_ns, move |it| it.direct(|stage| injector::due(stage, place)));
        }
    }

    /// A client has said where its locking has come to.
    pub(super) fn marked(&self, client: u32, mark: Mark) {
        let holds = match mark {
            Mark::Phase(Phase::AcquireApplied) => Some(true),
            Mark::Phase(Phase::ReleaseBeforeSend | Phase::Released) | Mark::Lost => Some(false),
            _ => None,
        };
        let state = self.state();
        if !state.cues.on() {
            return;
        }
        if let (Some(holds), Some(env)) = (holds, state.cast.clients.get(client as usize)) {
            env.process().holds.store(holds, Ordering::Relaxed);
        }
        drop(state);
        self.direct(|stage| injector::marked(stage, client, mark));
    }

    /// A client is about to send this command.
    pub(super) fn about_to_send(&self, client: u32, node: Node, command: &Command) {
        if client == 0 || !self.state().cues.on() {
            return;
        }
        let name = command.name();
        self.direct(|stage| {
            injector::about_to_send(stage, client, name);
            stage.end_doomed(client);
            stage.befall(client, node, name);
        });
    }

    /// Comes back when nobody is at work any more but those who stand still, and might for ever, and no
    /// timer of theirs will ring any more: nothing would happen before the heal.
    pub(super) async fn stalemate(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let state = self.state();
            let clients = state.cast.clients.iter().skip(1);
            let (mut stopped, mut busy) = (false, false);
            for env in clients {
                let process = env.process();
                stopped |= process.is_stopped();
                busy |= match process.is_stopped() {
                    true => process.has_timers(),
                    false => process.is_at_work() || (!process.is_gone() && env.tasks() > 0),
                };
            }
            if stopped && !busy {
                return;
            }
        }
    }

    /// Everything is put right, and nothing strikes any more.
    pub(super) fn heal(&self) {
        self.direct(|stage| {
            for end in stage.state.cues.close() {
                injector::end(stage, end);
            }
            stage.heal();
            stage.send_owed();
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn direct<T>(&self, act: impl FnOnce(&mut Director<'_>) -> T) -> T {
        act(&mut Director { nemesis: self, state: self.state() })
    }

    /// Does something so many nanoseconds later.
    fn later(&self, in_ns: u64, act: impl FnOnce(&Self) + Send + 'static) {
        // A run does not wait for what would come after it, and leaves nothing behind for it.
        let nemesis = Arc::downgrade(&self.inner);
        self.inner.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_nanos(in_ns)).await;
            if let Some(inner) = nemesis.upgrade() {
                act(&Self { inner });
            }
        });
    }
}

/// The nemesis at work: nobody else changes anything meanwhile.
struct Director<'a> {
    nemesis: &'a Nemesis,
    state: MutexGuard<'a, State>,
}

impl Cast {
    /// These clients, with these ways.
    pub(super) fn new(clients: Vec<LiveEnv>, ways: Vec<Vec<Link>>, nodes: usize) -> Self {
        let cuts = vec![Cut::None; ways.len()];
        let dark = vec![false; ways.first().map_or(0, Vec::len)];
        Self { clients, ways, nodes, cuts, dark }
    }

    /// Cuts or heals all ways of a client.
    fn cut(&mut self, client: u32, cut: Cut) {
        let client = client as usize;
        if let Some(mine) = self.cuts.get_mut(client) {
            *mine = cut;
        }
        for node in 0..self.ways.get(client).map_or(0, Vec::len) {
            self.switch(client, node);
        }
    }

    /// Has a link be as its client is cut off, and its server's machine is.
    fn switch(&self, client: usize, node: usize) {
        let dark = self.dark.get(node).copied().unwrap_or_default();
        let cut = if dark { Cut::Both } else { self.cuts[client] };
        self.ways[client][node].cut(cut);
    }
}

impl State {
    fn new(random: Pcg64) -> Self {
        Self {
            cues: Cues::default(),
            cast: Cast::default(),
            errands: 0,
            owed: Vec::new(),
            remarks: Vec::new(),
            armed: Vec::new(),
            doomed: Vec::new(),
            gates: Vec::new(),
            rules: Vec::new(),
            random,
        }
    }

    /// A gate that is shut, and its place.
    fn gate(&mut self) -> (Gate, usize) {
        let gate = Gate::shut();
        self.gates.push(gate.clone());
        (gate, self.gates.len() - 1)
    }
}
