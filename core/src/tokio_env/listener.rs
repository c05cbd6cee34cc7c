//! One connection on which an environment listens to the channels of a server.
//!
//! Invariant: a seat is there before SUBSCRIBE is sent and goes before UNSUBSCRIBE is, and both are
//! sent under the lock that guards the seats: so no message falls in between, and giving up one seat
//! silences no other of the same channel. When the connection ends, every seat hears of it.
//! Deliberately absent: a PING against silence. Who hears nothing asks again on the other connection,
//! and a new subscription that stays unconfirmed replaces this one.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Client, RedisResult};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::cluster::Owners;
use super::host::Addr;
use super::wire::{Health, connect_error, server_error};
use crate::env::{CallError, Subscription};
use crate::timeout::{First, race};

type Message = Box<[u8]>;

/// The connection. The last handle to go ends it; subscriptions hold none.
#[derive(Clone)]
pub(super) struct Listener {
    hall: Arc<Hall>,
    _pump: Arc<Pump>,
}

/// What subscriptions share.
struct Hall {
    sink: PubSubSink,
    seats: Mutex<Seats>,
    health: Health,
    runtime: Handle,
}

#[derive(Default)]
struct Seats {
    /// By channel: the number of each seat, and the way to it.
    channels: BTreeMap<Message, Vec<(u64, UnboundedSender<Message>)>>,
    taken: u64,
    ended: bool,
}

/// The task that hands messages out.
struct Pump(AbortHandle);

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Ends the hall with the task, whatever ends the task.
struct Closing(Arc<Hall>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.health.broken.store(true, Ordering::Relaxed);
        let mut seats = self.0.seats();
        seats.ended = true;
        seats.channels.clear();
    }
}

impl Hall {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_out(&self, channel: &[u8], payload: &[u8]) {
        self.health.heard();
        for (_, seat) in self.seats().channels.get(channel).into_iter().flatten() {
            // Whoever has just left needs it no more.
            let _ = seat.send(payload.into());
        }
    }
}

impl Listener {
    /// Connects.
    pub(super) async fn open(client: &Client, within: Duration) -> Result<Self, CallError> {
        let made = tokio::time::timeout(within, client.get_async_pubsub()).await;
        let made = made.map_err(|_| {
            CallError::NotSent(format!("no connection for listening within {within:?}").into())
        })?;
        let (sink, stream) = made.map_err(connect_error)?.split();
        let (seats, health, runtime) = (Mutex::default(), Health::default(), Handle::current());
        let hall = Arc::new(Hall { sink, seats, health, runtime });
        let pump = hall.runtime.spawn(pump(stream, Closing(Arc::clone(&hall))));
        Ok(Self { hall, _pump: Arc::new(Pump(pump.abort_handle())) })
    }

    /// Neither broken nor silent.
    pub(super) fn is_usable(&self) -> bool {
        !self.hall.health.broken.load(Ordering::Relaxed) && !self.hall.health.is_silent()
    }

    /// Takes a seat, and waits until the server knows.
    pub(super) async fn subscribe(
        &self,
        channel: &[u8],
        home: Option<Home>,
    ) -> Result<TokioSubscription, CallError> {
        let hall = &self.hall;
        let (sender, inbox) = unbounded_channel();
        let (mut sink, channel) = (hall.sink.clone(), Message::from(channel));
        let named = channel.clone();
        let mut confirmed = Box::pin(async move { sink.subscribe(&named[..]).await });
        hall.health.asked();
        let (subscription, at_once) = {
            let mut seats = hall.seats();
            if seats.ended {
                return Err(CallError::Indeterminate("the connection has ended".into()));
            }
            seats.taken += 1;
            let number = seats.taken;
            seats.channels.entry(channel.clone()).or_default().push((number, sender));
            let seat = TokioSubscription { hall: Arc::clone(hall), channel, number, inbox, home };
            (seat, poll_once(confirmed.as_mut()))
        };
        let answer = match at_once {
            Poll::Ready(answer) => answer,
            Poll::Pending => confirmed.await,
        };
        let Err(error) = answer else {
            hall.health.heard();
            return Ok(subscription);
        };
        if let Some(refusal) = server_error(&error) {
            hall.health.heard();
            return Err(CallError::Refused(refusal));
        }
        hall.health.broken.store(true, Ordering::Relaxed);
        Err(CallError::Indeterminate(error.to_string().into()))
    }
}

async fn pump(mut stream: PubSubStream, closing: Closing) {
    while let Some(message) = stream.next().await {
        if let Ok(channel) = message.get_channel::<Vec<u8>>() {
            closing.0.hand_out(&channel, message.get_payload_bytes());
        }
    }
}

/// A command to the sink is on its way after the first poll.
fn poll_once(command: Pin<&mut impl Future<Output = RedisResult<()>>>) -> Poll<RedisResult<()>> {
    command.poll(&mut Context::from_waker(Waker::noop()))
}

/// A place in the audience of a channel of a real server.
pub struct TokioSubscription {
    hall: Arc<Hall>,
    channel: Message,
    number: u64,
    inbox: UnboundedReceiver<Message>,
    home: Option<Home>,
}

/// Where a subscription stands, if it must not stay there: one who listens elsewhere than on the
/// primary, or on the owner of a slot, still hears, but is not counted by those who publish.
#[derive(Clone)]
pub(super) enum Home {
    Primary(watch::Receiver<Option<Addr>>, Addr),
    Slot(watch::Receiver<Owners>, u16, Addr),
}

impl Home {
    /// Waits until it is another's. Who would tell that may be gone, and then it stays.
    async fn is_left(&mut self) {
        let left = match self {
            Self::Primary(at, here) => at.wait_for(|at| at.as_ref() != Some(here)).await.is_ok(),
            Self::Slot(owners, slot, here) => {
                owners.wait_for(|owners| owners.of(*slot) != Some(here)).await.is_ok()
            }
        };
        if !left {
            std::future::pending::<()>().await;
        }
    }
}

impl Subscription for TokioSubscription {
    async fn next(&mut self) -> Result<Message, CallError> {
        let message = match &mut self.home {
            None => self.inbox.recv().await,
            Some(home) => match race(pin!(self.inbox.recv()), pin!(home.is_left())).await {
                First::Left(message) => message,
                First::Right(()) => None,
            },
        };
        message
            .ok_or_else(|| CallError::Indeterminate("the connection broke while listening".into()))
    }
}

impl Drop for TokioSubscription {
    fn drop(&mut self) {
        let mut seats = self.hall.seats();
        let Some(audience) = seats.channels.get_mut(&self.channel) else { return };
        audience.retain(|(number, _)| *number != self.number);
        if !audience.is_empty() {
            return;
        }
        seats.channels.remove(&self.channel);
        let (mut sink, channel) = (self.hall.sink.clone(), self.channel.clone());
        let mut sent = Box::pin(async move { sink.unsubscribe(&channel[..]).await });
        if poll_once(sent.as_mut()).is_pending() {
            drop(self.hall.runtime.spawn(sent));
        }
    }
}
