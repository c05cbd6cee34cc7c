//! The servers as a fleet: which of them clients are led to, what travels between them, and what each
//! does by itself.
//!
//! Invariant: a replica applies whole groups of its primary's stream, in order, and what has not
//! arrived when either of the two ends is lost with it. The file is synced when the model says that
//! it is due, by the server's own clock. Deliberately absent: who ends a server, which is the nemesis.

mod ends;

use picklock::time::WallTime;
use scenarios::topology::{AppendOnly, Software, Topology};

use super::choices::Draw;
use super::queue::Event;
use super::world::World;
use harness::clock::Clock;
use redis_model::model::Model;
use redis_model::model::ReplicaId;
use redis_model::options::Fsync;
use redis_model::options::{ModelOptions, Profile};

/// After so long a server with `everysec` syncs again.
const FSYNC_NS: u64 = 1_000_000_000;

/// A server node.
pub(super) struct ServerNode {
    pub(super) model: Model,
    /// The connection of each session, by the session's place.
    pub(super) sessions: Vec<u32>,
    /// How many commands it keeps waiting.
    pub(super) waiting: u32,
    /// How many connections for listening it has had: with none, nobody hears a message.
    pub(super) listeners: u32,
    pub(super) clock: Clock,
    pub(super) state: State,
    /// What its model keeps, and is.
    append_only: AppendOnly,
    profile: Profile,
    /// An fsync is planned.
    syncs: bool,
}

/// How a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It serves.
    #[default]
    Up,
    /// Its process is gone; its machine refuses whoever comes.
    Dead,
    /// Its machine is gone, and says nothing.
    Dark,
}

impl ServerNode {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            model: Model::new(ModelOptions::default()),
            sessions: Vec::new(),
            waiting: 0,
            listeners: 0,
            clock,
            state: State::Up,
            append_only: AppendOnly::Off,
            profile: Profile::default(),
            syncs: false,
        }
    }

    /// As new, keeping the memory.
    pub(super) fn reset(&mut self, clock: Clock) {
        self.model.reset();
        self.sessions.clear();
        (self.waiting, self.listeners, self.syncs) = (0, 0, false);
        (self.clock, self.state) = (clock, State::Up);
    }

    fn be(&mut self, profile: Profile, append_only: AppendOnly) {
        if (self.append_only, self.profile) != (append_only, profile) {
            let append_only = match append_only {
                AppendOnly::Off => None,
                AppendOnly::Always => Some(Fsync::Always),
                AppendOnly::Everysec => Some(Fsync::Everysec),
                AppendOnly::Unsynced => Some(Fsync::No),
            };
            self.model =
                Model::new(ModelOptions { append_only, profile, ..ModelOptions::default() });
        }
        (self.append_only, self.profile) = (append_only, profile);
    }
}

/// What holds the servers together.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    /// How many nodes clients can connect to.
    pub(super) nodes: u32,
    /// The server that `Node(0)` leads to.
    pub(super) primary: u32,
    /// The server of the protected resource, where it has one of its own: no fault touches it.
    resource: Option<u32>,
    /// Something is to be done after each command.
    pub(super) busy: bool,
    replicated: bool,
    feeds: Vec<Feed>,
    /// Feeds there have been.
    fed: u32,
    chores: Vec<Chore>,
    vacant: Vec<u32>,
}

/// The stream from the primary to one replica.
#[derive(Clone, Copy, Debug)]
struct Feed {
    /// Which of all there have been.
    number: u32,
    replica: u32,
    id: ReplicaId,
    /// The stream has been sent up to here, and acknowledged up to there.
    sent: u64,
    acknowledged: u64,
    /// When the last piece arrives, and the last acknowledgement.
    arrives_ns: [u64; 2],
}

/// Something between servers, or in one, that is due.
#[derive(Clone, Copy, Debug)]
enum Chore {
    /// A piece of the stream arrives.
    Piece { feed: u32, from: u64, to: u64 },
    /// An acknowledgement arrives.
    Acknowledgement { feed: u32, to: u64 },
    /// The file is to be synced.
    Sync { server: u32 },
}

impl Fleet {
    /// Servers that know nothing of each other and do nothing by themselves.
    pub(super) fn reset(&mut self, servers: u32) {
        self.feeds.clear();
        self.chores.clear();
        self.vacant.clear();
        let (feeds, chores) = (std::mem::take(&mut self.feeds), std::mem::take(&mut self.chores));
        let vacant = std::mem::take(&mut self.vacant);
        *self = Self { nodes: servers, feeds, chores, vacant, ..Self::default() };
    }

    /// The server that a node leads to at this moment.
    pub(super) fn server(&self, node: u32) -> Option<u32> {
        match node {
            0 => Some(self.primary),
            _ if node == self.nodes => self.resource,
            _ => Some(node).filter(|node| *node < self.nodes),
        }
    }

    /// Whether any node leads to this server at this moment.
    pub(super) fn leads_to(&self, server: u32) -> bool {
        !self.replicated || server == self.primary || self.is_resource(server)
    }

    /// Whether this server is the protected resource's own.
    pub(super) fn is_resource(&self, server: u32) -> bool {
        self.resource == Some(server)
    }

    /// The node by which clients come to a server at this moment.
    fn node(&self, server: u32) -> Option<u16> {
        let node =
            if self.replicated { (server == self.primary).then_some(0) } else { Some(server) };
        node.and_then(|node| u16::try_from(node).ok())
    }
}

impl World {
    /// Says what the servers are and keep, before anything is asked of them. One more than the topology
    /// has is the protected resource's own.
    pub(super) fn equip(
        &mut self,
        topology: Topology,
        software: Software,
        append_only: AppendOnly,
    ) {
        self.fleet.nodes = topology.nodes();
        let of_lock = topology.servers();
        self.fleet.resource = Some(of_lock).filter(|it| (*it as usize) < self.servers.len());
        for (server, it) in (0..).zip(&mut self.servers) {
            let append_only = if server < of_lock { append_only } else { AppendOnly::Off };
            it.be(software.into(), append_only);
        }
    }

    /// How many servers the lock has: those that a fault can strike. The resource's own is behind
    /// them.
    pub(super) fn lock_servers(&self) -> u32 {
        let all = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        self.fleet.resource.unwrap_or(all)
    }

    /// Lets the fleet begin: replicas follow, and what is there so far is on the disks.
    pub(super) fn set_sail(&mut self, topology: Topology) {
        let keeps_file = self.servers.iter().any(|it| it.append_only != AppendOnly::Off);
        for server in 0..topology.servers() {
            let wall = self.server_wall(server);
            let it = &mut self.servers[server as usize];
            if it.append_only == AppendOnly::Everysec {
                // Nobody knows how long ago the last second began.
                let ago_ns = self.choices().span(Draw::Latency, FSYNC_NS);
                let wall = WallTime::from_unix_ns(wall.as_unix_ns().saturating_sub(ago_ns));
                self.servers[server as usize].model.fsync(wall);
            } else {
                it.model.fsync(wall);
            }
        }
        if let Topology::Replicated { replicas } = topology {
            self.fleet.replicated = true;
            (1..=replicas).for_each(|replica| self.attach(replica));
        }
        self.fleet.busy = self.fleet.replicated || keeps_file;
    }

    /// A replica takes over the primary's data set and follows it from there.
    fn attach(&mut self, replica: u32) {
        let primary = self.fleet.primary;
        let port = |server: u32| u16::try_from(6379 + server).unwrap_or(u16::MAX);
        let model = &mut self.servers[primary as usize].model;
        let id = model.attach_replica("127.0.0.1", port(replica));
        let snapshot = model.snapshot();
        let offset = snapshot.offset();
        model.acknowledge(id, offset);
        self.servers[replica as usize].model.follow("127.0.0.1", port(primary), &snapshot);
        self.fleet.fed += 1;
        self.fleet.feeds.push(Feed {
            number: self.fleet.fed,
            replica,
            id,
            sent: offset,
            acknowledged: offset,
            arrives_ns: [self.now_ns; 2],
        });
    }

    /// After a command: its writes go to the replicas, and to the disk when that is due.
    pub(super) fn after_command(&mut self, server: u32) {
        if self.fleet.replicated && server == self.fleet.primary {
            let to = self.servers[server as usize].model.offset();
            for place in 0..self.fleet.feeds.len() {
                let Feed { number: feed, sent: from, .. } = self.fleet.feeds[place];
                if from < to {
                    self.fleet.feeds[place].sent = to;
                    self.ship(place, 0, Chore::Piece { feed, from, to });
                }
            }
        }
        self.plan_sync(server);
    }

    /// Sends something over a feed, that way (0 to the replica): it overtakes nothing.
    fn ship(&mut self, place: usize, way: usize, chore: Chore) {
        let choices = self.choices.as_mut().expect("a world that was reset has choices");
        let lag_ns = self.travel.lag(self.fleet.feeds[place].replica, choices);
        let arrives_ns = &mut self.fleet.feeds[place].arrives_ns[way];
        *arrives_ns = (*arrives_ns).max(self.now_ns + lag_ns);
        let at_ns = *arrives_ns;
        self.due(at_ns, chore);
    }

    fn due(&mut self, at_ns: u64, chore: Chore) {
        let place = match self.fleet.vacant.pop() {
            Some(place) => {
                self.fleet.chores[place as usize] = chore;
                place
            }
            None => {
                self.fleet.chores.push(chore);
                u32::try_from(self.fleet.chores.len() - 1).expect("fewer than 2^32 chores")
            }
        };
        self.queue.push(at_ns, Event::Chore(place));
    }

    /// What was due is done.
    pub(super) fn chore(&mut self, place: u32) {
        self.fleet.vacant.push(place);
        match self.fleet.chores[place as usize] {
            Chore::Piece { feed, from, to } => self.piece_arrives(feed, from, to),
            Chore::Acknowledgement { feed, to } => self.acknowledged(feed, to),
            Chore::Sync { server } => {
                self.servers[server as usize].syncs = false;
                if self.servers[server as usize].state == State::Up {
                    let wall = self.server_wall(server);
                    self.servers[server as usize].model.fsync_due(wall);
                    self.plan_sync(server);
                }
            }
        }
    }

    /// The feed of this number; none where one of its ends has ended.
    fn feed(&self, number: u32) -> Option<usize> {
        self.fleet.feeds.iter().position(|feed| feed.number == number)
    }

    fn piece_arrives(&mut self, feed: u32, from: u64, to: u64) {
        let Some(place) = self.feed(feed) else { return };
        let replica = self.fleet.feeds[place].replica;
        let mut groups = Vec::new();
        let primary = &self.servers[self.fleet.primary as usize].model;
        assert!(primary.copy_stream(from, to, &mut groups), "nothing is forgotten unacknowledged");
        let wall = self.server_wall(replica);
        self.servers[replica as usize].model.apply(wall, &groups);
        self.plan_sync(replica);
        self.ship(place, 1, Chore::Acknowledgement { feed, to });
    }

    fn acknowledged(&mut self, feed: u32, to: u64) {
        let Some(place) = self.feed(feed) else { return };
        self.fleet.feeds[place].acknowledged = to;
        let everywhere = self.fleet.feeds.iter().map(|feed| feed.acknowledged).min();
        let (primary, id) = (self.fleet.primary, self.fleet.feeds[place].id);
        let it = &mut self.servers[primary as usize];
        it.model.acknowledge(id, to);
        it.model.forget_stream(everywhere.unwrap_or(0));
        if it.waiting > 0 {
            self.deliver(primary, 0);
        }
    }

    fn plan_sync(&mut self, server: u32) {
        let it = &self.servers[server as usize];
        if it.syncs {
            return;
        }
        if let Some(due) = it.model.next_fsync() {
            let moment_ns = it.clock.moment_of_wall(due.as_unix_ns()).max(self.now_ns);
            self.servers[server as usize].syncs = true;
            self.due(moment_ns, Chore::Sync { server });
        }
    }
}

#[cfg(test)]
mod tests;
