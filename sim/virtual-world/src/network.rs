//! The network: links between processes and servers, and the connections over them.
//!
//! Invariant: one direction of a connection is a queue, as TCP is: nothing overtakes, and nothing gets
//! through after a lost message. A message that meets a partition is withheld until the link is mended.
//! Deliberately absent: the content of messages; here they are numbers of calls.

use std::sync::Arc;

use picklock::env::CallError;
use redis_model::model::ConnectionId;

use super::latency::LinkLatencies;

/// As in the tokio environment, a connection that has been silent for a second is replaced.
const SILENCE_NS: u64 = 1_000_000_000;

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

/// What a connection is for: one for each purpose, as in the tokio environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Commands and their replies.
    Commands,
    /// Messages of channels.
    Subscriptions,
}

/// A connection.
#[derive(Debug)]
pub(super) struct NetworkConn {
    pub(super) process: u32,
    pub(super) server: u32,
    pub(super) session: ConnectionId,
    pub(super) purpose: Purpose,
    /// Neither end has broken it.
    pub(super) open: bool,
    /// When the last message of each direction arrives.
    arrives_ns: [u64; 2],
    /// A message was lost: nothing gets through this direction any more.
    dead: [bool; 2],
    /// Messages of this direction wait until it goes on.
    pub(super) stalled: [bool; 2],
    /// The call whose command blocks at the server.
    pub(super) blocked: Option<u32>,
    /// The server knows that the connection has ended.
    pub(super) ended: bool,
    /// Since when the client has asked without hearing anything.
    pub(super) asked_ns: Option<u64>,
    /// Its client has given it up, and makes a new connection.
    pub(super) given_up: bool,
    /// Its client knows that it is closed: a call on it has failed.
    pub(super) known_closed: bool,
}

/// A process's link to a server.
#[derive(Debug, Default)]
pub(super) struct NetworkLink {
    /// Which directions are cut.
    pub(super) cut: [bool; 2],
    /// Calls whose request, or reply, has met the cut, in order.
    pub(super) withheld: [Vec<u32>; 2],
}

/// A connection that a client is making.
#[derive(Debug)]
pub(super) struct ConnectAttempt {
    pub(super) process: u32,
    pub(super) server: u32,
    pub(super) purpose: Purpose,
    /// The task that waits for it.
    pub(super) task: u32,
    pub(super) outcome: Option<Result<u32, CallError>>,
}

/// Links, connections and latencies.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) latencies: Arc<LinkLatencies>,
    /// Process by process, one link for each server.
    links: Vec<NetworkLink>,
    servers: usize,
    conns: Vec<NetworkConn>,
    /// Messages on stalled connections, in order.
    stalled: Vec<(u32, Direction, u32)>,
    attempts: Vec<ConnectAttempt>,
}

impl NetworkConn {
    pub(super) fn new(
        process: u32,
        server: u32,
        session: ConnectionId,
        purpose: Purpose,
        now_ns: u64,
    ) -> Self {
        Self {
            process,
            server,
            session,
            purpose,
            open: true,
            arrives_ns: [now_ns; 2],
            dead: [false; 2],
            stalled: [false; 2],
            blocked: None,
            ended: false,
            asked_ns: None,
            given_up: false,
            known_closed: false,
        }
    }

    /// When a message with this latency arrives: never before the one ahead of it.
    pub(super) fn arrival(&mut self, direction: Direction, now_ns: u64, latency_ns: u64) -> u64 {
        let arrives_ns = &mut self.arrives_ns[direction as usize];
        *arrives_ns = (*arrives_ns).max(now_ns + latency_ns);
        *arrives_ns
    }

    /// Nothing gets through this direction any more.
    pub(super) fn kill(&mut self, direction: Direction) {
        self.dead[direction as usize] = true;
    }

    /// Whether nothing gets through this direction.
    pub(super) fn is_dead(&self, direction: Direction) -> bool {
        self.dead[direction as usize]
    }

    /// Whether its client would use it: not one that is broken, silent or given up.
    pub(super) fn is_usable(&self, now_ns: u64) -> bool {
        let silent = self.asked_ns.is_some_and(|asked_ns| now_ns - asked_ns >= SILENCE_NS);
        self.open && !silent && !self.given_up
    }
}

impl Network {
    /// Starts again without connections and cuts, keeping the memory.
    pub(super) fn reset(&mut self, processes: usize, servers: usize) {
        self.servers = servers;
        for link in &mut self.links {
            link.cut = [false; 2];
            link.withheld.iter_mut().for_each(Vec::clear);
        }
        self.links.resize_with(processes * servers, NetworkLink::default);
        self.conns.clear();
        self.stalled.clear();
        self.attempts.clear();
    }

    /// Opens a connection; returns its number.
    pub(super) fn open(&mut self, conn: NetworkConn) -> u32 {
        self.conns.push(conn);
        u32::try_from(self.conns.len() - 1).expect("fewer than 2^32 connections")
    }

    pub(super) fn conn(&self, conn: u32) -> &NetworkConn {
        &self.conns[conn as usize]
    }

    pub(super) fn conn_mut(&mut self, conn: u32) -> &mut NetworkConn {
        &mut self.conns[conn as usize]
    }

    /// The connections for which this is true.
    pub(super) fn conns_where(&self, is: impl Fn(&NetworkConn) -> bool) -> Vec<u32> {
        let all = (0_u32..).zip(&self.conns);
        all.filter(|(_, conn)| is(conn)).map(|(conn, _)| conn).collect()
    }

    /// Begins to connect; returns the attempt's number.
    pub(super) fn begin_connect(&mut self, attempt: ConnectAttempt) -> u32 {
        self.attempts.push(attempt);
        u32::try_from(self.attempts.len() - 1).expect("fewer than 2^32 attempts")
    }

    pub(super) fn attempt(&mut self, attempt: u32) -> &mut ConnectAttempt {
        &mut self.attempts[attempt as usize]
    }

    /// Keeps a message that meets a cut or a stalled connection; false if it meets none.
    pub(super) fn withhold(&mut self, conn: u32, direction: Direction, call: u32) -> bool {
        let NetworkConn { process, server, stalled, .. } = self.conns[conn as usize];
        let link = self.link(process, server);
        if link.cut[direction as usize] {
            link.withheld[direction as usize].push(call);
            return true;
        }
        let stalled = stalled[direction as usize];
        if stalled {
            self.stalled.push((conn, direction, call));
        }
        stalled
    }

    /// Lets a stalled direction go on; returns the messages that were kept, in order, to be sent on.
    pub(super) fn take_stalled(&mut self, conn: u32, direction: Direction) -> Vec<u32> {
        self.conns[conn as usize].stalled[direction as usize] = false;
        let theirs = |of: &mut (u32, Direction, u32)| (of.0, of.1) == (conn, direction);
        self.stalled.extract_if(.., theirs).map(|(_, _, call)| call).collect()
    }

    pub(super) fn link(&mut self, process: u32, server: u32) -> &mut NetworkLink {
        &mut self.links[process as usize * self.servers + server as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Direction::{ToClient, ToServer};
    use super::*;

    #[test]
    fn nothing_overtakes_in_one_direction() {
        let mut conn = NetworkConn::new(0, 0, ConnectionId(0), Purpose::Commands, 0);
        assert_eq!(conn.arrival(ToServer, 10, 90), 100);
        assert_eq!(conn.arrival(ToServer, 20, 5), 100, "behind the slow one");
        assert_eq!(conn.arrival(ToClient, 20, 5), 25, "the other direction is another queue");
        assert_eq!(conn.arrival(ToServer, 99, 7), 106);
    }
}
