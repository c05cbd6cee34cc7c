//! Addresses as users write them.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::SwitchError;
use crate::Upstream;

/// Parses an address to listen on; without a host: loopback.
///
/// # Errors
/// [`SwitchError::BadListen`].
pub fn listen_address(text: &str) -> Result<SocketAddr, SwitchError> {
    let bad = || SwitchError::BadListen(text.to_owned());
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let port: u16 = port.parse().map_err(|_| bad())?;
    let ip: IpAddr = match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "localhost" => IpAddr::from([127, 0, 0, 1]),
        host => host.parse().map_err(|_| bad())?,
    };
    Ok((ip, port).into())
}

/// Refuses a server address with a password, which status and log would show.
///
/// # Errors
/// [`SwitchError::Credentials`].
pub fn without_credentials(text: &str) -> Result<(), SwitchError> {
    if text.contains('@') { Err(SwitchError::Credentials) } else { Ok(()) }
}

/// Resolves a server address.
///
/// # Errors
/// [`SwitchError::BadUpstream`] if it is no address, [`SwitchError::Unresolved`] if the name cannot be resolved, and
/// [`SwitchError::Credentials`].
pub fn resolve_upstream(text: &str) -> Result<Upstream, SwitchError> {
    without_credentials(text)?;
    let bad = || SwitchError::BadUpstream(text.to_owned());
    let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?;
    if host.is_empty() {
        return Err(bad());
    }
    let unresolved =
        |why: std::io::Error| SwitchError::Unresolved(text.to_owned(), why.to_string());
    let mut found: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(unresolved)?.collect();
    // Servers listen on IPv4 by default.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().map(|addr| Upstream::Tcp(*addr)).ok_or_else(bad)
}
