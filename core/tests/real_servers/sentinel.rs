//! A lock whose server is whoever three sentinels call the primary.

use std::net::TcpListener;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use crate::fake;
use crate::support::{LONG, PATIENCE, ServerExt, answered, call, eventually, synced, token_of};
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env};
use picklock::reply::Reply;
use picklock::{
    Locks, Lost, Node, NotAcquired, Options, Poll, Queue, Released, Renewal, Single, TokioEnv,
    TokioOptions,
};
use redis::IntoConnectionInfo;
use test_server::RedisServer;

const NAME: &str = "the-primary";

/// A primary, a replica, and three sentinels that watch them.
struct Watched {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl Watched {
    async fn start() -> Self {
        let at_once = ["--repl-diskless-sync-delay", "0"];
        let primary = RedisServer::start(&at_once);
        let port = primary.port().to_string();
        let of_it = [&at_once[..], &["--replicaof", "127.0.0.1", &port]].concat();
        let replica = RedisServer::start(&of_it);
        let env = primary.env();
        // A sentinel asks a primary for its replicas when it meets it, and then every ten seconds.
        eventually(&env, || async {
            let Reply::Array(role) = call(&env, &["ROLE"]).await else { panic!("no role") };
            matches!(&role[2], Reply::Array(replicas) if replicas.len() == 1)
        })
        .await;
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            let sentinel = |own: u16, dir: &Path| {
                let conf = dir.join("sentinel.conf");
                let text = format!(
                    "port {own}\nbind 127.0.0.1\n\
                     sentinel monitor {NAME} 127.0.0.1 {port} 2\n\
                     sentinel down-after-milliseconds {NAME} 500\n\
                     sentinel failover-timeout {NAME} 5000\n"
                );
                std::fs::write(&conf, text).unwrap();
                vec![conf.to_str().unwrap().to_owned(), "--sentinel".to_owned()]
            };
            sentinels.push(RedisServer::start_with("redis-server", sentinel));
        }
        let watched = Self { servers: vec![primary, replica], sentinels };
        for sentinel in &watched.sentinels {
            let env = sentinel.env();
            let count = |list: Reply| matches!(list, Reply::Array(list) if !list.is_empty());
            eventually(&env, || async {
                count(call(&env, &["SENTINEL", "REPLICAS", NAME]).await)
                    && matches!(
                        call(&env, &["SENTINEL", "SENTINELS", NAME]).await,
                        Reply::Array(others) if others.len() == 2
                    )
            })
            .await;
        }
        watched
    }

    /// A client that knows the sentinels alone.
    fn env(&self) -> TokioEnv {
        let sentinels = self.sentinels.iter().map(|sentinel| sentinel.url());
        TokioEnv::sentinel(sentinels, NAME, "redis://ignored/").unwrap()
    }

    /// The port of the primary, by the word of this sentinel.
    async fn named_by(&self, sentinel: usize) -> i64 {
        let env = self.sentinels[sentinel].env();
        let named = call(&env, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).await;
        let Reply::Array(addr) = named else { panic!("no address: {named:?}") };
        addr[1].as_int().unwrap()
    }

    /// Has the replica take over, and waits until the sentinel that did it says so.
    async fn fail_over(&self) {
        let env = self.sentinels[0].env();
        let conn = env.connect(Node(0)).await.unwrap();
        // It refuses until it has heard from the replica itself.
        eventually(&env, || async {
            let command = Command::new("SENTINEL").arg("FAILOVER").arg(NAME);
            conn.call(command).await == Ok(Reply::Ok)
        })
        .await;
        let replica = i64::from(self.servers[1].port());
        eventually(&env, || async { self.named_by(0).await == replica }).await;
    }

    /// As the sentinels do with a former primary, but sooner, and without breaking connections.
    async fn demote(&self) {
        let port = self.servers[1].port().to_string();
        let env = self.servers[0].env();
        call(&env, &["REPLICAOF", "127.0.0.1", &port]).await;
        synced(&env).await;
    }
}

fn options() -> Options {
    let renewal = Renewal { every: Duration::from_millis(100), max_hold: None };
    Options::builder(LONG).renewal(renewal).build().unwrap()
}

fn lock(env: TokioEnv) -> Single<TokioEnv> {
    Single::new(env, Node(0), *b"the key", options()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_goes_on_with_the_new_primary_after_a_demotion() {
    let watched = Watched::start().await;
    let (first, second) = (watched.servers[0].env(), watched.servers[1].env());
    let env = watched.env();
    let lock = lock(env.clone());
    let guard = lock.try_acquire().await.unwrap();
    assert_eq!(call(&first, &["GET", "the key"]).await, token_of(&guard));
    eventually(&first, || async { call(&second, &["GET", "the key"]).await != Reply::Nil }).await;
    watched.fail_over().await;
    // Its connection to the old primary stands, and is answered with READONLY from now on.
    watched.demote().await;
    eventually(&first, || async { extended(&second).await }).await;
    assert!(answered(&first, "READONLY").await > 0);
    assert!(!guard.is_lost());
    assert_eq!(guard.release().await, Released::Released);
    assert_eq!(call(&second, &["GET", "the key"]).await, Reply::Nil);
    // Who comes now is led to the new primary at once, though not every sentinel may know of it.
    let guard = lock.try_acquire().await.unwrap();
    assert_eq!(call(&second, &["GET", "the key"]).await, token_of(&guard));
}

/// Whether this server has extended the key.
async fn extended(env: &TokioEnv) -> bool {
    // Who promotes a server breaks the connections to it.
    let Ok(conn) = env.connect(Node(0)).await else { return false };
    let stats = conn.call(Command::new("INFO").arg("commandstats")).await;
    // A replica is not told to extend but when to expire: only a primary runs the script.
    stats.is_ok_and(|stats| {
        String::from_utf8_lossy(stats.as_bytes().unwrap()).contains("cmdstat_eval")
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_death_of_the_primary_the_next_is_found() {
    let mut watched = Watched::start().await;
    let locks = Locks::new(watched.env(), options());
    let guard = locks.try_acquire(*b"the key").await.unwrap();
    let second = watched.servers[1].env();
    eventually(&second, || async { call(&second, &["GET", "the key"]).await != Reply::Nil }).await;
    watched.servers[0].kill();
    let dead = watched.servers.remove(0);
    // Nobody has to be told: its renewals ask the sentinels until one names the other server.
    eventually(&second, || async { extended(&second).await }).await;
    assert!(!guard.is_lost());
    assert_eq!(guard.release().await, Released::Released);
    assert_eq!(locks.with(*b"the key", PATIENCE, |_| async { 7 }).await, Ok(7));
    drop(dead);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_goes_on_with_the_new_primary_and_a_grant_heard_from_a_replica_is_no_grant() {
    let watched = Watched::start().await;
    let (first, second) = (watched.servers[0].env(), watched.servers[1].env());
    let queue = |env| Queue::new(env, Node(0), *b"the key", options()).unwrap();
    let waiting = |env| async move { call(env, &["ZCARD", "{the key}:line"]).await.as_int() };
    let holder = queue(watched.env()).acquire(PATIENCE).await.unwrap();
    let waiters: Vec<_> = (0..2)
        .map(|_| {
            let env = watched.env();
            let (other, second) = (queue(env), second.clone());
            tokio::spawn(async move {
                let guard = other.acquire(PATIENCE).await.unwrap();
                assert_eq!(call(&second, &["GET", "the key"]).await, token_of(&guard));
                assert_eq!(guard.release().await, Released::Released);
            })
        })
        .collect();
    eventually(&first, || async { waiting(&first).await == Some(2) }).await;
    eventually(&second, || async { waiting(&second).await == Some(2) }).await;
    watched.fail_over().await;
    watched.demote().await;
    assert_eq!(holder.release().await, Released::Released);
    for waiter in waiters {
        waiter.await.unwrap();
    }
    eventually(&second, || async { call(&second, &["KEYS", "*"]).await == Reply::Array(vec![]) })
        .await;
}

/// A sentinel that always names this port of loopback, or nobody where it is zero; its own port.
fn sentinel_that_says(port: u16) -> u16 {
    sentinel_that_names(Arc::new(AtomicU16::new(port)))
}

/// The same for a port that changes.
fn sentinel_that_names(port: Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let own = listener.local_addr().unwrap().port();
    fake::answering(listener, move |_, words| {
        let digits = port.load(Ordering::SeqCst).to_string();
        let named = match &*digits {
            "0" => "*-1\r\n".to_owned(),
            _ => format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{digits}\r\n", digits.len()),
        };
        named.repeat(words.matches("get-master-addr-by-name").count())
    });
    own
}

/// Sentinels demote a former primary some ten seconds after they have named the next. Until then it answers as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_uses_a_former_primary_hears_of_the_next_before_it_is_demoted() {
    let (former, next) = (RedisServer::start(&[]), RedisServer::start(&[]));
    let named = Arc::new(AtomicU16::new(former.port()));
    let sentinel = format!("redis://127.0.0.1:{}/", sentinel_that_names(Arc::clone(&named)));
    let lock = lock(TokioEnv::sentinel([sentinel], NAME, "redis://ignored/").unwrap());
    let guard = lock.try_acquire().await.unwrap();
    assert_eq!(call(&former.env(), &["GET", "the key"]).await, token_of(&guard));
    // The failover has lost the key: a renewal by the former primary is none.
    named.store(next.port(), Ordering::SeqCst);
    assert_eq!(tokio::time::timeout(PATIENCE, guard.lost()).await, Ok(Lost::KeyGone));
    let guard = lock.try_acquire().await.unwrap();
    assert_eq!(call(&next.env(), &["GET", "the key"]).await, token_of(&guard));
    // One that names a server which is not there changes nothing.
    named.store(1, Ordering::SeqCst);
    let first = guard.valid_until();
    eventually(&next.env(), || async { guard.valid_until() > first.after(PATIENCE / 10) }).await;
    assert_eq!(guard.release().await, Released::Released);
}

/// It may have been cut off from them, and replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_primary_misses_its_replicas_the_sentinels_are_asked_again() {
    let (former, next) = (RedisServer::start(&[]), RedisServer::start(&[]));
    let named = Arc::new(AtomicU16::new(former.port()));
    let sentinel = format!("redis://127.0.0.1:{}/", sentinel_that_names(Arc::clone(&named)));
    let lock = lock(TokioEnv::sentinel([sentinel], NAME, "redis://ignored/").unwrap());
    let replicas = |least: &'static str| {
        let env = former.env();
        async move { call(&env, &["CONFIG", "SET", "min-replicas-to-write", least]).await }
    };
    let refused = |tried: Result<_, NotAcquired>| match tried.map(drop).unwrap_err() {
        NotAcquired::Refused(error) => assert_eq!(&*error.code, "NOREPLICAS"),
        other => panic!("{other}"),
    };
    let guard = lock.try_acquire().await.unwrap();
    replicas("1").await;
    for _ in 0..3 {
        refused(lock.try_acquire().await);
    }
    // It is used on where no sentinel names another.
    named.store(0, Ordering::SeqCst);
    for _ in 0..3 {
        refused(lock.try_acquire().await);
    }
    replicas("0").await;
    assert_eq!(guard.release().await, Released::Released);
    let guard = lock.try_acquire().await.unwrap();
    replicas("1").await;
    // The new primary has the key by replication.
    let token = String::from_utf8_lossy(guard.token().as_bytes()).into_owned();
    call(&next.env(), &["SET", "the key", &token, "PX", "60000"]).await;
    named.store(next.port(), Ordering::SeqCst);
    eventually(&next.env(), || async { guard.extend().await.is_ok() }).await;
    assert_eq!(guard.release().await, Released::Released);
    let guard = lock.try_acquire().await.unwrap();
    assert_eq!(call(&next.env(), &["GET", "the key"]).await, token_of(&guard));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_sentinels_say_is_told_apart() {
    let primary = RedisServer::start(&[]);
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &primary.port().to_string()]);
    let lie = sentinel_that_says(replica.port());
    let truth = sentinel_that_says(primary.port());
    let named = |ports: &[u16]| {
        let urls = ports.iter().map(|port| format!("redis://127.0.0.1:{port}/"));
        TokioEnv::sentinel(urls, NAME, "redis://ignored/").unwrap()
    };
    // One that is not there, one that is behind, and one that knows.
    let guard = lock(named(&[1, lie, truth])).try_acquire().await.unwrap();
    assert_eq!(call(&primary.env(), &["GET", "the key"]).await, token_of(&guard));
    let error = lock(named(&[1, lie])).try_acquire().await.unwrap_err();
    assert!(
        matches!(&error, NotAcquired::NotSent(why) if why.contains("says that it is none")),
        "{error}"
    );
    // A name that none of them knows is nothing to wait for; but one of them might not answer yet.
    let stranger = sentinel_that_says(0);
    let error = lock(named(&[stranger])).acquire(10 * LONG, Poll::default()).await.unwrap_err();
    assert!(
        matches!(&error, NotAcquired::Refused(refusal) if refusal.message.contains(NAME)),
        "{error}"
    );
    let error = lock(named(&[1, stranger])).try_acquire().await.unwrap_err();
    assert!(matches!(error, NotAcquired::NotSent(_)), "{error}");
    // One that is silent is not asked first again.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    silent.set_nonblocking(true).unwrap();
    let asked = || std::iter::from_fn(|| silent.accept().ok()).count();
    let options = Options::builder(LONG).call_timeout(Duration::from_millis(200)).build().unwrap();
    let env = named(&[silent.local_addr().unwrap().port(), truth]);
    let lock = Single::new(env, Node(0), *b"another key", options).unwrap();
    assert!(matches!(lock.try_acquire().await.unwrap_err(), NotAcquired::NotSent(_)));
    assert!(asked() > 0);
    // A busy machine may need another try, and then the silent one's turn comes again.
    let acquired = || async {
        asked();
        lock.try_acquire().await.is_ok()
    };
    eventually(&primary.env(), acquired).await;
    assert_eq!(asked(), 0);
    let (ignored, defaults) = ("redis://ignored/".into_connection_info(), TokioOptions::default());
    let nobody = TokioEnv::from_sentinels(vec![], NAME, ignored.unwrap(), defaults);
    let nobody = nobody.connect(Node(0)).await.err().unwrap();
    assert!(matches!(nobody, CallError::NotSent(_)), "{nobody}");
}

/// A handshake may take longer than the call timeout of a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_slow_to_greet_is_greeted_once() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let sentinel = sentinel_that_says(listener.local_addr().unwrap().port());
    let (greeting, connections) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
    let (greets, counted) = (Arc::clone(&greeting), Arc::clone(&connections));
    fake::answering(listener, move |number, words| {
        counted.fetch_max(number + 1, Ordering::Relaxed);
        if words.contains("SETINFO") {
            greets.wait();
        }
        let role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".repeat(words.matches("ROLE").count());
        role + &"+OK\r\n".repeat(words.matches("$3\r\nSET\r\n").count())
    });
    let sentinels = vec![redis::Client::open(format!("redis://127.0.0.1:{sentinel}/")).unwrap()];
    let like = "redis://ignored/".into_connection_info().unwrap();
    let mut patient = TokioOptions::default();
    patient.connect_timeout = LONG;
    let env = TokioEnv::from_sentinels(sentinels, NAME, like, patient);
    let short = Options::builder(LONG).call_timeout(Duration::from_millis(100)).build().unwrap();
    let lock = Single::new(env.clone(), Node(0), *b"the key", short).unwrap();
    for _ in 0..3 {
        let error = lock.try_acquire().await.unwrap_err();
        assert!(matches!(error, NotAcquired::NotSent(_)), "{error}");
    }
    greeting.wait();
    eventually(&env, || async { lock.try_acquire().await.is_ok() }).await;
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

/// It is not polled while a sentinel answers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_polled_keeps_nobody_from_the_primary() {
    let primary = RedisServer::start(&[]);
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let sentinel = format!("redis://{}/", listener.local_addr().unwrap());
    let port = primary.port().to_string();
    let named = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
    let (asked, is_asked) = tokio::sync::oneshot::channel();
    let (answers, answer) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(Some((asked, answer))));
    fake::answering(listener, move |_, words| {
        let questions = words.matches("get-master-addr-by-name").count();
        let first = if questions > 0 { gate.lock().unwrap().take() } else { None };
        if let Some((asked, answer)) = first {
            asked.send(()).unwrap();
            answer.recv().unwrap();
        }
        named.repeat(questions)
    });
    let env = TokioEnv::sentinel([sentinel], NAME, "redis://any/").unwrap();
    let lock = |key: &[u8]| {
        Single::new(env.clone(), Node(0), key, Options::builder(LONG).build().unwrap()).unwrap()
    };
    let (one, other) = (lock(b"one"), lock(b"other"));
    let mut first = pin!(one.try_acquire());
    tokio::select! {
        biased;
        asked = is_asked => asked.unwrap(),
        _ = &mut first => panic!("not answered yet"),
    }
    answers.send(()).unwrap();
    assert!(other.try_acquire().await.is_ok());
    assert!(first.await.is_ok());
}
