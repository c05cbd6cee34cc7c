//! Words: the texts of events that checkers read.
//!
//! Invariant: the writer of a history and its checkers mean the same by each of them; `docs/history.md` lists those that
//! other programs may write.

/// An update or a take did not write: the lock was lost before.
pub const LOST: &str = "lock lost";
/// An update did not write: the resource has been shown a higher fencing token.
pub const STALE: &str = "refused: stale token";
/// How it begins what is said of an acquisition or a release whose caller has dropped it.
pub const DROPPED: &str = "dropped ";
/// How the error begins of a command, or the reason of an acquisition, that never left its client.
pub const NOT_SENT: &str = "not sent";

/// A release has ended the hold.
pub const RELEASED: &str = "released";
/// A release has found the key gone.
pub const EXPIRED: &str = "already expired";
/// A release has found another's key.
pub const TAKEN: &str = "taken by another";
/// How it ends what is said of an acquisition where another has the lock.
pub const HELD: &str = "held by another";

/// Work whose lock has lasted until it was done.
pub const PROTECTED: &str = "protected";
/// Work that was stopped, its lock being lost.
pub const STOPPED: &str = "dropped when it was lost";
/// How it begins what is said of work that was done, but may not have been protected: nobody knows what became of the
/// release.
pub const UNPROTECTED: &str = "perhaps not protected: ";

#[cfg(test)]
mod tests {
    use picklock::NotAcquired;
    use picklock::env::CallError;

    use super::*;

    #[test]
    fn they_are_the_words_of_the_lock_library() {
        let not_sent = CallError::NotSent("no connection".into());
        assert!(not_sent.to_string().starts_with(NOT_SENT));
        assert_eq!(NotAcquired::Held.to_string(), HELD);
    }
}
