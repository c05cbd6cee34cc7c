//! Who listens to which channel, and the messages that have come.
//!
//! Invariant: what a process listens to comes over a connection of its own, which all its seats share,
//! so that commands are answered as ever; a message takes the way of an answer and meets what answers
//! meet. Deliberately absent: patterns, and hearing again what was missed.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use picklock::command::Command;
use picklock::env::{CallError, Node, Subscription};
use picklock::reply::Reply;

use super::call::Asking;
use super::dial::{Dialling, Purpose};
use super::process::State;
use super::world::{World, with, with_if_free};

/// All seats of a world.
#[derive(Debug, Default)]
pub(super) struct Audience {
    seats: Vec<Option<Seat>>,
}

#[derive(Debug)]
struct Seat {
    conn: u32,
    channel: Box<[u8]>,
    inbox: VecDeque<Box<[u8]>>,
    /// The task that waits for a message.
    waiter: Option<u32>,
}

impl Audience {
    pub(super) fn clear(&mut self) {
        self.seats.clear();
    }

    fn of(&mut self, conn: u32) -> impl Iterator<Item = &mut Seat> {
        self.seats.iter_mut().flatten().filter(move |seat| seat.conn == conn)
    }
}

impl World {
    fn take_seat(&mut self, conn: u32, channel: &[u8]) -> u32 {
        let seat = Seat { conn, channel: channel.into(), inbox: VecDeque::new(), waiter: None };
        let seats = &mut self.audience.seats;
        let place = seats.iter().position(Option::is_none).unwrap_or(seats.len());
        if place == seats.len() {
            seats.push(None);
        }
        seats[place] = Some(seat);
        u32::try_from(place).expect("fewer than 2^32 seats")
    }

    /// A seat is given up. Who was the last to listen to its channel says so to the server.
    fn leave(&mut self, place: u32) {
        let Some(left) = self.audience.seats[place as usize].take() else { return };
        let process = self.conns[left.conn as usize].process;
        let gone = self.processes[process as usize].state == State::Crashed;
        let shared = self.audience.of(left.conn).any(|seat| seat.channel == left.channel);
        if !gone && !shared && self.conns[left.conn as usize].open {
            self.tell(left.conn, Command::new("UNSUBSCRIBE").arg(&left.channel));
        }
    }

    /// A message has arrived on this connection.
    pub(super) fn hear(&mut self, conn: u32, message: Reply) {
        let Reply::Array(parts) = message else { return };
        let [_, channel, payload] = &parts[..] else { return };
        let (Some(channel), Some(payload)) = (channel.as_bytes(), payload.as_bytes()) else {
            return;
        };
        let mut woken = Vec::new();
        for seat in self.audience.of(conn).filter(|seat| &*seat.channel == channel) {
            seat.inbox.push_back(payload.into());
            woken.extend(seat.waiter.take());
        }
        for task in woken {
            self.wake(task);
        }
    }

    /// Whoever listens on a connection learns that it has broken.
    pub(super) fn end_listening(&mut self, conn: u32) {
        let woken: Vec<u32> =
            self.audience.of(conn).filter_map(|seat| seat.waiter.take()).collect();
        for task in woken {
            self.wake(task);
        }
    }
}

/// A place in the audience of a channel.
#[derive(Debug)]
pub struct VirtualSubscription {
    seat: u32,
}

impl VirtualSubscription {
    /// Listens to a channel: resolves when the server has confirmed.
    pub(super) async fn begin(process: u32, node: Node, channel: &[u8]) -> Result<Self, CallError> {
        let node = u32::from(node.0);
        let conn = Dialling::new(process, node, Purpose::Listening).await?;
        // The seat is there before the server knows of it: no message falls in between.
        let it = Self { seat: with(|world| world.take_seat(conn, channel)) };
        Asking::new(conn, Command::new("SUBSCRIBE").arg(channel)).await?;
        Ok(it)
    }
}

impl Subscription for VirtualSubscription {
    fn next(&mut self) -> impl Future<Output = Result<Box<[u8]>, CallError>> + Send {
        Hearing { seat: self.seat }
    }
}

impl Drop for VirtualSubscription {
    fn drop(&mut self) {
        with_if_free(|world| {
            if !world.closed {
                world.leave(self.seat);
            }
        });
    }
}

struct Hearing {
    seat: u32,
}

impl Future for Hearing {
    type Output = Result<Box<[u8]>, CallError>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        with(|world| {
            let current = world.current;
            let Some(seat) = &mut world.audience.seats[self.seat as usize] else {
                return Poll::Pending;
            };
            if let Some(message) = seat.inbox.pop_front() {
                return Poll::Ready(Ok(message));
            }
            if !world.conns[seat.conn as usize].open {
                let broken = "the connection broke while listening";
                return Poll::Ready(Err(CallError::Indeterminate(broken.into())));
            }
            seat.waiter = Some(current);
            Poll::Pending
        })
    }
}

#[cfg(test)]
mod tests;
