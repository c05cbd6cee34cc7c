//! Connections between processes and servers.
//!
//! Invariant: one direction of a connection is a queue, as TCP is: nothing overtakes, and behind a
//! lost message nothing gets through. What meets a partition is withheld and comes after the heal.
//! Deliberately absent: what is said; messages are the numbers of calls.

use super::dial::Purpose;
use redis_model::model::ConnectionId;

/// Which of the two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the server.
    There,
    /// To the client.
    Back,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) process: u32,
    pub(super) server: u32,
    pub(super) session: ConnectionId,
    /// Neither end has broken it.
    pub(super) open: bool,
    /// When the last message arrives, there and back.
    arrives_ns: [u64; 2],
    /// A message was lost: the direction is dead from there on.
    dead: [bool; 2],
    /// Messages that way wait until they are told to go on.
    pub(super) stalled: [bool; 2],
    /// The call whose command the server keeps waiting.
    pub(super) waiting: Option<u32>,
    /// The server knows that the connection has ended.
    pub(super) ended: bool,
    /// Since when the client has asked without hearing anything.
    pub(super) asked_ns: Option<u64>,
    pub(super) purpose: Purpose,
    /// Its client asks for another.
    pub(super) given_up: bool,
}

impl Conn {
    pub(super) fn new(process: u32, server: u32, session: ConnectionId, now_ns: u64) -> Self {
        Self {
            process,
            server,
            session,
            open: true,
            arrives_ns: [now_ns; 2],
            dead: [false; 2],
            stalled: [false; 2],
            waiting: None,
            ended: false,
            asked_ns: None,
            purpose: Purpose::Commands,
            given_up: false,
        }
    }

    /// The same, for this purpose.
    pub(super) fn meant_for(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    /// When a message that travels so long arrives: never before the one ahead of it.
    pub(super) fn arrival(&mut self, way: Way, now_ns: u64, travels_ns: u64) -> u64 {
        let arrives_ns = &mut self.arrives_ns[way as usize];
        *arrives_ns = (*arrives_ns).max(now_ns + travels_ns);
        *arrives_ns
    }

    /// Nothing gets through this way any more.
    pub(super) fn kill(&mut self, way: Way) {
        self.dead[way as usize] = true;
    }

    /// Whether anything gets through this way.
    pub(super) fn is_dead(&self, way: Way) -> bool {
        self.dead[way as usize]
    }
}

/// A client's way to a server: what is cut, and what waits for the heal.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) cut: [bool; 2],
    /// Calls whose request, or reply, has met the cut, in order.
    pub(super) withheld: [Vec<u32>; 2],
}

impl Link {
    pub(super) fn reset(&mut self) {
        self.cut = [false; 2];
        self.withheld.iter_mut().for_each(Vec::clear);
    }

    pub(super) fn is_cut(&self, way: Way) -> bool {
        self.cut[way as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overtakes_in_one_direction() {
        let mut conn = Conn::new(0, 0, ConnectionId(0), 0);
        assert_eq!(conn.arrival(Way::There, 10, 90), 100);
        assert_eq!(conn.arrival(Way::There, 20, 5), 100, "behind the slow one");
        assert_eq!(conn.arrival(Way::Back, 20, 5), 25, "the other direction is another queue");
        assert_eq!(conn.arrival(Way::There, 99, 7), 106);
    }
}
