//! Subscriptions whose connection has gone without a word, as behind a firewall that has forgotten it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::fake;
use crate::support::{PATIENCE, ServerExt, call, eventually, listeners, subscribers};
use picklock::env::Env;
use picklock::options::OptionsBuilder;
use picklock::{Locks, NotAcquired, Options, Released};
use test_server::RedisServer;

/// Leads to this server. That the server has closed a connection is not told to the client.
fn forgetful(server: &RedisServer) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (own, port) = (listener.local_addr().unwrap(), server.port());
    let copy = |mut from: TcpStream, mut to: TcpStream| {
        std::thread::spawn(move || {
            let mut bytes = [0; 8192];
            while let Ok(len @ 1..) = from.read(&mut bytes) {
                if to.write_all(&bytes[..len]).is_err() {
                    break;
                }
            }
            std::mem::forget(to);
        });
    };
    std::thread::spawn(move || {
        for client in listener.incoming().map(Result::unwrap) {
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            copy(client.try_clone().unwrap(), server.try_clone().unwrap());
            copy(server, client);
        }
    });
    format!("redis://{own}/")
}

/// The TTL is short: it says how long a client sleeps that hears nothing.
fn options() -> OptionsBuilder {
    Options::builder(Duration::from_secs(1)).watchdog()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_loses_its_place_in_a_line_unheard_listens_anew() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let lock = |url: String| Locks::open(url, options().build().unwrap()).unwrap().queue(*b"k");
    let (far, near) = (lock(forgetful(&server)).unwrap(), lock(server.url()).unwrap());
    let holder = near.acquire(PATIENCE).await.unwrap();
    // The last handle ends the subscription: `far` is kept.
    let waits = far.clone();
    let waiter = tokio::spawn(async move { waits.acquire(PATIENCE).await });
    let stands = || async { call(&env, &["ZCARD", "{k}:line"]).await.as_int() == Some(1) };
    eventually(&env, stands).await;
    let _killed = call(&env, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert_eq!(subscribers(&env).await, 0);
    assert_eq!(holder.release().await, Released::Released);
    let guard = waiter.await.unwrap().unwrap();
    eventually(&env, || async { subscribers(&env).await == 1 }).await;
    assert_eq!(guard.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sleeps_in_vain_listens_anew() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let locks = |url| Locks::open(url, options().notify().build().unwrap()).unwrap();
    let (far, near) = (locks(forgetful(&server)), locks(server.url()));
    let holder = near.acquire(*b"k", PATIENCE).await.unwrap();
    let waiter = tokio::spawn(async move { far.acquire(*b"k", PATIENCE).await });
    let listens = || async { listeners(&env, "picklock:k").await == 1 };
    eventually(&env, listens).await;
    let _killed = call(&env, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert_eq!(subscribers(&env).await, 0);
    eventually(&env, listens).await;
    assert_eq!(holder.release().await, Released::Released);
    assert_eq!(waiter.await.unwrap().unwrap().release().await, Released::Released);
}

/// Its answer has come, and nobody heard of it.
#[tokio::test]
async fn a_call_that_was_dropped_does_not_make_its_connection_a_silent_one() {
    let server = RedisServer::start(&[]);
    let env = server.env();
    let id = || call(&env, &["CLIENT", "ID"]);
    let locks = Locks::new(env.clone(), Options::builder(PATIENCE).build().unwrap());
    let guard = locks.try_acquire(*b"k").await.unwrap();
    let first = id().await;
    {
        let mut extending = pin!(guard.extend());
        let polled = extending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    }
    // A connection counts as silent after a second without the answer that it waits for.
    let later = env.now().after(Duration::from_millis(1_100));
    let other = server.env();
    eventually(&other, || async { other.now() > later }).await;
    assert_eq!(id().await, first);
    assert_eq!(guard.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_confirms_and_closes_at_once_is_not_asked_without_a_pause() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let own = listener.local_addr().unwrap();
    let subscribed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&subscribed);
    fake::closing_after(listener, move |_, words| {
        let mut answers = "*1\r\n:0\r\n".repeat(words.matches("*8\r\n$7\r\nEVALSHA").count());
        let waits = "*3\r\n:0\r\n$16\r\n1700000000000000\r\n:10000\r\n";
        answers += &waits.repeat(words.matches("*11\r\n$7\r\nEVALSHA").count());
        answers += &":0\r\n".repeat(words.matches("*9\r\n$7\r\nEVALSHA").count());
        answers += &"$1\r\nx\r\n".repeat(words.matches("$3\r\nGET\r\n").count());
        let Some(at) = words.find("\r\nSUBSCRIBE\r\n") else { return (answers, false) };
        counted.fetch_add(1, Ordering::Relaxed);
        let channel = words[at..].split("\r\n").nth(3).unwrap();
        let len = channel.len();
        (answers + &format!("*3\r\n$9\r\nsubscribe\r\n${len}\r\n{channel}\r\n:1\r\n"), true)
    });
    let locks = Locks::open(format!("redis://{own}/"), options().build().unwrap()).unwrap();
    let error = locks.queue(*b"k").unwrap().acquire(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, NotAcquired::Deadline { .. }), "{error}");
    // A call timeout is a third of a second, and the pause a quarter of that.
    let subscribed = subscribed.load(Ordering::Relaxed);
    assert!((2..20).contains(&subscribed), "{subscribed}");
}
