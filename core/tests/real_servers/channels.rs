//! Listening to the channels of a real redis-server.

use std::future::ready;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::support::{ServerExt, call, eventually, listeners, subscribers};
use picklock::env::{CallError, Env, Subscription};
use picklock::{Node, TokioEnv};
use test_server::RedisServer;

async fn publish(env: &TokioEnv, channel: &str, message: &str) -> i64 {
    call(env, &["PUBLISH", channel, message]).await.as_int().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_published_after_the_confirmation_is_heard_in_order() {
    let server = RedisServer::start(&[]);
    let (env, other) = (server.env(), server.env());
    let mut ear = env.subscribe(Node(0), b"c").await.unwrap();
    for message in ["one", "two", "three"] {
        assert_eq!(publish(&other, "c", message).await, 1);
    }
    publish(&other, "d", "not for us").await;
    publish(&other, "c", "four").await;
    for message in ["one", "two", "three", "four"] {
        assert_eq!(&*ear.next().await.unwrap(), message.as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_seats_share_one_connection_and_the_last_of_a_channel_ends_it() {
    let server = RedisServer::start(&[]);
    let (env, other) = (server.env(), server.env());
    let one = env.subscribe(Node(0), b"c").await.unwrap();
    let mut two = env.clone().subscribe(Node(0), b"c").await.unwrap();
    let mut elsewhere = env.subscribe(Node(0), b"d").await.unwrap();
    assert_eq!(subscribers(&other).await, 1);
    drop(one);
    // Whatever the drop has sent is done by the time this is confirmed.
    drop(env.subscribe(Node(0), b"e").await.unwrap());
    assert_eq!(listeners(&other, "c").await, 1);
    assert_eq!(publish(&other, "c", "for the other").await, 1);
    assert_eq!(&*two.next().await.unwrap(), b"for the other");
    drop(two);
    eventually(&other, || async { listeners(&other, "c").await == 0 }).await;
    assert_eq!(publish(&other, "d", "still there").await, 1);
    assert_eq!(&*elsewhere.next().await.unwrap(), b"still there");
    // To leave and to come back at once is to be there.
    drop(elsewhere);
    let mut again = env.subscribe(Node(0), b"d").await.unwrap();
    assert_eq!(publish(&other, "d", "back").await, 1);
    assert_eq!(&*again.next().await.unwrap(), b"back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_is_told_that_the_connection_broke_and_can_listen_anew() {
    let server = RedisServer::start(&[]);
    let (env, other) = (server.env(), server.env());
    let mut ear = env.subscribe(Node(0), b"c").await.unwrap();
    publish(&other, "c", "before").await;
    call(&other, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert_eq!(&*ear.next().await.unwrap(), b"before");
    assert!(matches!(ear.next().await, Err(CallError::Indeterminate(_))));
    let mut ear = env.subscribe(Node(0), b"c").await.unwrap();
    assert_eq!(publish(&other, "c", "after").await, 1);
    assert_eq!(&*ear.next().await.unwrap(), b"after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_told_apart_from_a_failed_connect() {
    let server = RedisServer::start(&[]);
    let other = server.env();
    call(&other, &["ACL", "SETUSER", "deaf", "on", ">pw", "+@all", "~*", "resetchannels"]).await;
    let deaf = TokioEnv::open(format!("redis://deaf:pw@127.0.0.1:{}/", server.port())).unwrap();
    let refused = deaf.subscribe(Node(0), b"c").await.err().unwrap();
    assert!(refused.has_code("NOPERM"), "{refused}");
    let nobody = TokioEnv::open("redis://127.0.0.1:1/").unwrap();
    let error = nobody.subscribe(Node(0), b"c").await.err().unwrap();
    assert!(matches!(error, CallError::NotSent(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_before_the_confirmation_ends_nobody_elses_subscription() {
    let server = RedisServer::start(&[]);
    let (env, other) = (server.env(), server.env());
    let mut listening = env.subscribe(Node(0), b"c").await.unwrap();
    // The confirmation may be there at once, if this thread had to wait for a processor.
    let is_given_up = || {
        let mut subscribing = pin!(env.subscribe(Node(0), b"d"));
        subscribing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    };
    eventually(&other, || ready(is_given_up())).await;
    // A connection counts as silent after a second without the answer that it waits for.
    let later = other.now().after(Duration::from_millis(1_100));
    eventually(&other, || async { other.now() > later }).await;
    let _another = env.subscribe(Node(0), b"e").await.unwrap();
    assert_eq!(publish(&other, "c", "for the first").await, 1);
    assert_eq!(listening.next().await.as_deref(), Ok(&b"for the first"[..]));
}

/// As a future is that is kept in a stream, or joined with another that takes long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_listen_keeps_no_message_without_end() {
    const MESSAGES: usize = 10_000;
    let server = RedisServer::start(&[]);
    let (env, other) = (server.env(), server.env());
    let mut unpolled = env.subscribe(Node(0), b"c").await.unwrap();
    let mut last = env.subscribe(Node(0), b"d").await.unwrap();
    let publish_all = format!("for _ = 1, {MESSAGES} do redis.call('PUBLISH', 'c', 'm') end");
    call(&other, &["EVAL", &publish_all, "0"]).await;
    publish(&other, "d", "behind all these").await;
    assert_eq!(&*last.next().await.unwrap(), b"behind all these");
    let mut again = env.subscribe(Node(0), b"c").await.unwrap();
    let mut kept = 0;
    while unpolled.next().await.is_ok() {
        kept += 1;
        assert!(kept < MESSAGES, "all of them were kept");
    }
    assert!(kept > 0);
    // Its end takes nothing from who listens.
    drop(unpolled);
    assert_eq!(publish(&other, "c", "still there").await, 1);
    assert_eq!(&*again.next().await.unwrap(), b"still there");
}
