//! Common parts of the tests against a real redis-server: clients, and waiting for a condition.
//!
//! Nothing here asserts how long something takes: a test waits for a condition, up to a deadline
//! that only a broken build reaches.

use std::time::Duration;

use picklock::command::Command;
use picklock::env::{Conn, Env};
use picklock::reply::Reply;
use picklock::{Node, TokioEnv};
use test_server::RedisServer;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Clients of a server.
pub(crate) trait ServerExt {
    /// A client of its own, with a connection of its own.
    fn env(&self) -> TokioEnv;
}

impl ServerExt for RedisServer {
    fn env(&self) -> TokioEnv {
        TokioEnv::open(self.url()).unwrap()
    }
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
