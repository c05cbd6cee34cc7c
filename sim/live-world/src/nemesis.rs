//! The nemesis of a live run: it injects the faults that a scenario stages, on real sockets and in real time.
//!
//! Invariant: a fault strikes at the same place as in the virtual world, and is written into the history when it
//! strikes, with whether it met a hold. After the heal nothing strikes any more and no client stays stopped.
//!
//! Faults of messages are rules of the proxy (`messages.rs`), faults of servers are operations that the run carries
//! out (`server_op.rs`), and faults of clients go through [`ClientControl`] alone. So the clients may be tasks of
//! this process, as [`LiveEnv`](super::env::LiveEnv) makes them, or processes of another program.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

mod client_links;
mod messages;
mod server_op;
mod strike;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use history::fault::Staged;
use history::{Journal, What};
use picklock::command::Command;
use picklock::env::{Mark, Node, Phase};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(super) use self::client_links::ClientLinks;
use self::messages::MessageFaults;
pub(super) use self::server_op::ServerOp;
use self::server_op::ServerOps;
use fault_proxy::{Proxy, Rules};
use harness::cues::Cues;
use harness::injector;

/// How often to check whether a client can still go on, and whether the server operations are done.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// The nemesis of a run. Cloning gives another handle.
#[derive(Clone)]
pub(super) struct LiveNemesis {
    inner: Arc<NemesisInner>,
}

struct NemesisInner {
    state: Mutex<NemesisState>,
    /// Whether each client has the lock and has not begun to release it, according to its marks. Outside the
    /// state, because the proxy's thread reads it while a client's thread holds the state.
    holds: Box<[AtomicBool]>,
    rules: Arc<Rules>,
    journal: Journal,
    /// How long the run has lasted, in nanoseconds.
    elapsed_ns: Box<dyn Fn() -> u64 + Send + Sync>,
    server_ops: UnboundedSender<ServerOp>,
    runtime: Handle,
}

/// What is staged, on whom, and what is under way.
struct NemesisState {
    cues: Cues<usize>,
    /// By number, from 0, which is the run itself.
    clients: Vec<Arc<dyn ClientControl>>,
    links: ClientLinks,
    messages: MessageFaults,
    server_ops: ServerOps,
    pending_crashes: Vec<StagedCrash>,
    /// What deserves attention.
    remarks: Vec<String>,
    random: Pcg64,
}

/// A client that has come to the place where it crashes.
struct StagedCrash {
    client: u32,
    cue: u32,
    /// When it comes back, if ever, in nanoseconds from its crash.
    comes_back_ns: Option<u64>,
}

/// A client as the nemesis controls it.
pub(super) trait ClientControl: Send + Sync {
    /// Stops it; true if it ran.
    fn stop(&self) -> bool;
    /// Lets it go on after a stop.
    fn resume(&self);
    /// Ends it and its connections, for good unless it comes back; true if it was not gone already.
    fn kill(&self, comes_back: bool) -> bool;
    /// It comes back: a new process, which has no connections yet.
    fn revive(&self);
    /// Keeps it waiting, until it has been [unblocked](Self::unblock) as often as blocked.
    fn block(&self);
    /// Undoes one [block](Self::block).
    fn unblock(&self);
    /// From now on its clocks run faster by so many parts per million, or slower.
    fn set_drift(&self, ppm: i32);
    /// Its wall clock jumps.
    fn step_clock(&self, by_ns: i64);
    /// Whether it is stopped, and not gone.
    fn is_stopped(&self) -> bool;
    /// Whether it may still do something before it is resumed.
    fn is_busy(&self) -> bool;
}

/// The nemesis with its state locked: nothing else changes it meanwhile.
struct Locked<'a> {
    nemesis: &'a LiveNemesis,
    state: MutexGuard<'a, NemesisState>,
}

impl LiveNemesis {
    /// A nemesis for clients up to this number, and the server operations that it will ask for. Belongs to the
    /// runtime it is called on.
    pub(super) fn new(
        clients: u32,
        proxy: &Proxy,
        journal: Journal,
        seed: u64,
        elapsed_ns: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> (Self, UnboundedReceiver<ServerOp>) {
        let (server_ops, requested) = unbounded_channel();
        let state = NemesisState {
            cues: Cues::default(),
            clients: Vec::new(),
            links: ClientLinks::default(),
            messages: MessageFaults::default(),
            server_ops: ServerOps::default(),
            pending_crashes: Vec::new(),
            remarks: Vec::new(),
            random: Pcg64::seed_from_u64(seed),
        };
        let inner = NemesisInner {
            state: Mutex::new(state),
            holds: (0..=clients).map(|_| AtomicBool::new(false)).collect(),
            rules: Arc::clone(proxy.rules()),
            journal,
            elapsed_ns: Box::new(elapsed_ns),
            server_ops,
            runtime: Handle::current(),
        };
        (Self { inner: Arc::new(inner) }, requested)
    }

    /// Stages these faults on these clients, from now on.
    pub(super) fn stage(
        &self,
        cues: &Arc<[Staged]>,
        clients: Vec<Arc<dyn ClientControl>>,
        links: ClientLinks,
    ) {
        let mut state = self.state();
        let timed = state.cues.set(cues, clients.len().saturating_sub(1));
        (state.clients, state.links) = (clients, links);
        drop(state);
        for (place, at_ns) in timed {
            self.later(at_ns, move |it| injector::due(&mut it.lock(), place));
        }
    }

    /// A client has marked a phase, its validity, its token or a loss.
    pub(super) fn marked(&self, client: u32, mark: Mark) {
        let holds = match mark {
            Mark::Phase(Phase::AcquireApplied) => Some(true),
            Mark::Phase(Phase::ReleaseBeforeSend | Phase::Released) | Mark::Lost => Some(false),
            _ => None,
        };
        let mut locked = self.lock();
        if !locked.state.cues.on() {
            return;
        }
        if let (Some(holds), Some(held)) = (holds, self.inner.holds.get(client as usize)) {
            held.store(holds, Ordering::Relaxed);
        }
        injector::marked(&mut locked, client, mark);
    }

    /// A client is about to send this command.
    pub(super) fn about_to_send(&self, client: u32, node: Node, command: &Command) {
        let mut locked = self.lock();
        if client == 0 || !locked.state.cues.on() {
            return;
        }
        let name = command.name();
        injector::about_to_send(&mut locked, client, name);
        locked.crash_if_pending(client);
        locked.strike_request(client, node, name);
    }

    /// Returns when some clients are stopped, and none of the others will do anything more: without a heal
    /// nothing would happen any more.
    pub(super) async fn stalemate(&self) {
        loop {
            tokio::time::sleep(POLL_EVERY).await;
            let state = self.state();
            let clients = || state.clients.iter().skip(1);
            if clients().any(|it| it.is_stopped()) && !clients().any(|it| it.is_busy()) {
                return;
            }
        }
    }

    /// Ends every fault; nothing strikes any more. True if any fault was in force.
    pub(super) fn heal(&self) -> bool {
        let mut locked = self.lock();
        let mut in_force = locked.is_in_force();
        for end in locked.state.cues.close() {
            in_force = true;
            injector::end(&mut locked, end);
        }
        locked.heal();
        locked.request_scheduled(|_| true);
        in_force
    }

    /// Adds something that deserves attention.
    pub(super) fn remark(&self, what: String) {
        self.state().remarks.push(what);
    }

    /// Takes what deserved attention so far.
    pub(super) fn remarks(&self) -> Vec<String> {
        std::mem::take(&mut self.state().remarks)
    }

    fn state(&self) -> MutexGuard<'_, NemesisState> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> Locked<'_> {
        Locked { nemesis: self, state: self.state() }
    }

    /// Does something `in_ns` later.
    fn later(&self, in_ns: u64, act: impl FnOnce(&Self) + Send + 'static) {
        // Weak, so that a run neither waits for a timer nor leaves one behind.
        let nemesis = Arc::downgrade(&self.inner);
        self.inner.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_nanos(in_ns)).await;
            if let Some(inner) = nemesis.upgrade() {
                act(&Self { inner });
            }
        });
    }
}

impl NemesisInner {
    fn write(&self, client: u32, what: What) {
        self.journal.write(|| (self.elapsed_ns)(), client, 0, 0, |_| what);
    }

    /// A client has died: it holds nothing any more.
    fn dies(&self, client: u32) {
        if let Some(holds) = self.holds.get(client as usize) {
            holds.store(false, Ordering::Relaxed);
        }
    }

    fn holds(&self, client: u32) -> bool {
        self.holds.get(client as usize).is_some_and(|it| it.load(Ordering::Relaxed))
    }
}

impl Locked<'_> {
    fn client(&self, client: u32) -> Option<&Arc<dyn ClientControl>> {
        self.state.clients.get(client as usize)
    }

    /// Whether a fault of this client meets a hold; for client 0, whether anybody holds.
    fn meets_hold(&self, client: u32) -> bool {
        let inner = &self.nemesis.inner;
        match client {
            0 => {
                let held = inner.holds.iter().any(|it| it.load(Ordering::Relaxed));
                held || self.state.cues.holder().is_some()
            }
            _ => inner.holds(client) || self.state.cues.holds(client),
        }
    }
}

/// The place of a cue as a history has it.
fn staged(place: u32) -> Option<u16> {
    u16::try_from(place).ok()
}
