//! What the tests against a real redis-server share: a server of each test's own.
//!
//! Nothing here asserts how long something takes: a test waits for a condition, up to a deadline
//! that only a broken build reaches.

use std::future::Future;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::Duration;

use picklock::command::Command;
use picklock::env::{CallError, Conn, Env};
use picklock::reply::Reply;
use picklock::{Node, TokioEnv};
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A private redis-server on loopback; killed when dropped, also by a panic.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: u16,
    /// What it keeps, which the next server must not find.
    _dir: TempDir,
}

impl Server {
    pub(crate) async fn start(extra: &[&str]) -> Self {
        Self::start_as(|port, dir| {
            let words = format!("--port {port} --bind 127.0.0.1 --save  --appendonly no --dir");
            let words = words.split(' ').map(str::to_owned);
            let extra = extra.iter().map(ToString::to_string);
            words.chain([dir.to_str().unwrap().to_owned()]).chain(extra).collect()
        })
        .await
    }

    /// Starts it with these arguments for a port and a directory of its own.
    pub(crate) async fn start_as(arguments: impl Fn(u16, &Path) -> Vec<String>) -> Self {
        // Another process may take the port between our looking and the server's binding.
        for _ in 0..10 {
            let (port, dir) = (free_port(), tempfile::tempdir().unwrap());
            let child = Process::new("redis-server")
                .args(arguments(port, dir.path()))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect(
                    "redis-server is not on the PATH; install it (apt-get install redis-server)",
                );
            let mut server = Self { child, port, _dir: dir };
            if server.answers().await {
                return server;
            }
        }
        panic!("redis-server did not start");
    }

    /// Waits until the server answers; false if it has ended instead.
    async fn answers(&mut self) -> bool {
        let env = self.env();
        let end = env.now().after(PATIENCE);
        while env.now() < end {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if let Ok(conn) = env.connect(Node(0)).await
                && !matches!(
                    conn.call(Command::new("PING")).await,
                    Err(CallError::Indeterminate(_) | CallError::NotSent(_))
                )
            {
                return true;
            }
            env.sleep(Duration::from_millis(10)).await;
        }
        panic!("redis-server neither answers nor ends");
    }

    pub(crate) fn url(&self, user: &str, rest: &str) -> String {
        format!("redis://{user}127.0.0.1:{}/{rest}", self.port)
    }

    /// A client of its own, with a connection of its own.
    pub(crate) fn env(&self) -> TokioEnv {
        TokioEnv::open(self.url("", "")).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

pub(crate) async fn call(env: &TokioEnv, words: &[&str]) -> Reply {
    let command = words[1..].iter().fold(Command::new(words[0]), Command::arg);
    env.connect(Node(0)).await.unwrap().call(command).await.unwrap()
}

/// Waits until `check` holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(
    env: &TokioEnv,
    mut check: impl FnMut() -> F,
) {
    let end = env.now().after(PATIENCE);
    while !check().await {
        assert!(env.now() < end, "it never came about");
        env.sleep(Duration::from_millis(5)).await;
    }
}
