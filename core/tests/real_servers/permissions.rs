//! What a user of the server must be permitted for each kind of lock: `docs/lock-library.md` has these lists.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{LONG, PATIENCE, ServerExt, call, eventually, text};
use picklock::{
    Count, Guard, Locks, NotAcquired, Options, OptionsBuilder, Poll, Released, TokioEnv,
};
use test_server::RedisServer;

const PLAIN: &[&str] = &["~k"];
const NOTIFY: &[&str] = &["~k", "&picklock:k"];
const FENCED: &[&str] = &["~k", "~{k}:fence"];
const QUEUE: &[&str] = &["~k", "~{k}:line", "~{k}:book", "&picklock:*"];

const BASE: [&str; 6] = ["set", "get", "del", "pexpire", "eval", "evalsha"];
const OF_NOTIFY: [&str; 4] = ["pttl", "publish", "subscribe", "unsubscribe"];
const OF_FENCED: [&str; 2] = ["pttl", "incr"];
const OF_QUEUE: [&str; 15] = [
    "pttl",
    "time",
    "zadd",
    "zcard",
    "zrange",
    "zrank",
    "zrem",
    "zrevrange",
    "hdel",
    "hget",
    "hset",
    "publish",
    "pubsub|numsub",
    "subscribe",
    "unsubscribe",
];

/// What the server does for anybody, and what the test asks.
const OTHERS: [&str; 6] =
    ["acl|setuser", "auth", "client|setinfo", "config|resetstat", "hello", "info"];

struct Permitted {
    server: RedisServer,
    observer: TokioEnv,
    commands: BTreeSet<String>,
    locks: Locks,
}

impl Permitted {
    /// A server, and locks of a user who may use these keys, channels and commands.
    async fn start(patterns: &[&str], commands: &[&str], options: OptionsBuilder) -> Self {
        let server = RedisServer::start(&[]);
        let observer = server.env();
        let commands: BTreeSet<String> =
            BASE.iter().chain(commands).map(ToString::to_string).collect();
        let permitted: Vec<String> = commands.iter().map(|name| format!("+{name}")).collect();
        let rules = ["ACL", "SETUSER", "user", "on", ">word", "resetchannels"].into_iter();
        let rules = rules.chain(patterns.iter().copied()).chain(permitted.iter().map(|it| &**it));
        call(&observer, &rules.collect::<Vec<_>>()).await;
        let url = format!("redis://user:word@127.0.0.1:{}/", server.port());
        let locks = Locks::open(url, options.build().unwrap()).unwrap();
        call(&observer, &["CONFIG", "RESETSTAT"]).await;
        Self { server, observer, commands, locks }
    }

    /// A lock is held, extended and released while another waits for it: exactly these commands are used.
    async fn suffices(
        self,
        guard: Guard<TokioEnv>,
        waiting: impl Future<Output = Result<Guard<TokioEnv>, NotAcquired>> + Send + 'static,
    ) {
        let Self { server, observer, commands, locks } = self;
        let waiter = tokio::spawn(waiting);
        eventually(&observer, || async { locks.counters().get(Count::Waited) > 0 }).await;
        guard.extend().await.unwrap();
        assert_eq!(guard.release().await, Released::Released);
        assert_eq!(waiter.await.unwrap().unwrap().release().await, Released::Released);
        // A subscription ends in the background.
        eventually(&observer, || async { used(&observer).await == commands }).await;
        drop(server);
    }
}

/// The commands that have been carried out.
async fn used(observer: &TokioEnv) -> BTreeSet<String> {
    let stats = text(observer, &["INFO", "commandstats"]).await;
    let names =
        stats.lines().filter_map(|line| Some(line.strip_prefix("cmdstat_")?.split_once(':')?.0));
    names.filter(|name| !OTHERS.contains(name)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_on_one_key() {
    let plain = Options::builder(LONG);
    for (patterns, commands, options) in [
        (PLAIN, &[][..], plain.clone()),
        (NOTIFY, &OF_NOTIFY, plain.clone().notify()),
        (FENCED, &OF_FENCED, plain.fenced()),
    ] {
        let permitted = Permitted::start(patterns, commands, options).await;
        let lock = permitted.locks.single(*b"k").unwrap();
        let guard = lock.try_acquire().await.unwrap();
        let waiting = async move { lock.acquire(PATIENCE, Poll::default()).await };
        permitted.suffices(guard, waiting).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_handed_over() {
    let permitted = Permitted::start(QUEUE, &OF_QUEUE, Options::builder(LONG)).await;
    let lock = permitted.locks.queue(*b"k").unwrap();
    let guard = lock.try_acquire().await.unwrap();
    permitted.suffices(guard, async move { lock.acquire(PATIENCE).await }).await;
}

/// A server says what it was asked to do, where it does not know the command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_error_has_the_token() {
    let server = RedisServer::start(&["--rename-command", "EVALSHA", ""]);
    let options = Options::builder(LONG).call_timeout(Duration::from_millis(100)).build().unwrap();
    let guard = Locks::open(server.url(), options).unwrap().try_acquire(*b"k").await.unwrap();
    let token = String::from_utf8_lossy(guard.token().as_bytes()).into_owned();
    let error = guard.extend().await.unwrap_err().to_string();
    assert!(error.contains("unknown command 'EVALSHA'") && !error.contains(&token), "{error}");
    let Released::Unknown(error) = guard.release().await else { panic!("it cannot be released") };
    assert!(!error.to_string().contains(&token), "{error}");
}
