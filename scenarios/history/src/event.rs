//! What can happen in a run.
//!
//! Invariant: an event is plain data, small and copied freely. An operation begins with one *invoke* and ends with at most
//! one *ok*, *fail* (certainly not carried out) or *info* (unknown). An operation without an end counts as *info*.

use picklock::env::Phase;

use super::text::Text;
use crate::fault::Fault;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time, in nanoseconds since the run began.
    pub at_ns: u64,
    /// The client, from 1; 0 is the run itself.
    pub client: u32,
    /// The acquisition it belongs to, from 1; 0 for none.
    pub acquisition: u32,
    /// The operation, from 1; 0 for a note.
    pub op: u32,
    /// What happened.
    pub what: What,
}

/// The stage of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It begins.
    Invoke,
    /// It was carried out.
    Ok,
    /// It certainly was not carried out, and will not be.
    Fail,
    /// It may have been carried out, or may still be.
    Info,
    /// A note, which is no operation.
    Note,
}

impl Stage {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invoke => "invoke",
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Info => "info",
            Self::Note => "note",
        }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A client begins to acquire the lock.
    Acquire,
    /// It has the lock.
    Acquired,
    /// It certainly does not have the lock, for this reason.
    NotAcquired(Text),
    /// It does not know whether it took the lock, for this reason.
    AcquireUnknown(Text),
    /// A client begins to release.
    Release,
    /// The release was answered, with this outcome.
    Released(Text),
    /// The release has no answer.
    ReleaseUnknown(Text),
    /// A command is sent.
    Command {
        /// The server.
        node: u16,
        /// Its name.
        name: Text,
        /// Its first key.
        key: Text,
        /// What it would do to that key.
        intent: Intent,
    },
    /// The command was answered.
    Answered {
        /// What it did to its key.
        touch: Touch,
        /// The answer.
        answer: Answer,
        /// The command that wrote the previous value, if the answer shows one; 0 if it shows none, or if several commands
        /// may have written it.
        found: u32,
    },
    /// The server refused the command, or it was never sent: it did nothing.
    Refused(Text),
    /// The command has no answer.
    Unanswered(Text),
    /// A client begins to take a prize.
    Take,
    /// It took a prize.
    Taken {
        /// The prize: the value it read.
        prize: i64,
        /// What its decrement left.
        left: i64,
    },
    /// It certainly took none, for this reason.
    NotTaken(Text),
    /// It read this value, and does not know whether its decrement was carried out.
    TakeUnknown {
        /// The value it read.
        prize: i64,
        /// Why it does not know.
        why: Text,
    },
    /// The value of the pool after the last client.
    PoolLeft(i64),
    /// A client begins to update the register: to read it, work, and write it.
    Update,
    /// It read one value and wrote another.
    Updated(Update),
    /// It certainly wrote nothing, for this reason.
    NotUpdated(Text),
    /// It read a value, and does not know whether the one that it sent was written.
    UpdateUnknown {
        /// What it read and sent.
        update: Update,
        /// Why it does not know.
        why: Text,
    },
    /// The value of the register after the last client.
    RegisterLeft(i64),
    /// The lock's key after the last client: milliseconds until it expires, -1 for never, -2 for no key.
    Probe(i64),
    /// The client may rely on the lock until this time of the run, in nanoseconds.
    ValidUntil(u64),
    /// The client learns the fencing token of its acquisition.
    Fence(u64),
    /// The client has learnt that it lost the lock.
    Lost,
    /// A phase begins.
    Phase(Phase),
    /// A fault strikes this client; client 0 if it strikes no particular client.
    Fault {
        /// The kind of fault.
        fault: Fault,
        /// The server that lost its memory, stood still or whose clock jumped, if one did.
        node: Option<u16>,
        /// For how long, in nanoseconds; 0 if it does not last.
        for_ns: u64,
        /// Whether it met a client that held the lock.
        in_hold: bool,
        /// Its number among the staged faults, from 0; none if it was drawn.
        staged: Option<u16>,
    },
}

impl What {
    /// The same with other numbers of its texts, in the order in which a line has them.
    #[must_use]
    pub(super) fn renumbered(self, mut number: impl FnMut(Text) -> Text) -> Self {
        match self {
            Self::NotAcquired(why) => Self::NotAcquired(number(why)),
            Self::AcquireUnknown(why) => Self::AcquireUnknown(number(why)),
            Self::Released(told) => Self::Released(number(told)),
            Self::ReleaseUnknown(why) => Self::ReleaseUnknown(number(why)),
            Self::Refused(why) => Self::Refused(number(why)),
            Self::Unanswered(why) => Self::Unanswered(number(why)),
            Self::NotTaken(why) => Self::NotTaken(number(why)),
            Self::NotUpdated(why) => Self::NotUpdated(number(why)),
            Self::Command { node, name, key, intent } => {
                let (name, key) = (number(name), number(key));
                Self::Command { node, name, key, intent }
            }
            Self::Answered { touch, answer: Answer::Text(it), found } => {
                Self::Answered { touch, answer: Answer::Text(number(it)), found }
            }
            Self::TakeUnknown { prize, why } => Self::TakeUnknown { prize, why: number(why) },
            Self::UpdateUnknown { update, why } => Self::UpdateUnknown { update, why: number(why) },
            Self::Answered { .. }
            | Self::Acquire
            | Self::Acquired
            | Self::Release
            | Self::Take
            | Self::Taken { .. }
            | Self::PoolLeft(_)
            | Self::Update
            | Self::Updated(_)
            | Self::RegisterLeft(_)
            | Self::Probe(_)
            | Self::ValidUntil(_)
            | Self::Fence(_)
            | Self::Lost
            | Self::Phase(_)
            | Self::Fault { .. } => self,
        }
    }

    /// The stage of its operation.
    pub fn stage(self) -> Stage {
        match self {
            Self::Acquire | Self::Release | Self::Command { .. } | Self::Take | Self::Update => {
                Stage::Invoke
            }
            Self::Acquired
            | Self::Released(_)
            | Self::Answered { .. }
            | Self::Taken { .. }
            | Self::Updated(_) => Stage::Ok,
            Self::NotAcquired(_) | Self::Refused(_) | Self::NotTaken(_) | Self::NotUpdated(_) => {
                Stage::Fail
            }
            Self::AcquireUnknown(_)
            | Self::ReleaseUnknown(_)
            | Self::Unanswered(_)
            | Self::TakeUnknown { .. }
            | Self::UpdateUnknown { .. } => Stage::Info,
            Self::PoolLeft(_)
            | Self::RegisterLeft(_)
            | Self::Probe(_)
            | Self::ValidUntil(_)
            | Self::Fence(_)
            | Self::Lost
            | Self::Phase(_)
            | Self::Fault { .. } => Stage::Note,
        }
    }
}

/// What PTTL answers for a key that is not there.
pub const GONE: i64 = -2;
/// What PTTL answers for a key that never expires.
pub const FOR_EVER: i64 = -1;

/// An update of the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The value it read.
    pub read: i64,
    /// The value it sent.
    pub written: i64,
    /// The fencing token that it presented, if any.
    pub token: Option<u64>,
}

/// What a command would do to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// What it would do.
    pub touch: Touch,
    /// Whether it acts only on a key that holds the caller's own value.
    pub compares: bool,
}

/// What a command does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Nothing: it reads the key, or changes its value only.
    None,
    /// It creates the key, with this TTL in nanoseconds; `None`: it never expires.
    Create(Option<u64>),
    /// It writes the key, whether or not it exists, with this TTL.
    Overwrite(Option<u64>),
    /// It deletes the key.
    Delete,
    /// It sets the TTL of the key, in nanoseconds.
    Extend(u64),
    /// Unknown: a command or script that picklock does not know.
    Unknown,
}

/// An answer, as far as it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No value.
    Nil,
    /// `+OK`.
    Ok,
    /// An integer.
    Int(i64),
    /// A string, of which at most 64 bytes are recorded.
    Text(Text),
    /// A list.
    List,
}
