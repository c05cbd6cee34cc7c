//! The subscriptions of all sessions.
//!
//! Invariant: subscribers of a channel are served in the order in which they subscribed, then those of
//! matching patterns in the order of the patterns' bytes (Redis promises none). With no subscriber at
//! all, a PUBLISH costs two look-ups. A sharded channel and a channel of the same name are two channels.

use std::collections::BTreeMap;

use resp::{Blob, Reply, blob, glob};

use super::Server;

/// A channel, a pattern, or a channel of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Channel,
    Pattern,
    Shard,
}

/// By kind, the names with the places of their sessions.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions([BTreeMap<Blob, Vec<u32>>; 3]);

impl Subscriptions {
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(BTreeMap::clear);
    }

    fn of(&mut self, kind: Topic) -> &mut BTreeMap<Blob, Vec<u32>> {
        &mut self.0[kind as usize]
    }

    fn all(&self, kind: Topic) -> &BTreeMap<Blob, Vec<u32>> {
        &self.0[kind as usize]
    }

    /// Names with at least one subscriber.
    pub(crate) fn names(&self, kind: Topic) -> impl Iterator<Item = &Blob> {
        self.all(kind).keys()
    }

    pub(crate) fn subscribers(&self, kind: Topic, name: &[u8]) -> usize {
        self.all(kind).get(name).map_or(0, Vec::len)
    }
}

impl Server {
    /// Adds a subscription; to how many channels and patterns the session is subscribed then.
    pub(crate) fn subscribe(&mut self, session: u32, kind: Topic, name: &[u8]) -> usize {
        let own = self.sessions[session as usize].subscribed_mut(kind);
        if !own.iter().any(|other| &other[..] == name) {
            own.push(blob(name));
            self.subscriptions.of(kind).entry(blob(name)).or_default().push(session);
        }
        self.sessions[session as usize].subscriptions(kind)
    }

    /// Takes a subscription back, if it is there.
    pub(crate) fn unsubscribe(&mut self, session: u32, kind: Topic, name: &[u8]) -> usize {
        self.sessions[session as usize].subscribed_mut(kind).retain(|other| &other[..] != name);
        let all = self.subscriptions.of(kind);
        if let Some(sessions) = all.get_mut(name) {
            sessions.retain(|&place| place != session);
            if sessions.is_empty() {
                all.remove(name);
            }
        }
        self.sessions[session as usize].subscriptions(kind)
    }

    /// Takes all subscriptions of a session back.
    pub(crate) fn unsubscribe_all(&mut self, session: u32) {
        for kind in [Topic::Channel, Topic::Pattern, Topic::Shard] {
            for name in std::mem::take(self.sessions[session as usize].subscribed_mut(kind)) {
                self.unsubscribe(session, kind, &name);
            }
        }
    }

    /// Sends a message; how many times it was sent.
    pub(crate) fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let mut sent = self.publish_to(Topic::Channel, "message", channel, message);
        for (pattern, sessions) in self.subscriptions.all(Topic::Pattern) {
            if !glob(pattern, channel, false) {
                continue;
            }
            for &session in sessions {
                let parts = [&b"pmessage"[..], pattern, channel, message].map(Reply::bulk);
                self.outbox.push((session, Reply::Push(parts.into())));
                sent += 1;
            }
        }
        sent
    }

    /// Sends a message to the subscribers of this channel by its name; how many they are.
    pub(crate) fn publish_to(
        &mut self,
        kind: Topic,
        verb: &str,
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        let sessions = self.subscriptions.all(kind).get(channel).map_or(&[][..], Vec::as_slice);
        self.outbox.extend(sessions.iter().map(|&session| {
            let parts = [verb.as_bytes(), channel, message].map(Reply::bulk);
            (session, Reply::Push(parts.into()))
        }));
        sessions.len()
    }
}
