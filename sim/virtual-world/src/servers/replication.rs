//! Replication: what the primary sends its replicas, and which of them takes its place.
//!
//! Invariant: a replica applies whole groups of its primary's stream, in order, and what has not arrived
//! when either of the two ends is lost with it; so a replica that is promoted has what had arrived.
//! Deliberately absent: an election; which replica is promoted is a choice.

use redis_model::persistence::Ending;
use redis_model::replication::ReplicaId;

use super::super::choices::Choices;
use super::super::latency;
use super::super::time::VirtualTime;
use super::{Availability, ServerEvent, VirtualServers};

/// The stream from the primary to one replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplicaFeed {
    /// Which of all there have been.
    number: u32,
    pub(super) replica: u32,
    id: ReplicaId,
    /// The stream has been sent up to here, and acknowledged up to there.
    sent: u64,
    acknowledged: u64,
    /// When the last part arrives, and the last acknowledgement.
    pub(super) arrives_ns: [u64; 2],
}

/// A direction of a feed.
#[derive(Clone, Copy)]
enum Towards {
    Replica,
    Primary,
}

impl VirtualServers {
    /// A replica takes over the primary's data set and follows it from there.
    pub(super) fn attach(&mut self, replica: u32, now_ns: u64) {
        let primary = self.primary;
        let port = |server: u32| u16::try_from(6379 + server).unwrap_or(u16::MAX);
        let model = &mut self[primary].model;
        let id = model.attach_replica("127.0.0.1", port(replica));
        let snapshot = model.snapshot();
        let offset = snapshot.offset();
        model.acknowledge(id, offset);
        self[replica].model.follow("127.0.0.1", port(primary), &snapshot);
        self.feeds_begun += 1;
        self.feeds.push(ReplicaFeed {
            number: self.feeds_begun,
            replica,
            id,
            sent: offset,
            acknowledged: offset,
            arrives_ns: [now_ns; 2],
        });
    }

    /// Every other server of the lock that is up follows the primary.
    fn attach_all(&mut self, now_ns: u64) {
        self.feeds.clear();
        for server in 0..self.of_lock() {
            if server != self.primary && self[server].is_up() {
                self.attach(server, now_ns);
            }
        }
    }

    /// Sends the replicas what this server has written, if it is the primary.
    pub(super) fn feed_replicas(
        &mut self,
        server: u32,
        time: &mut VirtualTime,
        choices: &mut Choices,
    ) {
        if !self.replicated || server != self.primary {
            return;
        }
        let to = self[server].model.offset();
        for place in 0..self.feeds.len() {
            let ReplicaFeed { number: feed, sent: from, .. } = self.feeds[place];
            if from < to {
                self.feeds[place].sent = to;
                let event = ServerEvent::Stream { feed, from, to };
                self.ship(place, Towards::Replica, event, time, choices);
            }
        }
    }

    /// Sends something over a feed; it overtakes nothing.
    fn ship(
        &mut self,
        place: usize,
        towards: Towards,
        event: ServerEvent,
        time: &mut VirtualTime,
        choices: &mut Choices,
    ) {
        let feed = &mut self.feeds[place];
        let lag = self.lags.get(feed.replica as usize);
        let lag_ns = lag.map_or(0, |lag| latency::draw(lag, choices));
        let arrives_ns = &mut feed.arrives_ns[towards as usize];
        *arrives_ns = (*arrives_ns).max(time.now_ns() + lag_ns);
        let at_ns = *arrives_ns;
        self.plan(at_ns, event, time);
    }

    /// The feed of this number; none where one of its ends has ended.
    fn feed(&self, number: u32) -> Option<usize> {
        self.feeds.iter().position(|feed| feed.number == number)
    }

    pub(super) fn stream_arrives(
        &mut self,
        feed: u32,
        from: u64,
        to: u64,
        time: &mut VirtualTime,
        choices: &mut Choices,
    ) {
        let Some(place) = self.feed(feed) else { return };
        let replica = self.feeds[place].replica;
        let mut groups = Vec::new();
        let kept = self[self.primary].model.copy_stream(from, to, &mut groups);
        assert!(kept, "nothing is forgotten unacknowledged");
        let it = &mut self[replica];
        let wall = it.wall(time.now_ns());
        it.model.apply(wall, &groups);
        self.plan_sync(replica, time);
        let event = ServerEvent::Acknowledgement { feed, to };
        self.ship(place, Towards::Primary, event, time, choices);
    }

    /// A replica has what the primary sent it up to here. The primary is returned where that may be the
    /// answer to a blocked command.
    pub(super) fn acknowledged(&mut self, feed: u32, to: u64) -> Option<u32> {
        let place = self.feed(feed)?;
        self.feeds[place].acknowledged = to;
        let everywhere = self.feeds.iter().map(|feed| feed.acknowledged).min();
        let (primary, id) = (self.primary, self.feeds[place].id);
        let it = &mut self[primary];
        it.model.acknowledge(id, to);
        it.model.forget_stream(everywhere.unwrap_or(0));
        (it.blocked > 0).then_some(primary)
    }

    /// Ends a server, and the feeds from it and to it.
    pub(crate) fn end(&mut self, server: u32, ending: Ending) {
        self[server].end(ending);
        if server == self.primary {
            self.feeds.clear();
        } else if let Some(place) = self.feeds.iter().position(|it| it.replica == server) {
            let feed = self.feeds.remove(place);
            let primary = self.primary;
            self[primary].model.detach_replica(feed.id);
        }
    }

    /// Starts a server that has ended: with what its file has, and as a replica where there is another
    /// primary.
    pub(crate) fn restart(&mut self, server: u32, now_ns: u64) {
        let it = &mut self[server];
        let wall = it.wall(now_ns);
        it.model.restart(wall);
        it.availability = Availability::Up;
        if self.replicated {
            if server == self.primary {
                self.attach_all(now_ns);
            } else if self[self.primary].is_up() {
                self.attach(server, now_ns);
            }
        }
    }

    /// Makes a replica the primary: the one that is named, or one that is chosen, the most advanced being
    /// the benign choice. False where there is none.
    pub(crate) fn promote(&mut self, to: Option<u32>, now_ns: u64, choices: &mut Choices) -> bool {
        let candidates = self.candidates();
        if candidates.is_empty() {
            return false;
        }
        let named = to.filter(|to| candidates.contains(to));
        let promoted = named.unwrap_or_else(|| {
            let ways = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
            candidates[choices.pick(ways) as usize]
        });
        self[promoted].model.promote();
        self.primary = promoted;
        self.attach_all(now_ns);
        true
    }

    /// The replica to be promoted in the benign case: the one that is named, or the most advanced.
    pub(crate) fn successor(&self, to: Option<u32>) -> Option<u32> {
        let candidates = self.candidates();
        to.filter(|to| candidates.contains(to)).or_else(|| candidates.first().copied())
    }

    /// Replicas that could take the primary's place, the most advanced first.
    fn candidates(&self) -> Vec<u32> {
        let all = (0_u32..).zip(&self.all);
        let others = all
            .filter(|(server, it)| *server != self.primary && it.is_up() && it.model.is_replica());
        let mut candidates: Vec<(u64, u32)> =
            others.map(|(server, it)| (it.model.offset(), server)).collect();
        candidates.sort_by_key(|&(offset, server)| (u64::MAX - offset, server));
        candidates.into_iter().map(|(_, server)| server).collect()
    }
}
