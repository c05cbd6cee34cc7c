//! One connection: two sockets, two lanes, one task.
//!
//! Invariant: the client sees what a real network could show it: in each direction a prefix of the true stream, later
//! or cut short, never reordered or spliced, and unchanged except for addresses that the link's plan rewrites. Both
//! legs of a connection live and die together; the proxy never reconnects.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

mod long_frames;

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use redis_model::first_key::first_key;
use resp::frame::{FrameKind, RequestFrame, Scanner};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::effect::{ActiveEffects, ConnectionEnd, InstalledEffect};
use super::ids::Side;
use super::lane::{Lane, WriteProgress};
use super::latency::Draws;
use super::link::{AfterLostReply, LinkState, Protocol};
use super::log::{Detail, ProxyEvent, REPLY_BYTES};
use super::rewrite::{AddressQuery, rewrite};
use super::rule::{Action, Rules};
use super::session::{Passage, ProxySession};
use super::timer::WakeTimer;

/// What is sent to the server in place of a refused request.
const UNKNOWN_COMMAND: &[u8] = b"*1\r\n$15\r\nPICKLOCK.REFUSE\r\n";
const DISCARD: &[u8] = b"*1\r\n$7\r\nDISCARD\r\n";
/// What comes before the error if EXEC is refused.
const EXEC_REFUSED: &str = "EXECABORT Transaction discarded because of: ";

#[derive(Clone, Debug)]
pub(super) struct ConnectionContext {
    pub(super) link: Arc<LinkState>,
    pub(super) rules: Arc<Rules>,
    pub(super) timer: Arc<WakeTimer>,
    /// Unique in the proxy.
    pub(super) task: u64,
    /// Which connection of the link, from 1.
    pub(super) number: u64,
    /// The link's epoch when the connection was accepted.
    pub(super) epoch: u64,
    /// The server's address, where it is known.
    pub(super) server: Option<IpAddr>,
}

/// The rewritten frame, if it names servers to which the client has links.
fn rewritten(
    around: &ConnectionContext,
    kind: FrameKind,
    frame: &[u8],
    asked: &AddressQuery,
) -> Option<BytesMut> {
    let addresses = around.link.plan.addresses.as_ref()?;
    if !asked.concerns(kind, frame) {
        return None;
    }
    let rewritten = rewrite(frame, asked, addresses, around.server);
    for place in rewritten.left {
        around.link.log.note(around.link.place(around.number), ProxyEvent::LeftAddress(place));
    }
    rewritten.bytes
}

struct ProxiedConnection<U> {
    around: ConnectionContext,
    client: TcpStream,
    upstream: U,
    requests: Lane,
    replies: Lane,
    session: ProxySession,
    /// The version of the switches that has been taken over.
    version: Option<u64>,
    /// Whether the first bytes of the client have been inspected.
    begun: bool,
    opaque: bool,
    /// The server's leg broke instead of closing.
    broken: bool,
    /// When the silence after a lost frame ends.
    grace_ends: Option<Instant>,
    struck: ActiveEffects,
}

/// Carries a connection to its end.
pub(super) async fn run<U>(around: ConnectionContext, client: TcpStream, upstream: U)
where
    U: AsyncRead + AsyncWrite + Unpin,
{
    let plan = &around.link.plan;
    let names = |direction| {
        let client = u64::from(around.link.client.0);
        [client, u64::from(around.link.node.0), around.number, direction]
    };
    let lane = |scanner, direction| Lane::new(scanner, Draws::new(plan.seed, names(direction)));
    let requests = lane(Scanner::requests(plan.limits), 0);
    let replies = lane(Scanner::replies(plan.limits), 1);
    let (protocol, rewrites) = (plan.protocol, plan.addresses.is_some());
    let mut connection = ProxiedConnection {
        around,
        client,
        upstream,
        requests,
        replies,
        session: ProxySession::new(rewrites),
        version: None,
        begun: false,
        opaque: false,
        broken: false,
        grace_ends: None,
        struck: ActiveEffects::default(),
    };
    if protocol == Protocol::Opaque {
        connection.become_opaque("the link is opaque");
    }
    let end = poll_fn(|cx| connection.poll(cx)).await;
    connection.around.link.wakers.remove(connection.around.task);
    if end == ConnectionEnd::Reset {
        // Closing then sends RST. The server's leg closes in the usual way, so that it still gets
        // what was sent before.
        let _ = connection.client.set_zero_linger();
    }
}

impl<U: AsyncRead + AsyncWrite + Unpin> ProxiedConnection<U> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionEnd> {
        if let Some(end) = self.must_end(cx) {
            return Poll::Ready(end);
        }
        loop {
            let full = self.full();
            let mut moved = false;
            if !self.awaits_replies()
                && let Poll::Ready(read) = self.requests.poll_read(cx, &mut self.client)
            {
                moved = true;
                // What was sent after a switch was set is struck by it.
                if let Some(end) = self.must_end(cx) {
                    return Poll::Ready(end);
                }
                match read {
                    Ok(true) => self.take_requests(cx),
                    // A client that reset its side is gone, but what it sent before still arrives.
                    Ok(false) | Err(_) if self.requests.wire.half_open => {}
                    Ok(false) | Err(_) => self.requests.finish(Instant::now()),
                }
                self.tell_limit(Side::Request);
            }
            let ConnectionContext { timer, task, .. } = &self.around;
            match self.requests.poll_write(cx, &mut self.upstream, timer, *task, Instant::now) {
                Ok(WriteProgress::Waiting | WriteProgress::Closed) => {}
                Ok(WriteProgress::Reset) => return Poll::Ready(ConnectionEnd::Reset),
                Err(_) => self.requests.lose_all(),
            }
            if let Poll::Ready(read) = self.replies.poll_read(cx, &mut self.upstream) {
                moved = true;
                if let Some(end) = self.must_end(cx) {
                    return Poll::Ready(end);
                }
                match read {
                    Ok(true) => self.take_replies(cx),
                    Ok(false) => self.finish_replies(false),
                    Err(_) => self.finish_replies(true),
                }
                self.tell_limit(Side::Reply);
            }
            let ConnectionContext { timer, task, .. } = &self.around;
            match self.replies.poll_write(cx, &mut self.client, timer, *task, Instant::now) {
                Ok(WriteProgress::Waiting) => {}
                Ok(WriteProgress::Closed) if !self.broken => {
                    return Poll::Ready(ConnectionEnd::Closed);
                }
                Ok(WriteProgress::Closed | WriteProgress::Reset) => {
                    return Poll::Ready(ConnectionEnd::Reset);
                }
                Err(_) => self.replies.lose_all(),
            }
            if self.requests.ended && self.replies.ended && self.is_silent() {
                return Poll::Ready(ConnectionEnd::Closed);
            }
            // A full lane is not read, so nothing wakes it when writing has made room.
            if !moved && self.full() == full {
                return Poll::Pending;
            }
        }
    }

    /// What keeps the proxy from reading.
    fn full(&self) -> [bool; 3] {
        [self.requests.is_full(), self.replies.is_full(), self.awaits_replies()]
    }

    /// Whether so many requests wait for replies that no further one is read, as if the server were slow to read.
    fn awaits_replies(&self) -> bool {
        self.session.is_full() && !self.requests.deaf && !self.replies.deaf && !self.opaque
    }

    /// Applies the link's switches; returns how to end the connection if it must end now.
    fn must_end(&mut self, cx: &mut Context<'_>) -> Option<ConnectionEnd> {
        let ConnectionContext { link, timer, task, number, epoch, .. } = &self.around;
        if self.version.is_none() {
            // Before the first look, so that no change is missed; a task keeps its waker.
            link.wakers.register(*task, cx.waker());
        }
        let version = link.version();
        if self.version != Some(version) {
            self.version = Some(version);
            let switches = link.switches();
            let [requests, replies] = self.struck.take_over(
                &switches.effects,
                Instant::now(),
                |installed| link.strikes(installed, *number),
                |InstalledEffect { id, .. }, is_struck| {
                    if is_struck {
                        link.note_struck(*id);
                    }
                    let event = if is_struck { ProxyEvent::Struck } else { ProxyEvent::Spared };
                    link.log.note(link.place(*number), event(*id));
                },
            );
            self.requests.take_over(switches.cut.requests(), switches.requests, requests);
            self.replies.take_over(switches.cut.replies(), switches.replies, replies);
            if switches.epoch != *epoch {
                return Some(ConnectionEnd::Reset);
            }
            if let Some((at, ..)) = self.struck.scheduled_end {
                timer.wake_at(at, cx.waker());
            }
        }
        if self.grace_ends.is_some_and(|end| Instant::now() >= end) {
            self.note(ProxyEvent::GraceOver);
            return Some(ConnectionEnd::Reset);
        }
        if let Some((at, id, how)) = self.struck.scheduled_end
            && Instant::now() >= at
        {
            self.note(ProxyEvent::EndedBy(id));
            return Some(how);
        }
        None
    }

    /// Logs the effect that closed a direction.
    fn tell_limit(&mut self, side: Side) {
        let lane = if side == Side::Request { &mut self.requests } else { &mut self.replies };
        if let Some(id) = lane.closed_by.take() {
            self.note(ProxyEvent::EndedBy(id));
        }
    }

    fn take_requests(&mut self, cx: &mut Context<'_>) {
        let now = Instant::now();
        if let (false, Some(first)) = (self.begun, self.requests.input.first()) {
            self.begun = true;
            if !self.opaque && !first.is_ascii_graphic() && !first.is_ascii_whitespace() {
                self.become_opaque("the client does not speak RESP (TLS to a plain listener?)");
            }
        }
        let mut run = 0;
        while !self.opaque && !self.requests.deaf {
            let frame = match self.requests.scanner.scan(&self.requests.input[run..]) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    self.requests.forward(run, now);
                    self.requests.reset(now);
                    self.note(ProxyEvent::Malformed(Side::Request, error));
                    return;
                }
            };
            if self.requests.has_begun() {
                self.requests.forward(frame.len, now);
                continue;
            }
            if frame.kind == FrameKind::Empty {
                run += frame.len;
                continue;
            }
            run = self.take_request(cx, run, frame.len, now);
        }
        let rest = if self.opaque { self.requests.input.len() } else { run };
        self.requests.forward(rest, now);
        self.pass_long_request(now);
    }

    /// Decides on the request after `run` bytes that may go; returns how many may go now.
    fn take_request(
        &mut self,
        cx: &mut Context<'_>,
        run: usize,
        len: usize,
        now: Instant,
    ) -> usize {
        let ConnectionContext { link, rules, number, .. } = &self.around;
        let lane = &mut self.requests;
        let request = RequestFrame::new(&lane.input[run..run + len]);
        let frame = self.session.next_frame();
        let name = request.name();
        link.count_request(name);
        let decision = rules.decide(link.place(*number), link.plan.seed, name, request);
        let write = |event| {
            link.log.write(link.place(*number), frame, Some(name), first_key(request), event)
        };
        for (id, action) in decision.applied() {
            write(ProxyEvent::Fault(*id, action.clone()));
        }
        if decision.applied().next().is_none() && link.log.detail() >= Detail::Requests {
            write(ProxyEvent::Request);
        }
        let (action, mut fate) = (decision.request.map(|it| it.1), decision.reply.map(|it| it.1));
        let mut instead = None;
        let held = match action {
            Some(Action::Drop(_)) => {
                self.session.lost(frame);
                lane.forward(run, now);
                lane.lose_rest();
                self.begin_grace(cx, now);
                return 0;
            }
            Some(Action::Reset(_)) => {
                lane.forward(run, now);
                lane.reset(now);
                return 0;
            }
            Some(Action::Delay(_, span)) => Some((span, None)),
            Some(Action::Hold(_, gate)) => Some((Duration::ZERO, Some(gate))),
            Some(Action::Refuse(error)) => {
                // A command that no server knows is sent in its place, so that the error comes in order and
                // makes a transaction fail as it should.
                let (stand_in, error) = match name.as_bytes() {
                    // A server that refuses EXEC discards the transaction.
                    b"EXEC" => (DISCARD, format!("{EXEC_REFUSED}{error}").into()),
                    _ => (UNKNOWN_COMMAND, error),
                };
                instead = Some(BytesMut::from(stand_in));
                fate = Some(Action::Refuse(error));
                Some((Duration::ZERO, None))
            }
            None => None,
        };
        let lost = matches!(fate, Some(Action::Drop(_)));
        let stop = lost && link.plan.after_lost_reply == AfterLostReply::Nothing;
        let sent = self.session.sent(frame, name, request, fate);
        if self.replies.deaf {
            self.session.forget();
        }
        let mut run = run;
        if let Some((span, gate)) = held {
            lane.forward(run, now);
            lane.forward_late(len, instead, now, span, gate);
            run = 0;
        } else {
            run += len;
            if lane.frame_by_frame() || stop {
                lane.forward(run, now);
                run = 0;
            }
        }
        if stop {
            lane.lose_rest();
        }
        if let Err(why) = sent {
            if lost {
                self.session.lost(frame);
            }
            self.become_opaque(why);
        }
        run
    }

    fn take_replies(&mut self, cx: &mut Context<'_>) {
        let now = Instant::now();
        let mut run = 0;
        while !self.opaque && !self.replies.deaf {
            let lane = &mut self.replies;
            let frame = match lane.scanner.scan(&lane.input[run..]) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    lane.forward(run, now);
                    lane.reset(now);
                    self.note(ProxyEvent::Malformed(Side::Reply, error));
                    return;
                }
            };
            self.around.link.count(|counters| counters.replies += 1);
            let bytes = &lane.input[run..run + frame.len];
            let log = &self.around.link.log;
            if let (Detail::Replies, Some(request)) =
                (log.detail(), self.session.answered(frame.kind))
            {
                let begins = bytes[..bytes.len().min(REPLY_BYTES)].to_vec();
                let place = self.around.link.place(self.around.number);
                log.write(place, request, None, None, ProxyEvent::Reply(begins));
            }
            let (passage, asked) = self.session.received(frame.kind, bytes);
            let instead = rewritten(&self.around, frame.kind, bytes, &asked);
            if matches!(passage, Passage::Deliver) && instead.is_none() {
                run += frame.len;
                if lane.frame_by_frame() {
                    lane.forward(run, now);
                    run = 0;
                }
                continue;
            }
            lane.forward(run, now);
            run = 0;
            let late = |span, gate| lane.forward_late(frame.len, instead, now, span, gate);
            match passage {
                Passage::Deliver => late(Duration::ZERO, None),
                Passage::Apply(Action::Delay(_, span)) => late(span, None),
                Passage::Apply(Action::Hold(_, gate)) => late(Duration::ZERO, Some(gate)),
                Passage::Apply(Action::Reset(_)) => lane.reset(now),
                Passage::Apply(Action::Refuse(error)) => {
                    let error = BytesMut::from(format!("-{error}\r\n").as_bytes());
                    lane.forward_late(frame.len, Some(error), now, Duration::ZERO, None);
                }
                Passage::Apply(Action::Drop(_)) | Passage::Silence => lane.lose_rest(),
                Passage::Lose(request) => {
                    lane.lose_rest();
                    let ConnectionContext { link, number, .. } = &self.around;
                    link.log.write(link.place(*number), request, None, None, ProxyEvent::ReplyLost);
                    self.begin_grace(cx, now);
                }
            }
        }
        let rest = if self.opaque { self.replies.input.len() } else { run };
        self.replies.forward(rest, now);
        self.pass_long_reply(now);
    }

    /// The server has closed its leg, or it broke.
    fn finish_replies(&mut self, broken: bool) {
        self.broken = broken;
        if self.replies.wire.half_open {
            self.replies.lose_rest();
        }
        if !self.is_silent() {
            self.replies.finish(Instant::now());
        }
    }

    /// True if nothing more reaches the client, not even the end.
    fn is_silent(&self) -> bool {
        self.replies.deaf || self.session.silent()
    }

    fn become_opaque(&mut self, why: &'static str) {
        self.opaque = true;
        if self.session.owes_silence() {
            self.replies.lose_rest();
        }
        self.note(ProxyEvent::Opaque(why));
    }

    fn begin_grace(&mut self, cx: &mut Context<'_>, now: Instant) {
        if self.grace_ends.is_some() {
            return;
        }
        if let Some(end) = self.around.link.plan.grace.and_then(|span| now.checked_add(span)) {
            self.grace_ends = Some(end);
            self.around.timer.wake_at(end, cx.waker());
        }
    }

    fn note(&self, event: ProxyEvent) {
        let ConnectionContext { link, number, .. } = &self.around;
        link.log.note(link.place(*number), event);
    }
}

#[cfg(test)]
mod unread;
