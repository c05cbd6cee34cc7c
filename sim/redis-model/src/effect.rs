//! What a command did to keys, for the checker that keeps the history of ownership.
//!
//! Invariant: every creation, overwriting, change, deletion and expiry of a key is reported exactly
//! once, in the order in which it happened, and nothing else is. Deliberately absent: values. Who
//! owns a key follows from which command created its incarnation, never from what it holds.

use resp::text::Blob;

/// One thing that happened to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The database.
    pub db: u16,
    /// The key.
    pub key: Blob,
    /// Which life of the key: a new number at each creation, counted over the server.
    pub incarnation: u64,
    /// What happened.
    pub change: Change,
}

/// What happened to a key. Times are milliseconds on the server's wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Created {
        /// When it will expire.
        expires_at_ms: Option<i64>,
    },
    /// It was there, and a new value has been put in its place.
    Overwritten {
        /// When it will expire now.
        expires_at_ms: Option<i64>,
    },
    /// Its value was changed in place; its expiry stands.
    Modified,
    /// Its expiry was set, moved or taken away.
    ExpiryChanged {
        /// When it will expire now.
        expires_at_ms: Option<i64>,
    },
    /// A command took it away.
    Deleted,
    /// The server noticed that its time had passed.
    Expired {
        /// When its time had passed.
        expired_at_ms: i64,
    },
}
