//! What can come of acquiring, extending, losing and releasing a lock: the words every lock shares.
//!
//! Invariant: three outcomes, never two. Where a command may or may not have been carried out, the
//! answer says so instead of guessing.

use crate::env::CallError;
use crate::reply::ServerError;

/// Whether a request was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It surely was.
    Yes,
    /// It surely was not, and will not be.
    No,
    /// It may have been, or may yet be.
    Unknown,
}

/// Why there is no guard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAcquired {
    /// Another acquisition holds the lock.
    #[error("held by another")]
    Held,
    /// The server refused the command and carried nothing out.
    #[error("refused by the server: {0}")]
    Refused(#[source] ServerError),
    /// No connection could be made; the command never left.
    #[error("not sent: {0}")]
    NotSent(Box<str>),
    /// The environment needs a runtime, and was not called within one; nothing was sent.
    #[error("no tokio runtime here; call it within one, such as in `Runtime::block_on`")]
    NoRuntime,
    /// The server said yes, but only after the validity had run out. The key is being deleted in
    /// the background.
    #[error("granted too late to be relied on")]
    TooLate,
    /// Too few replicas acknowledged the hold in time. The key is being deleted in the background.
    #[error("acknowledged by {acknowledged} replicas of {wanted}")]
    NotReplicated {
        /// How many did.
        acknowledged: u32,
        /// How many should have.
        wanted: u32,
    },
    /// Too few nodes granted it; what was granted is being deleted in the background.
    #[error("granted by {granted} of the {needed} nodes needed")]
    NoQuorum {
        /// How many nodes did.
        granted: usize,
        /// How many it takes.
        needed: usize,
    },
    /// The lock may or may not have been taken; a task in the background makes sure that no orphan
    /// key is left.
    #[error(transparent)]
    Unknown(CallError),
    /// The deadline has passed while trying; this is how the last attempt ended, or the last whose
    /// outcome is still unknown.
    #[error("not acquired before the deadline; last: {last}")]
    Deadline {
        /// The end of that attempt.
        #[source]
        last: Box<NotAcquired>,
    },
}

impl NotAcquired {
    /// Whether the server had taken the lock for this caller; in no case may the caller rely on it.
    ///
    /// `Yes` is the grant that came too late, or that too few know of; `Unknown` leaves a clean-up running.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Held
            | Self::Refused(_)
            | Self::NotSent(_)
            | Self::NoRuntime
            | Self::NoQuorum { .. } => Outcome::No,
            Self::TooLate | Self::NotReplicated { .. } => Outcome::Yes,
            Self::Unknown(_) => Outcome::Unknown,
            Self::Deadline { last } => last.outcome(),
        }
    }

    /// True where another attempt may go better without anyone mending anything: all but a refusal
    /// that time does not change, such as a wrong password, and a caller without a runtime.
    pub(crate) fn may_pass(&self) -> bool {
        // Redis's words for a server that is starting, failing over, busy or short of something.
        const PASSING: [&str; 9] = [
            "LOADING",
            "READONLY",
            "MASTERDOWN",
            "CLUSTERDOWN",
            "TRYAGAIN",
            "BUSY",
            "OOM",
            "MISCONF",
            "NOREPLICAS",
        ];
        match self {
            Self::Refused(error) => PASSING.contains(&&*error.code),
            Self::NoRuntime => false,
            _ => true,
        }
    }
}

impl From<CallError> for NotAcquired {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotSent(reason) => Self::NotSent(reason),
            CallError::Refused(error) => Self::Refused(error),
            CallError::Indeterminate(_) => Self::Unknown(error),
            CallError::NoRuntime => Self::NoRuntime,
        }
    }
}

/// What came of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "anything but `Released` says that the work may not have been protected to its end"]
pub enum Released {
    /// The lock was still held, and is free.
    Released,
    /// The key had already gone: the hold had ended before its release. With
    /// [`native`](crate::options::OptionsBuilder::native) commands, another may have the lock.
    AlreadyExpired,
    /// The hold had ended before its release, and another has the lock; it was left alone.
    TakenByOther,
    /// No answer says which. If the key is still there, it goes by its TTL.
    Unknown(CallError),
}

/// How a hold ended before its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Its validity ran out by the node's own clock: nothing is known of the key, but it can no
    /// longer be relied on.
    #[error("lock lost: its validity has ended")]
    ValidityEnded,
    /// The server has the key no more; with [`native`](crate::options::OptionsBuilder::native)
    /// commands, not under this hold's token.
    #[error("lock lost: its key is gone from the server")]
    KeyGone,
    /// The server has the key under another's token.
    #[error("lock lost: taken by another")]
    TakenByOther,
}

/// Why a hold was not extended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotExtended {
    /// The hold has ended; nothing brings it back.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The call failed. The hold is valid as long as it was before; trying again is safe.
    #[error("not extended: {0}")]
    Failed(#[from] CallError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> NotAcquired {
        NotAcquired::Refused(ServerError { code: code.into(), message: "".into() })
    }

    #[test]
    fn every_error_says_whether_the_lock_was_taken() {
        let unknown = NotAcquired::Unknown(CallError::Indeterminate("reset".into()));
        let cases = [
            (NotAcquired::Held, Outcome::No),
            (refused("OOM"), Outcome::No),
            (NotAcquired::NotSent("no route".into()), Outcome::No),
            (NotAcquired::NoRuntime, Outcome::No),
            (NotAcquired::TooLate, Outcome::Yes),
            (NotAcquired::NotReplicated { acknowledged: 0, wanted: 1 }, Outcome::Yes),
            (NotAcquired::NoQuorum { granted: 1, needed: 2 }, Outcome::No),
            (unknown.clone(), Outcome::Unknown),
            (NotAcquired::Deadline { last: Box::new(NotAcquired::Held) }, Outcome::No),
            (NotAcquired::Deadline { last: Box::new(unknown) }, Outcome::Unknown),
        ];
        for (error, outcome) in cases {
            assert_eq!(error.outcome(), outcome, "{error}");
        }
    }

    #[test]
    fn a_wrong_password_does_not_pass_but_a_loading_server_does() {
        for code in ["LOADING", "READONLY", "OOM", "MISCONF"] {
            assert!(refused(code).may_pass(), "{code}");
        }
        for code in ["WRONGPASS", "NOAUTH", "NOPERM", "ERR"] {
            assert!(!refused(code).may_pass(), "{code}");
        }
        assert!(NotAcquired::Held.may_pass());
    }
}
