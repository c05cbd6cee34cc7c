//! The results of acquiring, extending, losing and releasing, which all locks share.
//!
//! Invariant: there are three outcomes, never two. Where a command may or may not have been carried out, the
//! result says so. An error says all that is known in its own text, and has no source which would say it again.

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
    Refused(ServerError),
    /// No connection could be made; nothing was sent.
    #[error("not sent: {0}")]
    NotSent(Box<str>),
    /// The environment needs a runtime and was called outside of one; nothing was sent.
    #[error("no tokio runtime here; call it within one, such as in `Runtime::block_on`")]
    NoRuntime,
    /// Granted, but only after the validity had run out. The key is being deleted in the background.
    #[error("granted too late to be relied on")]
    TooLate,
    /// Too few replicas acknowledged it in time. The key is being deleted in the background.
    #[error("acknowledged by {acknowledged} replicas of {wanted}")]
    NotReplicated {
        /// How many replicas did.
        acknowledged: u32,
        /// How many had to.
        wanted: u32,
    },
    /// Too few nodes granted it; the keys on those that did are being deleted in the background.
    #[error("granted by {granted} of the {needed} nodes needed{}", because(.error.as_deref()))]
    NoQuorum {
        /// How many nodes did.
        granted: usize,
        /// How many a quorum is.
        needed: usize,
        /// The error of the first node that could not be asked or refused; none where others hold the lock.
        error: Option<Box<CallError>>,
    },
    /// The lock may or may not have been taken; a background task deletes the key if it was.
    #[error(transparent)]
    Unknown(CallError),
    /// The deadline has passed. `last` is the error of the last attempt, or of the last one whose outcome is still
    /// unknown.
    #[error("not acquired before the deadline; last: {last}")]
    Deadline {
        /// The error of that attempt.
        last: Box<NotAcquired>,
    },
}

fn because(error: Option<&CallError>) -> String {
    error.map_or_else(String::new, |error| format!("; {error}"))
}

impl NotAcquired {
    /// Whether the server had granted the lock to this caller. The caller must not rely on it in any case.
    ///
    /// `Yes` is a grant that came too late, or that too few replicas have; `Unknown` leaves a clean-up running.
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

    /// True if a later attempt may succeed although the caller changes nothing. False for a refusal that time does
    /// not change, such as a wrong password, and for a caller without a runtime.
    pub(crate) fn may_pass(&self) -> bool {
        // The error codes of a server that is starting, failing over, busy, or out of a resource.
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

    /// True where the key does not hold a string.
    pub(crate) fn is_wrong_type(&self) -> bool {
        matches!(self, Self::Refused(error) if &*error.code == "WRONGTYPE")
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

/// The outcome of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "anything but `Released` says that the work may not have been protected to its end"]
pub enum Released {
    /// The lock was still held, and is free.
    Released,
    /// The key was already gone: the hold had ended before its release. With
    /// [`native`](crate::options::OptionsBuilder::native) commands, another may hold the lock.
    AlreadyExpired,
    /// The hold had ended before its release, and another holds the lock; its key was not touched.
    TakenByOther,
    /// No try had an answer, or the server refused them all (without permission for the commands, for example), or the
    /// task of the release was dropped. If the key is still there, it expires with its TTL.
    Unknown(CallError),
}

/// Why a hold ended before its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Its validity ran out by the process's own clock. The key may still be there, but it can no longer be
    /// relied on.
    #[error("lock lost: its validity has ended")]
    ValidityEnded,
    /// The key is gone from the server; with [`native`](crate::options::OptionsBuilder::native)
    /// commands, it may also hold another's token.
    #[error("lock lost: its key is gone from the server")]
    KeyGone,
    /// The key holds another's token.
    #[error("lock lost: taken by another")]
    TakenByOther,
}

/// Why a hold was not extended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotExtended {
    /// The hold has ended, which is final.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The call failed. The end of validity is what it was; trying again is safe.
    #[error("not extended: {0}")]
    Failed(CallError),
}

impl From<CallError> for NotExtended {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::with::Unprotected;

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
            (NotAcquired::NoQuorum { granted: 1, needed: 2, error: None }, Outcome::No),
            (unknown.clone(), Outcome::Unknown),
            (NotAcquired::Deadline { last: Box::new(NotAcquired::Held) }, Outcome::No),
            (NotAcquired::Deadline { last: Box::new(unknown) }, Outcome::Unknown),
        ];
        for (error, outcome) in cases {
            assert_eq!(error.outcome(), outcome, "{error}");
        }
    }

    #[test]
    fn an_error_says_everything_once() {
        let code = |error: &dyn Error| {
            assert!(error.source().is_none(), "{error}");
            error.to_string().matches("OOM").count()
        };
        let call = CallError::from(ServerError { code: "OOM".into(), message: "full".into() });
        let deadline = NotAcquired::Deadline { last: Box::new(refused("OOM")) };
        let error = Some(Box::new(call.clone()));
        assert_eq!(code(&NotAcquired::NoQuorum { granted: 1, needed: 2, error }), 1);
        assert_eq!(code(&call), 1);
        assert_eq!((code(&refused("OOM")), code(&deadline)), (1, 1));
        assert_eq!(code(&NotAcquired::Unknown(call.clone())), 1);
        assert_eq!(code(&NotExtended::from(call)), 1);
        assert_eq!(code(&Unprotected::<()>::from(Lost::KeyGone)), 0);
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
