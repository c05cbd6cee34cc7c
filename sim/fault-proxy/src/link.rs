//! One client's link to one server: a listener, its latency, and the switches of its wire.
//!
//! Invariant: a switch applies to every connection of the link, open or new, from the next frame on. There is no packet
//! loss as such: TCP shows it as latency, as a cut, or as a lost frame ([`Action::Drop`](super::Action::Drop)).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use picklock::env::Node;
use resp::frame::{CommandName, Limits};
use tokio::sync::oneshot;

use super::addresses::Addresses;
use super::effect::{Effect, EffectId, InstalledEffect, Toxicity};
use super::gate::TaskWakers;
use super::ids::{ClientId, Cut, LinkConnection, Side};
use super::latency::Latency;
use super::log::{FaultId, LinkCounters, ProxyEvent, ProxyLog};
use super::upstream::Upstream;

/// What happens to requests after one whose reply is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterLostReply {
    /// They do not reach the server: the connection is dead from there on.
    #[default]
    Nothing,
    /// They reach the server, and their replies are lost too: only one direction is dead.
    RequestsPass,
}

/// The protocol of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Frames of RESP: rules apply, requests and replies are counted.
    #[default]
    Resp,
    /// Bytes that are not parsed, such as the stream between a primary and its replica. The bytes of
    /// one read are a piece, which is forwarded as a frame would be; where pieces end does not follow
    /// from the seed. No rule applies and nothing is counted but connections.
    Opaque,
}

/// How a link behaves from its start.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The protocol of its bytes.
    pub protocol: Protocol,
    /// Names the draws of [`Latency::Drawn`].
    pub seed: u64,
    /// Latency towards the server.
    pub requests: Latency,
    /// Latency towards the client.
    pub replies: Latency,
    /// How long a connection stays open and silent after a lost frame before it is reset; `None`
    /// leaves that to the client.
    pub grace: Option<Duration>,
    /// Whether later requests still get through after a lost reply.
    pub after_lost_reply: AfterLostReply,
    /// Limits of frames.
    pub limits: Limits,
    /// Where the client is sent when a reply names a server: in answers of sentinels and of cluster
    /// nodes, of ROLE, in redirections, and in what sentinels publish. `None` leaves replies as they
    /// are.
    pub addresses: Option<Arc<Addresses>>,
}

/// Settings that can change while connections are open.
#[derive(Clone, Debug)]
pub(super) struct Switches {
    pub(super) cut: Cut,
    pub(super) requests: Latency,
    pub(super) replies: Latency,
    pub(super) upstream: Upstream,
    pub(super) effects: Vec<InstalledEffect>,
    /// Connections begun in an earlier epoch are to be reset.
    pub(super) epoch: u64,
}

/// Shared by a link's handle, listener and connections.
#[derive(Debug)]
pub(super) struct LinkState {
    pub(super) client: ClientId,
    pub(super) node: Node,
    pub(super) plan: Plan,
    pub(super) log: Arc<ProxyLog>,
    switches: Mutex<Switches>,
    version: AtomicU64,
    pub(super) wakers: TaskWakers,
    counters: Mutex<LinkCounters>,
    /// Connections accepted, listener after listener.
    pub(super) accepted: AtomicU64,
    effects_made: AtomicU64,
    /// Asks the listener to stop; it drops the sender once it has.
    stop: Mutex<Option<oneshot::Sender<Ended>>>,
}

/// Dropped by a listener that has ended.
pub(super) type Ended = mpsc::Sender<()>;

impl LinkState {
    pub(super) fn new(
        client: ClientId,
        node: Node,
        upstream: Upstream,
        plan: Plan,
        log: Arc<ProxyLog>,
    ) -> Self {
        let (requests, replies) = (plan.requests.clone(), plan.replies.clone());
        let switches =
            Switches { cut: Cut::None, requests, replies, upstream, effects: Vec::new(), epoch: 0 };
        Self {
            client,
            node,
            plan,
            log,
            switches: Mutex::new(switches),
            version: AtomicU64::new(0),
            wakers: TaskWakers::default(),
            counters: Mutex::default(),
            accepted: AtomicU64::new(0),
            effects_made: AtomicU64::new(0),
            stop: Mutex::default(),
        }
    }

    /// Whether an effect strikes this connection.
    pub(super) fn strikes(&self, installed: &InstalledEffect, connection: u64) -> bool {
        let LinkConnection { client, node, .. } = self.place(connection);
        let names = [u64::from(client.0), u64::from(node.0), connection, installed.id.0];
        installed.toxicity.strikes(self.plan.seed, names)
    }

    /// The signal for a new listener to stop. A former listener ends.
    pub(super) fn listened_to(&self) -> oneshot::Receiver<Ended> {
        let (stop, stopped) = oneshot::channel();
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(stop);
        stopped
    }

    pub(super) fn place(&self, connection: u64) -> LinkConnection {
        LinkConnection { client: self.client, node: self.node, connection }
    }

    /// Changes with every switch, and after it.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn switches(&self) -> Switches {
        self.switches.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn count(&self, add: impl FnOnce(&mut LinkCounters)) {
        add(&mut self.counters.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn count_request(&self, name: CommandName) {
        self.count(|counters| {
            counters.requests += 1;
            *counters.commands.entry(name).or_default() += 1;
        });
    }

    pub(super) fn note_struck(&self, id: EffectId) {
        self.count(|counters| {
            counters.struck.insert(id);
        });
    }

    fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.switches.lock().unwrap_or_else(PoisonError::into_inner));
        self.version.fetch_add(1, Ordering::AcqRel);
        self.wakers.wake_all();
    }
}

/// A link. Cloning gives another handle; the link lives as long as its proxy.
#[derive(Clone, Debug)]
pub struct Link {
    pub(super) addr: SocketAddr,
    pub(super) state: Arc<LinkState>,
}

impl Link {
    /// Where the client connects to. Plain TCP, even if the connection to the server uses TLS.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Cuts the link, or heals it with [`Cut::None`].
    pub fn cut(&self, cut: Cut) {
        self.state.log.note(self.state.place(0), ProxyEvent::Cut(cut));
        self.state.switch(|switches| switches.cut = cut);
    }

    /// Sets the latencies of frames yet to come; no frame overtakes one that is on its way.
    pub fn set_latency(&self, requests: Latency, replies: Latency) {
        self.state.switch(|switches| {
            (switches.requests, switches.replies) = (requests, replies);
        });
    }

    /// Sends connections yet to come to another server, as after a restart on another port.
    pub fn set_upstream(&self, upstream: Upstream) {
        self.state.switch(|switches| switches.upstream = upstream);
    }

    /// Resets every open connection; data in flight is lost. New connections are accepted.
    pub fn reset_connections(&self) {
        self.state.log.note(self.state.place(0), ProxyEvent::ResetAll);
        self.state.switch(|switches| switches.epoch += 1);
    }

    /// Puts an effect on one direction, for this part of the connections, open or later.
    pub fn add_effect(&self, side: Side, effect: Effect, toxicity: Toxicity) -> EffectId {
        self.add_effects(&[side], &effect, toxicity)
    }

    /// Adds an effect on these directions: a connection is struck in all of them or none.
    pub(crate) fn add_effects(
        &self,
        sides: &[Side],
        effect: &Effect,
        toxicity: Toxicity,
    ) -> EffectId {
        let id = EffectId(self.state.effects_made.fetch_add(1, Ordering::Relaxed) + 1);
        for side in sides.iter().copied() {
            let event = ProxyEvent::EffectPut(id, side, effect.clone(), toxicity);
            self.state.log.note(self.state.place(0), event);
        }
        self.state.switch(|switches| {
            let installed =
                |side: &Side| InstalledEffect { id, side: *side, effect: effect.clone(), toxicity };
            switches.effects.extend(sides.iter().map(installed));
        });
        id
    }

    /// Removes an effect; false if there is none of this id. What it has done stands.
    pub fn remove_effect(&self, id: EffectId) -> bool {
        let mut is_gone = false;
        self.state.switch(|switches| {
            let before = switches.effects.len();
            switches.effects.retain(|it| it.id != id);
            is_gone = switches.effects.len() < before;
        });
        if is_gone {
            self.state.log.note(self.state.place(0), ProxyEvent::EffectTaken(id));
        }
        is_gone
    }

    /// Logs the name of a fault on this link.
    pub(crate) fn note_put(&self, name: &str, id: FaultId) {
        self.state.log.note(self.state.place(0), ProxyEvent::ToxicPut(name.to_owned(), id));
    }

    /// Logs that a fault is removed from this link.
    pub(crate) fn note_taken(&self, name: &str, id: FaultId) {
        self.state.log.note(self.state.place(0), ProxyEvent::ToxicTaken(name.to_owned(), id));
    }

    /// Closes the listener, and resets every connection. See [`Proxy::reopen`](super::Proxy::reopen).
    /// Returns when the port is free; not to be called on the proxy's own thread.
    pub fn close(&self) {
        let stop = self.state.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stop) = stop {
            let (ended, wait) = mpsc::channel();
            if stop.send(ended).is_ok() {
                // It waits for an error: then the other end has been dropped.
                let _ = wait.recv();
            }
        }
        self.reset_connections();
    }

    /// The traffic so far.
    pub fn counters(&self) -> LinkCounters {
        self.state.counters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
