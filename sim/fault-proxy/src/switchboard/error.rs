//! Why a switchboard refuses something.

use std::net::SocketAddr;

use super::ToxicError;
use crate::ProxyError;

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There is none of this name.
    #[error("no proxy is called {0}")]
    NoProxy(String),
    /// There is one of this name.
    #[error("proxy {0} already exists")]
    ProxyExists(String),
    /// There is none of this name on that proxy.
    #[error("no toxic is called {0}")]
    NoToxic(String),
    /// There is one of this name on that proxy.
    #[error("toxic {0} already exists")]
    ToxicExists(String),
    /// A name that cannot stand in a path.
    #[error("`{0}` is not a valid name: use letters, digits and - _ . :")]
    BadName(String),
    /// An invalid address to listen on.
    #[error("`{0}` is not an address to listen on: use one such as 127.0.0.1:6400, or a port")]
    BadListen(String),
    /// An address that others can reach, and that the command line has not named.
    #[error(
        "`{0}` is reachable from other machines: only a proxy of the command line may listen there"
    )]
    Beyond(String),
    /// An address of a server with a user or a password. Nothing of it is quoted.
    #[error(
        "the server address contains a user or a password: remove it, as in 127.0.0.1:6379; clients \
         authenticate through the proxy"
    )]
    Credentials,
    /// An invalid address of a server.
    #[error("`{0}` is not a server address: use one such as 127.0.0.1:6379 or redis.local:6379")]
    BadUpstream(String),
    /// A server whose name cannot be resolved, and why.
    #[error("the name in `{0}` cannot be resolved: {1}: check it, or give the server's address")]
    Unresolved(String, String),
    /// A server that is the proxy itself.
    #[error("proxy {0} would lead to itself: name another server, or another address to listen on")]
    ToItself(String),
    /// More proxies than there are numbers.
    #[error("too many proxies have been created: restart picklock proxy")]
    TooMany,
    /// The fault is impossible.
    #[error(transparent)]
    Toxic(#[from] ToxicError),
    /// It cannot listen.
    #[error("proxy {name} cannot listen on {addr}: {source}")]
    Listen {
        /// Which one.
        name: String,
        /// Where.
        addr: SocketAddr,
        /// What is wrong.
        source: std::io::Error,
    },
    /// The proxy's thread is gone.
    #[error(transparent)]
    Proxy(ProxyError),
}

impl SwitchError {
    /// The error of a link, with the name of its proxy.
    pub(super) fn of_proxy(name: &str, error: ProxyError) -> Self {
        match error {
            ProxyError::Listen { addr, source, .. } => {
                Self::Listen { name: name.to_owned(), addr, source }
            }
            other => Self::Proxy(other),
        }
    }
}
