//! The queue of clients that wait for a lock: its keys, and what the scripts answer.
//!
//! Invariant: a reply that no script of ours gives is an unknown outcome. The order of the queue is the
//! server's alone.

use std::time::Duration;

use crate::env::CallError;
use crate::options::OptionsError;
use crate::queue_scripts::keys_beside;
use crate::reply::Reply;

/// The keys of a wait queue, beside the lock's own.
#[derive(Clone, Debug)]
pub(crate) struct WaitQueue {
    /// A sorted set of owner tokens.
    tokens: Box<[u8]>,
    /// A hash of what is known of each token: deadline, TTL, channel.
    clients: Box<[u8]>,
}

impl WaitQueue {
    /// The wait queue of the lock with this key.
    ///
    /// # Errors
    /// As [`keys_beside`].
    pub(crate) fn of(key: &[u8]) -> Result<Self, OptionsError> {
        let [tokens, clients] = keys_beside(key)?;
        Ok(Self { tokens, clients })
    }

    /// The keys of the scripts, in their order.
    pub(crate) fn keys<'a>(&'a self, key: &'a [u8]) -> [&'a [u8]; 3] {
        [key, &self.tokens, &self.clients]
    }
}

/// What the server answers to a request for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueReply {
    /// The caller has the lock, for a whole TTL from when the script ran; `already` where it had been
    /// handed over before.
    Granted { already: bool },
    /// The caller is in the queue. `server_us` is the server's time in microseconds since 1970; after
    /// `sleep` at most the caller should look again.
    Wait { server_us: u64, sleep: Duration },
    /// The caller has neither the lock nor a place in the queue.
    NotQueued,
}

/// Reads the reply of a script.
///
/// # Errors
/// [`CallError::Indeterminate`] for a reply of no script.
pub(crate) fn read_reply(reply: Reply) -> Result<QueueReply, CallError> {
    let Reply::Array(list) = &reply else { return Err(CallError::unexpected(&reply)) };
    let (code, rest) = match list.split_first() {
        Some((Reply::Int(code), rest)) => (*code, rest),
        _ => return Err(CallError::unexpected(&reply)),
    };
    let number = |index: usize| {
        let number = rest.get(index).and_then(Reply::as_int);
        number.and_then(|number| u64::try_from(number).ok())
    };
    match (code, number(0), number(1)) {
        (1 | 2, _, _) => Ok(QueueReply::Granted { already: code == 2 }),
        (0, Some(server_us), Some(sleep_ms)) => {
            Ok(QueueReply::Wait { server_us, sleep: Duration::from_millis(sleep_ms) })
        }
        (-1, _, _) => Ok(QueueReply::NotQueued),
        _ => Err(CallError::unexpected(&reply)),
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_others_refused() {
        let time = || Reply::bulk(b"1700000000123456");
        let list = |items: Vec<Reply>| read_reply(Reply::Array(items));
        assert_eq!(list(vec![Reply::Int(1), time()]), Ok(QueueReply::Granted { already: false }));
        assert_eq!(list(vec![Reply::Int(2), time()]), Ok(QueueReply::Granted { already: true }));
        assert_eq!(list(vec![Reply::Int(-1), time()]), Ok(QueueReply::NotQueued));
        let wait =
            QueueReply::Wait { server_us: 1_700_000_000_123_456, sleep: Duration::from_millis(7) };
        assert_eq!(list(vec![Reply::Int(0), time(), Reply::Int(7)]), Ok(wait));
        for strange in [
            Reply::Ok,
            Reply::Array(vec![]),
            Reply::Array(vec![Reply::Int(0), time()]),
            Reply::Array(vec![Reply::Int(0), time(), Reply::Int(-1)]),
            Reply::Array(vec![Reply::Int(3), time()]),
        ] {
            assert!(read_reply(strange.clone()).unwrap_err().is_indeterminate(), "{strange:?}");
        }
    }
}
