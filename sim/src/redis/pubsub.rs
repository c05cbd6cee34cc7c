//! Who has subscribed to what.
//!
//! Invariant: subscribers of a channel are served in the order in which they subscribed, then those of
//! matching patterns in the order of the patterns' bytes (Redis promises none). With no subscriber at
//! all, a PUBLISH costs two looks. Deliberately absent: sharded channels.

use std::collections::BTreeMap;

use super::reply::Reply;
use super::server::Server;
use super::text::{Blob, blob, glob};

/// A channel or a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    Pattern,
}

/// Channels and patterns with the places of their sessions.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    channels: BTreeMap<Blob, Vec<u32>>,
    patterns: BTreeMap<Blob, Vec<u32>>,
}

impl Subscriptions {
    pub(crate) fn clear(&mut self) {
        self.channels.clear();
        self.patterns.clear();
    }

    fn of(&mut self, kind: Kind) -> &mut BTreeMap<Blob, Vec<u32>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
        }
    }

    pub(crate) fn channels(&self) -> impl Iterator<Item = (&Blob, usize)> {
        self.channels.iter().map(|(name, sessions)| (name, sessions.len()))
    }

    pub(crate) fn subscribers(&self, channel: &[u8]) -> usize {
        self.channels.get(channel).map_or(0, Vec::len)
    }

    pub(crate) fn patterns(&self) -> usize {
        self.patterns.len()
    }
}

impl Server {
    /// Adds a subscription; to how many channels and patterns the session is subscribed then.
    pub(crate) fn subscribe(&mut self, session: u32, kind: Kind, name: &[u8]) -> usize {
        let own = self.sessions[session as usize].subscribed_mut(kind);
        if !own.iter().any(|other| &other[..] == name) {
            own.push(blob(name));
            self.subscriptions.of(kind).entry(blob(name)).or_default().push(session);
        }
        self.sessions[session as usize].subscriptions()
    }

    /// Takes a subscription back, if it is there.
    pub(crate) fn unsubscribe(&mut self, session: u32, kind: Kind, name: &[u8]) -> usize {
        self.sessions[session as usize].subscribed_mut(kind).retain(|other| &other[..] != name);
        let all = self.subscriptions.of(kind);
        if let Some(sessions) = all.get_mut(name) {
            sessions.retain(|&place| place != session);
            if sessions.is_empty() {
                all.remove(name);
            }
        }
        self.sessions[session as usize].subscriptions()
    }

    /// Takes all subscriptions of a session back.
    pub(crate) fn unsubscribe_all(&mut self, session: u32) {
        for kind in [Kind::Channel, Kind::Pattern] {
            for name in std::mem::take(self.sessions[session as usize].subscribed_mut(kind)) {
                self.unsubscribe(session, kind, &name);
            }
        }
    }

    /// Sends a message; how many times it was sent.
    pub(crate) fn publish(&mut self, channel: &[u8], message: &[u8]) -> i64 {
        let mut sent = 0;
        for &session in self.subscriptions.channels.get(channel).into_iter().flatten() {
            let parts = [&b"message"[..], channel, message].map(Reply::bulk);
            self.outbox.push((session, Reply::Push(parts.into())));
            sent += 1;
        }
        for (pattern, sessions) in &self.subscriptions.patterns {
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
}
