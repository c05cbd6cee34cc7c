//! What the server knows about one connection.
//!
//! Invariant: a closed session's place may be taken by a new one, but its id never is. Not modelled:
//! client-side caching.

use resp::{Blob, ProtocolVersion, Reply};

use super::blocking::Blocked;
use super::pubsub::Topic;

/// A connection, by its place in the model. It is given by `Model::connect` and void after
/// `Model::disconnect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// A key under WATCH.
#[derive(Clone, Debug)]
pub(crate) struct WatchedKey {
    pub(crate) db: u16,
    pub(crate) key: Blob,
    /// It had already expired when WATCH came: its deletion then changes nothing.
    pub(crate) stale: bool,
}

/// Commands kept back by MULTI.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransactionQueue {
    /// The place in the command table, and the arguments.
    pub(crate) commands: Vec<(u16, Vec<Blob>)>,
    /// One of them was refused, so EXEC will refuse.
    pub(crate) refused: bool,
    /// The flags of all queued commands together.
    pub(crate) flags: u32,
}

/// Which requests of a session are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replies {
    #[default]
    On,
    Off,
    /// Not this one and not the next one.
    SkipNext,
    /// Not this one.
    Skip,
}

/// The state of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub(crate) open: bool,
    pub(crate) id: u64,
    pub(crate) address: Blob,
    pub(crate) name: Blob,
    pub(crate) protocol: ProtocolVersion,
    pub(crate) db: u16,
    pub(crate) authenticated: bool,
    pub(crate) closing: bool,
    pub(crate) queue: Option<TransactionQueue>,
    pub(crate) watched: Vec<WatchedKey>,
    /// A watched key was touched.
    pub(crate) dirty: bool,
    pub(crate) last_command: Option<u16>,
    pub(crate) connected_ms: i64,
    pub(crate) active_ms: i64,
    /// It waits: nothing more is to be read from it.
    pub(crate) blocked: Option<Blocked>,
    pub(crate) channels: Vec<Blob>,
    pub(crate) patterns: Vec<Blob>,
    pub(crate) shard_channels: Vec<Blob>,
    pub(crate) replies: Replies,
    /// CLIENT NO-EVICT ON: the model evicts no client, and shows the flag.
    pub(crate) no_evict: bool,
    /// Everything is shown to it.
    pub(crate) monitors: bool,
    /// Where the stream stood after its last command: what its WAIT waits for.
    pub(crate) written_to: u64,
}

impl Session {
    /// One that belongs to no connection.
    pub(crate) fn internal() -> Self {
        Self { open: true, authenticated: true, ..Self::default() }
    }

    pub(crate) fn subscribed_mut(&mut self, kind: Topic) -> &mut Vec<Blob> {
        match kind {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::Shard => &mut self.shard_channels,
        }
    }

    /// To how many channels and patterns it is subscribed. Shards have channels of their own.
    pub(crate) fn subscriptions(&self, kind: Topic) -> usize {
        match kind {
            Topic::Channel | Topic::Pattern => self.channels.len() + self.patterns.len(),
            Topic::Shard => self.shard_channels.len(),
        }
    }

    /// Whether it has subscribed to anything.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.subscriptions(Topic::Channel) + self.subscriptions(Topic::Shard) > 0
    }

    /// The reply to its request, or nothing where it wants none (CLIENT REPLY): what confirms a subscription it is sent
    /// all the same.
    pub(crate) fn filter_reply(&mut self, reply: Reply) -> Reply {
        match self.replies {
            Replies::On => return reply,
            Replies::Off => {}
            Replies::SkipNext => self.replies = Replies::Skip,
            Replies::Skip => self.replies = Replies::On,
        }
        match reply {
            Reply::Push(_) | Reply::Burst(_) => reply,
            _ => Reply::NOTHING,
        }
    }
}
