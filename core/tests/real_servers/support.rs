//! What the tests share: clients of a server, what it tells of itself, and waiting for a condition.

use std::time::Duration;

use picklock::command::Command;
use picklock::env::{Conn, Env};
use picklock::reply::Reply;
use picklock::{Guard, Node, TokioEnv};
use test_server::RedisServer;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than any test is patient.
pub(crate) const LONG: Duration = Duration::from_secs(60);

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

/// The answer, which is a text.
pub(crate) async fn text(env: &TokioEnv, words: &[&str]) -> String {
    String::from_utf8_lossy(call(env, words).await.as_bytes().unwrap()).into_owned()
}

/// How many times the server has run this command.
pub(crate) async fn ran(env: &TokioEnv, name: &str) -> u64 {
    statistic(env, "commandstats", &format!("cmdstat_{name}:calls=")).await
}

/// How often the server has answered with an error of this code.
pub(crate) async fn answered(env: &TokioEnv, code: &str) -> u64 {
    statistic(env, "errorstats", &format!("errorstat_{code}:count=")).await
}

async fn statistic(env: &TokioEnv, section: &str, head: &str) -> u64 {
    let text = text(env, &["INFO", section]).await;
    let count = text.lines().find_map(|line| line.strip_prefix(head)?.split(',').next());
    count.map_or(0, |count| count.parse().unwrap())
}

/// How many subscribers this channel has.
pub(crate) async fn listeners(env: &TokioEnv, channel: &str) -> i64 {
    let Reply::Array(parts) = call(env, &["PUBSUB", "NUMSUB", channel]).await else { panic!() };
    parts[1].as_int().unwrap()
}

/// How many connections subscribe.
pub(crate) async fn subscribers(env: &TokioEnv) -> usize {
    text(env, &["CLIENT", "LIST", "TYPE", "pubsub"]).await.lines().count()
}

pub(crate) fn token_of(guard: &Guard<TokioEnv>) -> Reply {
    Reply::bulk(guard.token().as_bytes())
}

/// Waits until this replica has what its primary has.
pub(crate) async fn synced(replica: &TokioEnv) {
    let is_up = "master_link_status:up";
    eventually(replica, || async { text(replica, &["INFO", "replication"]).await.contains(is_up) })
        .await;
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
