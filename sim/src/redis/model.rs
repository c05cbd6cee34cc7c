//! The model as the worlds use it: connect, execute, look at what happened.
//!
//! Invariant: the same calls give the same replies and effects, always; after `reset` a model cannot
//! be told from a new one. Deliberately absent: sockets, and any way to read a clock: each call is
//! told the server's wall clock.
//!
//! Every command runs on the state alone, except three that run others: EVAL, SCRIPT LOAD and EXEC.
//! Those are carried out here, where the state is not borrowed, because a script calls back.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use picklock::time::WallTime;

use super::commands::scripting::keys_and_args;
use super::commands::table::{Run, TABLE};
use super::commands::transactions::take_queue;
use super::effect::Effect;
use super::fault::Fault;
use super::options::Options;
use super::reply::Reply;
use super::script::engine::{Engine, Invocation, refused};
use super::server::{Request, Server};
pub use super::session::ClientId;
use super::session::Session;
use super::stats::ErrorCount;
use super::text::blob;
use crate::resp::encode::Protocol;

/// A Redis server in memory.
pub struct Model {
    server: Rc<RefCell<Server>>,
    /// Lua is started by the first script.
    engine: Option<Engine>,
}

impl Model {
    /// A server that has just started, empty.
    pub fn new(options: Options) -> Self {
        Self { server: Rc::new(RefCell::new(Server::new(options))), engine: None }
    }

    /// Makes it as new, keeping memory and compiled scripts (which EVALSHA has forgotten).
    pub fn reset(&mut self) {
        self.server.borrow_mut().reset();
        if let Some(engine) = &mut self.engine {
            engine.reset();
        }
    }

    /// A new connection; `address` is what CLIENT LIST shows.
    pub fn connect(&mut self, now: WallTime, address: &str) -> ClientId {
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
        let place = server.vacant.pop().unwrap_or_else(|| {
            server.sessions.push(Session::default());
            u32::try_from(server.sessions.len() - 1).expect("fewer than 2^32 connections")
        });
        server.sessions[place as usize] = session;
        ClientId(place)
    }

    /// Ends a connection: its transaction and its watches are gone.
    ///
    /// # Panics
    /// If the connection has already been ended.
    pub fn disconnect(&mut self, client: ClientId) {
        let server = &mut *self.server.borrow_mut();
        assert!(server.sessions[client.0 as usize].open, "connection ended twice");
        server.discard(client.0);
        server.sessions[client.0 as usize].open = false;
        server.vacant.push(client.0);
    }

    /// Carries out one request, `args` being the command's name and its arguments. `now` is the
    /// server's wall clock.
    ///
    /// # Panics
    /// If the connection has been ended.
    pub fn execute(&mut self, now: WallTime, client: ClientId, args: &[&[u8]]) -> Reply {
        let request = Request { now_us: unix_us(now), session: client.0, args };
        let mut server = self.server.borrow_mut();
        assert!(server.sessions[client.0 as usize].open, "request on an ended connection");
        server.effects.clear();
        let command = match server.admit(&request) {
            Ok(command) => command,
            Err(reply) => return reply,
        };
        let session = server.session(&request);
        session.last_command = Some(command);
        session.active_ms = request.now_ms();
        match TABLE.spec(command).run {
            Run::Plain(handler) => {
                let reply = handler(&mut server, &request).into();
                count(&mut server, command, &reply);
                reply
            }
            run => {
                drop(server);
                self.carry_out(command, run, &request)
            }
        }
    }

    /// What the last `execute` or `expire_due` did to keys.
    pub fn effects(&self) -> Ref<'_, [Effect]> {
        Ref::map(self.server.borrow(), |server| server.effects.as_slice())
    }

    /// Active expiry: takes away at most `limit` keys whose time has passed, the earliest first. It
    /// returns how many they were.
    pub fn expire_due(&mut self, now: WallTime, limit: usize) -> usize {
        let server = &mut *self.server.borrow_mut();
        server.effects.clear();
        server.expire_due(unix_us(now) / 1000, limit)
    }

    /// Puts the server in a state in which it refuses commands, or back to order.
    pub fn set_fault(&mut self, fault: Option<Fault>) {
        self.server.borrow_mut().fault = fault;
    }

    /// The protocol in which the connection is to be answered.
    pub fn protocol(&self, client: ClientId) -> Protocol {
        self.server.borrow().sessions[client.0 as usize].protocol
    }

    /// Whether the server would close the connection after what it has answered.
    pub fn is_closing(&self, client: ClientId) -> bool {
        self.server.borrow().sessions[client.0 as usize].closing
    }

    /// Whether the connection may send more than a small request.
    pub fn is_authenticated(&self, client: ClientId) -> bool {
        self.server.borrow().is_let_in(client.0)
    }

    /// A command in whatever way it runs.
    fn carry_out(&mut self, command: u16, run: Run, request: &Request<'_>) -> Reply {
        let reply = match run {
            Run::Plain(handler) => handler(&mut self.server.borrow_mut(), request).into(),
            Run::Container => unreachable!("a container alone has too few arguments"),
            Run::Exec => self.exec(request),
            Run::Load => match self.engine().load(request.args[2]) {
                Ok(digest) => {
                    self.server.borrow_mut().scripts.insert(digest);
                    Reply::bulk(digest)
                }
                Err(fail) => Reply::Error(fail),
            },
            Run::Eval { by_digest, read_only } => {
                let (reply, errors) = self.eval(request, by_digest, read_only);
                self.server.borrow_mut().stats.called(command, errors);
                return reply;
            }
        };
        count(&mut self.server.borrow_mut(), command, &reply);
        reply
    }

    /// The reply and the errors in it.
    fn eval(
        &mut self,
        request: &Request<'_>,
        by_digest: bool,
        read_only: bool,
    ) -> (Reply, ErrorCount) {
        let (keys, args) = match keys_and_args(request.args) {
            Ok(split) => split,
            Err(fail) => return refused(fail),
        };
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
        for (command, args) in queued {
            let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
            let request = Request { args: &args, ..*request };
            replies.push(self.carry_out(command, TABLE.spec(command).run, &request));
        }
        Reply::Array(replies)
    }
}

fn count(server: &mut Server, command: u16, reply: &Reply) {
    let fresh = u64::from(reply.is_error());
    server.stats.called(command, ErrorCount { fresh, handed_on: 0 });
}

fn unix_us(now: WallTime) -> i64 {
    i64::try_from(now.as_unix_ns() / 1_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
