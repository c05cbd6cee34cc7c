//! One server at one address: the connection to it, and the one on which its channels are heard.
//!
//! Invariant: one of each at most is in use, made when first needed and again after it has broken.
//! Deliberately absent: which server it is in a topology.

use redis::{Client, ConnectionAddr, ConnectionInfo};
use tokio::sync::Mutex;

use super::TokioOptions;
use super::listener::Listener;
use super::wire::{Wire, connect_error};
use crate::env::CallError;

/// A host and a port, as servers name each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Addr {
    pub(super) host: Box<str>,
    pub(super) port: u16,
}

impl Addr {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Where this leads; none where it is a socket in the file system.
    pub(super) fn of(info: &ConnectionInfo) -> Option<Self> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Self::new(host, *port))
            }
            _ => None,
        }
    }

    /// A client for the server here, which is spoken to as `like` says: user and password, TLS,
    /// protocol.
    pub(super) fn client(&self, like: &ConnectionInfo) -> Result<Client, CallError> {
        let (host, port) = (self.host.to_string(), self.port);
        let addr = match like.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host, port),
        };
        Client::open(like.clone().set_addr(addr)).map_err(connect_error)
    }
}

impl std::fmt::Display for Addr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A server and the connections to it.
pub(super) struct Host {
    client: Client,
    wire: Mutex<Option<Wire>>,
    listener: Mutex<Option<Listener>>,
}

impl Host {
    pub(super) fn new(client: Client) -> Self {
        Self { client, wire: Mutex::new(None), listener: Mutex::new(None) }
    }

    /// The connection, made again if need be.
    pub(super) async fn wire(&self, options: TokioOptions) -> Result<Wire, CallError> {
        let mut cached = self.wire.lock().await;
        if let Some(wire) = &*cached
            && wire.is_usable().await
            // Connections to one server mostly end together.
            && (!self.listener_has_ended() || wire.is_open().await)
        {
            return Ok(wire.clone());
        }
        *cached = None;
        Ok(cached.insert(Wire::open(&self.client, options).await?).clone())
    }

    /// The connection, if there is one that can be used.
    pub(super) async fn usable_wire(&self) -> Option<Wire> {
        let cached = self.wire.lock().await;
        let wire = cached.as_ref()?;
        wire.is_usable().await.then(|| wire.clone())
    }

    /// Whether the connection for channels has ended since somebody asked.
    fn listener_has_ended(&self) -> bool {
        // Who is making another one has looked already.
        let Ok(mut cached) = self.listener.try_lock() else { return false };
        let ended = cached.as_ref().is_some_and(|listener| !listener.is_usable());
        if ended {
            *cached = None;
        }
        ended
    }

    /// The connection for channels, made again if need be.
    pub(super) async fn listener(&self, options: TokioOptions) -> Result<Listener, CallError> {
        let mut cached = self.listener.lock().await;
        match &*cached {
            Some(listener) if listener.is_usable() => Ok(listener.clone()),
            _ => {
                // Whoever still listens on one that has fallen silent is told that it is over.
                *cached = None;
                let span = options.connect_timeout;
                Ok(cached.insert(Listener::open(&self.client, span).await?).clone())
            }
        }
    }
}
