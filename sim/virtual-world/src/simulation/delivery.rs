//! Delivery: requests and replies on their way between processes and servers.
//!
//! Invariant: a request that reaches its server is executed once, whether or not anybody still waits.
//! Deliberately absent: sending anything again.

use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::{Reply, ServerError};
use redis_model::model::Submitted;
use resp::{ErrorReply, Reply as ModelReply};
use smallvec::SmallVec;

use super::super::calls::{Arrival, CallOutcome};
use super::super::network::{Direction, NetworkConn, Purpose};
use super::super::queue::SimEvent;
use super::super::servers::VirtualServer;
use super::Simulation;

/// The resolution of a server's timeouts.
const TIME_OUT_GRAIN_NS: u64 = 1_000_000;

impl Simulation {
    /// Sends a command for the task that is being polled; returns the call's number.
    pub(crate) fn send_request(&mut self, conn: u32, command: Command) -> u32 {
        let NetworkConn { process, server, open, known_closed, .. } = *self.network.conn(conn);
        if known_closed {
            return self.calls.begin_unsent(conn);
        }
        // The first call on a connection that has broken finds that out, and may have been sent.
        self.network.conn_mut(conn).known_closed = !open;
        let call = self.calls.begin(conn, command, self.executor.current, open);
        if open {
            let mut latency_ns = self.message_latency_ns(process, server);
            if self.nemesis.cues.on() && !self.servers.is_resource(server) {
                latency_ns += self.staged_request(call, conn);
            }
            self.network.conn_mut(conn).asked_ns.get_or_insert(self.time.now_ns());
            self.transmit(conn, Direction::ToServer, call, latency_ns);
        }
        call
    }

    /// How long the next message between a process and a server takes, in nanoseconds.
    pub(super) fn message_latency_ns(&mut self, process: u32, server: u32) -> u64 {
        let latency_ns = self.network.latencies.draw(process, server, &mut self.choices);
        if self.servers.is_resource(server) {
            latency_ns
        } else {
            latency_ns + self.nemesis.delay_ns(&mut self.choices)
        }
    }

    fn transmit(&mut self, conn: u32, direction: Direction, call: u32, latency_ns: u64) {
        let now_ns = self.time.now_ns();
        let arrives_ns = self.network.conn_mut(conn).arrival(direction, now_ns, latency_ns);
        let event = match direction {
            Direction::ToServer => SimEvent::Request(call),
            Direction::ToClient => SimEvent::Reply(call),
        };
        self.time.plan(arrives_ns, event);
    }

    /// Sends on a message that was withheld.
    pub(crate) fn send_on(&mut self, conn: u32, direction: Direction, call: u32) {
        let NetworkConn { process, server, .. } = *self.network.conn(conn);
        let latency_ns = self.message_latency_ns(process, server);
        self.transmit(conn, direction, call, latency_ns);
    }

    pub(super) fn request_arrives(&mut self, call: u32) {
        let conn = self.calls[call].conn;
        if !self.gets_through(call, conn, Direction::ToServer) {
            return;
        }
        let NetworkConn { server, blocked, .. } = *self.network.conn(conn);
        let waits = blocked.is_some() || self.servers[server].stalled.is_some();
        if waits || self.calls.has_unread(conn) {
            return self.calls.unread.push((conn, call));
        }
        self.execute(call);
    }

    /// Whether a message gets through; otherwise it is withheld or lost.
    fn gets_through(&mut self, call: u32, conn: u32, direction: Direction) -> bool {
        if self.network.withhold(conn, direction, call) {
            return false;
        }
        let it = self.network.conn(conn);
        let is_over = match direction {
            Direction::ToServer => it.ended,
            Direction::ToClient => !it.open,
        };
        let lost = is_over || it.is_dead(direction) || self.loses(call, conn, direction);
        if lost {
            self.calls.lose(call);
        }
        !lost
    }

    fn execute(&mut self, call: u32) {
        let conn = self.calls[call].conn;
        let NetworkConn { server, session, .. } = *self.network.conn(conn);
        let Some(command) = self.calls[call].command.take() else {
            unreachable!("a request arrives once");
        };
        if let Some(error) = self.refusal(call) {
            // An unknown command makes a transaction fail, as an error does.
            let unknown = Command::new("PICKLOCK.REFUSE");
            self.servers[server].submit(self.time.now_ns(), session, &unknown);
            return self.send_reply(call, ModelReply::Error(ErrorReply::of(error.text())));
        }
        let submitted = match self.witness {
            None => self.servers[server].submit(self.time.now_ns(), session, &command),
            Some(_) => self.submit_witnessed(conn, command),
        };
        match submitted {
            Submitted::Reply(reply) => self.send_reply(call, reply),
            Submitted::Blocked => {
                self.network.conn_mut(conn).blocked = Some(call);
                self.servers[server].blocked += 1;
            }
        }
        let VirtualServer { blocked, subscribers, .. } = self.servers[server];
        if blocked > 0 || subscribers > 0 {
            self.drain_outbox(server, 0);
        }
        self.servers.after_command(server, &mut self.time, &mut self.choices);
    }

    fn send_reply(&mut self, call: u32, reply: ModelReply) {
        let it = &mut self.calls[call];
        it.outcome = Some(outcome(reply));
        let conn = it.conn;
        let NetworkConn { process, server, .. } = *self.network.conn(conn);
        let mut latency_ns = self.message_latency_ns(process, server);
        if self.nemesis.cues.on() {
            latency_ns += self.staged_reply(call);
        }
        self.transmit(conn, Direction::ToClient, call, latency_ns);
    }

    /// Sends what a server has for other clients than the caller: messages of channels, and the replies to
    /// commands that are no longer blocked. It looks again when the next timeout is over, but not sooner
    /// than in `again_in_ns`.
    pub(super) fn drain_outbox(&mut self, server: u32, again_in_ns: u64) {
        let mut unblocked: SmallVec<[u32; 4]> = SmallVec::new();
        for (conn, reply) in self.servers[server].take_outbox() {
            let it = self.network.conn_mut(conn);
            if it.purpose == Purpose::Subscriptions {
                let call = self.calls.push(conn);
                self.send_reply(call, reply);
            } else if let Some(call) = it.blocked.take() {
                self.servers[server].blocked -= 1;
                self.send_reply(call, reply);
                unblocked.push(conn);
            }
        }
        for conn in unblocked {
            self.read_on(conn);
        }
        let it = &self.servers[server];
        if let Some(deadline) = it.model.next_deadline() {
            let moment_ns = it.clock.moment_of_wall(deadline.as_unix_ns());
            let moment_ns = moment_ns.max(self.time.now_ns() + again_in_ns);
            self.time.plan(moment_ns, SimEvent::Unblock(server));
        }
    }

    /// Continues with what has arrived on this connection behind a blocked command.
    fn read_on(&mut self, conn: u32) {
        while self.network.conn(conn).blocked.is_none()
            && let Some(call) = self.calls.next_unread(conn)
        {
            self.execute(call);
        }
    }

    /// A stalled server goes on: with the events that have come due, and then with the requests that have reached it,
    /// in their order. If the order is a choice, only requests on the same connection keep it.
    pub(crate) fn wake_server(&mut self, server: u32) {
        for event in self.servers[server].stalled.take().unwrap_or_default() {
            self.happens_now(event);
        }
        loop {
            let network = &self.network;
            let reads = |conn: u32| {
                let it = network.conn(conn);
                it.server == server && it.blocked.is_none()
            };
            let conns = self.calls.unread_conns(reads);
            let place = match conns.len() {
                0 => return,
                ways if self.nemesis.rates.shuffles => {
                    self.choices.pick(u32::try_from(ways).unwrap_or(u32::MAX)) as usize
                }
                _ => 0,
            };
            if let Some(call) = self.calls.next_unread(conns[place]) {
                self.execute(call);
            }
        }
    }

    /// Ends the commands that have been blocked long enough, by the server's own clock.
    pub(super) fn unblock_due(&mut self, server: u32) {
        let it = &mut self.servers[server];
        let wall = it.wall(self.time.now_ns());
        it.model.unblock_due(wall);
        // If its clock was set back meanwhile, nothing is due yet: looking again at once would be a
        // livelock.
        self.drain_outbox(server, TIME_OUT_GRAIN_NS);
        self.servers.after_command(server, &mut self.time, &mut self.choices);
    }

    pub(super) fn reply_arrives(&mut self, call: u32) {
        let conn = self.calls[call].conn;
        if !self.gets_through(call, conn, Direction::ToClient) {
            return;
        }
        let it = self.network.conn_mut(conn);
        it.asked_ns = None;
        let process = it.process;
        match self.calls.arrive(call) {
            Arrival::Awaited(task) => self.executor.wake(task),
            Arrival::Push(message) => {
                for task in self.pubsub.deliver(conn, &message) {
                    self.executor.wake(task);
                }
            }
            Arrival::Unawaited => return,
        }
        self.maybe_pause(process);
    }
}

/// A server's reply as its client receives it.
pub(super) fn outcome(reply: ModelReply) -> CallOutcome {
    Ok(match reply {
        ModelReply::Nil | ModelReply::NilArray => Reply::Nil,
        ModelReply::Ok => Reply::Ok,
        ModelReply::Int(value) => Reply::Int(value),
        ModelReply::Bulk(bytes) => Reply::bulk(&bytes),
        ModelReply::Verbatim(text) | ModelReply::BigNumber(text) => Reply::bulk(&text),
        ModelReply::Status(text) => Reply::Status(String::from_utf8_lossy(&text).into()),
        ModelReply::Bool(value) => Reply::Int(i64::from(value)),
        ModelReply::Double(value) => Reply::bulk(value.to_string().as_bytes()),
        ModelReply::Error(fail) => {
            let line = String::from_utf8_lossy(fail.text()).into_owned();
            return Err(CallError::Refused(ServerError::from_line(&line)));
        }
        ModelReply::Array(items)
        | ModelReply::Map(items)
        | ModelReply::Set(items)
        | ModelReply::Push(items)
        | ModelReply::Burst(items) => {
            Reply::Array(items.into_iter().map(outcome).collect::<Result<_, _>>()?)
        }
    })
}
