//! The lock that is handed over, and the one that tells of its release, where the server refuses a command, does not
//! answer, or remembers a client that has died.

use std::time::Duration;

use crate::support::{LONG, PATIENCE, ServerExt, call, eventually, subscribers, token_of};
use picklock::lock::Outcome;
use picklock::reply::Reply;
use picklock::{Guard, Node, NotAcquired, Options, Queue, Released, Single, TokioEnv};
use test_server::RedisServer;
use tokio::task::JoinHandle;

type Waiter = JoinHandle<Result<Guard<TokioEnv>, NotAcquired>>;

fn queue(env: TokioEnv) -> Queue<TokioEnv> {
    Queue::new(env, Node(0), *b"k", Options::builder(LONG).build().unwrap()).unwrap()
}

/// A client that waits, and so many wait with it.
async fn waiter(server: &RedisServer, waiting: i64) -> Waiter {
    let lock = queue(server.env());
    let waiter = tokio::spawn(async move { lock.acquire(PATIENCE).await });
    in_line(&server.env(), waiting).await;
    waiter
}

async fn in_line(env: &TokioEnv, expected: i64) {
    eventually(env, || async { call(env, &["ZCARD", "{k}:line"]).await == Reply::Int(expected) })
        .await;
}

async fn rule(env: &TokioEnv, rule: &str) {
    assert_eq!(call(env, &["ACL", "SETUSER", "default", rule]).await, Reply::Ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_may_not_set_the_key_hands_the_lock_to_nobody() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let holder = queue(env.clone()).acquire(PATIENCE).await.unwrap();
    let waiters = [waiter(&server, 1).await, waiter(&server, 2).await];
    let token = token_of(&holder);
    rule(&env, "-set").await;
    let released = holder.release().await;
    assert!(matches!(released, Released::Unknown(_)), "{released:?}");
    assert_eq!(call(&env, &["GET", "k"]).await, token);
    in_line(&env, 2).await;
    assert!(waiters.iter().all(|it| !it.is_finished()), "nobody believes to have the lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_may_not_publish_has_handed_the_lock_on_all_the_same() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let holder = queue(env.clone()).acquire(PATIENCE).await.unwrap();
    let _waiter = waiter(&server, 1).await;
    let token = token_of(&holder);
    rule(&env, "-publish").await;
    assert_eq!(holder.release().await, Released::Released);
    assert_ne!(call(&env, &["GET", "k"]).await, token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_tells_was_held_to_its_release_though_another_has_it_now() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let options = || Options::builder(LONG).notify().build().unwrap();
    let [ours, theirs] =
        [env.clone(), server.env()].map(|env| Single::new(env, Node(0), *b"k", options()).unwrap());
    let holder = ours.try_acquire().await.unwrap();
    rule(&env, "-publish").await;
    let release = tokio::spawn(holder.release());
    let _theirs = loop {
        match theirs.try_acquire().await {
            Ok(guard) => break guard,
            Err(held) => assert_eq!(held, NotAcquired::Held),
        }
    };
    assert_eq!(release.await.unwrap(), Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_listen_any_more_waits_no_longer() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let _holder = queue(env.clone()).acquire(PATIENCE).await.unwrap();
    let waiter = waiter(&server, 1).await;
    rule(&env, "resetchannels").await;
    call(&env, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let refused = waiter.await.unwrap().unwrap_err();
    assert!(matches!(refused, NotAcquired::Refused(_)), "{refused}");
    in_line(&env, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_neither_look_nor_leave_does_not_know_whether_it_has_the_lock() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let _holder = queue(env.clone()).acquire(PATIENCE).await.unwrap();
    let options = Options::builder(LONG).call_timeout(Duration::from_millis(200)).build().unwrap();
    let lock = Queue::new(server.env(), Node(0), *b"k", options).unwrap();
    let waiter = tokio::spawn(async move { lock.acquire(10 * LONG).await });
    in_line(&env, 1).await;
    rule(&env, "-@scripting").await;
    // It looks when it listens again.
    call(&env, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let missed = waiter.await.unwrap().unwrap_err();
    assert_eq!(missed.outcome(), Outcome::Unknown, "{missed}");
    assert!(missed.to_string().contains("NOPERM"), "{missed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hears_nothing_at_the_deadline_does_not_know_whether_it_has_the_lock() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let _holder = queue(env.clone()).acquire(PATIENCE).await.unwrap();
    let short = Duration::from_millis(200);
    let options = Options::builder(LONG).call_timeout(short).build().unwrap();
    let lock = Queue::new(server.env(), Node(0), *b"k", options).unwrap();
    let waiter = tokio::spawn(async move { lock.acquire(5 * short).await });
    in_line(&env, 1).await;
    call(&env, &["CLIENT", "PAUSE", "60000", "ALL"]).await;
    let missed = waiter.await.unwrap().unwrap_err();
    assert!(matches!(missed, NotAcquired::Deadline { .. }), "{missed}");
    assert_eq!(missed.outcome(), Outcome::Unknown, "{missed}");
}

#[test]
fn who_tries_once_passes_over_a_waiter_that_has_died() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (live, dead) = (runtime(), runtime());
    let server = RedisServer::start(&[]);
    let env = server.env();
    live.block_on(async { call(&env, &["SET", "k", "of one who has died", "PX", "60000"]).await });
    dead.block_on(waiter(&server, 1));
    dead.shutdown_background();
    live.block_on(async {
        eventually(&env, || async { subscribers(&env).await == 0 }).await;
        let lock = queue(env.clone());
        assert_eq!(lock.try_acquire().await.unwrap_err(), NotAcquired::Held);
        call(&env, &["DEL", "k"]).await;
        let guard = lock.try_acquire().await.unwrap();
        in_line(&env, 0).await;
        assert_eq!(guard.release().await, Released::Released);
    });
}

#[test]
fn who_tries_once_does_not_pass_a_waiter_that_can_be_told() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = RedisServer::start(&[]);
        let env = server.env();
        let _holder = queue(env.clone()).acquire(PATIENCE).await.unwrap();
        let waiter = waiter(&server, 1).await;
        call(&env, &["DEL", "k"]).await;
        assert_eq!(queue(server.env()).try_acquire().await.unwrap_err(), NotAcquired::Held);
        // The one that tried has told the other to look.
        assert_eq!(waiter.await.unwrap().unwrap().release().await, Released::Released);
    });
}
