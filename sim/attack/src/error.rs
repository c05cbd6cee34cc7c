//! Why an attack cannot be carried out.

use fault_proxy::ProxyError;
use live_world::endpoint::EndpointError;
use picklock::env::CallError;

use crate::worker::WorkerError;

/// Why nothing can be attacked.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    /// No server.
    #[error(transparent)]
    Endpoint(Box<EndpointError>),
    /// No proxy.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The server does not show what it does.
    #[error("the server's commands cannot be followed: {0}")]
    Monitor(String),
    /// The server does not do what it is asked to between two plans.
    #[error("the server cannot be cleared: {0}")]
    Clear(CallError),
    /// The worker is of no use.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// It answers, and does not lock.
    #[error("{0}")]
    NoLock(String),
}

impl From<EndpointError> for AttackError {
    fn from(error: EndpointError) -> Self {
        Self::Endpoint(Box::new(error))
    }
}
