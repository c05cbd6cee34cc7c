//! Channels: who subscribes to which, and the messages that have come.
//!
//! Invariant: all subscriptions of a process share one connection, which carries nothing else; a message
//! arrives as a reply does and meets the same faults. Deliberately absent: patterns, and messages that
//! were missed.

use std::collections::VecDeque;

use picklock::reply::Reply;

/// A subscription's messages.
#[derive(Debug)]
pub(super) struct ChannelInbox {
    pub(super) conn: u32,
    channel: Box<[u8]>,
    pub(super) messages: VecDeque<Box<[u8]>>,
    /// The task that waits for a message.
    pub(super) waiter: Option<u32>,
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(super) struct Pubsub {
    inboxes: Vec<Option<ChannelInbox>>,
}

impl Pubsub {
    pub(super) fn clear(&mut self) {
        self.inboxes.clear();
    }

    fn on_conn(&mut self, conn: u32) -> impl Iterator<Item = &mut ChannelInbox> {
        self.inboxes.iter_mut().flatten().filter(move |inbox| inbox.conn == conn)
    }

    /// Subscribes to a channel; returns the subscription's number.
    pub(super) fn subscribe(&mut self, conn: u32, channel: &[u8]) -> u32 {
        let inbox =
            ChannelInbox { conn, channel: channel.into(), messages: VecDeque::new(), waiter: None };
        let vacant = self.inboxes.iter().position(Option::is_none);
        let place = vacant.unwrap_or_else(|| {
            self.inboxes.push(None);
            self.inboxes.len() - 1
        });
        self.inboxes[place] = Some(inbox);
        u32::try_from(place).expect("fewer than 2^32 subscriptions")
    }

    /// Ends a subscription; returns its connection and channel if no other on that connection is to the same.
    pub(super) fn unsubscribe(&mut self, subscription: u32) -> Option<(u32, Box<[u8]>)> {
        let ChannelInbox { conn, channel, .. } = self.inboxes[subscription as usize].take()?;
        let shared = self.on_conn(conn).any(|inbox| inbox.channel == channel);
        (!shared).then_some((conn, channel))
    }

    /// A message has arrived on this connection; returns the tasks that waited for it.
    pub(super) fn deliver(&mut self, conn: u32, message: &Reply) -> Vec<u32> {
        let Reply::Array(parts) = message else { return Vec::new() };
        let [_, channel, payload] = &parts[..] else { return Vec::new() };
        let (Some(channel), Some(payload)) = (channel.as_bytes(), payload.as_bytes()) else {
            return Vec::new();
        };
        let mut woken = Vec::new();
        for inbox in self.on_conn(conn).filter(|inbox| &*inbox.channel == channel) {
            inbox.messages.push_back(payload.into());
            woken.extend(inbox.waiter.take());
        }
        woken
    }

    /// The tasks that wait for messages on this connection.
    pub(super) fn take_waiters(&mut self, conn: u32) -> Vec<u32> {
        self.on_conn(conn).filter_map(|inbox| inbox.waiter.take()).collect()
    }

    /// The messages of a subscription that has not ended.
    pub(super) fn inbox(&mut self, subscription: u32) -> Option<&mut ChannelInbox> {
        self.inboxes[subscription as usize].as_mut()
    }
}

#[cfg(test)]
mod tests;
