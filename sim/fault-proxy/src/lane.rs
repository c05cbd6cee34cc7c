//! One direction of a connection: bytes in, frames found, a queue with due times, bytes out.
//!
//! Invariant: first in, first out, whatever latencies, delays and gates say.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use resp::frame::Scanner;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::effect::{EffectId, WireState};
use super::gate::Gate;
use super::latency::{Draws, Latency};
use super::timer::WakeTimer;

/// Room made for a read; a known big frame gets more, up to [`READ_MOST`] at first and then up to [`GROWTH`] times what has
/// come: each growth copies that, and holds both copies.
const READ_LEAST: usize = 16 << 10;
const READ_MOST: usize = 1 << 20;
const GROWTH: usize = 7;
/// A frame of which this much has come is sent on before it is complete, unless something depends on its rest.
const FRAME_LONG: usize = 1 << 20;
/// When this much is queued, nothing more is read: the sender waits, as with a full TCP window.
const QUEUE_MOST: usize = 4 << 20;
/// How many pieces one write may gather.
const SLICES: usize = 32;
/// A limited bandwidth sends pieces of this duration, but no smaller ones than `PIECE_LEAST` bytes.
const PIECE_TIME_MS: u64 = 20;
const PIECE_LEAST: u64 = 256;

#[derive(Debug)]
enum Payload {
    Bytes(BytesMut),
    /// The sender has closed.
    Fin,
    /// The connection is reset here.
    Reset,
}

#[derive(Debug)]
struct QueuedItem {
    at: Option<Instant>,
    gate: Option<Gate>,
    what: Payload,
}

/// How far writing got.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WriteProgress {
    /// There is nothing due, or the receiver takes no more; a wake-up is arranged.
    Waiting,
    /// The end has been delivered.
    Closed,
    /// A reset has come to its turn.
    Reset,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) input: BytesMut,
    pub(super) scanner: Scanner,
    pub(super) latency: Latency,
    pub(super) cut: bool,
    pub(super) wire: WireState,
    /// Input is discarded: a frame was lost, or the receiver is gone.
    pub(super) deaf: bool,
    /// The sender has closed.
    pub(super) ended: bool,
    /// The latency of the frame whose beginning is on its way already.
    begun: Option<Duration>,
    draws: Draws,
    queue: VecDeque<QueuedItem>,
    queued: usize,
    last_due: Option<Instant>,
    /// When a limited bandwidth has sent everything queued.
    wire_free: Option<Instant>,
    /// Bytes sent on their way so far.
    passed: u64,
    /// The byte after which the connection is closed, and by which effect.
    close_behind: Option<(EffectId, u64)>,
    /// The effect that closed it, until logged.
    pub(super) closed_by: Option<EffectId>,
    /// The time for which the timer is set.
    armed: Option<Instant>,
    /// Something was written that a TLS stream may still hold back.
    unflushed: bool,
}

impl Lane {
    pub(super) fn new(scanner: Scanner, draws: Draws) -> Self {
        Self {
            input: BytesMut::new(),
            scanner,
            latency: Latency::None,
            cut: false,
            wire: WireState::default(),
            deaf: false,
            ended: false,
            begun: None,
            draws,
            queue: VecDeque::new(),
            queued: 0,
            last_due: None,
            wire_free: None,
            passed: 0,
            close_behind: None,
            closed_by: None,
            armed: None,
            unflushed: false,
        }
    }

    /// Reads once. Ready with true if bytes came, with false at the end of the stream.
    pub(super) fn poll_read<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
    ) -> Poll<io::Result<bool>> {
        if self.ended || self.is_full() {
            return Poll::Pending;
        }
        let (missing, come) = (self.scanner.missing(&self.input), self.input.len());
        // What is queued keeps the room that it came in, so a frame on its way gets more only when that is used up.
        let spare = if self.has_begun() { 0 } else { missing.min(READ_MOST) };
        if self.input.capacity() - come < spare.max(READ_LEAST / 4) {
            let most = READ_MOST.max(come.saturating_mul(GROWTH));
            self.input.reserve(missing.min(most).max(READ_LEAST));
        }
        let Poll::Ready(read) = pin!(from.read_buf(&mut self.input)).poll(cx) else {
            // Most of thousands of connections are idle, and an idle one needs no buffer.
            if self.input.is_empty() {
                self.input = BytesMut::new();
            }
            return Poll::Pending;
        };
        if !matches!(read, Ok(1..)) {
            self.ended = true;
        }
        if self.deaf {
            self.input.clear();
        }
        Poll::Ready(read.map(|count| count > 0))
    }

    /// Whether the queue is full, so that nothing more is read.
    pub(super) fn is_full(&self) -> bool {
        self.queued > QUEUE_MOST
    }

    /// True if every frame needs a due time of its own.
    pub(super) fn frame_by_frame(&self) -> bool {
        let is_drawn = |latency: &Latency| matches!(latency, Latency::Drawn(_));
        self.has_begun() || is_drawn(&self.latency) || self.wire.latencies.iter().any(is_drawn)
    }

    /// True if the beginning of the next frame is on its way already.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// True if so much of an incomplete frame has come that it should not be kept until its end.
    pub(super) fn is_long(&self) -> bool {
        !self.deaf && (self.has_begun() || self.input.len() >= FRAME_LONG)
    }

    /// Applies the effects on the wire from now on.
    pub(super) fn take_over(&mut self, cut: bool, latency: Latency, wire: WireState) {
        let limit = |(id, bytes)| match self.close_behind {
            Some((old, end)) if old == id => (id, end),
            _ => (id, self.passed.saturating_add(bytes)),
        };
        self.close_behind = wire.limit.map(limit);
        self.cut = cut || wire.cut;
        self.latency = latency;
        self.wire = wire;
    }

    /// Sends the first `len` bytes of the input on their way.
    pub(super) fn forward(&mut self, len: usize, now: Instant) {
        self.forward_late(len, None, now, Duration::ZERO, None);
    }

    /// Sends them, or others instead, `extra` later than usual, and not before the gate opens.
    pub(super) fn forward_late(
        &mut self,
        len: usize,
        instead: Option<BytesMut>,
        now: Instant,
        extra: Duration,
        gate: Option<Gate>,
    ) {
        // A limit may have discarded the input, whatever has been scanned.
        let len = len.min(self.input.len());
        if len == 0 {
            return;
        }
        let own = self.input.split_to(len);
        let latency = self.begun.take().unwrap_or_else(|| self.draw()).saturating_add(extra);
        self.send(instead.unwrap_or(own), now, latency, gate);
    }

    /// Sends on what has come of an incomplete frame. All of its parts have one latency.
    pub(super) fn forward_part(&mut self, now: Instant, extra: Duration, gate: Option<Gate>) {
        let len = self.scanner.let_go(&self.input);
        if len == 0 {
            return;
        }
        let latency = self.begun.unwrap_or_else(|| self.draw());
        self.begun = Some(latency);
        let part = self.input.split_to(len);
        self.send(part, now, latency.saturating_add(extra), gate);
    }

    /// Discards what has come of an incomplete frame.
    pub(super) fn lose_part(&mut self) {
        let len = self.scanner.let_go(&self.input);
        self.input.advance(len);
    }

    fn send(&mut self, mut bytes: BytesMut, now: Instant, latency: Duration, gate: Option<Gate>) {
        let end = self.close_behind.map(|(_, end)| end.saturating_sub(self.passed));
        let is_last = end.is_some_and(|left| left <= bytes.len() as u64);
        if let (true, Some(left)) = (is_last, end) {
            bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        self.passed += bytes.len() as u64;
        while !bytes.is_empty() {
            let (piece, sent) = self.on_the_wire(&mut bytes, now);
            self.queued += piece.len();
            self.push(Payload::Bytes(piece), sent, latency, gate.clone());
        }
        if is_last {
            self.closed_by = self.close_behind.take().map(|(id, _)| id);
            self.push(Payload::Fin, now, Duration::ZERO, None);
            self.lose_rest();
        }
    }

    /// The next piece that a wire of this bandwidth sends, and when it is sent.
    fn on_the_wire(&mut self, bytes: &mut BytesMut, now: Instant) -> (BytesMut, Instant) {
        let Some(rate) = self.wire.bandwidth else {
            return (std::mem::take(bytes), now);
        };
        let most = (rate.get() / (1000 / PIECE_TIME_MS)).max(PIECE_LEAST);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let piece = bytes.split_to(bytes.len().min(most));
        let nanos = (piece.len() as u128 * 1_000_000_000).div_ceil(u128::from(rate.get()));
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let begins = self.wire_free.map_or(now, |free| free.max(now));
        let sent = begins.checked_add(takes).unwrap_or(begins);
        self.wire_free = Some(sent);
        (piece, sent)
    }

    fn draw(&mut self) -> Duration {
        let own = self.latency.draw(&mut self.draws);
        let others = self.wire.latencies.iter().map(|latency| latency.draw(&mut self.draws));
        others.fold(own, Duration::saturating_add)
    }

    /// The sender has closed, which travels like a frame.
    pub(super) fn finish(&mut self, now: Instant) {
        let latency = self.draw().saturating_add(self.wire.slow_close);
        self.push(Payload::Fin, now, latency, None);
    }

    /// The connection is reset after what is queued; nothing more is read.
    pub(super) fn reset(&mut self, now: Instant) {
        let latency = self.draw();
        self.push(Payload::Reset, now, latency, None);
        self.lose_rest();
    }

    /// Discards what was read but not queued, and everything read later.
    pub(super) fn lose_rest(&mut self) {
        self.deaf = true;
        self.input.clear();
    }

    /// The receiver is gone: throws everything away.
    pub(super) fn lose_all(&mut self) {
        self.lose_rest();
        self.queue.clear();
        self.queued = 0;
    }

    /// Queues something that is sent at `sent` and arrives `latency` later.
    fn push(&mut self, what: Payload, sent: Instant, latency: Duration, gate: Option<Gate>) {
        let is_slow = !latency.is_zero() || self.wire.bandwidth.is_some();
        let due = sent.checked_add(latency).unwrap_or(sent);
        let at = if is_slow { Some(due) } else { self.last_due };
        let at = at.max(self.last_due);
        self.last_due = at;
        self.queue.push_back(QueuedItem { at, gate, what });
    }

    /// Writes what is due, as far as the receiver accepts it.
    pub(super) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
        timer: &WakeTimer,
        task: u64,
        clock: impl Fn() -> Instant,
    ) -> io::Result<WriteProgress> {
        while !self.cut {
            let Some(front) = self.queue.front() else {
                self.last_due = None;
                break;
            };
            if front.gate.as_ref().is_some_and(|gate| !gate.passes(task, cx.waker())) {
                break;
            }
            let now = front.at.map(|_| clock());
            if let (Some(at), Some(now)) = (front.at, now)
                && at > now
            {
                if self.armed != Some(at) {
                    self.armed = Some(at);
                    timer.wake_at(at, cx.waker());
                }
                break;
            }
            let done = match front.what {
                Payload::Reset => return Ok(WriteProgress::Reset),
                Payload::Fin => Pin::new(&mut *to).poll_shutdown(cx).map_ok(|()| None),
                Payload::Bytes(_) => self.write_due(cx, to, now).map_ok(Some),
            };
            match done {
                Poll::Pending => return Ok(WriteProgress::Waiting),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(None)) => {
                    self.queue.pop_front();
                    return Ok(WriteProgress::Closed);
                }
                Poll::Ready(Ok(Some(0))) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(Some(count))) => self.written(count),
            }
        }
        if self.unflushed {
            match Pin::new(to).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {}
            }
        }
        Ok(WriteProgress::Waiting)
    }

    /// Writes the bytes at the front of the queue, and others due.
    fn write_due<W: AsyncWrite + Unpin>(
        &self,
        cx: &mut Context<'_>,
        to: &mut W,
        now: Option<Instant>,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        for item in self.queue.iter().take(SLICES) {
            let Payload::Bytes(bytes) = &item.what else { break };
            let due = item.at.is_none_or(|at| now.is_some_and(|now| at <= now));
            if !due || item.gate.as_ref().is_some_and(|gate| !gate.is_open()) {
                break;
            }
            slices[count] = IoSlice::new(bytes);
            count += 1;
        }
        match &slices[..count] {
            [one] => Pin::new(to).poll_write(cx, one),
            some => Pin::new(to).poll_write_vectored(cx, some),
        }
    }

    fn written(&mut self, mut count: usize) {
        self.unflushed = true;
        self.queued -= count;
        while count > 0 {
            let Some(QueuedItem { what: Payload::Bytes(bytes), .. }) = self.queue.front_mut()
            else {
                return;
            };
            let part = bytes.len().min(count);
            count -= part;
            if part < bytes.len() {
                bytes.advance(part);
            } else {
                self.queue.pop_front();
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "lanes run in real time")]
mod tests {
    use std::task::Waker;

    use tokio::io::duplex;

    use resp::frame::Limits;
    use scenarios::distribution::Sampler;

    use super::*;

    #[test]
    fn a_lane_that_waits_for_more_keeps_no_empty_buffer() {
        let draws = Draws::new(1, [0; 4]);
        let mut lane = Lane::new(Scanner::requests(Limits::default()), draws);
        let mut cx = Context::from_waker(Waker::noop());
        let (mut client, mut proxy) = duplex(64);
        let mut say = |bytes: &[u8]| {
            let said =
                Pin::new(&mut client).poll_write(&mut Context::from_waker(Waker::noop()), bytes);
            assert!(matches!(said, Poll::Ready(Ok(count)) if count == bytes.len()));
        };
        assert!(lane.poll_read(&mut cx, &mut proxy).is_pending());
        assert_eq!(lane.input.capacity(), 0, "nothing has come yet");

        say(b"PING\r\nPI");
        assert!(lane.poll_read(&mut cx, &mut proxy).is_ready());
        lane.forward(6, Instant::now());
        assert!(lane.poll_read(&mut cx, &mut proxy).is_pending());
        assert_eq!(&lane.input[..], b"PI", "half a request waits for its end");

        say(b"NG\r\n");
        assert!(lane.poll_read(&mut cx, &mut proxy).is_ready());
        lane.forward(6, Instant::now());
        assert!(lane.poll_read(&mut cx, &mut proxy).is_pending());
        assert_eq!(lane.input.capacity(), 0, "all is on its way");
    }

    #[test]
    fn a_big_frame_is_seldom_copied_while_it_comes() {
        let draws = Draws::new(1, [0; 4]);
        let mut lane = Lane::new(Scanner::replies(Limits::default()), draws);
        let mut cx = Context::from_waker(Waker::noop());
        let frame = [&b"$33554432\r\n"[..], &vec![b'x'; 32 << 20], b"\r\n"].concat();
        let (mut from, mut copied) = (&frame[..], 0);
        while !from.is_empty() {
            let (held, room) = (lane.input.len(), lane.input.capacity());
            assert!(lane.poll_read(&mut cx, &mut from).is_ready());
            copied += if lane.input.capacity() > room { held } else { 0 };
            let scanned = lane.scanner.scan(&lane.input).unwrap();
            assert_eq!(scanned.is_some(), from.is_empty());
        }
        assert!(copied < frame.len() / 3, "{copied}");
    }

    #[test]
    fn the_parts_of_a_frame_share_the_room_they_come_in() {
        let mut lane = Lane::new(Scanner::replies(Limits::default()), Draws::new(1, [0; 4]));
        let mut cx = Context::from_waker(Waker::noop());
        let frame = [&b"$33554432\r\n"[..], &vec![b'x'; 32 << 20], b"\r\n"].concat();
        let (mut from, mut rooms) = (&frame[..], 0);
        while !lane.is_full() {
            let room = lane.input.capacity();
            let mut some = AsyncReadExt::take(&mut from, 64 << 10);
            assert!(lane.poll_read(&mut cx, &mut some).is_ready());
            rooms += usize::from(lane.input.capacity() > room);
            assert!(lane.scanner.scan(&lane.input).unwrap().is_none());
            lane.forward_part(Instant::now(), Duration::ZERO, None);
        }
        assert!(rooms <= QUEUE_MOST / READ_MOST + 2, "{rooms}");
    }

    #[test]
    fn the_parts_of_a_frame_have_one_latency_and_make_one_draw() {
        let now = Instant::now();
        let frames = [&b"+OK\r\n"[..], b"$9\r\nabcdefghi\r\n", b"+OK\r\n"];
        let latencies = |in_parts: bool| {
            let mut lane = Lane::new(Scanner::replies(Limits::default()), Draws::new(1, [0; 4]));
            lane.latency = Latency::Drawn(Sampler::uniform(1, u64::MAX >> 8));
            let mut latencies = Vec::new();
            for frame in frames {
                lane.last_due = None;
                for byte in frame {
                    lane.input.extend_from_slice(&[*byte]);
                    if let Some(frame) = lane.scanner.scan(&lane.input).unwrap() {
                        lane.forward(frame.len, now);
                    } else if in_parts {
                        lane.forward_part(now, Duration::ZERO, None);
                    }
                }
                assert!(lane.input.is_empty() && !lane.has_begun());
                let mut dues: Vec<Option<Instant>> =
                    lane.queue.drain(..).map(|item| item.at).collect();
                dues.dedup();
                latencies.push(dues);
            }
            latencies
        };
        assert_eq!(latencies(true), latencies(false));
    }
}
