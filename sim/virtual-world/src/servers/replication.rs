//! Replication: what the primary sends to its replicas, and which of them takes its place.
//!
//! Invariant: a replica applies whole groups of its primary's stream, in order. What has not arrived when
//! either of the two ends is lost, so a promoted replica has exactly what had arrived. Deliberately absent:
//! an election; which replica is promoted is a choice.

use std::collections::VecDeque;

use redis_model::model::{ReplicaId, Termination};
use scenarios::distribution::Sampler;

use super::super::choices::Choices;
use super::super::latency;
use super::super::queue::SimEvent;
use super::super::time::VirtualTime;
use super::{Liveness, VirtualServers};

/// The stream from the primary to one replica.
#[derive(Debug)]
pub(super) struct ReplicaFeed {
    /// Its number among all feeds so far.
    number: u32,
    pub(super) replica: u32,
    id: ReplicaId,
    /// The stream has been sent, applied and acknowledged up to these offsets.
    sent: u64,
    applied: u64,
    acknowledged: u64,
    pub(super) stream: FeedDirection,
    acknowledgements: FeedDirection,
}

/// One direction of a feed: offsets on their way, which overtake nothing.
#[derive(Debug)]
pub(super) struct FeedDirection {
    in_transit: VecDeque<u64>,
    /// When the last of them arrives.
    pub(super) arrives_ns: u64,
}

impl FeedDirection {
    fn new(now_ns: u64) -> Self {
        Self { in_transit: VecDeque::new(), arrives_ns: now_ns }
    }

    fn send(&mut self, offset: u64, event: SimEvent, lag_ns: u64, time: &mut VirtualTime) {
        self.in_transit.push_back(offset);
        self.arrives_ns = self.arrives_ns.max(time.now_ns() + lag_ns);
        time.plan(self.arrives_ns, event);
    }

    fn receive(&mut self) -> u64 {
        self.in_transit.pop_front().expect("an event for each offset")
    }
}

impl VirtualServers {
    /// A replica takes over the primary's data set and follows it from there.
    pub(super) fn attach(&mut self, replica: u32, now_ns: u64) {
        let primary = self.primary;
        let port = |server: u32| u16::try_from(6379 + server).unwrap_or(u16::MAX);
        let model = &mut self[primary].model;
        let id = model.attach_replica(port(replica));
        let snapshot = model.snapshot();
        let offset = snapshot.offset();
        model.acknowledge(id, offset);
        self[replica].model.follow(port(primary), &snapshot);
        self.feeds_begun += 1;
        self.feeds.push(ReplicaFeed {
            number: self.feeds_begun,
            replica,
            id,
            sent: offset,
            applied: offset,
            acknowledged: offset,
            stream: FeedDirection::new(now_ns),
            acknowledgements: FeedDirection::new(now_ns),
        });
    }

    /// Every other server of the lock that is up follows the primary.
    fn attach_all(&mut self, now_ns: u64) {
        self.feeds.clear();
        for server in 0..self.of_lock() {
            let lingers = self.lingering.is_some_and(|(old, _)| old == server);
            if server != self.primary && !lingers && self[server].is_up() {
                self.attach(server, now_ns);
            }
        }
    }

    /// The replica of this feed, unless that has ended.
    pub(super) fn replica_of(&self, feed: u32) -> Option<u32> {
        self.feeds.iter().find(|it| it.number == feed).map(|it| it.replica)
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
        for feed in self.feeds.iter_mut().filter(|feed| feed.sent < to) {
            feed.sent = to;
            let lag_ns = draw_lag(&self.lags, feed.replica, choices);
            feed.stream.send(to, SimEvent::Stream(feed.number), lag_ns, time);
        }
    }

    /// A part of this feed's stream arrives, unless one of its ends has ended.
    pub(crate) fn stream_arrives(
        &mut self,
        feed: u32,
        time: &mut VirtualTime,
        choices: &mut Choices,
    ) {
        let Some(feed) = self.feeds.iter_mut().find(|it| it.number == feed) else { return };
        let (from, to) = (feed.applied, feed.stream.receive());
        feed.applied = to;
        let mut groups = Vec::new();
        let kept = self.all[self.primary as usize].model.copy_stream(from, to, &mut groups);
        assert!(kept, "nothing is forgotten unacknowledged");
        let replica = &mut self.all[feed.replica as usize];
        replica.model.apply(replica.wall(time.now_ns()), &groups);
        replica.plan_sync(feed.replica, time);
        let lag_ns = draw_lag(&self.lags, feed.replica, choices);
        feed.acknowledgements.send(to, SimEvent::Acknowledgement(feed.number), lag_ns, time);
    }

    /// An acknowledgement of this feed arrives. Returns the primary if a blocked command may be waiting for
    /// that.
    pub(crate) fn acknowledgement_arrives(&mut self, feed: u32) -> Option<u32> {
        let feed = self.feeds.iter_mut().find(|it| it.number == feed)?;
        feed.acknowledged = feed.acknowledgements.receive();
        let (id, to) = (feed.id, feed.acknowledged);
        let everywhere = self.feeds.iter().map(|feed| feed.acknowledged).min();
        let primary = &mut self.all[self.primary as usize];
        primary.model.acknowledge(id, to);
        primary.model.forget_stream(everywhere.unwrap_or(0));
        (primary.blocked > 0).then_some(self.primary)
    }

    /// Ends a server, and the feeds from it and to it.
    pub(crate) fn end(&mut self, server: u32, ending: Termination) {
        self[server].end(ending);
        self.lingering = self.lingering.filter(|(old, _)| *old != server);
        if server == self.primary {
            self.feeds.clear();
        } else if let Some(place) = self.feeds.iter().position(|it| it.replica == server) {
            let feed = self.feeds.remove(place);
            let primary = self.primary;
            self[primary].model.detach_replica(feed.id);
        }
    }

    /// Starts a server that has ended: with what its file has, and as a replica if there is another
    /// primary.
    pub(crate) fn restart(&mut self, server: u32, now_ns: u64) {
        let it = &mut self[server];
        let wall = it.wall(now_ns);
        it.model.restart(wall);
        it.liveness = Liveness::Up;
        if self.replicated {
            if server == self.primary {
                self.attach_all(now_ns);
            } else if self[self.primary].is_up() {
                self.attach(server, now_ns);
            }
        }
    }

    /// Makes a replica the primary: the one that is named, or one that is chosen, the most advanced being
    /// the benign choice. False if there is none.
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

    /// A replica takes the primary's place, as with [`promote`](Self::promote), with all that the primary has written;
    /// the old primary follows it.
    pub(crate) fn switch_over(&mut self, to: Option<u32>, now_ns: u64, choices: &mut Choices) {
        let old = self.primary as usize;
        for feed in std::mem::take(&mut self.feeds) {
            let mut groups = Vec::new();
            let written = self.all[old].model.offset();
            let kept = self.all[old].model.copy_stream(feed.applied, written, &mut groups);
            assert!(kept, "nothing is forgotten unacknowledged");
            let replica = &mut self.all[feed.replica as usize];
            let wall = replica.wall(now_ns);
            replica.model.apply(wall, &groups);
            self.all[old].model.detach_replica(feed.id);
        }
        self.promote(to, now_ns, choices);
    }

    /// The primary is cut off from its replicas, and one of them takes its place, as with [`promote`](Self::promote);
    /// what was on its way to them is lost. The old primary goes on for this process.
    pub(crate) fn split(
        &mut self,
        to: Option<u32>,
        keeps: u32,
        now_ns: u64,
        choices: &mut Choices,
    ) {
        let old = self.primary;
        for feed in std::mem::take(&mut self.feeds) {
            self[old].model.detach_replica(feed.id);
        }
        self.lingering = Some((old, keeps));
        self.promote(to, now_ns, choices);
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
            .filter(|(server, it)| *server != self.primary && it.serves() && it.model.is_replica());
        let mut candidates: Vec<(u64, u32)> =
            others.map(|(server, it)| (it.model.offset(), server)).collect();
        candidates.sort_by_key(|&(offset, server)| (u64::MAX - offset, server));
        candidates.into_iter().map(|(_, server)| server).collect()
    }
}

/// The latency of the next part of this replica's stream, or of its acknowledgement, in nanoseconds.
fn draw_lag(lags: &[Sampler], replica: u32, choices: &mut Choices) -> u64 {
    lags.get(replica as usize).map_or(0, |lag| latency::draw(lag, choices))
}
