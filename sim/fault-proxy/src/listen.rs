//! Listening sockets with the backlog of redis-server.
//!
//! Invariant: as many clients can connect at once as to a redis-server with its default `tcp-backlog` (the kernel may
//! allow fewer: `net.core.somaxconn`).

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::SockRef;

/// `tcp-backlog` of redis-server. The standard library's own is a quarter of it, and a client beyond the
/// backlog is accepted a second later.
const BACKLOG: i32 = 511;

/// A listener that does not block.
///
/// # Errors
/// The address is taken or not this machine's, or no file descriptor is left.
pub fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(addr)?;
    // A second call of listen replaces the backlog.
    SockRef::from(&listener).listen(BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_connect_although_nobody_accepts_yet() {
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
        let allowed = allowed.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(128);
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
        let addr = listener.local_addr().expect("its address");
        let connect = |_| TcpStream::connect_timeout(&addr, Duration::from_secs(5));
        let waiting: io::Result<Vec<TcpStream>> = (0..allowed.min(400)).map(connect).collect();
        waiting.expect("there is room for all");
    }
}
