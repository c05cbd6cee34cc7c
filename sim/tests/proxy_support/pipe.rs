//! A link that is not looked at, and both of its ends.

use std::net::SocketAddr;

use fault_proxy::{ClientId, Detail, Latency, Link, Plan, Protocol, Proxy, Upstream};
use picklock::env::Node;
use tokio::net::{TcpListener, TcpStream};

use super::{DEADLINE, Raw};

/// A link whose bytes are not looked at, to a server that the test plays itself.
pub(crate) struct Pipe {
    pub(crate) proxy: Proxy,
    pub(crate) link: Link,
    pub(crate) server: TcpListener,
}

impl Pipe {
    pub(crate) async fn new(requests: Latency, replies: Latency) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(Detail::Requests).unwrap();
        let plan = Plan { protocol: Protocol::Opaque, requests, replies, ..Plan::default() };
        let upstream = Upstream::Tcp(server.local_addr().unwrap());
        let link = proxy.listen(ClientId(3), Node(1), upstream, plan).unwrap();
        Self { proxy, link, server }
    }

    /// Both ends of a new connection.
    pub(crate) async fn connect(&self) -> (Raw, Raw) {
        (connect(self.link.addr()).await, accept(&self.server).await)
    }
}

pub(crate) async fn connect(addr: SocketAddr) -> Raw {
    Raw(TcpStream::connect(addr).await.unwrap())
}

pub(crate) async fn accept(server: &TcpListener) -> Raw {
    let accepted = tokio::time::timeout(DEADLINE, server.accept()).await;
    Raw(accepted.expect("a connection in time").unwrap().0)
}
