//! Connections being made, and which of them a client uses: one for commands, one for listening.
//!
//! Invariant: a connection is used until it has broken or kept silent for a second, as in the tokio
//! environment. Deliberately absent: what is said on it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use picklock::env::CallError;

use super::fleet;
use super::network::{Conn, Way};
use super::process::State;
use super::queue::Event;
use super::world::{World, with};

/// As the tokio environment does: a server that says nothing for a second is asked anew.
const SILENCE_NS: u64 = 1_000_000_000;
/// How long until a handshake is sent again.
const DIAL_AGAIN_NS: u64 = 1_000_000_000;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Commands and their answers.
    Commands,
    /// Messages of channels.
    Listening,
}

/// Connections being made.
#[derive(Debug, Default)]
pub(super) struct Dials {
    places: Vec<Dial>,
}

#[derive(Debug)]
struct Dial {
    process: u32,
    server: u32,
    purpose: Purpose,
    task: u32,
    outcome: Option<Result<u32, CallError>>,
}

impl Dials {
    pub(super) fn clear(&mut self) {
        self.places.clear();
    }
}

impl World {
    /// Begins to connect; the attempt's number.
    fn dial(&mut self, process: u32, server: u32, purpose: Purpose) -> u32 {
        let task = self.current;
        self.dials.places.push(Dial { process, server, purpose, task, outcome: None });
        let place = u32::try_from(self.dials.places.len() - 1).expect("fewer than 2^32 dials");
        let round_ns = self.travel(process, server) + self.travel(process, server);
        self.queue.push(self.now_ns + round_ns, Event::Connected(place));
        place
    }

    pub(super) fn dial_answered(&mut self, place: u32) {
        let Dial { process, server, purpose, task, .. } = self.dials.places[place as usize];
        let link = self.link(process, server);
        if link.is_cut(Way::There) || link.is_cut(Way::Back) {
            return self.dial_again(place);
        }
        let outcome = match self.servers[server as usize].state {
            // Nobody answers, as long as there is no power.
            fleet::State::Dark => return self.dial_again(place),
            fleet::State::Up if self.fleet.leads_to(server) => {
                // Another task may have listened meanwhile; one connection serves both.
                let listens = purpose == Purpose::Listening;
                let usable = self.usable_conn(process, server, purpose).filter(|_| listens);
                Ok(usable.unwrap_or_else(|| self.open_conn(process, server, purpose)))
            }
            fleet::State::Up => Err(CallError::NotSent("it is no longer the primary".into())),
            fleet::State::Dead => Err(CallError::NotSent("connection refused".into())),
        };
        self.dials.places[place as usize].outcome = Some(outcome);
        self.wake(task);
    }

    /// The handshake is repeated, as TCP does, until it gets through.
    fn dial_again(&mut self, place: u32) {
        self.queue.push(self.now_ns + DIAL_AGAIN_NS, Event::Connected(place));
    }

    /// A new connection, without a word on the network.
    pub(super) fn open_conn(&mut self, process: u32, server: u32, purpose: Purpose) -> u32 {
        let wall = self.server_wall(server);
        let it = &mut self.servers[server as usize];
        let session = it.model.connect(wall, "127.0.0.1:1");
        self.conns.push(Conn::new(process, server, session, self.now_ns).meant_for(purpose));
        let conn = u32::try_from(self.conns.len() - 1).expect("fewer than 2^32 connections");
        let sessions = &mut self.servers[server as usize].sessions;
        if sessions.len() <= session.0 as usize {
            sessions.resize(session.0 as usize + 1, 0);
        }
        sessions[session.0 as usize] = conn;
        let it = &mut self.processes[process as usize];
        let conns = match purpose {
            Purpose::Commands => &mut it.conns,
            Purpose::Listening => {
                self.servers[server as usize].listeners += 1;
                &mut it.ears
            }
        };
        if conns.len() <= server as usize {
            conns.resize(server as usize + 1, None);
        }
        let replaced = conns[server as usize].replace(conn);
        // Whoever still listens on one that has fallen silent is told, and listens anew.
        if let Some(old) = replaced.filter(|_| purpose == Purpose::Listening) {
            self.break_conn(old);
        }
        conn
    }

    /// A client gives a connection up, if it has been silent for so long by the client's own clock.
    pub(super) fn give_up_conn(&mut self, conn: u32, silence_ns: u64) -> bool {
        let it = &mut self.conns[conn as usize];
        let clock = &self.processes[it.process as usize].clock;
        let now_ns = clock.local(self.now_ns);
        let silent = |asked_ns| now_ns - clock.local(asked_ns) >= silence_ns;
        it.given_up |= it.asked_ns.is_some_and(silent);
        it.given_up
    }

    /// The connection a client would use: not one that has broken, nor one that has been silent.
    fn usable_conn(&self, process: u32, server: u32, purpose: Purpose) -> Option<u32> {
        let process = &self.processes[process as usize];
        let conns = match purpose {
            Purpose::Commands => &process.conns,
            Purpose::Listening => &process.ears,
        };
        let conn = *conns.get(server as usize)?;
        let it = &self.conns[conn? as usize];
        let silent = it.asked_ns.is_some_and(|asked_ns| self.now_ns - asked_ns >= SILENCE_NS);
        conn.filter(|_| it.open && !silent && !it.given_up)
    }
}

/// A connection being made.
#[derive(Debug)]
pub(super) struct Dialling {
    process: u32,
    node: u32,
    purpose: Purpose,
    dial: Option<u32>,
}

impl Dialling {
    pub(super) fn new(process: u32, node: u32, purpose: Purpose) -> Self {
        Self { process, node, purpose, dial: None }
    }
}

impl Future for Dialling {
    type Output = Result<u32, CallError>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Result<u32, CallError>> {
        let this = self.get_mut();
        with(|world| {
            let Some(server) = world.fleet.server(this.node) else {
                let why = format!("no server is configured as {}", this.node);
                return Poll::Ready(Err(CallError::NotSent(why.into())));
            };
            if world.processes[this.process as usize].state != State::Running {
                // Stopped where it stands: it goes on here, or never.
                world.wake(world.current);
                return Poll::Pending;
            }
            let Some(dial) = this.dial else {
                if let Some(conn) = world.usable_conn(this.process, server, this.purpose) {
                    return Poll::Ready(Ok(conn));
                }
                this.dial = Some(world.dial(this.process, server, this.purpose));
                return Poll::Pending;
            };
            let current = world.current;
            let it = &mut world.dials.places[dial as usize];
            it.task = current;
            it.outcome.take().map_or(Poll::Pending, Poll::Ready)
        })
    }
}
