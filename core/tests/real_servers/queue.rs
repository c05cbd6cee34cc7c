//! The lock that is handed over, and the one that tells of its release, against a real redis-server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{
    LONG, PATIENCE, ServerExt, answered, call, eventually, listeners, ran, subscribers, synced,
    text,
};
use picklock::env::Env;
use picklock::options::QUEUE_TTL_MAX;
use picklock::queue_scripts::LEAVE;
use picklock::reply::Reply;
use picklock::{
    Count, Fence, FenceGate, Lost, Node, NotAcquired, Options, OptionsError, Poll, Queue, Released,
    Single, TokioEnv,
};
use test_server::RedisServer;

const SHORT: Duration = Duration::from_millis(300);

fn queue(env: TokioEnv, ttl: Duration) -> Queue<TokioEnv> {
    Queue::new(env, Node(0), *b"the key", Options::builder(ttl).build().unwrap()).unwrap()
}

async fn waiting(env: &TokioEnv) -> i64 {
    call(env, &["ZCARD", "{the key}:line"]).await.as_int().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_handed_over_in_the_order_of_coming() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let holder = queue(env.clone(), LONG).acquire(PATIENCE).await.unwrap();
    let order: Arc<Mutex<Vec<i64>>> = Arc::default();
    let mut waiters = Vec::new();
    for place in 1..=5 {
        let (lock, order) = (queue(server.env(), LONG), Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire(PATIENCE).await.unwrap();
            order.lock().unwrap().push(place);
            assert_eq!(guard.release().await, Released::Released);
        }));
        eventually(&env, || async { waiting(&env).await == place }).await;
    }
    assert_eq!(holder.release().await, Released::Released);
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4, 5]);
    let keys = call(&env, &["KEYS", "*"]).await;
    assert_eq!(keys, Reply::Array(vec![]), "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_are_not_lost_and_two_commands_make_an_acquisition() {
    const CLIENTS: u64 = 20;
    const ROUNDS: u64 = 20;
    let server = RedisServer::start(&[]);
    let env = server.env();
    let work = |lock: Queue<TokioEnv>, env: TokioEnv| async move {
        for _ in 0..ROUNDS {
            let guard = lock.acquire(PATIENCE).await.unwrap();
            // Reading and writing apart: without the lock, updates would be lost.
            let count = call(&env, &["GET", "count"]).await.as_int().unwrap_or(0);
            call(&env, &["SET", "count", &(count + 1).to_string()]).await;
            assert_eq!(guard.release().await, Released::Released);
        }
    };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let env = server.env();
            tokio::spawn(work(queue(env.clone(), LONG), env))
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(call(&env, &["GET", "count"]).await, Reply::bulk(b"400"));
    let scripts = ran(&env, "evalsha").await + ran(&env, "eval").await;
    let subscriptions = ran(&env, "subscribe").await;
    // Each client tries once before it listens; a script is sent in full when it is new.
    assert!(subscriptions <= CLIENTS, "{subscriptions}");
    let most = 2 * CLIENTS * ROUNDS + CLIENTS + 2 * CLIENTS;
    assert!(scripts <= most, "{scripts} scripts for {} acquisitions", CLIENTS * ROUNDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_left_or_died_is_passed_over() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let holder = queue(env.clone(), LONG).acquire(PATIENCE).await.unwrap();
    // One drops its future, one dies with its connections, one waits on.
    let (left, died, third) =
        (queue(server.env(), LONG), queue(server.env(), LONG), queue(server.env(), LONG));
    let leaving = tokio::spawn(async move { left.acquire(PATIENCE).await.map(drop) });
    eventually(&env, || async { waiting(&env).await == 1 }).await;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.spawn(async move { died.acquire(PATIENCE).await.map(drop) });
    eventually(&env, || async { waiting(&env).await == 2 }).await;
    let waiting_on = tokio::spawn(async move { third.acquire(PATIENCE).await });
    eventually(&env, || async { waiting(&env).await == 3 }).await;
    leaving.abort();
    eventually(&env, || async { waiting(&env).await == 2 }).await;
    runtime.shutdown_background();
    // The third alone: who has died is counted as a listener until its connection ends.
    eventually(&env, || async { subscribers(&env).await == 1 }).await;
    assert_eq!(holder.release().await, Released::Released);
    let guard = waiting_on.await.unwrap().unwrap();
    assert_eq!(guard.release().await, Released::Released);
}

/// As where a replica takes over that has heard that the holder joined, and not that it was granted the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_in_line_again_had_lost_the_lock() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    for (found, released) in
        [(Some("another's"), Released::TakenByOther), (None, Released::AlreadyExpired)]
    {
        let holder = queue(env.clone(), LONG).acquire(PATIENCE).await.unwrap();
        let token = String::from_utf8_lossy(holder.token().as_bytes()).into_owned();
        call(&env, &["ZADD", "{the key}:line", "1", &token]).await;
        call(&env, &["HSET", "{the key}:book", &token, "9999999999999 60000 nobody"]).await;
        call(&env, &["DEL", "the key"]).await;
        if let Some(value) = found {
            call(&env, &["SET", "the key", value, "PX", "60000"]).await;
        }
        assert_eq!(holder.release().await, released);
        assert_eq!(waiting(&env).await, 0);
        call(&env, &["DEL", "the key"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_died_is_succeeded_when_its_key_has_expired() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let lost = queue(server.env(), SHORT).acquire(PATIENCE).await.unwrap();
    let next = queue(env.clone(), SHORT).acquire(PATIENCE).await.unwrap();
    assert_eq!(lost.lost().await, Lost::ValidityEnded);
    assert_eq!(next.release().await, Released::Released);
    assert_eq!(lost.release().await, Released::AlreadyExpired);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listened_in_vain_finds_its_turn() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let holder = queue(server.env(), LONG).acquire(PATIENCE).await.unwrap();
    let other = queue(server.env(), LONG);
    let waiter = tokio::spawn(async move { other.acquire(PATIENCE).await });
    eventually(&env, || async { waiting(&env).await == 1 }).await;
    call(&env, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert_eq!(holder.release().await, Released::Released);
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(guard.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_leaves_the_line() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let holder = queue(env.clone(), LONG).acquire(PATIENCE).await.unwrap();
    let error = queue(env.clone(), LONG).acquire(Duration::from_millis(30)).await.unwrap_err();
    assert!(matches!(error, NotAcquired::Deadline { .. }), "{error}");
    eventually(&env, || async { waiting(&env).await == 0 }).await;
    assert_eq!(queue(env, LONG).try_acquire().await.unwrap_err(), NotAcquired::Held);
    assert_eq!(holder.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_stood_in_line_for_long_leaves_it_though_the_server_refuses_at_first() {
    const LINGER: Duration = Duration::from_secs(2);
    let server = RedisServer::start(&[]);
    let env = server.env();
    let holder = queue(server.env(), LONG).acquire(PATIENCE).await.unwrap();
    let short = Duration::from_millis(100);
    let options = Options::builder(LONG).linger(LINGER).call_timeout(short).build().unwrap();
    let lock = Queue::new(server.env(), Node(0), *b"the key", options).unwrap();
    let waiting_on = lock.clone();
    let waiter = tokio::spawn(async move { waiting_on.acquire(LONG).await.map(drop) });
    eventually(&env, || async { waiting(&env).await == 1 }).await;
    let long_ago = env.now().after(LINGER);
    eventually(&env, || async { env.now() > long_ago }).await;
    call(&env, &["ACL", "SETUSER", "default", "-evalsha"]).await;
    waiter.abort();
    eventually(&env, || async { answered(&env, "NOPERM").await > 0 }).await;
    call(&env, &["ACL", "SETUSER", "default", "+evalsha"]).await;
    lock.drain().await;
    assert_eq!(waiting(&env).await, 0);
    assert_eq!(lock.counters().get(Count::CleanedUp), 1);
    assert_eq!(holder.release().await, Released::Released);
    assert_eq!(call(&env, &["EXISTS", "the key"]).await, Reply::Int(0), "nobody was handed it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_heard_and_no_ttl_waited_for() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let options = || Options::builder(LONG).notify().build().unwrap();
    let lock = |env| Single::new(env, Node(0), *b"the key", options()).unwrap();
    let holder = lock(server.env()).try_acquire().await.unwrap();
    let other = lock(server.env());
    let waiter = tokio::spawn(async move { other.acquire(PATIENCE, Poll::default()).await });
    eventually(&env, || async { listeners(&env, "picklock:the key").await == 1 }).await;
    assert_eq!(holder.release().await, Released::Released);
    // Its key lives for a minute: within the half that the test is patient it was told.
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(guard.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_ttl_of_a_queue_is_one_that_its_scripts_take() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let ttl = QUEUE_TTL_MAX + Duration::from_millis(1);
    let options = Options::builder(ttl).build().unwrap();
    let refused = Queue::new(env.clone(), Node(0), *b"k", options).err();
    assert_eq!(refused, Some(OptionsError::TtlTooLong { ttl, max: QUEUE_TTL_MAX }));
    let holder = queue(server.env(), QUEUE_TTL_MAX).try_acquire().await.unwrap();
    let lock = queue(server.env(), QUEUE_TTL_MAX);
    let waiter = tokio::spawn(async move { lock.acquire(PATIENCE).await });
    eventually(&env, || async { waiting(&env).await == 1 }).await;
    assert_eq!(holder.release().await, Released::Released);
    assert_eq!(waiter.await.unwrap().unwrap().release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_leaves_no_place_in_the_line() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    call(&env, &["SET", "the key", "another's", "PX", "60000"]).await;
    call(&env, &["SET", "{the key}:book", "no hash"]).await;
    let lock = queue(server.env(), LONG);
    let refused = lock.acquire(PATIENCE).await.unwrap_err();
    assert!(refused.to_string().contains("WRONGTYPE"), "{refused}");
    assert_eq!(waiting(&env).await, 0);
    call(&env, &["DEL", "the key", "{the key}:book"]).await;
    assert_eq!(lock.try_acquire().await.unwrap().release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_call_timeout_was_asked_for_a_place_in_the_line_expires() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let lock = |env| {
        let options = Options::builder(LONG).call_timeout(Duration::MAX).build().unwrap();
        Queue::new(env, Node(0), *b"the key", options).unwrap()
    };
    let holder = lock(server.env()).acquire(PATIENCE).await.unwrap();
    let next = lock(server.env());
    let waiter = tokio::spawn(async move { next.acquire(PATIENCE).await });
    eventually(&env, || async { waiting(&env).await == 1 }).await;
    for key in ["{the key}:line", "{the key}:book"] {
        assert!(call(&env, &["PTTL", key]).await.as_int() > Some(0), "{key}");
    }
    assert_eq!(holder.release().await, Released::Released);
    assert_eq!(waiter.await.unwrap().unwrap().release().await, Released::Released);
}

#[test]
fn a_queue_serves_on_when_the_runtime_that_subscribed_has_ended() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let server = RedisServer::start(&[]);
    let env = server.env();
    let holder = second.block_on(queue(env.clone(), LONG).acquire(PATIENCE)).unwrap();
    let lock = queue(server.env(), LONG);
    let acquire = |lock: Queue<TokioEnv>| async move { lock.acquire(PATIENCE).await };
    let given_up = first.spawn(acquire(lock.clone()));
    second.block_on(eventually(&env, || async { waiting(&env).await == 1 }));
    given_up.abort();
    second.block_on(eventually(&env, || async { waiting(&env).await == 0 }));
    drop(first);
    second.block_on(eventually(&env, || async { subscribers(&env).await == 0 }));
    let waiter = second.spawn(acquire(lock));
    second.block_on(eventually(&env, || async { subscribers(&env).await == 1 }));
    second.block_on(async {
        assert_eq!(holder.release().await, Released::Released);
        // The key lives for a minute: the waiter has been told.
        assert_eq!(waiter.await.unwrap().unwrap().release().await, Released::Released);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fencing_tokens_rise_and_a_resource_refuses_the_lower() {
    let server = RedisServer::start(&[]);
    let options = Options::builder(LONG).fenced().build().unwrap();
    let lock = Single::new(server.env(), Node(0), *b"the key", options).unwrap();
    let mut gate = FenceGate::default();
    let mut shown = Vec::new();
    for _ in 0..2 {
        let guard = lock.try_acquire().await.unwrap();
        shown.push(guard.fence().unwrap());
        assert_eq!(lock.try_acquire().await.unwrap_err(), NotAcquired::Held);
        assert_eq!(guard.release().await, Released::Released);
    }
    assert_eq!(shown, [Fence::new(1), Fence::new(2)]);
    gate.pass(shown[1]).unwrap();
    gate.pass(shown[0]).unwrap_err();
    // The same, where the resource is a value in Redis.
    let env = server.env();
    let conn = env.connect(Node(0)).await.unwrap();
    for (token, answer) in [("2", 1), ("1", -2), ("2", 1), ("3", 1)] {
        let keys: [&[u8]; 2] = [b"{r}", b"{r}:mark"];
        let reply =
            picklock::fence::WRITE_FENCED.run_on(&conn, &keys, &[token.as_bytes(), b"v"]).await;
        assert_eq!(reply, Ok(Reply::Int(answer)), "token {token}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_at_a_server_that_has_become_a_replica_is_granted_nothing() {
    let at_once = ["--repl-diskless-sync-delay", "0"];
    let first = RedisServer::start(&at_once);
    let second = RedisServer::start(&at_once);
    let (old, new) = (first.env(), second.env());
    call(&new, &["REPLICAOF", "127.0.0.1", &first.port().to_string()]).await;
    synced(&new).await;
    let holder = queue(first.env(), LONG).acquire(PATIENCE).await.unwrap();
    let waiter = queue(first.env(), LONG);
    let waiter = tokio::spawn(async move { waiter.acquire(Duration::from_secs(3)).await });
    eventually(&new, || async { waiting(&new).await == 1 }).await;
    // The other takes over; whoever still knows this one only, listens to a replica.
    call(&new, &["REPLICAOF", "NO", "ONE"]).await;
    call(&old, &["REPLICAOF", "127.0.0.1", &second.port().to_string()]).await;
    call(&new, &["SET", "sign", "of life"]).await;
    eventually(&old, || async { call(&old, &["GET", "sign"]).await == Reply::bulk(b"of life") })
        .await;
    let token = text(&new, &["GET", "the key"]).await;
    let keys = ["the key", "{the key}:line", "{the key}:book"];
    let leave = [&["EVAL", LEAVE.text(), "3"], &keys[..], &[&*token]].concat();
    assert_eq!(call(&new, &leave).await, Reply::Int(1));
    let end = waiter.await.unwrap();
    assert!(matches!(end, Err(NotAcquired::Deadline { .. })), "{end:?}");
    assert_ne!(holder.release().await, Released::Released);
}
