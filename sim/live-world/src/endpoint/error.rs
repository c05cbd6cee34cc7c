//! Why a server cannot be run against.
//!
//! Invariant: every error names the server, without its password, and says what to do. All of them
//! mean that the environment is unavailable; what is wrong with the URL itself is a
//! [`UrlError`](super::UrlError).

use super::refusal::Refusal;
use crate::embedded::StartError;
use crate::server::PrivateServerError;
use crate::supervisor::SuperviseError;
use fault_proxy::TlsError;

/// Why a server cannot be run against: the environment is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The embedded model cannot be served.
    #[error("cannot start the embedded Redis model: {0}")]
    Embedded(#[from] StartError),
    /// There is no supervisor to start a server.
    #[error("cannot start a private redis-server: {0}")]
    Supervise(#[from] SuperviseError),
    /// The server does not start.
    #[error(
        "cannot start a private redis-server: {0}; \
         name another one with --server-bin, or use --world embedded, which needs none"
    )]
    Start(#[from] PrivateServerError),
    /// The certificates to trust, or the host's name, are invalid.
    #[error("{place}: {source}")]
    Tls {
        /// Which server, without its password.
        place: String,
        /// What is wrong.
        source: TlsError,
    },
    /// The server is not there, or does not let us do what a run does.
    #[error("{place}: {refusal}")]
    Refused {
        /// Which server, without its password.
        place: String,
        /// What is wrong, and what to do.
        refusal: Refusal,
    },
}
