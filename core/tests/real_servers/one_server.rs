//! A lock on one server.

use std::future::{Future, poll_fn};
use std::net::TcpListener;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::fake;
use crate::support::{LONG, PATIENCE, ServerExt, answered, call, eventually, ran, text, token_of};
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env};
use picklock::options::TTL_MAX;
use picklock::reply::Reply;
use picklock::{
    Count, Lost, Node, NotAcquired, Options, Released, Renewal, Single, TokioEnv, wait,
};
use test_server::RedisServer;

const POLL: wait::Poll = wait::Poll {
    base: Duration::from_millis(5),
    jitter: Duration::from_millis(5),
    max_retries: None,
};

fn url(server: &RedisServer, user: &str, rest: &str) -> String {
    format!("redis://{user}127.0.0.1:{}/{rest}", server.port())
}

fn options(ttl: Duration) -> Options {
    Options::builder(ttl).build().unwrap()
}

fn lock(env: TokioEnv, options: Options) -> Single<TokioEnv> {
    Single::new(env, Node(0), *b"the key", options).unwrap()
}

async fn value(env: &TokioEnv) -> Reply {
    call(env, &["GET", "the key"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_server_is_waited_for_in_any_database() {
    let server = RedisServer::start(&["--lua-time-limit", "10"]);
    let env = server.env();
    let conn = env.connect(Node(0)).await.unwrap();
    let endless = Command::new("EVAL").arg("while true do end").arg("0");
    let script = tokio::spawn(async move { conn.call(endless).await });
    let killer = server.env();
    eventually(&killer, || async {
        let conn = killer.connect(Node(0)).await.unwrap();
        let found = conn.call(Command::new("GET").arg("k")).await;
        found.is_err_and(|error| error.has_code("BUSY"))
    })
    .await;
    let other = lock(TokioEnv::open(url(&server, "", "1")).unwrap(), options(LONG));
    let waits = other.clone();
    let acquiring = tokio::spawn(async move { waits.acquire(PATIENCE, POLL).await });
    let has_waited = || other.counters().get(Count::Waited) > 0;
    eventually(&killer, || async { acquiring.is_finished() || has_waited() }).await;
    assert!(!acquiring.is_finished());
    call(&killer, &["SCRIPT", "KILL"]).await;
    assert!(script.await.unwrap().is_err());
    assert_eq!(acquiring.await.unwrap().unwrap().release().await, Released::Released);
}

/// While it connects, two wait for that, and both are not polled when it is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_polled_keeps_nobody_from_the_connection() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let env = TokioEnv::open(format!("redis://{}/", listener.local_addr().unwrap())).unwrap();
    let (greeted, greets) = tokio::sync::oneshot::channel();
    let (goes_on, go_on) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(Some((greeted, go_on))));
    fake::answering(listener, move |_, words| {
        if let Some((greeted, go_on)) = gate.lock().unwrap().take() {
            greeted.send(()).unwrap();
            go_on.recv().unwrap();
        }
        "+OK\r\n".repeat(words.matches("$3\r\nSET\r\n").count())
    });
    let (first, second) = (lock(env.clone(), options(LONG)), lock(env.clone(), options(LONG)));
    let mut both = pin!(async { tokio::join!(first.try_acquire(), second.try_acquire()) });
    tokio::select! {
        biased;
        _ = &mut both => panic!("not connected yet"),
        greeted = greets => greeted.unwrap(),
    }
    goes_on.send(()).unwrap();
    let third = tokio::spawn(async move { lock(env, options(LONG)).try_acquire().await });
    // Kept until the others are asked for, as nobody answers a release here.
    let third = third.await.unwrap();
    let (first, second) = both.await;
    assert!(third.is_ok() && first.is_ok() && second.is_ok());
}

/// So many that redis-rs by itself would let some wait, and that tokio makes their task pause.
async fn push_many(
    conn: &impl Conn,
) -> Vec<Pin<Box<impl Future<Output = Result<Reply, CallError>>>>> {
    let push = |value| conn.call(Command::new("RPUSH").arg("list").int(value));
    let mut calls: Vec<_> = (0..300).map(|value| Box::pin(push(value))).collect();
    poll_fn(|cx| {
        assert!(calls.iter_mut().all(|call| call.as_mut().poll(cx).is_pending()));
        Poll::Ready(())
    })
    .await;
    calls
}

#[tokio::test]
async fn many_commands_at_once_are_carried_out_in_the_order_of_their_calls() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let conn = env.connect(Node(0)).await.unwrap();
    let mut calls = push_many(&conn).await;
    calls.reverse();
    poll_fn(|cx| {
        calls.retain_mut(|call| call.as_mut().poll(cx).is_pending());
        if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let Reply::Array(list) = call(&env, &["LRANGE", "list", "0", "-1"]).await else { panic!() };
    let list: Vec<_> = list.iter().map(|it| it.as_int().unwrap()).collect();
    assert_eq!(list, (0..300).collect::<Vec<_>>());
}

/// As in a stream that is buffered, while something else is done with its items.
#[tokio::test]
async fn many_calls_that_are_not_polled_keep_nobody_from_the_connection() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let conn = env.connect(Node(0)).await.unwrap();
    let calls = push_many(&conn).await;
    let another = tokio::time::timeout(PATIENCE, conn.call(Command::new("PING"))).await;
    assert_eq!(another, Ok(Ok(Reply::Status("PONG".into()))));
    drop(calls);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_take_turns() {
    let server = RedisServer::start(&[]);
    let work = |env: TokioEnv| async move {
        let lock = lock(env.clone(), options(LONG));
        for _ in 0..25 {
            let guard = lock.acquire(PATIENCE, POLL).await.unwrap();
            // Reading and writing apart: without the lock, updates would be lost.
            let count = call(&env, &["GET", "count"]).await.as_int().unwrap_or(0);
            call(&env, &["SET", "count", &(count + 1).to_string()]).await;
            assert_eq!(guard.release().await, Released::Released);
        }
    };
    let other = tokio::spawn(work(server.env()));
    work(server.env()).await;
    other.await.unwrap();
    assert_eq!(call(&server.env(), &["GET", "count"]).await.as_int(), Some(50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watchdog_keeps_a_lock_beyond_its_ttl() {
    let server = RedisServer::start(&[]);
    let (env, other) = (server.env(), server.env());
    // So long that a busy machine renews it in time.
    let ttl = Duration::from_secs(3);
    let renewal = Renewal { every: Duration::from_millis(100), max_hold: None };
    let options = Options::builder(ttl).renewal(renewal).build().unwrap();
    let guard = lock(env.clone(), options.clone()).try_acquire().await.unwrap();
    let start = env.now();
    eventually(&env, || async { env.now() > start.after(2 * ttl) }).await;
    assert!(!guard.is_lost());
    assert_eq!(value(&other).await, token_of(&guard));
    let refused = lock(other.clone(), options).try_acquire().await.unwrap_err();
    assert_eq!(refused, NotAcquired::Held);
    assert_eq!(guard.release().await, Released::Released);
    assert_eq!(value(&other).await, Reply::Nil);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_lock_is_taken_over_and_its_first_holder_leaves_it_alone() {
    let server = RedisServer::start(&[]);
    let first = lock(server.env(), options(Duration::from_millis(200)));
    let first = first.acquire(PATIENCE, POLL).await.unwrap();
    let env = server.env();
    let second = lock(env.clone(), options(LONG)).acquire(PATIENCE, POLL).await.unwrap();
    assert!(first.is_lost(), "local validity ended before the lease did");
    assert_eq!(first.lost().await, Lost::ValidityEnded);
    assert_eq!(first.release().await, Released::TakenByOther);
    assert_eq!(value(&env).await, token_of(&second));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_taken_by_force_is_lost() {
    let server = RedisServer::start(&[]);
    let (env, thief) = (server.env(), server.env());
    let renewal = Renewal { every: Duration::from_millis(50), max_hold: None };
    let options = Options::builder(LONG).renewal(renewal).build().unwrap();
    let guard = lock(env, options).try_acquire().await.unwrap();
    let stolen = guard.run(async {
        // A renewal may look between the two and find nothing.
        call(&thief, &["DEL", "the key"]).await;
        call(&thief, &["SET", "the key", "mine"]).await;
        std::future::pending::<()>().await;
    });
    let lost = stolen.await.unwrap_err();
    assert!(matches!(lost, Lost::TakenByOther | Lost::KeyGone), "{lost}");
    // The guard has gone with its work; its release has left the thief's key alone.
    eventually(&thief, || async { ran(&thief, "evalsha").await > 1 }).await;
    assert_eq!(value(&thief).await, Reply::bulk(b"mine"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_acquisition_leaves_no_orphan() {
    let server = RedisServer::start(&[]);
    let (env, observer) = (server.env(), server.env());
    let options = Options::builder(LONG).call_timeout(LONG).build().unwrap();
    let lock = lock(env.clone(), options);
    env.connect(Node(0)).await.unwrap();
    // The server takes the command in and lets it wait, so the future is dropped in mid-call.
    call(&observer, &["CLIENT", "PAUSE", "100000", "WRITE"]).await;
    {
        let mut acquire = Box::pin(lock.try_acquire());
        let pending = poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx).is_pending())).await;
        assert!(pending);
        let arrived = || async { text(&observer, &["CLIENT", "LIST"]).await.contains("cmd=set ") };
        eventually(&observer, arrived).await;
    }
    call(&observer, &["CLIENT", "UNPAUSE"]).await;
    eventually(&observer, || async { ran(&observer, "set").await == 1 }).await;
    eventually(&observer, || async { value(&observer).await == Reply::Nil }).await;
    // Nothing but the clean-up can have deleted it: its TTL is a minute.
    assert_eq!(ran(&observer, "del").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_connection_is_made_again() {
    let server = RedisServer::start(&[]);
    let (env, observer) = (server.env(), server.env());
    let lock = lock(env, options(LONG));
    let guard = lock.try_acquire().await.unwrap();
    call(&observer, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    assert_eq!(guard.release().await, Released::Released);
    assert_eq!(value(&observer).await, Reply::Nil);
    assert!(lock.acquire(PATIENCE, POLL).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_closed_while_idle_costs_no_attempt() {
    let server = RedisServer::start(&[]);
    let (env, observer) = (server.env(), server.env());
    let lock = lock(env.clone(), options(LONG));
    assert_eq!(lock.try_acquire().await.unwrap().release().await, Released::Released);
    call(&observer, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    let idle_from = env.now();
    eventually(&env, || async { env.now() > idle_from.after(Duration::from_secs(1)) }).await;
    // Not an unknown outcome on the dead connection.
    assert!(lock.try_acquire().await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_was_lost_with_its_connection_is_not_said_to_be_released() {
    let server = RedisServer::start(&[]);
    let (env, observer) = (server.env(), server.env());
    let guard = lock(env.clone(), options(LONG)).try_acquire().await.unwrap();
    // As a server does that is started again without a file.
    call(&observer, &["FLUSHALL"]).await;
    call(&observer, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    let idle_from = env.now();
    eventually(&env, || async { env.now() > idle_from.after(Duration::from_secs(1)) }).await;
    // The first deletion was never sent, so it is not what has deleted the key.
    assert_eq!(guard.release().await, Released::AlreadyExpired);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_says_nothing_is_asked_on_a_new_connection() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    // The first connection falls silent after its handshake; the next one says OK.
    fake::answering(listener, |number, words| {
        "+OK\r\n".repeat(number.min(1) * words.matches("PING").count())
    });
    let env = TokioEnv::open(format!("redis://127.0.0.1:{port}/")).unwrap();
    let first = env.connect(Node(0)).await.unwrap();
    let unanswered = tokio::spawn(async move { first.call(Command::new("PING")).await });
    let asked = env.now();
    eventually(&env, || async { env.now() > asked.after(Duration::from_secs(2)) }).await;
    let second = env.connect(Node(0)).await.unwrap();
    assert_eq!(second.call(Command::new("PING")).await, Ok(Reply::Ok));
    assert!(!unanswered.is_finished());
    unanswered.abort();
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tls_url_fails_as_an_error_where_the_peer_has_no_tls() {
    let server = RedisServer::start(&[]);
    let env = TokioEnv::open(format!("rediss://127.0.0.1:{}/", server.port())).unwrap();
    let error = lock(env, options(LONG)).try_acquire().await.unwrap_err();
    assert!(matches!(error, NotAcquired::NotSent(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_the_server_has_forgotten_are_sent_again() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let lock = lock(env.clone(), options(LONG));
    for _ in 0..2 {
        let guard = lock.try_acquire().await.unwrap();
        let before = guard.valid_until();
        assert!(guard.extend().await.unwrap() > before);
        call(&env, &["SCRIPT", "FLUSH"]).await;
        assert_eq!(guard.release().await, Released::Released);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_key_is_not_brought_back() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let guard = lock(env.clone(), options(LONG)).try_acquire().await.unwrap();
    call(&env, &["DEL", "the key"]).await;
    assert_eq!(guard.extend().await, Err(Lost::KeyGone.into()));
    assert_eq!(value(&env).await, Reply::Nil);
    assert_eq!(guard.release().await, Released::AlreadyExpired);
}

/// Whichever commands for compare-and-set the server under test has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_is_no_native_compare_and_set_scripts_do_it() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let conn = env.connect(Node(0)).await.unwrap();
    // What the lock asks, and in this order: the next way to delete only where there is not this one.
    let refused = async |name: &'static str, args: &[&str]| {
        let command = args.iter().fold(Command::new(name), |command, arg| command.arg(*arg));
        u64::from(conn.call(command).await.is_err())
    };
    let mut expected = refused("SET", &["nokey", "a", "IFEQ", "b"]).await;
    if refused("DELEX", &["nokey", "IFEQ", "a"]).await == 1 {
        expected += 1 + refused("DELIFEQ", &["nokey", "a"]).await;
    }
    let options = Options::builder(LONG).native().build().unwrap();
    let lock = lock(env.clone(), options);
    let errors = answered(&env, "ERR").await;
    for time in 1..=2 {
        let guard = lock.try_acquire().await.unwrap();
        let before = guard.valid_until();
        assert!(guard.extend().await.unwrap() > before);
        assert_eq!(value(&env).await, token_of(&guard));
        assert_eq!(guard.release().await, Released::Released);
        assert_eq!(value(&env).await, Reply::Nil);
        let now = answered(&env, "ERR").await - errors;
        assert_eq!(now, expected, "SET IFEQ, DELEX and DELIFEQ, once and not time {time}");
    }
    // What is no longer its own it leaves alone.
    let guard = lock.try_acquire().await.unwrap();
    call(&env, &["SET", "the key", "another's"]).await;
    assert!(guard.extend().await.is_err());
    assert_ne!(guard.release().await, Released::Released);
    assert_eq!(value(&env).await, Reply::bulk(b"another's"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_ttl_is_one_that_redis_takes() {
    let server = RedisServer::start(&[]);
    let guard = lock(server.env(), options(TTL_MAX)).try_acquire().await.unwrap();
    guard.extend().await.unwrap();
    assert_eq!(guard.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_a_typed_matter() {
    let alice = ["--user", "alice", "on", ">secret", "~*", "+@all"];
    let server = RedisServer::start(&[&["--requirepass", "right"], &alice[..]].concat());
    let refusal = |user: &str, rest: &str| {
        let env = TokioEnv::open(url(&server, user, rest)).unwrap();
        async move {
            // Refused at once: no deadline is waited for.
            match lock(env, options(LONG)).acquire(10 * LONG, POLL).await.unwrap_err() {
                NotAcquired::Refused(error) => error.code.to_string(),
                other => panic!("{other}"),
            }
        }
    };
    for rest in ["", "?protocol=resp3"] {
        assert_eq!(refusal(":wrong@", rest).await, "WRONGPASS");
        assert_eq!(refusal("alice:wrong@", rest).await, "WRONGPASS");
    }
    assert_eq!(refusal("", "").await, "NOAUTH");
    for (user, rest) in [
        (":right@", ""),
        (":right@", "3"),
        ("alice:secret@", "3"),
        ("alice:secret@", "3?protocol=resp3"),
    ] {
        let env = TokioEnv::open(url(&server, user, rest)).unwrap();
        let guard = lock(env.clone(), options(LONG)).try_acquire().await.unwrap();
        assert_eq!(value(&env).await, token_of(&guard));
        assert_eq!(guard.release().await, Released::Released);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_server_keeps_its_code_and_its_message() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    call(&env, &["LPUSH", "list", "item"]).await;
    let conn = env.connect(Node(0)).await.unwrap();
    for (command, code, message) in [
        (Command::new("GET").arg("list"), "WRONGTYPE", "Operation against a key"),
        (Command::new("NOSUCH"), "ERR", "unknown command"),
        (Command::new("EVALSHA").arg("0".repeat(40)).int(0), "NOSCRIPT", "No matching script"),
    ] {
        let Err(CallError::Refused(error)) = conn.call(command).await else { panic!("{code}") };
        assert_eq!(&*error.code, code);
        assert!(error.message.starts_with(message), "{error}");
    }
}

#[test]
fn a_guard_dropped_outside_the_runtime_is_released() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = RedisServer::start(&[]);
    let env = server.env();
    let guard = runtime.block_on(lock(env.clone(), options(LONG)).try_acquire()).unwrap();
    drop(guard);
    let free = || async { value(&env).await == Reply::Nil };
    runtime.block_on(eventually(&env, free));
}

#[test]
fn a_guard_dropped_outside_is_released_by_the_runtime_that_has_not_ended() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let server = RedisServer::start(&[]);
    let (env, lock) = (server.env(), lock(server.env(), options(LONG)));
    let guard = first.block_on(lock.try_acquire()).unwrap();
    assert_eq!(first.block_on(guard.release()), Released::Released);
    drop(first);
    let guard = second.block_on(lock.acquire(PATIENCE, POLL)).unwrap();
    // Polled on this thread, which is outside: its timer is one of the second, too.
    let mut lost = Box::pin(guard.lost());
    assert!(lost.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(lost);
    drop(guard);
    let free = || async { value(&env).await == Reply::Nil };
    second.block_on(eventually(&env, free));
}
