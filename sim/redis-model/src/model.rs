//! The model as the worlds use it: connect, execute, drain the outbox.
//!
//! Invariant: the same calls give the same replies, always; after `reset` a model behaves like a new one. Each call
//! gets the server's wall clock.
//!
//! Every command runs on the state alone, except three that run others: EVAL, SCRIPT LOAD and EXEC. Those
//! are carried out here, where the state is not borrowed, because a script calls back.
//!
//! What clients other than the caller receive (an element they have waited for, a message of a channel) is
//! left in an outbox, which the world empties after each call.

mod durability;
mod replicas;

use std::cell::RefCell;
use std::rc::Rc;

use picklock::time::WallTime;

use super::commands::functions::code_of;
use super::commands::scripting::keys_and_args;
use super::commands::transactions::take_queue;
use super::options::ModelOptions;
use super::script::engine::{Engine, Invocation, NO_SCRIPT, refused};
use super::script::native::{self, ScriptDigest};
use super::server::{Request, Server};
use super::stats::ErrorCount;
use super::value::StoredValue;
use crate::commands::table::TABLE;
use crate::server::Execution;
use crate::server::notify::KeyspaceEvent;
pub use crate::server::persistence::Termination;
pub use crate::server::replication::{ReplicaId, Snapshot};
pub use crate::server::session::ConnectionId;
use crate::server::session::Session;
use resp::{Blob, ErrorReply, ProtocolVersion, Reply, blob};

/// What a request gets at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Submitted {
    /// The reply. What the outbox holds for the same client comes before it.
    Reply(Reply),
    /// The client waits: its reply will come through the outbox, and until then it may not send.
    Blocked,
}

/// A Redis server in memory.
pub struct Model {
    server: Rc<RefCell<Server>>,
    /// Lua is started by the first script.
    engine: Option<Engine>,
}

impl Model {
    /// A server that has just started, empty.
    pub fn new(options: ModelOptions) -> Self {
        Self { server: Rc::new(RefCell::new(Server::new(options, &TABLE))), engine: None }
    }

    /// Makes it as new, keeping memory and compiled scripts (which EVALSHA has forgotten).
    pub fn reset(&mut self) {
        self.server.borrow_mut().reset();
        if let Some(engine) = &mut self.engine {
            engine.reset();
        }
    }

    /// Makes it a new server of these options, keeping compiled scripts.
    pub fn configure(&mut self, options: ModelOptions) {
        let budget = options.script_budget_instructions;
        let before = self.server.replace(Server::new(options, &TABLE));
        // Lua was started with its budget.
        self.engine.take_if(|_| before.options.script_budget_instructions != budget);
        if let Some(engine) = &mut self.engine {
            engine.reset();
        }
    }

    /// A new connection; `address` is what CLIENT LIST shows.
    pub fn connect(&mut self, now: WallTime, address: &str) -> ConnectionId {
        let server = &mut *self.server.borrow_mut();
        let now_us = unix_us(now);
        server.started_us.get_or_insert(now_us);
        let session = Session {
            open: true,
            id: server.next_id,
            address: blob(address.as_bytes()),
            authenticated: server.parameters.password().is_none(),
            connected_ms: now_us / 1000,
            active_ms: now_us / 1000,
            ..Session::default()
        };
        server.next_id += 1;
        server.stats.connections += 1;
        let place = server.free_places.pop().unwrap_or_else(|| {
            server.sessions.push(Session::default());
            u32::try_from(server.sessions.len() - 1).expect("fewer than 2^32 connections")
        });
        server.sessions[place as usize] = session;
        ConnectionId(place)
    }

    /// Ends a connection: its transaction, watches, subscriptions and waiting are gone.
    ///
    /// # Panics
    /// If the connection has already been ended.
    pub fn disconnect(&mut self, client: ConnectionId) {
        let server = &mut *self.server.borrow_mut();
        assert!(server.sessions[client.0 as usize].open, "connection ended twice");
        server.discard(client.0);
        server.unblock(client.0);
        server.unsubscribe_all(client.0);
        server.remove_monitor(client.0);
        server.outbox.retain(|(session, _)| *session != client.0);
        server.sessions[client.0 as usize].open = false;
        server.free_places.push(client.0);
    }

    /// Carries out one request that neither blocks nor is sent by a client that has subscribed.
    ///
    /// # Panics
    /// As [`Model::submit`], and if the request blocks.
    pub fn execute(&mut self, now: WallTime, client: ConnectionId, args: &[&[u8]]) -> Reply {
        match self.submit(now, client, args) {
            Submitted::Reply(reply) => reply,
            Submitted::Blocked => panic!("a request that may block goes through `submit`"),
        }
    }

    /// Carries out one request, `args` being the command's name and its arguments. `now` is the
    /// server's wall clock. Afterwards the outbox may hold messages to any client.
    ///
    /// # Panics
    /// If the connection has been ended, or waits.
    pub fn submit(&mut self, now: WallTime, client: ConnectionId, args: &[&[u8]]) -> Submitted {
        let request = Request { now_us: unix_us(now), session: client.0, args };
        let mut server = self.server.borrow_mut();
        let session = &server.sessions[client.0 as usize];
        assert!(session.open, "request on an ended connection");
        assert!(session.blocked.is_none(), "request of a client that waits");
        server.session(&request).active_ms = request.now_ms();
        let command = match server.admit(&request) {
            Ok(command) => command,
            Err(reply) => return Submitted::Reply(server.session(&request).filter_reply(reply)),
        };
        let (mut server, reply) = match TABLE.spec(command).run {
            Execution::Plain(handler) => {
                let reply = server.run_handler(command, handler, &request);
                (server, reply)
            }
            run => {
                drop(server);
                let reply = self.carry_out(command, run, &request);
                (self.server.borrow_mut(), reply)
            }
        };
        server.finish(&request);
        let session = server.session(&request);
        match session.blocked {
            None => Submitted::Reply(session.filter_reply(reply)),
            Some(_) => Submitted::Blocked,
        }
    }

    /// Hands out what has been left for clients, in the order in which it arose.
    pub fn drain_outbox(&mut self, mut deliver: impl FnMut(ConnectionId, Reply)) {
        for (session, reply) in self.server.borrow_mut().outbox.drain(..) {
            deliver(ConnectionId(session), reply);
        }
    }

    /// Whether the client waits.
    pub fn is_blocked(&self, client: ConnectionId) -> bool {
        self.server.borrow().sessions[client.0 as usize].blocked.is_some()
    }

    /// When the first timeout of a waiting client is over.
    pub fn next_deadline(&self) -> Option<WallTime> {
        let deadline_ms = u64::try_from(self.server.borrow().next_deadline_ms()?).unwrap_or(0);
        Some(WallTime::from_unix_ns(deadline_ms.saturating_mul(1_000_000)))
    }

    /// Puts answers for the clients whose timeouts are over into the outbox. It returns how many they are.
    pub fn unblock_due(&mut self, now: WallTime) -> usize {
        self.server.borrow_mut().unblock_due(unix_us(now) / 1000)
    }

    /// Active expiry: deletes at most `limit` expired keys, the earliest first. It returns how many they
    /// were.
    pub fn expire_due(&mut self, now: WallTime, limit: usize) -> usize {
        let server = &mut *self.server.borrow_mut();
        let expired = server.expire_due(unix_us(now) / 1000, limit);
        server.after_commit();
        expired
    }

    /// Shows every key with its database, its value and its expiry in Unix milliseconds; one that has expired and
    /// that nobody has met since may be among them.
    pub(crate) fn each_key(&self, mut see: impl FnMut(u16, &Blob, &StoredValue, Option<i64>)) {
        for (number, db) in (0..).zip(&self.server.borrow().dbs) {
            db.entries().for_each(|it| see(number, &it.key, &it.value, it.expires_at_ms));
        }
    }

    /// What commands have called what they did to keys since the last call, in their order.
    pub(crate) fn take_key_events(&self) -> Vec<KeyspaceEvent> {
        self.server.borrow_mut().take_key_events()
    }

    /// Whether there is such a key, expired or not.
    pub(crate) fn has_key(&self, db: u16, key: &[u8]) -> bool {
        self.server.borrow().dbs[usize::from(db)].find(key).is_some()
    }

    /// The protocol in which the connection is to be answered.
    pub fn protocol(&self, client: ConnectionId) -> ProtocolVersion {
        self.server.borrow().sessions[client.0 as usize].protocol
    }

    /// Whether the server would close the connection after what it has answered.
    pub fn is_closing(&self, client: ConnectionId) -> bool {
        self.server.borrow().sessions[client.0 as usize].closing
    }

    /// Whether the connection may send more than a small request.
    pub fn is_authenticated(&self, client: ConnectionId) -> bool {
        self.server.borrow().is_permitted(client.0)
    }

    /// A command in whatever way it runs.
    fn carry_out(&mut self, command: u16, run: Execution, request: &Request<'_>) -> Reply {
        let reply = match run {
            Execution::Plain(handler) => {
                return self.server.borrow_mut().run_handler(command, handler, request);
            }
            Execution::Container => unreachable!("a container alone has too few arguments"),
            Execution::Exec => self.exec(request),
            Execution::Load => self.load(request.args[2]),
            Execution::LoadLibrary => self.load_library(request.args),
            Execution::Eval { by_digest, read_only } => {
                let (reply, errors) = self.eval(request, by_digest, read_only);
                self.server.borrow_mut().stats.called(command, errors);
                return reply;
            }
            Execution::Function { read_only } => {
                // Before what it calls, as a script.
                if !self.server.borrow().monitors.is_empty() {
                    self.server.borrow_mut().send_to_all_monitors(request);
                }
                let (reply, errors) = self.engine().call_function(request, read_only);
                self.server.borrow_mut().stats.called(command, errors);
                return reply;
            }
        };
        let errors = ErrorCount::from(&reply);
        let server = &mut *self.server.borrow_mut();
        server.stats.called(command, errors);
        server.send_to_monitors(TABLE.spec(command), request);
        reply
    }

    fn load(&mut self, body: &[u8]) -> Reply {
        let digest = match native::digest_of(body) {
            Some(digest) => Ok(digest),
            None => self.engine().load(body),
        };
        match digest {
            Ok(digest) => {
                self.server.borrow_mut().scripts.insert(digest);
                Reply::bulk(digest)
            }
            Err(fail) => Reply::Error(fail),
        }
    }

    fn load_library(&mut self, args: &[&[u8]]) -> Reply {
        let name = code_of(args)
            .and_then(|(code, may_replace)| self.engine().load_library(code, may_replace));
        name.map_or_else(Reply::Error, Reply::Bulk)
    }

    /// The reply and the errors in it.
    fn eval(
        &mut self,
        request: &Request<'_>,
        by_digest: bool,
        read_only: bool,
    ) -> (Reply, ErrorCount) {
        let shown = !self.server.borrow().monitors.is_empty();
        if shown {
            self.server.borrow_mut().send_to_all_monitors(request);
        }
        if by_digest && request.args[1].len() != size_of::<ScriptDigest>() {
            return refused(NO_SCRIPT);
        }
        let (keys, args) = match keys_and_args(request.args, ErrorReply::NOT_AN_INTEGER) {
            Ok(split) => split,
            Err(fail) => return refused(fail),
        };
        if !shown && !read_only {
            let server = &mut *self.server.borrow_mut();
            if let Some(reply) = native::run(server, request, by_digest, keys, args) {
                return (reply, ErrorCount::default());
            }
        }
        let (now_us, session) = (request.now_us, request.session);
        let body = request.args[1];
        let call = Invocation { now_us, session, body, by_digest, read_only, keys, args };
        self.engine().run(&call)
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.get_or_insert_with(|| Engine::new(Rc::clone(&self.server)))
    }

    fn exec(&mut self, request: &Request<'_>) -> Reply {
        let queued = match take_queue(&mut self.server.borrow_mut(), request) {
            Ok(queued) => queued,
            Err(reply) => return reply,
        };
        let mut replies = Vec::with_capacity(queued.len());
        self.server.borrow_mut().in_exec = Some(queued.len());
        for (command, args) in queued {
            let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
            let request = Request { args: &args, ..*request };
            replies.push(self.carry_out(command, TABLE.spec(command).run, &request));
        }
        self.server.borrow_mut().in_exec = None;
        Reply::Array(replies)
    }
}

pub(super) fn unix_us(now: WallTime) -> i64 {
    i64::try_from(now.as_unix_ns() / 1_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
