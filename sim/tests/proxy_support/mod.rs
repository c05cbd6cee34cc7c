//! A real server behind a proxy, for the tests named `proxy_*`.

#![allow(dead_code, reason = "every test file uses a part of it")]

mod pipe;
mod tls;

use std::path::Path;
use std::time::Duration;

use fault_proxy::{ClientId, Detail, Link, Plan, Proxy, Upstream};
use live_world::server::{PrivateServer, ServerSpec, find_server};
use live_world::supervisor::Supervisor;
use picklock::env::Node;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Long enough for anything that does happen, on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

#[allow(unused_imports, reason = "every test file uses a part of it")]
pub(crate) use pipe::{Pipe, accept, connect};
#[allow(unused_imports, reason = "every test file uses a part of it")]
pub(crate) use tls::{file, terminator};

pub(crate) struct Bed {
    pub(crate) proxy: Proxy,
    pub(crate) link: Link,
    pub(crate) server: PrivateServer,
    pub(crate) supervisor: Supervisor,
}

impl Bed {
    pub(crate) async fn new(plan: Plan) -> Self {
        let supervisor =
            Supervisor::spawn(Some(Path::new(env!("CARGO_BIN_EXE_picklock")))).unwrap();
        let binary = find_server(None, None).unwrap().path;
        let server = PrivateServer::start(&supervisor, ServerSpec::new(binary)).await.unwrap();
        let proxy = Proxy::start(Detail::Faults).unwrap();
        let upstream = Upstream::Tcp(server.addr());
        let link = proxy.listen(ClientId(0), Node(0), upstream, plan).unwrap();
        Self { proxy, link, server, supervisor }
    }

    /// A client through the proxy.
    pub(crate) async fn client(&self) -> Raw {
        Raw(TcpStream::connect(self.link.addr()).await.unwrap())
    }

    /// A client beside it.
    pub(crate) async fn direct(&self) -> Raw {
        Raw(TcpStream::connect(self.server.addr()).await.unwrap())
    }
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

    /// Asks with an inline command until the answer is this one.
    pub(crate) async fn until(&mut self, command: &str, answer: &str) {
        let asked = async {
            loop {
                self.send(format!("{command}\r\n")).await;
                let mut got = vec![0; 256];
                let count = self.0.read(&mut got).await.unwrap();
                if got[..count] == *answer.as_bytes() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, asked).await.expect("the answer in time");
    }

    /// Asks for INFO until it holds this line.
    pub(crate) async fn until_info(&mut self, line: &str) {
        let asked = async {
            loop {
                self.send("INFO clients\r\n").await;
                let mut got = vec![0; 4096];
                let count = self.0.read(&mut got).await.unwrap();
                if String::from_utf8_lossy(&got[..count]).lines().any(|told| told == line) {
                    return;
                }
            }
        };
        tokio::time::timeout(DEADLINE, asked).await.expect("the line in time");
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
