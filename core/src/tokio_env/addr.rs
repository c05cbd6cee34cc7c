//! Where a server is, as servers name each other.
//!
//! Invariant: a client for another address differs from its model in the address alone.

use std::fmt;

use redis::{Client, ConnectionAddr, ConnectionInfo};

use super::server_conn::connect_error;
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

    /// The address of a connection; none for a socket in the file system.
    pub(super) fn of(info: &ConnectionInfo) -> Option<Self> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some(Self::new(host, *port))
            }
            _ => None,
        }
    }

    /// A client for the server at this address, with the user, password, TLS and protocol of `like`.
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
        let server = like.clone().set_addr(addr);
        Client::open(server.clone()).map_err(|error| connect_error(&server, error))
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
