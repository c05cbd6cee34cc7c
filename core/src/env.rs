//! The seam between lock code and the world it runs in.
//!
//! Invariant: a lock reads time, waits, draws random numbers, starts tasks and talks to Redis only
//! through an [`Env`], so that the same code runs in a service (on tokio and redis-rs) and under a
//! simulator that owns every clock and every packet. Timeouts, retries and reconnecting are decisions of
//! the lock, and an environment makes none of them.

use std::time::Duration;

use crate::command::Command;
use crate::reply::{Reply, ServerError};
use crate::time::{Instant, WallTime};

/// One Redis server of a topology, by its index; a standalone server is `Node(0)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u16);

/// The world of one client process. Cloning gives another handle to the same process.
pub trait Env: Clone + Send + Sync + 'static {
    /// A connection to a server.
    type Conn: Conn;
    /// A subscription to a channel.
    type Subscription: Subscription;

    /// This process's monotonic clock: it may run fast or slow, but never jumps, and runs on while the process
    /// is paused.
    fn now(&self) -> Instant;

    /// This process's wall clock: it may also jump.
    fn wall(&self) -> WallTime;

    /// Waits for at least `span` on this process's monotonic clock.
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send;

    /// 64 random bits; unpredictable to other clients in a service, replayable in a simulation.
    fn random(&self) -> u64;

    /// Runs a task concurrently with the caller, in this process.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// A usable connection to `node`. It may be shared with other users of this environment; after a
    /// connection has broken, the next call gives a new one.
    ///
    /// # Errors
    /// [`CallError::NotSent`] if the server cannot be reached, [`CallError::Refused`] if it refuses the handshake
    /// (a wrong password), [`CallError::NoRuntime`] if this was not called within a runtime.
    fn connect(&self, node: Node) -> impl Future<Output = Result<Self::Conn, CallError>> + Send;

    /// Subscribes to `channel` on `node`, over a separate connection that all subscriptions of this environment
    /// share. It resolves once the server has confirmed: every message published from then on is delivered,
    /// or else the subscription reports that it has broken.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and [`CallError::Indeterminate`] where the server has not
    /// confirmed.
    fn subscribe(
        &self,
        node: Node,
        channel: &[u8],
    ) -> impl Future<Output = Result<Self::Subscription, CallError>> + Send;

    /// Whether only subscribers that PUBLISH at `node` has counted receive a message. False in a cluster, where
    /// a message goes on to every node, and where a primary may become a replica, which forwards the messages
    /// of the new primary. Then a message proves nothing about what the script that sent it has done.
    fn counts_listeners(&self, node: Node) -> bool {
        let _ = node;
        true
    }

    /// Reports an event of the lock to the world. A world may stage a fault there, or record it; lock code
    /// must not depend on that.
    fn mark(&self, mark: Mark) {
        let _ = mark;
    }
}

/// A connection: commands on it reach the server in the order in which they were called.
/// Cloning gives another handle to the same connection.
pub trait Conn: Clone + Send + Sync + 'static {
    /// Sends a command and waits for its reply.
    ///
    /// Dropping the future does not cancel the command: once polled, it may still be carried out.
    ///
    /// # Errors
    /// See [`CallError`]: all but *indeterminate* say that the command had no effect, except parts of a script.
    fn call(&self, command: Command) -> impl Future<Output = Result<Reply, CallError>> + Send;

    /// Reports that a call had no answer in time. If nothing at all was received on this connection for
    /// `silence` since a command was sent, it returns true and the next [`Env::connect`] gives a new
    /// connection. Calls in flight on this one go on.
    fn gave_up(&self, silence: Duration) -> bool {
        let _ = silence;
        false
    }
}

/// A subscription to a channel. Dropping it unsubscribes.
pub trait Subscription: Send + 'static {
    /// The next message. Dropping the future loses none.
    ///
    /// # Errors
    /// [`CallError::Indeterminate`] if the connection has broken and messages may have been missed: subscribe
    /// again, and then read the state that they would have reported. Without an error, messages may have been
    /// missed, too: a connection may also fall silent.
    fn next(&mut self) -> impl Future<Output = Result<Box<[u8]>, CallError>> + Send;
}

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The command surely never left: no connection could be made, or it was known to be closed.
    #[error("not sent: {0}")]
    NotSent(Box<str>),
    /// The server answered with an error and carried nothing out. If a script failed, its commands before the one that
    /// failed were carried out; the scripts of this crate are written so that a refused acquisition or renewal was not.
    /// A refused release has deleted the key if only the PUBLISH after the deletion was refused
    /// ([`DELETE_AND_TELL`](crate::scripts::DELETE_AND_TELL)), and may have removed clients from the queue
    /// ([`LEAVE`](crate::queue_scripts::LEAVE)).
    #[error("refused by the server: {0}")]
    Refused(ServerError),
    /// The command may or may not have been carried out, now or later.
    #[error("outcome unknown: {0}")]
    Indeterminate(Box<str>),
    /// The command surely never left: this environment needs a runtime, and it was not called within one.
    #[error("no tokio runtime here; call it within one, such as in `Runtime::block_on`")]
    NoRuntime,
}

impl From<ServerError> for CallError {
    fn from(error: ServerError) -> Self {
        Self::Refused(error)
    }
}

impl CallError {
    /// True where the command may have had an effect.
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Self::Indeterminate(_))
    }

    /// For a reply that the command never has. Something between us and Redis has changed it, so nothing
    /// is known.
    pub(crate) fn unexpected(reply: &Reply) -> Self {
        Self::Indeterminate(format!("unexpected reply {reply:?}").into())
    }

    /// True where the server answered with this error code, such as `NOSCRIPT`.
    pub fn has_code(&self, code: &str) -> bool {
        matches!(self, Self::Refused(error) if &*error.code == code)
    }
}

/// An event of a lock, reported to its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A phase begins.
    Phase(Phase),
    /// The lock may be relied on until this instant of the process's monotonic clock: after an acquisition,
    /// and again after every renewal. A lock without validity never reports it.
    ValidUntil(Instant),
    /// The fencing token of this acquisition, as soon as it is known, which is before the acquisition returns.
    /// A lock without fencing tokens never reports it.
    Fence(u64),
    /// The holder has found out that it no longer holds the lock.
    Lost,
}

/// The steps in the life of a lock at which faults can be staged. Every recipe marks the ones it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// About to send the command that may take the lock.
    AcquireBeforeSend,
    /// Between two commands of an acquisition that takes several.
    AcquireBetween,
    /// The acquisition has been granted.
    AcquireApplied,
    /// Waiting for another attempt.
    Wait,
    /// Holding, about to work.
    Hold,
    /// Holding, about to write to what the lock protects, after the last check of the validity.
    HoldBeforeWrite,
    /// About to send a renewal.
    RenewBeforeSend,
    /// Between two commands of a renewal that takes several.
    RenewBetween,
    /// About to begin the release.
    ReleaseBeforeSend,
    /// About to send the command that may delete the key.
    ReleaseBeforeDelete,
    /// The release is over, answered or abandoned.
    Released,
}

impl Phase {
    /// Every phase, in the order of a lock's life.
    pub const ALL: &'static [Self] = &[
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
        Self::ALL.iter().copied().find(|phase| phase.name() == name)
    }
}
