//! Why an attack cannot be carried out.

use fault_proxy::ProxyError;
use live_world::endpoint::EndpointError;
use live_world::program::ProgramError;
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
    /// The server does not show its commands.
    #[error("the server's commands cannot be followed: {0}")]
    Monitor(String),
    /// The server fails at a command between two plans.
    #[error("the server cannot be cleared: {0}")]
    Clear(CallError),
    /// The worker fails.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// What the worker has said in a plan cannot be read.
    #[error("in the plan {plan} {error}")]
    Misspelt {
        /// Its name.
        plan: String,
        /// What it has said.
        error: WorkerError,
    },
    /// The user's program cannot be started.
    #[error("cannot start your program: {0}")]
    Start(ProgramError),
    /// The user's program cannot be attacked, for this reason.
    #[error("{0}")]
    NoLock(String),
}

impl AttackError {
    /// Whether it would spoil every plan: an answer that cannot be read is an error of the worker, and says nothing of
    /// its lock.
    pub(crate) fn is_of_every_plan(&self) -> bool {
        match self {
            Self::Misspelt { .. } => true,
            Self::Worker(error) => error.is_misspelt(),
            _ => false,
        }
    }
}

impl From<EndpointError> for AttackError {
    fn from(error: EndpointError) -> Self {
        Self::Endpoint(Box::new(error))
    }
}
