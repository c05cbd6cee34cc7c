//! Locks by name on a real redis-server, and work under them.

use std::future::pending;
use std::time::Duration;

use crate::support::{LONG, PATIENCE, ServerExt, call, eventually};
use picklock::{
    Count, Fence, Holding, Locks, Lost, NoLock, NotAcquired, NotDone, Options, OptionsError,
    Outcome, Poll, Released, Reply, Unprotected,
};
use test_server::RedisServer;

const POLL: Poll =
    Poll { base: Duration::from_millis(2), jitter: Duration::from_millis(5), max_retries: None };

fn locks(server: &RedisServer, options: Options) -> Locks {
    Locks::open(server.url(), options).unwrap().polling(POLL)
}

fn options() -> Options {
    Options::builder(LONG).fenced().build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_takes_turns_and_is_counted() {
    const ROUNDS: u64 = 20;
    let server = RedisServer::start(&[]);
    let env = server.env();
    let locks = locks(&server, options());
    let work = |locks: Locks| {
        let env = env.clone();
        async move {
            for _ in 0..ROUNDS {
                let turn = |holding: Holding<_>| async {
                    // Reading and writing apart: without the lock, updates would be lost.
                    let count = call(&env, &["GET", "count"]).await.as_int().unwrap_or(0);
                    call(&env, &["SET", "count", &(count + 1).to_string()]).await;
                    // The fencing token is the turn.
                    (count + 1, holding)
                };
                let (turn, holding) = locks.with(*b"the key", PATIENCE, turn).await.unwrap();
                assert_eq!(holding.fence(), u64::try_from(turn).ok().map(Fence::new));
            }
        }
    };
    let clients: Vec<_> = (0..4).map(|_| tokio::spawn(work(locks.clone()))).collect();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(call(&env, &["GET", "count"]).await.as_int(), Some(80));
    let counters = locks.counters();
    assert_eq!(counters.get(Count::Acquired), 4 * ROUNDS);
    assert_eq!(counters.get(Count::Released), 4 * ROUNDS);
    assert_eq!(counters.get(Count::Held), counters.get(Count::Waited));
    let guard = locks.try_acquire(*b"the key").await.unwrap();
    assert_eq!(guard.fence(), Some(Fence::new(4 * ROUNDS + 1)));
    let exported: Vec<(&str, u64)> = locks.counters().iter().collect();
    assert!(exported.contains(&("acquired", 4 * ROUNDS + 1)), "{exported:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_work_ended_is_told() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let watched = Options::builder(Duration::from_millis(300)).watchdog().build().unwrap();
    let (long, short) = (locks(&server, options()), locks(&server, watched));
    // Not begun.
    let never = |_| async { unreachable!("the lock is another's") };
    // A text and an array name the same key.
    let guard = long.try_acquire(String::from("k")).await.unwrap();
    let held = NoLock::NotAcquired(NotAcquired::Held);
    assert_eq!(long.try_acquire("k").await.unwrap_err(), held);
    let error = long.with(*b"k", Duration::ZERO, never).await.unwrap_err();
    let held = NotAcquired::Deadline { last: Box::new(NotAcquired::Held) };
    assert_eq!(error, NotDone::<()>::NoLock(NoLock::NotAcquired(held)));
    assert_eq!(guard.release().await, Released::Released);
    let error = long.with(*b"", LONG, never).await.unwrap_err();
    assert_eq!(error, NotDone::<()>::NoLock(NoLock::Options(OptionsError::KeyEmpty)));
    // Stopped.
    let stolen = |_| async {
        call(&env, &["SET", "k", "another"]).await;
        pending::<()>().await;
    };
    let error = short.with(*b"k", PATIENCE, stolen).await.unwrap_err();
    assert!(
        matches!(error, NotDone::Unprotected(Unprotected::Stopped(lost)) if lost != Lost::KeyGone),
        "{error}"
    );
    call(&env, &["DEL", "k"]).await;
    // Done, and not protected to its end.
    let gone = |_| async {
        call(&env, &["DEL", "k"]).await;
        7
    };
    let error = long.with(*b"k", PATIENCE, gone).await.unwrap_err();
    let done = Unprotected::Done { output: 7, released: Released::AlreadyExpired };
    assert_eq!(error, NotDone::Unprotected(done));
    // Given up by the caller, the lock is free.
    let (giving_up, mine) = (long.clone(), env.clone());
    let task = tokio::spawn(async move {
        giving_up.with(*b"k", PATIENCE, |_| pending::<()>()).await.unwrap_err()
    });
    eventually(&env, || async { call(&mine, &["EXISTS", "k"]).await == Reply::Int(1) }).await;
    task.abort();
    eventually(&env, || async { call(&mine, &["EXISTS", "k"]).await == Reply::Int(0) }).await;
    // A line is one of these locks, too.
    let queue = Locks::new(server.env(), Options::builder(LONG).build().unwrap()).queue(*b"q");
    let guard = queue.unwrap().acquire(PATIENCE).await.unwrap();
    assert_eq!(guard.protect(|_| async { 7 }).await, Ok(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_type_is_named_and_left_alone() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    call(&env, &["RPUSH", "list", "an element"]).await;
    let plain = || Options::builder(LONG).build().unwrap();
    let notified = Options::builder(LONG).notify().build().unwrap();
    for options in [plain(), notified, options()] {
        let locks = locks(&server, options);
        let short = Duration::from_millis(20);
        for missed in [locks.try_acquire(*b"list").await, locks.acquire(*b"list", short).await] {
            let missed = missed.unwrap_err();
            assert!(missed.to_string().contains("WRONGTYPE"), "{missed}");
            assert_eq!(missed.outcome(), Outcome::No);
        }
    }
    let queue = locks(&server, plain()).queue(*b"list").unwrap();
    for missed in [queue.try_acquire().await, queue.acquire(PATIENCE).await] {
        let missed = missed.unwrap_err();
        assert!(missed.to_string().contains("WRONGTYPE"), "{missed}");
    }
    assert_eq!(call(&env, &["LLEN", "list"]).await, Reply::Int(1));
}

/// A runtime of one thread runs no task once its `main` has ended.
#[test]
fn a_program_that_ends_waits_for_its_dropped_guards() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = RedisServer::start(&[]);
    let taken = |drains: bool| {
        let locks = locks(&server, options());
        runtime().block_on(async {
            drop(locks.try_acquire(*b"k").await.unwrap());
            if drains {
                locks.drain().await;
            }
        });
        locks
    };
    let look = || runtime().block_on(async { call(&server.env(), &["EXISTS", "k"]).await });
    let drained = taken(true);
    assert_eq!(look(), Reply::Int(0));
    assert_eq!(drained.counters().get(Count::Released), 1);
    let left = taken(false);
    assert_eq!(look(), Reply::Int(1), "its release was never run");
    assert_eq!(left.counters().get(Count::ReleaseUnknown), 1, "which is said");
}

/// As in a program whose calls have a runtime each, and in tests that share their locks.
#[test]
fn locks_are_used_in_one_runtime_after_the_other() {
    let threads = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let thread = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = RedisServer::start(&[]);
    let plain = locks(&server, Options::builder(LONG).build().unwrap());
    let queue = plain.queue(*b"q").unwrap();
    for runtime in [thread, threads, thread, threads] {
        runtime().block_on(async {
            let guard = plain.try_acquire(*b"k").await.unwrap();
            assert_eq!(guard.release().await, Released::Released);
        });
        let mut guards = runtime().block_on(async {
            vec![plain.try_acquire(*b"k").await.unwrap(), queue.acquire(PATIENCE).await.unwrap()]
        });
        runtime().block_on(async {
            let waits = queue.clone();
            let waiting = tokio::spawn(async move { waits.acquire(PATIENCE).await.map(drop) });
            for guard in guards.drain(..) {
                guard.extend().await.unwrap();
                assert_eq!(guard.release().await, Released::Released);
            }
            waiting.await.unwrap().unwrap();
            plain.drain().await;
        });
    }
    assert_eq!(plain.counters().get(Count::Unknown), 0);
}

#[test]
fn without_a_runtime_it_is_an_error_and_no_panic() {
    let locks = Locks::open("redis://127.0.0.1:1/", options()).unwrap();
    let polled = |work: std::pin::Pin<&mut dyn Future<Output = NoLock>>| {
        work.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    };
    let none = std::task::Poll::Ready(NoLock::NotAcquired(NotAcquired::NoRuntime));
    let once = async { locks.try_acquire(*b"k").await.unwrap_err() };
    assert_eq!(polled(std::pin::pin!(once)), none);
    let again = async { locks.acquire(*b"k", LONG).await.unwrap_err() };
    assert_eq!(polled(std::pin::pin!(again)), none);
    let queue =
        Locks::open("redis://127.0.0.1:1/", Options::builder(LONG).build().unwrap()).unwrap();
    let queue = queue.queue(*b"k").unwrap();
    let in_line = async { queue.acquire(LONG).await.unwrap_err().into() };
    assert_eq!(polled(std::pin::pin!(in_line)), none);
}
