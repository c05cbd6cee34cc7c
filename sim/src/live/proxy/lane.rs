//! One direction of a connection: bytes in, frames found, a queue of what is due when, bytes out.
//!
//! Invariant: first in, first out. Nothing overtakes, whatever the draws, the delays and the gates
//! say. Deliberately absent: what frames mean; [`Session`](super::session::Session) knows.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::gate::Gate;
use super::latency::{Draws, Latency};
use super::timer::Timer;
use crate::resp::frame::Scanner;

/// Room made for a read; a known big frame gets more, up to [`READ_MOST`] at a time.
const READ_LEAST: usize = 16 << 10;
const READ_MOST: usize = 1 << 20;
/// With this much on its way nothing more is read: the sender waits, as on a full TCP window.
const QUEUE_MOST: usize = 4 << 20;
/// How many pieces one write may gather.
const SLICES: usize = 32;

/// What is on its way.
#[derive(Debug)]
enum What {
    Bytes(BytesMut),
    /// The sender has closed.
    Fin,
    /// The connection is reset here.
    Reset,
}

#[derive(Debug)]
struct Item {
    at: Option<Instant>,
    gate: Option<Gate>,
    what: What,
}

/// How far writing got.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// There is nothing due, or the receiver takes no more; a wake-up is arranged.
    Waiting,
    /// The end has been delivered.
    Closed,
    /// A reset has come to its turn.
    Reset,
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) input: BytesMut,
    pub(super) scanner: Scanner,
    pub(super) latency: Latency,
    pub(super) cut: bool,
    /// What comes in is thrown away: a frame was lost, or the receiver is gone.
    pub(super) deaf: bool,
    /// The sender has closed.
    pub(super) ended: bool,
    draws: Draws,
    queue: VecDeque<Item>,
    queued: usize,
    last_due: Option<Instant>,
    /// For when the timer has been set.
    armed: Option<Instant>,
    /// Something was written that a TLS stream may still hold back.
    unflushed: bool,
}

impl Lane {
    pub(super) fn new(scanner: Scanner, latency: Latency, draws: Draws) -> Self {
        Self {
            input: BytesMut::new(),
            scanner,
            latency,
            cut: false,
            deaf: false,
            ended: false,
            draws,
            queue: VecDeque::new(),
            queued: 0,
            last_due: None,
            armed: None,
            unflushed: false,
        }
    }

    /// Reads once. Ready with true where bytes came, with false at the end of the stream.
    pub(super) fn poll_read<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
    ) -> Poll<io::Result<bool>> {
        if self.ended || self.is_full() {
            return Poll::Pending;
        }
        let missing = self.scanner.missing(&self.input).min(READ_MOST);
        if self.input.capacity() - self.input.len() < missing.max(READ_LEAST / 4) {
            self.input.reserve(missing.max(READ_LEAST));
        }
        let read = ready!(pin!(from.read_buf(&mut self.input)).poll(cx));
        if !matches!(read, Ok(1..)) {
            self.ended = true;
        }
        if self.deaf {
            self.input.clear();
        }
        Poll::Ready(read.map(|count| count > 0))
    }

    /// True while so much is on its way that nothing more is read.
    pub(super) fn is_full(&self) -> bool {
        self.queued > QUEUE_MOST
    }

    /// True where every frame needs a due time of its own.
    pub(super) fn frame_by_frame(&self) -> bool {
        matches!(self.latency, Latency::Drawn(_))
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
        if len == 0 {
            return;
        }
        let own = self.input.split_to(len);
        let bytes = instead.unwrap_or(own);
        self.queued += bytes.len();
        self.push(What::Bytes(bytes), now, extra, gate);
    }

    /// The sender has closed, which travels like a frame.
    pub(super) fn finish(&mut self, now: Instant) {
        self.push(What::Fin, now, Duration::ZERO, None);
    }

    /// The connection is to be reset behind what is on its way; nothing more is read.
    pub(super) fn reset(&mut self, now: Instant) {
        self.push(What::Reset, now, Duration::ZERO, None);
        self.lose_rest();
    }

    /// Throws away what has been read and not sent on its way, and what will be read.
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

    fn push(&mut self, what: What, now: Instant, extra: Duration, gate: Option<Gate>) {
        let travel = self.latency.draw(&mut self.draws) + extra;
        let due = now.checked_add(travel).unwrap_or(now);
        let at = if travel.is_zero() { self.last_due } else { Some(due) };
        let at = at.max(self.last_due);
        self.last_due = at;
        self.queue.push_back(Item { at, gate, what });
    }

    /// Writes what is due, as far as the receiver takes it.
    pub(super) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
        timer: &Timer,
        task: u64,
        clock: impl Fn() -> Instant,
    ) -> io::Result<Written> {
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
                What::Reset => return Ok(Written::Reset),
                What::Fin => Pin::new(&mut *to).poll_shutdown(cx).map_ok(|()| None),
                What::Bytes(_) => self.write_due(cx, to, now).map_ok(Some),
            };
            match done {
                Poll::Pending => return Ok(Written::Waiting),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(None)) => {
                    self.queue.pop_front();
                    return Ok(Written::Closed);
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
        Ok(Written::Waiting)
    }

    /// Writes the bytes at the front of the queue, and what else is due with them.
    fn write_due<W: AsyncWrite + Unpin>(
        &self,
        cx: &mut Context<'_>,
        to: &mut W,
        now: Option<Instant>,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        for item in self.queue.iter().take(SLICES) {
            let What::Bytes(bytes) = &item.what else { break };
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
            let Some(Item { what: What::Bytes(bytes), .. }) = self.queue.front_mut() else {
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
