//! One connection on which an environment subscribes to the channels of a server.
//!
//! Invariant: a subscriber is registered before SUBSCRIBE is sent and removed before UNSUBSCRIBE is, and both
//! are sent under the mutex of the register: so no message is missed in between, and one subscriber's end
//! silences no other of the same channel. When the connection ends, every subscription reports it; so does one that
//! is not polled, once it has missed a message. No PING detects silence: a lock that hears nothing asks on its other
//! connection, and a new subscription that stays unconfirmed replaces this connection.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Client, RedisResult};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;

use super::addr::Addr;
use super::health::Health;
use super::server_conn::{OwnedTask, connect_error, server_error};
use super::slot_owners::SlotOwners;
use crate::env::{CallError, Subscription};
use crate::sync::lock;
use crate::timeout::{Either, race};

type Message = Box<[u8]>;

/// How many messages wait for a subscriber that is not polled. One that misses a message is told that the connection broke.
const INBOX: usize = 1_000;

/// The connection. Dropping the last handle ends it; subscriptions hold none.
#[derive(Clone)]
pub(super) struct Listener {
    shared: Arc<ListenerShared>,
    /// It delivers messages.
    _reader: Arc<OwnedTask>,
}

/// The part that subscriptions share.
struct ListenerShared {
    sink: PubSubSink,
    subscribers: Mutex<ChannelSubscribers>,
    health: Health,
    runtime: Handle,
}

#[derive(Default)]
struct ChannelSubscribers {
    /// By channel: the id and the inbox of each subscriber.
    channels: BTreeMap<Message, Vec<(u64, Sender<Message>)>>,
    last_id: u64,
    ended: bool,
}

/// Ends all subscriptions when the task ends, also by a panic or an abort.
struct CloseOnDrop(Arc<ListenerShared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.health.broken.store(true, Ordering::Relaxed);
        let mut subscribers = self.0.subscribers();
        subscribers.ended = true;
        subscribers.channels.clear();
    }
}

impl ListenerShared {
    fn subscribers(&self) -> MutexGuard<'_, ChannelSubscribers> {
        lock(&self.subscribers)
    }

    fn deliver(&self, channel: &[u8], payload: &[u8]) {
        self.health.received();
        if let Some(of_channel) = self.subscribers().channels.get_mut(channel) {
            of_channel.retain(|(_, subscriber)| subscriber.try_send(payload.into()).is_ok());
        }
    }
}

impl Listener {
    pub(super) async fn open(client: &Client, within: Duration) -> Result<Self, CallError> {
        let made = tokio::time::timeout(within, client.get_async_pubsub()).await;
        let made = made.map_err(|_| {
            CallError::NotSent(format!("no connection for listening within {within:?}").into())
        })?;
        let (sink, stream) =
            made.map_err(|error| connect_error(client.get_connection_info(), error))?.split();
        let (subscribers, health, runtime) =
            (Mutex::default(), Health::default(), Handle::current());
        let shared = Arc::new(ListenerShared { sink, subscribers, health, runtime });
        let reader = OwnedTask::spawn(read_messages(stream, CloseOnDrop(Arc::clone(&shared))));
        Ok(Self { shared, _reader: Arc::new(reader) })
    }

    /// Neither broken nor silent.
    pub(super) fn is_usable(&self) -> bool {
        !self.shared.health.broken.load(Ordering::Relaxed) && !self.shared.health.is_silent()
    }

    /// Subscribes, and waits for the server's confirmation.
    pub(super) async fn subscribe(
        &self,
        channel: &[u8],
        owner: Option<SubscribedOwner>,
    ) -> Result<TokioSubscription, CallError> {
        let shared = &self.shared;
        let (sender, inbox) = mpsc::channel(INBOX);
        let (mut sink, channel) = (shared.sink.clone(), Message::from(channel));
        let (named, heard) = (channel.clone(), Arc::clone(shared));
        let mut confirmed = Box::pin(async move {
            let _waiting = heard.health.sent();
            let answer = sink.subscribe(&named[..]).await;
            match &answer {
                Err(error) if server_error(error).is_none() => {
                    heard.health.broken.store(true, Ordering::Relaxed);
                }
                _ => heard.health.received(),
            }
            answer
        });
        let (subscription, polled) = {
            let mut subscribers = shared.subscribers();
            if subscribers.ended {
                return Err(CallError::Indeterminate("the connection has ended".into()));
            }
            subscribers.last_id += 1;
            let id = subscribers.last_id;
            subscribers.channels.entry(channel.clone()).or_default().push((id, sender));
            let subscription =
                TokioSubscription { shared: Arc::clone(shared), channel, id, inbox, owner };
            (subscription, poll_once(confirmed.as_mut()))
        };
        let answer = match polled {
            Poll::Ready(answer) => Ok(answer),
            // As a task, which goes on if the caller gives up: if nobody received the confirmation, the connection
            // would count as silent for all.
            Poll::Pending => shared.runtime.spawn(confirmed).await,
        };
        let unknown = |why: String| CallError::Indeterminate(why.into());
        match answer.map_err(|ended| unknown(ended.to_string()))? {
            Ok(()) => Ok(subscription),
            Err(error) => match server_error(&error) {
                Some(refusal) => Err(CallError::Refused(refusal)),
                None => Err(unknown(error.to_string())),
            },
        }
    }
}

async fn read_messages(mut stream: PubSubStream, closing: CloseOnDrop) {
    while let Some(message) = stream.next().await {
        if let Ok(channel) = message.get_channel::<Vec<u8>>() {
            closing.0.deliver(&channel, message.get_payload_bytes());
        }
    }
}

/// Polls once, which is enough to send a command to the sink.
fn poll_once(command: Pin<&mut impl Future<Output = RedisResult<()>>>) -> Poll<RedisResult<()>> {
    command.poll(&mut Context::from_waker(Waker::noop()))
}

/// A subscription to a channel of a real server.
pub struct TokioSubscription {
    shared: Arc<ListenerShared>,
    channel: Message,
    id: u64,
    inbox: Receiver<Message>,
    owner: Option<SubscribedOwner>,
}

impl fmt::Debug for TokioSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channel = self.channel.escape_ascii();
        f.debug_struct("TokioSubscription")
            .field("channel", &format_args!("{channel}"))
            .finish_non_exhaustive()
    }
}

/// The server of a subscription that must follow the primary or the owner of a slot. On another server, messages
/// still arrive, but PUBLISH does not count the subscriber.
#[derive(Clone)]
pub(super) enum SubscribedOwner {
    Primary(watch::Receiver<Option<Addr>>, Addr),
    Slot(watch::Receiver<SlotOwners>, u16, Addr),
}

impl SubscribedOwner {
    /// Waits until another server has taken over; for ever if nothing can report that any more.
    async fn has_changed(&mut self) {
        let changed = match self {
            Self::Primary(at, here) => at.wait_for(|at| at.as_ref() != Some(here)).await.is_ok(),
            Self::Slot(owners, slot, here) => {
                owners.wait_for(|owners| owners.of(*slot) != Some(here)).await.is_ok()
            }
        };
        if !changed {
            std::future::pending::<()>().await;
        }
    }
}

impl Subscription for TokioSubscription {
    async fn next(&mut self) -> Result<Message, CallError> {
        let message = match &mut self.owner {
            None => self.inbox.recv().await,
            Some(owner) => match race(pin!(self.inbox.recv()), pin!(owner.has_changed())).await {
                Either::Left(message) => message,
                Either::Right(()) => None,
            },
        };
        message
            .ok_or_else(|| CallError::Indeterminate("the connection broke while listening".into()))
    }
}

impl Drop for TokioSubscription {
    fn drop(&mut self) {
        let mut subscribers = self.shared.subscribers();
        let Some(of_channel) = subscribers.channels.get_mut(&self.channel) else { return };
        of_channel.retain(|(id, _)| *id != self.id);
        if !of_channel.is_empty() {
            return;
        }
        subscribers.channels.remove(&self.channel);
        let (mut sink, channel) = (self.shared.sink.clone(), self.channel.clone());
        let mut sent = Box::pin(async move { sink.unsubscribe(&channel[..]).await });
        if poll_once(sent.as_mut()).is_pending() {
            drop(self.shared.runtime.spawn(sent));
        }
    }
}
