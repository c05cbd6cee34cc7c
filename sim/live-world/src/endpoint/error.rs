//! Why there is no server to run against.
//!
//! Invariant: every error names the server, without its password, and says what to do; all of them
//! mean that the environment is unavailable, for what is wrong with the user's own words is a
//! [`UrlError`](super::UrlError). Deliberately absent: what exactly a server refuses, which is
//! [`Refusal`].

use scenarios::topology::Topology;

use super::refusal::Refusal;
use crate::embedded::StartError;
use crate::fleet::FormError;
use crate::server::ServerError;
use crate::supervisor::SuperviseError;
use fault_proxy::TlsError;

/// Why there is no server to run against: the environment is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The embedded model cannot be served.
    #[error("the embedded Redis model cannot be started: {0}")]
    Embedded(#[from] StartError),
    /// There is nobody to start a server.
    #[error("a private redis-server cannot be started: {0}")]
    Supervise(#[from] SuperviseError),
    /// The server does not start.
    #[error(
        "a private redis-server cannot be started: {0}; \
         name another one with --server-bin, or use --world embedded, which needs none"
    )]
    Start(#[from] ServerError),
    /// Servers do not become a cluster.
    #[error(transparent)]
    Form(#[from] FormError),
    /// A scenario has several servers, and one was named.
    #[error(
        "{place} is one server, and the scenario's servers are {topology}; leave --redis away, and picklock \
         starts them"
    )]
    OnlyOne {
        /// Which server, without its password.
        place: String,
        /// What the scenario has.
        topology: Topology,
    },
    /// The certificates to trust, or the host's name, are no good.
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
