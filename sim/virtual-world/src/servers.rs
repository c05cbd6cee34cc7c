//! The servers: which of them clients reach, their state, and when each syncs its file.
//!
//! Invariant: if servers are replicated, `Node(0)` leads to the primary. A server's file is synced when the
//! model says that it is due, by the server's own clock.

mod replication;

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use harness::clock::Clock;
use picklock::command::Command;
use picklock::time::WallTime;
use redis_model::model::{ConnectionId, Model, Submitted, Termination};
use redis_model::options::ModelOptions;
use resp::Reply;
use scenarios::distribution::Sampler;
use scenarios::topology::{AppendOnly, Software, Topology};
use smallvec::SmallVec;

use self::replication::ReplicaFeed;
use super::choices::Choices;
use super::queue::SimEvent;
use super::time::{EPOCH_NS, VirtualTime};

/// How often a server with `everysec` syncs its file.
const FSYNC_NS: u64 = 1_000_000_000;
/// The address of every client.
const CLIENT_ADDR: &str = "127.0.0.1:1";

/// The state of a server's process and machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Liveness {
    #[default]
    Up,
    /// Its process is gone; its machine refuses connections.
    Down,
    /// Its machine is gone, and answers nothing.
    PoweredOff,
}

/// A server.
pub(super) struct VirtualServer {
    pub(super) model: Model,
    /// The connection of each session, by the session's number.
    sessions: Vec<u32>,
    /// How many blocked commands it has.
    pub(super) blocked: u32,
    /// How many connections for subscriptions it has had: with none, nobody gets a message.
    pub(super) subscribers: u32,
    pub(super) clock: Clock,
    pub(super) liveness: Liveness,
    /// Events that have come due while it is stalled; none while it runs.
    pub(super) stalled: Option<Vec<SimEvent>>,
    /// What its model was made from.
    append_only: AppendOnly,
    software: Software,
    lua_only: bool,
    cluster: bool,
    /// An fsync is planned.
    sync_planned: bool,
}

/// All servers, and the replication between them.
#[derive(Default)]
pub(super) struct VirtualServers {
    all: Vec<VirtualServer>,
    /// Servers of schedules that had more: kept for their memory, and for what Lua has compiled.
    spare: Vec<VirtualServer>,
    /// How many nodes clients can connect to.
    nodes: u32,
    /// The server that `Node(0)` leads to.
    pub(super) primary: u32,
    /// The old primary that goes on beside the new one, and the process that stays with it.
    pub(super) lingering: Option<(u32, u32)>,
    /// The server of the protected resource, if it has one of its own: no fault strikes it.
    resource: Option<u32>,
    replicated: bool,
    /// Something is to be done after each command.
    has_followups: bool,
    /// The latency of what a primary sends each server while that is a replica, and of its acknowledgements.
    lags: Arc<[Sampler]>,
    feeds: Vec<ReplicaFeed>,
    /// How many feeds there have been.
    feeds_begun: u32,
}

impl Default for VirtualServer {
    fn default() -> Self {
        Self {
            model: Model::new(ModelOptions::default()),
            sessions: Vec::new(),
            blocked: 0,
            subscribers: 0,
            clock: Clock::exact(EPOCH_NS),
            liveness: Liveness::Up,
            stalled: None,
            append_only: AppendOnly::Off,
            software: Software::default(),
            lua_only: false,
            cluster: false,
            sync_planned: false,
        }
    }
}

impl VirtualServer {
    /// As new, keeping the memory.
    fn reset(&mut self) {
        self.model.reset();
        self.sessions.clear();
        (self.blocked, self.subscribers, self.sync_planned) = (0, 0, false);
        (self.clock, self.liveness) = (Clock::exact(EPOCH_NS), Liveness::Up);
        self.stalled = None;
    }

    /// Replaces its model if the scenario needs another.
    fn configure(
        &mut self,
        software: Software,
        append_only: AppendOnly,
        lua_only: bool,
        cluster: bool,
    ) {
        let asked = (append_only, software, lua_only, cluster);
        if (self.append_only, self.software, self.lua_only, self.cluster) != asked {
            let defaults = ModelOptions::default();
            let options = ModelOptions { append_only, software, lua_only, cluster, ..defaults };
            self.model.configure(options);
        }
        (self.append_only, self.software, self.lua_only, self.cluster) = asked;
    }

    /// Its wall clock.
    pub(super) fn wall(&self, now_ns: u64) -> WallTime {
        WallTime::from_unix_ns(self.clock.wall(now_ns))
    }

    pub(super) fn is_up(&self) -> bool {
        self.liveness == Liveness::Up
    }

    /// Whether it is up and not stalled.
    pub(super) fn serves(&self) -> bool {
        self.is_up() && self.stalled.is_none()
    }

    /// Accepts a client.
    pub(super) fn accept(&mut self, now_ns: u64) -> ConnectionId {
        self.model.connect(self.wall(now_ns), CLIENT_ADDR)
    }

    /// Its session belongs to this connection.
    pub(super) fn bind(&mut self, session: ConnectionId, conn: u32) {
        let session = session.0 as usize;
        if self.sessions.len() <= session {
            self.sessions.resize(session + 1, 0);
        }
        self.sessions[session] = conn;
    }

    /// The messages and replies for other clients than the caller, with their connections.
    pub(super) fn take_outbox(&mut self) -> SmallVec<[(u32, Reply); 4]> {
        let mut out = SmallVec::new();
        let sessions = &self.sessions;
        self.model.drain_outbox(|session, reply| out.push((sessions[session.0 as usize], reply)));
        out
    }

    /// Executes a command.
    pub(super) fn submit(
        &mut self,
        now_ns: u64,
        session: ConnectionId,
        command: &Command,
    ) -> Submitted {
        let wall = self.wall(now_ns);
        // A slice of the arguments, without allocation if they are few.
        let mut few = [&[][..]; 8];
        let mut count = 0;
        for arg in command.args() {
            let Some(place) = few.get_mut(count) else {
                return self.model.submit(wall, session, &command.args().collect::<Vec<_>>());
            };
            *place = arg;
            count += 1;
        }
        self.model.submit(wall, session, &few[..count])
    }

    /// Executes a command as a client does that connects for it alone, without a network.
    pub(super) fn execute_at_once(&mut self, now_ns: u64, args: &[&[u8]]) -> Reply {
        let wall = self.wall(now_ns);
        let session = self.model.connect(wall, CLIENT_ADDR);
        let reply = self.model.execute(wall, session, args);
        self.model.disconnect(session);
        reply
    }

    /// Plans the next sync of its file, if one is due some time; `server` is its number.
    fn plan_sync(&mut self, server: u32, time: &mut VirtualTime) {
        if !self.sync_planned
            && let Some(due) = self.model.next_fsync()
        {
            self.sync_planned = true;
            let at_ns = self.clock.moment_of_wall(due.as_unix_ns());
            time.plan(at_ns, SimEvent::Sync(server));
        }
    }

    /// Ends; what its file has stays.
    fn end(&mut self, ending: Termination) {
        self.sessions.clear();
        (self.blocked, self.subscribers) = (0, 0);
        let missed = self.stalled.take().unwrap_or_default();
        self.sync_planned &= !missed.iter().any(|event| matches!(event, SimEvent::Sync(_)));
        self.model.end(ending);
        self.liveness = match ending {
            Termination::Killed => Liveness::Down,
            Termination::PowerLoss => Liveness::PoweredOff,
        };
    }
}

impl Index<u32> for VirtualServers {
    type Output = VirtualServer;

    fn index(&self, server: u32) -> &VirtualServer {
        &self.all[server as usize]
    }
}

impl IndexMut<u32> for VirtualServers {
    fn index_mut(&mut self, server: u32) -> &mut VirtualServer {
        &mut self.all[server as usize]
    }
}

impl VirtualServers {
    /// Starts again with this many servers, of which none follows another, keeping the memory.
    pub(super) fn reset(&mut self, servers: usize) {
        let spare = &mut self.spare;
        spare.extend(self.all.drain(servers.min(self.all.len())..));
        self.all.resize_with(servers, || spare.pop().unwrap_or_default());
        self.all.iter_mut().for_each(VirtualServer::reset);
        self.nodes = self.count();
        (self.primary, self.lingering, self.resource) = (0, None, None);
        (self.replicated, self.has_followups) = (false, false);
        self.feeds.clear();
        self.feeds_begun = 0;
    }

    /// Sets what the servers are and what they keep, before any command. A server beyond those of the topology
    /// is the protected resource's own.
    pub(super) fn configure(
        &mut self,
        topology: Topology,
        software: Software,
        append_only: AppendOnly,
        lua_only: bool,
        lags: &Arc<[Sampler]>,
    ) {
        self.nodes = topology.nodes();
        self.lags = Arc::clone(lags);
        let of_lock = topology.servers();
        self.resource = Some(of_lock).filter(|it| (*it as usize) < self.all.len());
        for (server, it) in (0..).zip(&mut self.all) {
            let append_only = if server < of_lock { append_only } else { AppendOnly::Off };
            let cluster = matches!(topology, Topology::Cluster { .. }) && server < of_lock;
            it.configure(software, append_only, lua_only, cluster);
        }
    }

    /// Everything so far is on the disks, and replicas begin to follow. With `loses_power`, the run begins with a
    /// second of the servers, as in the live worlds, so that no important write is synced by luck.
    pub(super) fn start(
        &mut self,
        topology: Topology,
        loses_power: bool,
        now_ns: u64,
        choices: &mut Choices,
    ) {
        let keeps_file = self.all.iter().any(|it| it.append_only != AppendOnly::Off);
        for server in 0..topology.servers() {
            let it = &mut self[server];
            // A server that syncs once a second may be anywhere within its second.
            let ago_ns = match it.append_only {
                AppendOnly::Everysec if !loses_power => choices.span(FSYNC_NS),
                _ => 0,
            };
            let wall_ns = it.clock.wall(now_ns).saturating_sub(ago_ns);
            it.model.fsync(WallTime::from_unix_ns(wall_ns));
        }
        if let Topology::Replicated { replicas } = topology {
            self.replicated = true;
            (1..=replicas).for_each(|replica| self.attach(replica, now_ns));
        }
        self.has_followups = self.replicated || keeps_file;
    }

    /// How many there are, that of the resource included.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// How many servers the lock has: those that a fault can strike. The resource's own follows them.
    pub(super) fn of_lock(&self) -> u32 {
        self.resource.unwrap_or(self.count())
    }

    /// The server that a node leads this process to at this moment.
    pub(super) fn of_node(&self, process: u32, node: u32) -> Option<u32> {
        match (node, self.lingering) {
            (0, Some((old, keeps))) if keeps == process => return Some(old),
            _ => {}
        }
        match node {
            0 => Some(self.primary),
            _ if node == self.nodes => self.resource,
            _ => Some(node).filter(|node| *node < self.nodes),
        }
    }

    /// The node that leads to a server at this moment.
    pub(super) fn node_of(&self, server: u32) -> Option<u16> {
        let node =
            if self.replicated { (server == self.primary).then_some(0) } else { Some(server) };
        node.and_then(|node| u16::try_from(node).ok())
    }

    /// Whether any node leads this process to this server at this moment.
    pub(super) fn is_reachable(&self, process: u32, server: u32) -> bool {
        !self.replicated || self.of_node(process, 0) == Some(server) || self.is_resource(server)
    }

    /// Keeps an event for later if its server is stalled and cannot see it yet; false if not.
    pub(super) fn postpones(&mut self, event: SimEvent) -> bool {
        let server = match event {
            SimEvent::Sync(server) | SimEvent::Unblock(server) => Some(server),
            SimEvent::Acknowledgement(_) => Some(self.primary),
            SimEvent::Stream(feed) => self.replica_of(feed),
            _ => None,
        };
        let waits = server.and_then(|server| self[server].stalled.as_mut());
        waits.map(|waits| waits.push(event)).is_some()
    }

    /// Whether this server is the protected resource's own.
    pub(super) fn is_resource(&self, server: u32) -> bool {
        self.resource == Some(server)
    }

    /// After a command: its writes go to the replicas, and to the disk when that is due.
    #[inline]
    pub(super) fn after_command(
        &mut self,
        server: u32,
        time: &mut VirtualTime,
        choices: &mut Choices,
    ) {
        if self.has_followups {
            self.feed_replicas(server, time, choices);
            self[server].plan_sync(server, time);
        }
    }

    /// It is time to sync a server's file.
    pub(super) fn sync(&mut self, server: u32, time: &mut VirtualTime) {
        let it = &mut self[server];
        it.sync_planned = false;
        if it.is_up() {
            it.model.fsync_due(it.wall(time.now_ns()));
            it.plan_sync(server, time);
        }
    }
}

#[cfg(test)]
mod tests;
