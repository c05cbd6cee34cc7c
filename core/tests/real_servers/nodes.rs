//! A lock on several real redis-servers, one of which stands still.
//!
//! A node has an hour to answer, so whoever waits for the one that is silent comes to no end before the test gives up.

use std::process::Command as Process;
use std::time::Duration;

use crate::support::{PATIENCE, ServerExt, call, eventually};
use picklock::{Env, Node, NotAcquired, Options, Outcome, Redlock, Released, Reply, TokioEnv};
use test_server::RedisServer;

const HOUR: Duration = Duration::from_secs(3_600);

fn signal(server: &RedisServer, signal: &str) {
    let pid = server.process_id().to_string();
    assert!(Process::new("kill").args([signal, &pid]).status().unwrap().success());
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it waits for the server that is silent")
}

async fn three() -> ([RedisServer; 3], TokioEnv) {
    let servers = [RedisServer::start(&[]), RedisServer::start(&[]), RedisServer::start(&[])];
    let env = TokioEnv::open_all(servers.iter().map(RedisServer::url)).unwrap();
    for node in 0..3 {
        // A server that stands still takes no handshake.
        env.connect(Node(node)).await.unwrap();
    }
    (servers, env)
}

fn lock(env: &TokioEnv) -> Redlock<TokioEnv> {
    let options = Options::builder(2 * HOUR).call_timeout(HOUR).build().unwrap();
    Redlock::new(env.clone(), (0..3).map(Node), *b"k", options).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_delays_nothing_and_keeps_nothing() {
    let (servers, env) = three().await;
    let lock = lock(&env);
    for silent in &servers {
        signal(silent, "-STOP");
        let guard = in_time(lock.try_acquire()).await.unwrap();
        let until = in_time(guard.extend()).await.unwrap();
        assert!(until > env.now());
        assert_eq!(in_time(guard.release()).await, Released::Released);
        signal(silent, "-CONT");
        // It has carried out all of it by the time that the last answer is there.
        in_time(lock.drain()).await;
        for server in &servers {
            assert_eq!(call(&server.env(), &["EXISTS", "k"]).await, Reply::Int(0));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_had_is_told_at_once_and_what_comes_late_is_given_back() {
    let (servers, env) = three().await;
    let lock = lock(&env);
    for other in &servers[1..] {
        call(&other.env(), &["SET", "k", "another"]).await;
    }
    signal(&servers[0], "-STOP");
    let missed = in_time(lock.try_acquire()).await.unwrap_err();
    assert_eq!(missed, NotAcquired::NoQuorum { granted: 0, needed: 2, error: None });
    assert_eq!(missed.outcome(), Outcome::No);
    signal(&servers[0], "-CONT");
    in_time(lock.drain()).await;
    let late = servers[0].env();
    eventually(&env, || async { call(&late, &["EXISTS", "k"]).await == Reply::Int(0) }).await;
}
