//! Calls on their way: sent, carried out, answered, lost.
//!
//! Invariant: a request that reaches its server is carried out once, whether or not anybody still
//! waits; an answer reaches only the call it answers. Deliberately absent: repeating anything.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::{Reply, ServerError};
use redis_model::model::Submitted;
use resp::Reply as Answer;
use smallvec::SmallVec;

use super::dial::Purpose;
use super::fleet::ServerNode;
use super::network::{Conn, Way};
use super::queue::Event;
use super::world::{World, with, with_if_free};

type Outcome = Result<Reply, CallError>;

/// A call, or a place for one.
#[derive(Debug)]
struct Call {
    conn: u32,
    /// The task that waits; none once nobody does.
    waiter: Option<u32>,
    /// Until it is carried out.
    command: Option<Command>,
    /// Once it was carried out.
    outcome: Option<Outcome>,
    way: Progress,
    /// Its connection broke before the answer.
    broken: bool,
    /// The fault that is staged for it, from 1; 0 for none.
    staged: u32,
    /// It is no call but a message that the server sends by itself.
    message: bool,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// A message of it is on its way, or withheld: an event will come.
    Travelling,
    /// The answer is there.
    Arrived,
    /// No event will come any more.
    Lost,
}

/// All calls of a world.
#[derive(Debug, Default)]
pub(super) struct Calls {
    places: Vec<Call>,
    vacant: Vec<u32>,
    /// Requests that have arrived behind a command that the server keeps waiting, with their connections:
    /// it reads on when that one is over.
    behind: Vec<(u32, u32)>,
}

impl Calls {
    fn add(&mut self, call: Call) -> u32 {
        if let Some(place) = self.vacant.pop() {
            self.places[place as usize] = call;
            return place;
        }
        self.places.push(call);
        u32::try_from(self.places.len() - 1).expect("fewer than 2^32 calls")
    }

    /// The place may be used again where nobody waits and nothing will come.
    fn free_if_over(&mut self, place: u32) {
        let call = &self.places[place as usize];
        if call.waiter.is_none() && call.way != Progress::Travelling {
            self.vacant.push(place);
        }
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.vacant.clear();
        self.behind.clear();
    }

    fn is_behind(&self, conn: u32) -> bool {
        self.behind.iter().any(|(of, _)| *of == conn)
    }

    /// The next request that the server has not read yet on this connection.
    fn read(&mut self, conn: u32) -> Option<u32> {
        let next = self.behind.iter().position(|(of, _)| *of == conn)?;
        Some(self.behind.remove(next).1)
    }
}

impl World {
    /// Sends a command; the call's number.
    fn send(&mut self, conn: u32, command: Command) -> u32 {
        let now_ns = self.now_ns;
        let open = self.conns[conn as usize].open;
        let place = self.calls.add(Call {
            conn,
            waiter: Some(self.current),
            command: Some(command),
            outcome: None,
            way: if open { Progress::Travelling } else { Progress::Lost },
            broken: !open,
            staged: 0,
            message: false,
        });
        if open {
            let Conn { process, server, .. } = self.conns[conn as usize];
            let mut travels_ns = self.travel(process, server);
            if self.nemesis.stage.on() && !self.fleet.is_resource(server) {
                travels_ns += self.staged_request(place, conn);
            }
            let it = &mut self.conns[conn as usize];
            it.asked_ns.get_or_insert(now_ns);
            let arrives_ns = it.arrival(Way::There, now_ns, travels_ns);
            self.queue.push(arrives_ns, Event::Request(place));
        }
        place
    }

    /// Sends a command whose answer nobody waits for.
    pub(super) fn tell(&mut self, conn: u32, command: Command) {
        let place = self.send(conn, command);
        self.calls.places[place as usize].waiter = None;
        self.calls.free_if_over(place);
    }

    pub(super) fn request_arrives(&mut self, place: u32) {
        let conn = self.calls.places[place as usize].conn;
        let Conn { process, server, ended, .. } = self.conns[conn as usize];
        if self.link(process, server).is_cut(Way::There) {
            self.link(process, server).withheld[Way::There as usize].push(place);
            return;
        }
        if self.nemesis.stage.on() && self.stalls(place, conn, Way::There) {
            return;
        }
        if ended
            || self.conns[conn as usize].is_dead(Way::There)
            || self.loses(place, conn, Way::There)
        {
            return self.lose(place);
        }
        if self.conns[conn as usize].waiting.is_some() || self.calls.is_behind(conn) {
            return self.calls.behind.push((conn, place));
        }
        self.carry_out(place);
    }

    /// Goes on with what has arrived on this connection while its server kept a command waiting.
    fn read_on(&mut self, conn: u32) {
        while self.conns[conn as usize].waiting.is_none()
            && let Some(place) = self.calls.read(conn)
        {
            self.carry_out(place);
        }
    }

    /// What has arrived on this connection and was not read is lost with it.
    pub(super) fn lose_unread(&mut self, conn: u32) {
        while let Some(place) = self.calls.read(conn) {
            self.lose(place);
        }
    }

    fn carry_out(&mut self, place: u32) {
        let conn = self.calls.places[place as usize].conn;
        let Conn { server, session, .. } = self.conns[conn as usize];
        let Some(command) = self.calls.places[place as usize].command.take() else {
            unreachable!("a request arrives once");
        };
        let wall = self.server_wall(server);
        let model = &mut self.servers[server as usize].model;
        match with_args(&command, |args| model.submit(wall, session, args)) {
            Submitted::Reply(answer) => self.answer(place, answer),
            Submitted::Blocked => {
                self.conns[conn as usize].waiting = Some(place);
                self.servers[server as usize].waiting += 1;
            }
        }
        let ServerNode { waiting, listeners, .. } = self.servers[server as usize];
        if waiting > 0 || listeners > 0 {
            self.deliver(server, 0);
        }
        if self.fleet.busy {
            self.after_command(server);
        }
    }

    /// Sends the answer to a call on its way.
    fn answer(&mut self, place: u32, answer: Answer) {
        let call = &mut self.calls.places[place as usize];
        call.outcome = Some(level(answer));
        let conn = call.conn;
        let Conn { process, server, .. } = self.conns[conn as usize];
        let mut travels_ns = self.travel(process, server);
        if self.nemesis.stage.on() {
            travels_ns += self.staged_reply(place);
        }
        let now_ns = self.now_ns;
        let arrives_ns = self.conns[conn as usize].arrival(Way::Back, now_ns, travels_ns);
        self.queue.push(arrives_ns, Event::Reply(place));
    }

    /// Sends what a server has for others than the one it answers: messages of channels, and the
    /// answers of commands that it has kept waiting and need wait no more. It comes back when the next
    /// time-out is over, but not sooner than so.
    pub(super) fn deliver(&mut self, server: u32, sooner_ns: u64) {
        let it = &mut self.servers[server as usize];
        let mut out: SmallVec<[(u32, Answer); 4]> = SmallVec::new();
        it.model.drain_outbox(|session, reply| out.push((it.sessions[session.0 as usize], reply)));
        let mut over: SmallVec<[u32; 4]> = SmallVec::new();
        for (conn, reply) in out {
            if self.conns[conn as usize].purpose == Purpose::Listening {
                let place = self.calls.add(Call {
                    conn,
                    waiter: None,
                    command: None,
                    outcome: None,
                    way: Progress::Travelling,
                    broken: false,
                    staged: 0,
                    message: true,
                });
                self.answer(place, reply);
            } else if let Some(place) = self.conns[conn as usize].waiting.take() {
                self.servers[server as usize].waiting -= 1;
                self.answer(place, reply);
                over.push(conn);
            }
        }
        for conn in over {
            self.read_on(conn);
        }
        let it = &self.servers[server as usize];
        if let Some(deadline) = it.model.next_deadline() {
            let moment_ns = it.clock.moment_of_wall(deadline.as_unix_ns());
            let moment_ns = moment_ns.max(self.now_ns + sooner_ns);
            self.queue.push(moment_ns, Event::Unblock(server));
        }
    }

    /// Ends what has waited long enough, by the server's own clock.
    pub(super) fn unblock(&mut self, server: u32) {
        let wall = self.server_wall(server);
        self.servers[server as usize].model.unblock_due(wall);
        // Where its clock has been put back meanwhile nothing is due yet, and it looks again a
        // millisecond later, which is the grain of its time-outs.
        self.deliver(server, 1_000_000);
        if self.fleet.busy {
            self.after_command(server);
        }
    }

    /// The server learns that a connection has ended on which it keeps a command waiting, or somebody
    /// listens.
    pub(super) fn hang_up(&mut self, conn: u32) {
        let Conn { server, session, ended, waiting, purpose, .. } = self.conns[conn as usize];
        if ended || (waiting.is_none() && purpose == Purpose::Commands) {
            return;
        }
        let it = &mut self.conns[conn as usize];
        (it.ended, it.waiting) = (true, None);
        let server = &mut self.servers[server as usize];
        server.waiting -= u32::from(waiting.is_some());
        server.model.disconnect(session);
        if let Some(place) = waiting {
            self.lose(place);
        }
        self.lose_unread(conn);
    }

    pub(super) fn reply_arrives(&mut self, place: u32) {
        let conn = self.calls.places[place as usize].conn;
        let Conn { process, server, open, .. } = self.conns[conn as usize];
        if self.link(process, server).is_cut(Way::Back) {
            self.link(process, server).withheld[Way::Back as usize].push(place);
            return;
        }
        if self.nemesis.stage.on() && self.stalls(place, conn, Way::Back) {
            return;
        }
        if !open
            || self.conns[conn as usize].is_dead(Way::Back)
            || self.loses(place, conn, Way::Back)
        {
            return self.lose(place);
        }
        self.conns[conn as usize].asked_ns = None;
        let call = &mut self.calls.places[place as usize];
        call.way = Progress::Arrived;
        if call.message {
            let message = call.outcome.take();
            self.calls.free_if_over(place);
            if let Some(Ok(message)) = message {
                self.hear(conn, message);
                self.after_reply(process);
            }
            return;
        }
        match call.waiter {
            Some(task) => {
                self.wake(task);
                self.after_reply(process);
            }
            None => self.calls.free_if_over(place),
        }
    }

    /// A message of this call is lost; whoever waits, waits until the connection breaks.
    pub(super) fn lose(&mut self, place: u32) {
        self.calls.places[place as usize].way = Progress::Lost;
        self.calls.free_if_over(place);
    }

    /// Breaks a connection: everybody who waits on it is told, now. Requests on their way arrive all
    /// the same, unless that direction is dead.
    pub(super) fn break_conn(&mut self, conn: u32) {
        self.conns[conn as usize].open = false;
        let waits = |call: &Call| call.conn == conn && call.way != Progress::Arrived;
        let all = (0_u32..).zip(&mut self.calls.places);
        let mut told: SmallVec<[u32; 4]> = SmallVec::new();
        for (_, call) in all.filter(|(_, call)| waits(call)) {
            if let Some(task) = call.waiter {
                call.broken = true;
                told.push(task);
            }
        }
        for task in told {
            self.wake(task);
        }
        if self.conns[conn as usize].purpose == Purpose::Listening {
            self.end_listening(conn);
            self.hang_up(conn);
        }
    }

    /// Lets go on what was withheld on a link, in order.
    pub(super) fn release_withheld(&mut self, process: u32, server: u32, way: Way) {
        let waiting = std::mem::take(&mut self.link(process, server).withheld[way as usize]);
        for place in waiting {
            let conn = self.calls.places[place as usize].conn;
            self.send_on(conn, way, place);
        }
    }

    /// Sends on a message that was withheld.
    pub(super) fn send_on(&mut self, conn: u32, way: Way, place: u32) {
        let Conn { process, server, .. } = self.conns[conn as usize];
        let travels_ns = self.travel(process, server);
        let now_ns = self.now_ns;
        let arrives_ns = self.conns[conn as usize].arrival(way, now_ns, travels_ns);
        let event = match way {
            Way::There => Event::Request(place),
            Way::Back => Event::Reply(place),
        };
        self.queue.push(arrives_ns, event);
    }

    /// The fault that is staged for this call, from 1; 0 for none.
    pub(super) fn staged_of(&self, place: u32) -> u32 {
        self.calls.places[place as usize].staged
    }

    pub(super) fn set_staged(&mut self, place: u32, staged: u32) {
        self.calls.places[place as usize].staged = staged;
    }
}

/// Hands the arguments of a command over as a slice, without allocation where they are few.
fn with_args<R>(command: &Command, act: impl FnOnce(&[&[u8]]) -> R) -> R {
    let mut few = [&[][..]; 8];
    let mut count = 0;
    for arg in command.args() {
        let Some(place) = few.get_mut(count) else {
            return act(&command.args().collect::<Vec<_>>());
        };
        *place = arg;
        count += 1;
    }
    act(&few[..count])
}

fn level(answer: Answer) -> Outcome {
    Ok(match answer {
        Answer::Nil | Answer::NilArray => Reply::Nil,
        Answer::Ok => Reply::Ok,
        Answer::Int(value) => Reply::Int(value),
        Answer::Bulk(bytes) => Reply::bulk(&bytes),
        Answer::Verbatim(text) | Answer::BigNumber(text) => Reply::bulk(&text),
        Answer::Status(text) => Reply::Status(String::from_utf8_lossy(&text).into()),
        Answer::Bool(value) => Reply::Int(i64::from(value)),
        Answer::Double(value) => Reply::bulk(value.to_string().as_bytes()),
        Answer::Error(fail) => {
            let line = String::from_utf8_lossy(fail.text()).into_owned();
            return Err(CallError::Refused(ServerError::from_line(&line)));
        }
        Answer::Array(items)
        | Answer::Map(items)
        | Answer::Set(items)
        | Answer::Push(items)
        | Answer::Burst(items) => {
            Reply::Array(items.into_iter().map(level).collect::<Result<_, _>>()?)
        }
    })
}

/// A command being asked.
#[derive(Debug)]
pub(super) struct Asking {
    conn: u32,
    command: Option<Command>,
    call: Option<u32>,
    /// It has been stopped before it could send.
    stopped: bool,
}

impl Asking {
    pub(super) fn new(conn: u32, command: Command) -> Self {
        Self { conn, command: Some(command), call: None, stopped: false }
    }
}

impl Future for Asking {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.get_mut();
        with(|world| {
            let call = match (this.call, this.command.take()) {
                (Some(call), _) => call,
                (None, Some(command)) => {
                    let process = world.conns[this.conn as usize].process;
                    if world.before_send(process, &command, this.stopped) {
                        this.stopped = true;
                        // The process has been stopped before it could send; it goes on here.
                        let task = world.current;
                        this.command = Some(command);
                        world.wake(task);
                        return Poll::Pending;
                    }
                    *this.call.insert(world.send(this.conn, command))
                }
                (None, None) => return Poll::Pending,
            };
            let it = &mut world.calls.places[call as usize];
            let outcome = match it.way {
                Progress::Arrived => it.outcome.take(),
                _ if it.broken => {
                    let broken = "the connection broke before the answer";
                    Some(Err(CallError::Indeterminate(broken.into())))
                }
                _ => None,
            };
            it.waiter = if outcome.is_some() { None } else { Some(world.current) };
            if outcome.is_some() {
                this.call = None;
                world.calls.free_if_over(call);
            }
            outcome.map_or(Poll::Pending, Poll::Ready)
        })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let Some(call) = self.call else { return };
        with_if_free(|world| {
            // What has been sent goes its way.
            if !world.closed
                && let Some(it) = world.calls.places.get_mut(call as usize)
            {
                it.waiter = None;
                world.calls.free_if_over(call);
            }
        });
    }
}
