//! How connections to servers are made.
//!
//! Invariant: by default the lock alone times its calls, and redis-rs only its handshakes.

use std::time::Duration;

/// How connections are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokioOptions {
    /// How long a connection may take, handshake included. Default: two seconds. The call timeout of the
    /// lock applies as well.
    pub connect_timeout: Duration,
    /// How long redis-rs waits for a reply. Default: `None`, as the lock has its own call timeout.
    pub response_timeout: Option<Duration>,
}

impl Default for TokioOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(2), response_timeout: None }
    }
}
