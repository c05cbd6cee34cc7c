//! The seam between lock code and the world it runs in.
//!
//! Invariant: a lock reads time, waits, draws random numbers, starts tasks and talks to Redis only
//! through an [`Env`], so that the same code runs in a service (on tokio and redis-rs) and under a
//! simulator that owns every clock and every packet. Deliberately absent: timeouts, retries and
//! reconnecting, which are decisions of the lock and live there.

use std::future::Future;
use std::time::Duration;

use crate::command::Command;
use crate::reply::{Reply, ServerError};
use crate::time::{Instant, WallTime};

/// One Redis server of a topology, by its place; a standalone server is `Node(0)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u16);

/// What one client node can see and do. Cloning gives another handle to the same node.
pub trait Env: Clone + Send + Sync + 'static {
    /// A connection to a server.
    type Conn: Conn;
    /// A place in the audience of a channel.
    type Subscription: Subscription;

    /// This node's monotonic clock: it may run fast or slow, but never jumps, and runs on while the
    /// node is paused.
    fn now(&self) -> Instant;

    /// This node's wall clock: it may also jump.
    fn wall(&self) -> WallTime;

    /// Waits for at least `span` on this node's monotonic clock.
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send;

    /// Random bits; unpredictable to other clients in a service, replayable in a simulation.
    fn random(&self) -> u64;

    /// Runs a task to its end beside the caller, on this node.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// A usable connection to `node`. It may be shared with other users of this node; after a
    /// connection has broken, the next call gives a new one.
    ///
    /// # Errors
    /// [`CallError::NotSent`] where the server cannot be reached, [`CallError::Refused`] where it
    /// refuses the handshake (a wrong password), [`CallError::NoRuntime`] where it was not called within one.
    fn connect(&self, node: Node) -> impl Future<Output = Result<Self::Conn, CallError>> + Send;

    /// Listens to `channel` on `node`, over a connection of its own that all subscriptions of this
    /// environment share. It resolves once the server has confirmed, so that whatever is published
    /// from then on is heard, or else the subscription says that it has broken.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and [`CallError::Indeterminate`] where the server has not
    /// confirmed.
    fn subscribe(
        &self,
        node: Node,
        channel: &[u8],
    ) -> impl Future<Output = Result<Self::Subscription, CallError>> + Send;

    /// Whether nobody hears a message but those whom PUBLISH at `node` has counted. It is not so in a
    /// cluster, where a message goes on to every node, nor where a primary may become a replica,
    /// which hands on what the new primary publishes. A message then proves nothing of what the
    /// script did that has sent it.
    fn counts_listeners(&self, node: Node) -> bool {
        let _ = node;
        true
    }

    /// Tells the world where this node's locking has come to. A world may stage a fault there, or
    /// write it down; lock code must not depend on it.
    fn mark(&self, mark: Mark) {
        let _ = mark;
    }
}

/// A connection: commands on it reach the server in the order in which they were called.
/// Cloning gives another handle to the same connection.
pub trait Conn: Clone + Send + Sync + 'static {
    /// Sends a command and waits for its reply.
    ///
    /// Dropping the future recalls nothing: a command already called may still be carried out.
    ///
    /// # Errors
    /// See [`CallError`]: all but *indeterminate* say that the command had no effect.
    fn call(&self, command: Command) -> impl Future<Output = Result<Reply, CallError>> + Send;

    /// Says that a caller has waited in vain. Where nothing at all has been heard on this connection
    /// for as long as `silence` since it was asked, the next [`Env::connect`] gives a new one, and
    /// the answer is true. What is under way on it goes on.
    fn gave_up(&self, silence: Duration) -> bool {
        let _ = silence;
        false
    }
}

/// A place in the audience of a channel. Dropping it gives the place up.
pub trait Subscription: Send + 'static {
    /// The next message. Dropping the future loses none.
    ///
    /// # Errors
    /// The connection has broken, and messages may have been missed: subscribe again, and then look
    /// again at what they would have told. No error proves that none was missed: a connection may
    /// also fall silent.
    fn next(&mut self) -> impl Future<Output = Result<Box<[u8]>, CallError>> + Send;
}

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The command surely never left: no connection could be made.
    #[error("not sent: {0}")]
    NotSent(Box<str>),
    /// The server answered with an error and carried nothing out.
    #[error("refused by the server: {0}")]
    Refused(#[from] ServerError),
    /// The command may or may not have been carried out, now or later.
    #[error("outcome unknown: {0}")]
    Indeterminate(Box<str>),
    /// The command surely never left: this environment needs a runtime, and it was not called within one.
    #[error("no tokio runtime here; call it within one, such as in `Runtime::block_on`")]
    NoRuntime,
}

impl CallError {
    /// True where the command may have had an effect.
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Self::Indeterminate(_))
    }

    /// For a reply that the command does not have. Something between us and Redis has changed it, so
    /// nothing is known.
    pub(crate) fn unexpected(reply: &Reply) -> Self {
        Self::Indeterminate(format!("unexpected reply {reply:?}").into())
    }

    /// True where the server answered with this error code, such as `NOSCRIPT`.
    pub fn has_code(&self, code: &str) -> bool {
        matches!(self, Self::Refused(error) if &*error.code == code)
    }
}

/// What a lock tells its world about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A phase begins.
    Phase(Phase),
    /// The lease may be relied on until this instant of the node's own monotonic clock: after an
    /// acquisition, and again after every renewal. A lock that keeps no validity never says it.
    ValidUntil(Instant),
    /// The fencing token of this acquisition, as soon as it is known, which is before the acquisition is
    /// answered with yes. A lock that hands out none never says it.
    Fence(u64),
    /// The holder has learnt that the lock is no longer its own.
    Lost,
}

/// The places in a lock's life at which faults are staged. Every recipe marks the ones it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// About to send the command that may take the lock.
    AcquireBeforeSend,
    /// Between two commands of an acquisition that takes several.
    AcquireBetween,
    /// The acquisition has been answered with yes.
    AcquireApplied,
    /// Waiting for another attempt.
    Wait,
    /// Holding, about to work.
    Hold,
    /// Holding, about to write to what the lock protects, after the last look at the validity.
    HoldBeforeWrite,
    /// About to send a renewal.
    RenewBeforeSend,
    /// Between two commands of a renewal that takes several.
    RenewBetween,
    /// About to begin the release.
    ReleaseBeforeSend,
    /// About to send the command that may delete the key.
    ReleaseBeforeDelete,
    /// The release is over, answered or given up.
    Released,
}

impl Phase {
    /// Every phase, in the order of a lock's life.
    pub const ALL: [Self; 11] = [
        Self::AcquireBeforeSend,
        Self::AcquireBetween,
        Self::AcquireApplied,
        Self::Wait,
        Self::Hold,
        Self::HoldBeforeWrite,
        Self::RenewBeforeSend,
        Self::RenewBetween,
        Self::ReleaseBeforeSend,
        Self::ReleaseBeforeDelete,
        Self::Released,
    ];

    /// The name used in scenario files and histories.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AcquireBeforeSend => "acquire.before-send",
            Self::AcquireBetween => "acquire.between",
            Self::AcquireApplied => "acquire.applied",
            Self::Wait => "wait",
            Self::Hold => "hold",
            Self::HoldBeforeWrite => "hold.before-write",
            Self::RenewBeforeSend => "renew.before-send",
            Self::RenewBetween => "renew.between",
            Self::ReleaseBeforeSend => "release.before-send",
            Self::ReleaseBeforeDelete => "release.before-delete",
            Self::Released => "released",
        }
    }

    /// The phase of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }
}
