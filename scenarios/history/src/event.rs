//! What can happen in a run.
//!
//! Invariant: an event is plain data, small and copied freely. An operation begins with one *invoke*
//! and ends with at most one *ok*, *fail* (surely nothing was done) or *info* (unknown); one that
//! has no end counts as *info*.

use picklock::env::Phase;

use super::text::Text;
use crate::fault::Fault;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds since the run began.
    pub at_ns: u64,
    /// Who, from 1; 0 is the run itself.
    pub client: u32,
    /// The acquisition it belongs to, from 1; 0 for none.
    pub acquisition: u32,
    /// Which operation, from 1; 0 for a note, which is none.
    pub op: u32,
    /// What.
    pub what: What,
}

/// Where an operation has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It begins.
    Invoke,
    /// It was carried out.
    Ok,
    /// It surely was not, and will not be.
    Fail,
    /// It may have been, or may yet be.
    Info,
    /// Not an operation.
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
    /// It has it.
    Acquired,
    /// It surely has not, for this reason.
    NotAcquired(Text),
    /// It does not know, for this reason.
    AcquireUnknown(Text),
    /// A client begins to release.
    Release,
    /// The release was answered, with this outcome.
    Released(Text),
    /// No answer says what came of the release.
    ReleaseUnknown(Text),
    /// A command is sent.
    Command {
        /// To which server.
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
        /// Which command had written the value that the answer shows was there before; 0 where it shows
        /// none, or more than one may have.
        found: u32,
    },
    /// The server refused the command and carried nothing out.
    Refused(Text),
    /// The command has no answer.
    Unanswered(Text),
    /// A client begins to take a prize.
    Take,
    /// It took one.
    Taken {
        /// The prize: the value it read.
        prize: i64,
        /// What its decrement left.
        left: i64,
    },
    /// It surely took none, for this reason.
    NotTaken(Text),
    /// It read this value, and does not know whether its decrement was carried out.
    TakeUnknown {
        /// The value it read.
        prize: i64,
        /// Why it does not know.
        why: Text,
    },
    /// The pool holds so much at the end, as the run itself read it.
    PoolLeft(i64),
    /// A client begins to update the register: to read it, work, and write it.
    Update,
    /// It has read one value and written another.
    Updated(Update),
    /// It surely wrote nothing, for this reason.
    NotUpdated(Text),
    /// It has read a value, and does not know whether the one it sent was written.
    UpdateUnknown {
        /// What it read and sent.
        update: Update,
        /// Why it does not know.
        why: Text,
    },
    /// The register holds this at the end, as the run itself read it.
    RegisterLeft(i64),
    /// The run looked at the lock's key when every client had done: milliseconds until it expires,
    /// -1 for never, -2 for no key.
    Probe(i64),
    /// The client may rely on the lease until this time of the run, in nanoseconds.
    ValidUntil(u64),
    /// The client learns the fencing token of its acquisition.
    Fence(u64),
    /// The client has learnt that the lock is no longer its own.
    Lost,
    /// A phase of the lock's life begins.
    Phase(Phase),
    /// A fault strikes this client; 0 where it strikes nobody in particular.
    Fault {
        /// Which.
        fault: Fault,
        /// The server that lost memory or file by it, or stood still, as clients name it; none where none did.
        node: Option<u16>,
        /// For how long, in nanoseconds; 0 where it does not last.
        for_ns: u64,
        /// Whether it met a client that held the lock.
        in_hold: bool,
        /// Which of the faults that the scenario stages it is, from 0; none where it was drawn.
        staged: Option<u16>,
    },
}

impl What {
    /// The same with other numbers of its texts, which are asked for in the order in which a line has them.
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

    /// Where its operation has come to.
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

/// What an update of the register was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The value it read.
    pub read: i64,
    /// The value it sent to be written.
    pub written: i64,
    /// The fencing token that it presented, if it had one and the register asks for it.
    pub token: Option<u64>,
}

/// What a command would do to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// What it would do.
    pub touch: Touch,
    /// Whether it would do so only to a key that holds the caller's own value.
    pub compares: bool,
}

/// What a command does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Nothing, as far as locking goes: it reads, or changes another kind of value.
    None,
    /// It makes a key that was not there, which lives so long; `None` for ever.
    Create(Option<u64>),
    /// It writes whether or not the key is there.
    Overwrite(Option<u64>),
    /// It deletes the key.
    Delete,
    /// It makes the key live so long from now, in nanoseconds.
    Extend(u64),
    /// Nobody can tell: a script picklock does not know.
    Unknown,
}

/// An answer, as far as it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No value.
    Nil,
    /// `+OK`.
    Ok,
    /// An integer.
    Int(i64),
    /// A string, cut short where it is long.
    Text(Text),
    /// A list.
    List,
}
