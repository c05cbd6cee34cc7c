//! A server behind a proxy, real or played by the test, for the tests of the proxy.

#![allow(dead_code, reason = "every test file uses a part of it")]

mod tls;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use fault_proxy::{ClientId, Detail, Latency, Link, Plan, Protocol, Proxy, Upstream};
use picklock::env::Node;
use test_server::RedisServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[allow(unused_imports, reason = "every test file uses a part of it")]
pub(crate) use tls::{file, terminator};

/// Long enough for anything that does happen, on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A redis-server behind a proxy.
pub(crate) struct Bed {
    pub(crate) proxy: Proxy,
    pub(crate) link: Link,
    pub(crate) server: RedisServer,
}

impl Bed {
    pub(crate) async fn new(plan: Plan) -> Self {
        let server = RedisServer::start(&[]);
        let proxy = Proxy::start(Detail::Faults).unwrap();
        let upstream = Upstream::Tcp(addr(&server));
        let link = proxy.listen(ClientId(0), Node(0), upstream, plan).unwrap();
        Self { proxy, link, server }
    }

    /// A client through the proxy.
    pub(crate) async fn client(&self) -> Raw {
        connect(self.link.addr()).await
    }

    /// A client beside it.
    pub(crate) async fn direct(&self) -> Raw {
        connect(addr(&self.server)).await
    }
}

pub(crate) fn addr(server: &RedisServer) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, server.port()).into()
}

/// A link whose bytes are not looked at, to a server that the test plays itself.
pub(crate) struct Pipe {
    pub(crate) proxy: Proxy,
    pub(crate) link: Link,
    pub(crate) server: TcpListener,
}

impl Pipe {
    pub(crate) async fn new(requests: Latency, replies: Latency) -> Self {
        let plan = Plan { protocol: Protocol::Opaque, requests, replies, ..Plan::default() };
        Self::with(Detail::Requests, plan).await
    }

    pub(crate) async fn with(detail: Detail, plan: Plan) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(detail).unwrap();
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
    raw(TcpStream::connect(addr).await.unwrap())
}

pub(crate) async fn accept(server: &TcpListener) -> Raw {
    let accepted = tokio::time::timeout(DEADLINE, server.accept()).await;
    raw(accepted.expect("a connection in time").unwrap().0)
}

/// What is sent leaves at once, as with the proxy.
fn raw(stream: TcpStream) -> Raw {
    stream.set_nodelay(true).unwrap();
    Raw(stream)
}

/// A client that sees bytes.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads as many bytes as `bytes` and compares.
    pub(crate) async fn expect(&mut self, bytes: impl AsRef<[u8]>) {
        let mut got = vec![0; bytes.as_ref().len()];
        let read = tokio::time::timeout(DEADLINE, self.0.read_exact(&mut got)).await;
        read.expect("an answer in time").unwrap();
        assert_eq!(got.escape_ascii().to_string(), bytes.as_ref().escape_ascii().to_string());
    }

    /// Sends a request, and reads exactly this answer.
    pub(crate) async fn exchange(&mut self, request: impl AsRef<[u8]>, answer: impl AsRef<[u8]>) {
        self.send(request).await;
        self.expect(answer).await;
    }

    /// What comes up to these bytes, which end it.
    pub(crate) async fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(end) {
            let read = tokio::time::timeout(DEADLINE, self.0.read_buf(&mut bytes));
            let count = read.await.expect("an answer in time").unwrap();
            assert_ne!(count, 0, "closed after {}", bytes.escape_ascii());
        }
        bytes
    }

    /// The whole answer to an inline command, as text.
    pub(crate) async fn ask(&mut self, command: &str) -> String {
        self.send(format!("{command}\r\nPING the-end\r\n")).await;
        let answer = self.read_until(b"$7\r\nthe-end\r\n").await;
        String::from_utf8_lossy(&answer[..answer.len() - 13]).into_owned()
    }

    /// Asks until the answer is one of these.
    pub(crate) async fn ask_until(&mut self, command: &str, holds: impl Fn(&str) -> bool) {
        let asked = async {
            while !holds(&self.ask(command).await) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, asked).await.expect(command);
    }

    /// Asks until the answer is this one.
    pub(crate) async fn until(&mut self, command: &str, answer: &str) {
        self.ask_until(command, |given| given == answer).await;
    }

    /// Nothing readable at this moment.
    pub(crate) fn is_silent(&mut self) -> bool {
        let read = self.0.try_read(&mut [0; 1]);
        matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// How the stream ends: `Ok` with what came before a close, `Err` for a reset.
    pub(crate) async fn end(&mut self) -> std::io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(DEADLINE, self.0.read_to_end(&mut rest)).await;
        read.expect("an end in time").map(|_| rest)
    }
}

/// Waits until something holds that only looking tells.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let looked = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, looked).await.expect(what);
}

/// Waits until connections to this address are refused. A process that another test is starting keeps a copy of a
/// closed port until it runs its program.
pub(crate) async fn refused(addr: SocketAddr) {
    let is_refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    let connect = || std::net::TcpStream::connect(addr);
    eventually("it is refused", || connect().err().is_some_and(is_refused)).await;
}

/// A request as an array of bulk strings.
pub(crate) fn command(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
