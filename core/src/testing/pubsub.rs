//! Who listens in the test world: messages come at once, or not at all once the connection broke.
//!
//! Invariant: what is published while a seat is taken and unbroken stands in its inbox, in order.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::Poll;

use super::World;
use crate::env::{CallError, Subscription};

#[derive(Default)]
pub(super) struct PubSub {
    seats: BTreeMap<u64, LeaseNode>,
    taken: u64,
    /// How the next attempts to subscribe go wrong.
    pub(super) faults: VecDeque<CallError>,
}

struct LeaseNode {
    channel: Box<[u8]>,
    inbox: VecDeque<Box<[u8]>>,
    broken: bool,
}

impl PubSub {
    pub(super) fn take(&mut self, channel: &[u8]) -> u64 {
        self.taken += 1;
        let seat = LeaseNode { channel: channel.into(), inbox: VecDeque::new(), broken: false };
        self.seats.insert(self.taken, seat);
        self.taken
    }

    pub(super) fn publish(&mut self, channel: &[u8], message: &[u8]) {
        let theirs = self.seats.values_mut().filter(|seat| &*seat.channel == channel);
        theirs.filter(|seat| !seat.broken).for_each(|seat| seat.inbox.push_back(message.into()));
    }

    pub(super) fn break_all(&mut self) {
        self.seats.values_mut().for_each(|seat| seat.broken = true);
    }

    pub(super) fn listeners(&self) -> usize {
        self.seats.len()
    }
}

pub(crate) struct TestSubscription {
    pub(super) world: World,
    pub(super) seat: u64,
}

impl Subscription for TestSubscription {
    async fn next(&mut self) -> Result<Box<[u8]>, CallError> {
        poll_fn(|_| {
            let mut state = self.world.state();
            let seat = state.pubsub.seats.get_mut(&self.seat).expect("dropped with its handle");
            match seat.inbox.pop_front() {
                Some(message) => Poll::Ready(Ok(message)),
                None if seat.broken => Poll::Ready(Err(CallError::Indeterminate("broken".into()))),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl Drop for TestSubscription {
    fn drop(&mut self) {
        self.world.state().pubsub.seats.remove(&self.seat);
    }
}
