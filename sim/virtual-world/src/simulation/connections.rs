//! Connections: made, given up, broken.
//!
//! Invariant: a task that waits on a connection learns at once that it breaks; requests on their way still
//! arrive. The server learns that a client is gone only if it has something to send to it.

use picklock::command::Command;
use picklock::env::CallError;

use super::super::executor::ProcessState;
use super::super::network::{ConnectAttempt, NetworkConn, Purpose};
use super::super::queue::SimEvent;
use super::super::servers::Liveness;
use super::Simulation;

/// How long until a handshake is sent again.
const HANDSHAKE_RETRY_NS: u64 = 1_000_000_000;

impl Simulation {
    /// The connection that a process would use to a server, unless it has to make one.
    pub(crate) fn usable_conn(&self, process: u32, server: u32, purpose: Purpose) -> Option<u32> {
        let conn = self.processes[process].conn(server, purpose)?;
        self.network.conn(conn).is_usable(self.time.now_ns()).then_some(conn)
    }

    /// Begins to connect for the task that is being polled; returns the attempt's number.
    pub(crate) fn connect(&mut self, process: u32, server: u32, purpose: Purpose) -> u32 {
        let task = self.executor.current;
        let attempt = ConnectAttempt { process, server, purpose, task, outcome: None };
        let attempt = self.network.begin_connect(attempt);
        let round_trip_ns =
            self.message_latency_ns(process, server) + self.message_latency_ns(process, server);
        self.time.plan(self.time.now_ns() + round_trip_ns, SimEvent::ConnectAnswer(attempt));
        attempt
    }

    pub(super) fn connect_answered(&mut self, attempt: u32) {
        let ConnectAttempt { process, server, purpose, task, .. } = *self.network.attempt(attempt);
        let liveness = self.servers[server].liveness;
        if self.network.link(process, server).cut != [false; 2] || liveness == Liveness::PoweredOff
        {
            // Nobody answers: the handshake is repeated, as TCP does, until it gets through.
            let at_ns = self.time.now_ns() + HANDSHAKE_RETRY_NS;
            self.time.plan(at_ns, SimEvent::ConnectAnswer(attempt));
            return;
        }
        let outcome = if liveness == Liveness::Down {
            Err(CallError::NotSent("connection refused".into()))
        } else if !self.servers.is_reachable(process, server) {
            Err(CallError::NotSent("it is no longer the primary".into()))
        } else {
            // Another task may have subscribed meanwhile; one connection serves both.
            let shared = match purpose {
                Purpose::Commands => None,
                Purpose::Subscriptions => self.usable_conn(process, server, purpose),
            };
            Ok(shared.unwrap_or_else(|| self.open_conn(process, server, purpose)))
        };
        self.network.attempt(attempt).outcome = Some(outcome);
        self.executor.wake(task);
    }

    /// Opens a connection at once.
    pub(crate) fn open_conn(&mut self, process: u32, server: u32, purpose: Purpose) -> u32 {
        let now_ns = self.time.now_ns();
        let it = &mut self.servers[server];
        let session = it.accept(now_ns);
        let conn = NetworkConn::new(process, server, session, purpose, now_ns);
        let conn = self.network.open(conn);
        it.bind(session, conn);
        it.subscribers += u32::from(purpose == Purpose::Subscriptions);
        let replaced = self.processes[process].use_conn(server, purpose, conn);
        // A task that still waits for messages on a silent connection learns that, and subscribes again.
        if let Some(old) = replaced.filter(|_| purpose == Purpose::Subscriptions) {
            self.break_conn(old);
        }
        conn
    }

    /// Gives a connection up if it has been silent for this long by its client's own clock; true if it is
    /// given up.
    pub(crate) fn give_up_conn(&mut self, conn: u32, silence_ns: u64) -> bool {
        let it = self.network.conn_mut(conn);
        let clock = &self.processes[it.process].clock;
        let now_ns = clock.local(self.time.now_ns());
        let is_silent = |asked_ns| now_ns - clock.local(asked_ns) >= silence_ns;
        it.given_up |= it.asked_ns.is_some_and(is_silent);
        it.given_up
    }

    /// Breaks a connection: every task that waits on it learns that now. Requests on their way still arrive,
    /// unless that direction is dead.
    pub(crate) fn break_conn(&mut self, conn: u32) {
        let it = self.network.conn_mut(conn);
        it.open = false;
        let purpose = it.purpose;
        let failed = self.calls.break_conn(conn);
        self.network.conn_mut(conn).known_closed |= !failed.is_empty();
        for task in failed {
            self.executor.wake(task);
        }
        if purpose == Purpose::Subscriptions {
            for task in self.pubsub.take_waiters(conn) {
                self.executor.wake(task);
            }
            self.hang_up(conn);
        }
    }

    /// The server learns that a connection has ended, if a command is blocked on it or it has subscriptions.
    pub(super) fn hang_up(&mut self, conn: u32) {
        let it = self.network.conn_mut(conn);
        let NetworkConn { server, session, ended, blocked, purpose, .. } = *it;
        if ended || (blocked.is_none() && purpose == Purpose::Commands) {
            return;
        }
        (it.ended, it.blocked) = (true, None);
        let server = &mut self.servers[server];
        server.blocked -= u32::from(blocked.is_some());
        server.model.disconnect(session);
        if let Some(call) = blocked {
            self.calls.lose(call);
        }
        self.calls.lose_unread(conn);
    }

    /// Ends a subscription. The server is told if no other subscription on that connection is to the
    /// channel.
    pub(crate) fn unsubscribe(&mut self, subscription: u32) {
        let Some((conn, channel)) = self.pubsub.unsubscribe(subscription) else { return };
        let NetworkConn { process, open, .. } = *self.network.conn(conn);
        if open && self.executor.state(process) != ProcessState::Crashed {
            let call = self.send_request(conn, Command::new("UNSUBSCRIBE").arg(&channel));
            self.calls.abandon(call);
        }
    }
}
