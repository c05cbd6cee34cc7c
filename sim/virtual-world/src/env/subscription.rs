//! A process's subscription to a channel.
//!
//! Invariant: it resolves once the server has confirmed it; every message published from then on arrives, or
//! the subscription says that its connection broke.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use picklock::command::Command;
use picklock::env::{CallError, Node, Subscription};

use super::super::network::Purpose;
use super::super::simulation::{with, with_if_open};
use super::call::CallFuture;
use super::connect::ConnectFuture;

/// A subscription to a channel.
#[derive(Debug)]
pub struct VirtualSubscription {
    subscription: u32,
}

impl VirtualSubscription {
    /// Subscribes to a channel.
    pub(super) async fn begin(process: u32, node: Node, channel: &[u8]) -> Result<Self, CallError> {
        let conn = ConnectFuture::new(process, node, Purpose::Subscriptions).await?;
        // The inbox is there before the server knows of it: no message falls in between.
        let it = Self { subscription: with(|sim| sim.pubsub.subscribe(conn, channel)) };
        CallFuture::new(conn, Command::new("SUBSCRIBE").arg(channel)).await?;
        Ok(it)
    }
}

impl Subscription for VirtualSubscription {
    fn next(&mut self) -> impl Future<Output = Result<Box<[u8]>, CallError>> + Send {
        NextMessage { subscription: self.subscription }
    }
}

impl Drop for VirtualSubscription {
    fn drop(&mut self) {
        with_if_open(|sim| sim.unsubscribe(self.subscription));
    }
}

struct NextMessage {
    subscription: u32,
}

impl Future for NextMessage {
    type Output = Result<Box<[u8]>, CallError>;

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Self::Output> {
        with(|sim| {
            let Some(inbox) = sim.pubsub.inbox(self.subscription) else { return Poll::Pending };
            if let Some(message) = inbox.messages.pop_front() {
                return Poll::Ready(Ok(message));
            }
            if !sim.network.conn(inbox.conn).open {
                let broken = "the connection broke while listening";
                return Poll::Ready(Err(CallError::Indeterminate(broken.into())));
            }
            inbox.waiter = Some(sim.executor.current());
            Poll::Pending
        })
    }
}
