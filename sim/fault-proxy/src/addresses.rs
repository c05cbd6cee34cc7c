//! Where a client reaches each server: the map by which replies are rewritten for it.
//!
//! Invariant: a server's address maps to the link of this client, or is not in the map. Host names other than
//! `localhost` are not mapped.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// The links of one client, by the address of the server each leads to. May be filled at any time.
#[derive(Debug, Default)]
pub struct Addresses {
    links: Mutex<BTreeMap<SocketAddr, SocketAddr>>,
}

impl Addresses {
    /// From now on the client is sent to `link` when a reply names `server`.
    pub fn insert(&self, server: SocketAddr, link: SocketAddr) {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).insert(plain(server), link);
    }

    /// From now on replies that name the server are left as they are.
    pub fn remove(&self, server: SocketAddr) {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).remove(&plain(server));
    }

    /// The link to this server.
    pub fn link_to(&self, server: SocketAddr) -> Option<SocketAddr> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).get(&plain(server)).copied()
    }

    /// The link to a server as a reply names it.
    pub(super) fn link_to_named(&self, host: &[u8], port: u16) -> Option<SocketAddr> {
        if host.eq_ignore_ascii_case(b"localhost") {
            let local = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            return local.into_iter().find_map(|ip| self.link_to((ip, port).into()));
        }
        let ip: IpAddr = std::str::from_utf8(host).ok()?.parse().ok()?;
        self.link_to((ip, port).into())
    }
}

/// One address for each server: IPv4 written as IPv6 is IPv4, and a scope is none.
fn plain(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_however_its_address_is_written() {
        let addresses = Addresses::default();
        let link: SocketAddr = "127.0.0.1:40000".parse().unwrap();
        addresses.insert("127.0.0.1:6379".parse().unwrap(), link);
        addresses.insert("[::1]:6380".parse().unwrap(), link);
        let known = |host: &str, port| addresses.link_to_named(host.as_bytes(), port);
        for (host, port) in [
            ("127.0.0.1", 6379),
            ("::ffff:127.0.0.1", 6379),
            ("localhost", 6379),
            ("LOCALHOST", 6380),
            ("::1", 6380),
        ] {
            assert_eq!(known(host, port), Some(link), "{host}");
        }
        for (host, port) in [("127.0.0.1", 6380), ("localhost", 6381), ("db", 6379), ("", 6379)] {
            assert_eq!(known(host, port), None, "{host}");
        }
        addresses.remove("[::ffff:127.0.0.1]:6379".parse().unwrap());
        assert_eq!((known("localhost", 6379), known("::1", 6380)), (None, Some(link)));
    }
}
