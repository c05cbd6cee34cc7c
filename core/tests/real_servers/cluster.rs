//! A lock on a cluster of three nodes: its slot moves while it is held, waited for, or asked for.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::fake;
use crate::support::{
    LONG, PATIENCE, ServerExt, answered, call, eventually, listeners, ran, synced, text, token_of,
};
use picklock::command::Command;
use picklock::env::{Conn, Env};
use picklock::reply::Reply;
use picklock::{
    Cluster, Count, Fence, Guard, Holding, Locks, Node, NotAcquired, Options, Queue, Released,
    Renewal, Single, TokioEnv, wait,
};
use test_server::RedisServer;

const ONCE_MORE: wait::Poll =
    wait::Poll { base: Duration::from_millis(1), jitter: Duration::ZERO, max_retries: Some(1) };
/// The key of every lock here, and its slot, which the first node has to begin with.
const KEY: &str = "{b}";
const SLOT: &str = "3300";

/// Three nodes, with a third of the slots each, and a replica of the first.
struct Nodes {
    servers: Vec<RedisServer>,
    ids: Vec<String>,
}

impl Nodes {
    async fn start(with_replica: bool) -> Self {
        let mut nodes = Self { servers: Vec::new(), ids: Vec::new() };
        for _ in 0..3 + usize::from(with_replica) {
            let options = "--cluster-node-timeout 2000 --cluster-require-full-coverage no \
                           --repl-diskless-sync-delay 0";
            let (server, bus) = RedisServer::start_node(&options.split(' ').collect::<Vec<_>>());
            nodes.ids.push(text(&server.env(), &["CLUSTER", "MYID"]).await);
            if let Some(first) = nodes.servers.first() {
                let [port, bus] = [server.port(), bus].map(|port| port.to_string());
                call(&first.env(), &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
            }
            nodes.servers.push(server);
        }
        for (place, range) in
            [("0", "5460"), ("5461", "10922"), ("10923", "16383")].into_iter().enumerate()
        {
            let env = nodes.servers[place].env();
            call(&env, &["CLUSTER", "ADDSLOTSRANGE", range.0, range.1]).await;
        }
        for server in &nodes.servers {
            let env = server.env();
            eventually(&env, || async {
                let info = text(&env, &["CLUSTER", "INFO"]).await;
                let known = format!("cluster_known_nodes:{}", nodes.servers.len());
                // Without full coverage a node is well before it has heard who owns the other slots.
                let all = "cluster_slots_assigned:16384";
                info.contains("cluster_state:ok") && info.contains(&known) && info.contains(all)
            })
            .await;
        }
        if with_replica {
            let env = nodes.servers[3].env();
            call(&env, &["CLUSTER", "REPLICATE", &nodes.ids[0]]).await;
            synced(&env).await;
        }
        nodes
    }

    fn node(&self, place: usize) -> TokioEnv {
        self.servers[place].env()
    }

    /// A client that knows the second node alone, which has not the slot.
    fn client(&self) -> Cluster {
        Cluster::open([self.servers[1].url()]).unwrap()
    }

    /// The environment of a lock for such a client.
    fn env(&self) -> TokioEnv {
        TokioEnv::for_key(&self.client(), KEY)
    }

    /// The slot begins to move from one node to another; its keys stay.
    async fn begin_to_move(&self, from: usize, to: usize) {
        let set = ["CLUSTER", "SETSLOT", SLOT];
        let importing = [&set[..], &["IMPORTING", &self.ids[from]]].concat();
        assert_eq!(call(&self.node(to), &importing).await, Reply::Ok);
        let migrating = [&set[..], &["MIGRATING", &self.ids[to]]].concat();
        assert_eq!(call(&self.node(from), &migrating).await, Reply::Ok);
    }

    /// The keys of the slot move.
    async fn move_keys(&self, from: usize, to: usize) {
        let keys = call(&self.node(from), &["CLUSTER", "GETKEYSINSLOT", SLOT, "100"]).await;
        let Reply::Array(keys) = keys else { panic!("no list") };
        let port = self.servers[to].port().to_string();
        for key in keys {
            let key = String::from_utf8_lossy(key.as_bytes().unwrap()).into_owned();
            let moved = ["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"];
            assert_eq!(call(&self.node(from), &moved).await, Reply::Ok);
        }
    }

    /// The slot has moved: its new owner is told first, as Redis asks for.
    async fn end_to_move(&self, from: usize, to: usize) {
        for place in [to, from] {
            let set = ["CLUSTER", "SETSLOT", SLOT, "NODE", &self.ids[to]];
            assert_eq!(call(&self.node(place), &set).await, Reply::Ok);
        }
    }

    async fn move_slot(&self, from: usize, to: usize) {
        self.begin_to_move(from, to).await;
        self.move_keys(from, to).await;
        self.end_to_move(from, to).await;
    }

    /// What this node has in the slot.
    async fn keys(&self, place: usize) -> Reply {
        call(&self.node(place), &["CLUSTER", "COUNTKEYSINSLOT", SLOT]).await
    }
}

fn single(env: TokioEnv, options: Options) -> Single<TokioEnv> {
    Single::new(env, Node(0), KEY.as_bytes(), options).unwrap()
}

fn options() -> Options {
    Options::builder(LONG).build().unwrap()
}

/// Whether this node has the slot, and the key is this guard's.
async fn taken(guard: &Guard<TokioEnv>, node: &TokioEnv) -> bool {
    let conn = node.connect(Node(0)).await.unwrap();
    let get = Command::new("GET").arg(KEY);
    conn.call(get).await == Ok(token_of(guard))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_follows_its_slot() {
    let nodes = Nodes::start(false).await;
    let (lock, other) = (single(nodes.env(), options()), single(nodes.env(), options()));
    let guard = lock.try_acquire().await.unwrap();
    assert!(taken(&guard, &nodes.node(0)).await);
    nodes.begin_to_move(0, 1).await;
    guard.extend().await.unwrap();
    assert_eq!(answered(&nodes.node(0), "ASK").await, 0, "the key is still here");
    nodes.move_keys(0, 1).await;
    // Asked for, and not yet moved.
    guard.extend().await.unwrap();
    guard.extend().await.unwrap();
    assert_eq!(other.try_acquire().await.unwrap_err(), NotAcquired::Held);
    let asks = answered(&nodes.node(0), "ASK").await;
    assert!(asks >= 3, "nothing is learnt from ASK: {asks}");
    assert_eq!(answered(&nodes.node(0), "MOVED").await, 0);
    nodes.end_to_move(0, 1).await;
    guard.extend().await.unwrap();
    assert_eq!(answered(&nodes.node(0), "MOVED").await, 1);
    guard.extend().await.unwrap();
    assert_eq!(answered(&nodes.node(0), "MOVED").await, 1, "who has moved is known");
    assert!(taken(&guard, &nodes.node(1)).await);
    assert_eq!(guard.release().await, Released::Released);
    let guard = other.try_acquire().await.unwrap();
    assert!(taken(&guard, &nodes.node(1)).await);
    assert_eq!(guard.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_by_name_are_all_over_the_cluster_and_work_outlasts_a_move() {
    let nodes = Nodes::start(false).await;
    let renewal = Renewal { every: Duration::from_millis(50), max_hold: None };
    let fenced = Options::builder(LONG).fenced().renewal(renewal).build().unwrap();
    let locks = Locks::new(nodes.client(), fenced);
    let mut guards = Vec::new();
    for key in ["a", "b", "c", "d", "e"] {
        guards.push(locks.try_acquire(key.as_bytes()).await.unwrap());
    }
    for place in 0..3 {
        let size = call(&nodes.node(place), &["DBSIZE"]).await;
        assert!(size.as_int().unwrap() > 0, "node {place} has one of them");
    }
    for guard in guards {
        assert_eq!(guard.release().await, Released::Released);
    }
    let work = |holding: Holding<_>| {
        let nodes = &nodes;
        async move {
            let first = holding.valid_until();
            nodes.move_slot(0, 2).await;
            // The watchdog is led on to the new owner.
            eventually(&nodes.node(2), || async {
                answered(&nodes.node(0), "MOVED").await > 0 && holding.valid_until() > first
            })
            .await;
            holding.fence()
        }
    };
    let fence = locks.with(KEY.as_bytes(), PATIENCE, work).await.unwrap();
    assert_eq!(fence, Some(Fence::new(1)));
    assert_eq!(nodes.keys(2).await, Reply::Int(2), "the two counters stay");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_for_in_mid_move_leaves_no_orphan() {
    let nodes = Nodes::start(false).await;
    nodes.begin_to_move(0, 1).await;
    let guard = single(nodes.env(), options()).try_acquire().await.unwrap();
    assert_eq!(nodes.keys(1).await, Reply::Int(1), "it has been granted where the slot goes");
    assert_eq!(guard.release().await, Released::Released);
    assert_eq!(nodes.keys(1).await, Reply::Int(0));
    // Replicas are counted where the write was.
    let replicated = Options::builder(LONG).wait_for(1, Duration::from_millis(1)).build().unwrap();
    let before = (ran(&nodes.node(0), "wait").await, ran(&nodes.node(1), "wait").await);
    let error = single(nodes.env(), replicated).try_acquire().await.unwrap_err();
    assert_eq!(error, NotAcquired::NotReplicated { acknowledged: 0, wanted: 1 });
    assert_eq!(
        (ran(&nodes.node(0), "wait").await, ran(&nodes.node(1), "wait").await),
        (before.0, before.1 + 1)
    );
    eventually(&nodes.node(1), || async { nodes.keys(1).await == Reply::Int(0) }).await;
    // Dropped while the node that is asked takes its time. Its clean-up is not sent behind it, so one
    // that finds nothing is not the last: the slot even moves on meanwhile.
    let (env, goal) = (nodes.env(), nodes.node(1));
    let lock = single(env.clone(), options());
    let answered = lock.try_acquire().await.unwrap().release().await;
    assert_eq!(answered, Released::Released);
    let conn = env.connect(Node(0)).await.unwrap();
    assert!(!conn.gave_up(LONG), "what it was led to has answered");
    let sets = ran(&nodes.node(1), "set").await;
    call(&goal, &["CLIENT", "PAUSE", "100000", "WRITE"]).await;
    let asking = lock.clone();
    let dropped = tokio::spawn(async move { asking.try_acquire().await.map(drop) });
    let arrived = || async { text(&goal, &["CLIENT", "LIST"]).await.contains("cmd=set ") };
    eventually(&env, arrived).await;
    assert!(conn.gave_up(LONG), "what comes next might be carried out before it");
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    assert!(conn.gave_up(LONG), "what was abandoned has no answer");
    assert!(!env.connect(Node(0)).await.unwrap().gave_up(LONG));
    call(&goal, &["CLIENT", "UNPAUSE"]).await;
    eventually(&env, || async { ran(&nodes.node(1), "set").await > sets }).await;
    eventually(&env, || async { nodes.keys(1).await == Reply::Int(0) }).await;
    nodes.end_to_move(0, 1).await;
    let guard = lock.acquire(PATIENCE, wait::Poll::default()).await.unwrap();
    assert!(taken(&guard, &goal).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_apart_in_mid_move_are_a_refusal_that_passes() {
    let nodes = Nodes::start(false).await;
    let fenced = Options::builder(LONG).fenced().build().unwrap();
    let lock = single(nodes.env(), fenced);
    let guard = lock.try_acquire().await.unwrap();
    assert_eq!(guard.fence(), Some(Fence::new(1)));
    assert_eq!(guard.release().await, Released::Released);
    // Its counter is here, and its key would be there.
    nodes.begin_to_move(0, 1).await;
    let error = lock.try_acquire().await.unwrap_err();
    assert!(matches!(&error, NotAcquired::Refused(error) if &*error.code == "TRYAGAIN"), "{error}");
    let waiting = lock.clone();
    let waiter =
        tokio::spawn(async move { waiting.acquire(PATIENCE, wait::Poll::default()).await });
    eventually(&nodes.node(0), || async { answered(&nodes.node(0), "TRYAGAIN").await > 1 }).await;
    nodes.move_keys(0, 1).await;
    nodes.end_to_move(0, 1).await;
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!(guard.fence(), Some(Fence::new(2)));
    // A key of another slot belongs to another lock.
    let elsewhere = Options::builder(LONG).fenced_by(*b"{a}:n").build().unwrap();
    assert!(Single::new(nodes.env(), Node(0), KEY.as_bytes(), elsewhere).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_dies_is_followed_by_its_replica() {
    let mut nodes = Nodes::start(true).await;
    let lock = single(nodes.env(), options());
    let guard = lock.try_acquire().await.unwrap();
    // Who begins with a node that is silent asks another the next time.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("redis://{}/", silent.local_addr().unwrap());
    let late = Cluster::open([url, nodes.servers[2].url()]).unwrap();
    let short = Options::builder(LONG).call_timeout(Duration::from_millis(200)).build().unwrap();
    let late = single(TokioEnv::for_key(&late, KEY), short);
    let error = late.acquire(PATIENCE, ONCE_MORE).await.unwrap_err();
    assert_eq!(error, NotAcquired::Held);
    let replica = nodes.node(3);
    eventually(&replica, || async { nodes.keys(3).await == Reply::Int(1) }).await;
    nodes.servers[0].kill();
    call(&replica, &["CLUSTER", "FAILOVER", "TAKEOVER"]).await;
    // Who is asked may not know of it for a moment.
    eventually(&replica, || async { guard.extend().await.is_ok() }).await;
    assert_eq!(guard.release().await, Released::Released);
    let guard = lock.acquire(PATIENCE, wait::Poll::default()).await.unwrap();
    assert!(taken(&guard, &replica).await);
    assert_eq!(guard.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_was_the_only_node_given_is_followed_by_its_replica() {
    let mut nodes = Nodes::start(true).await;
    let cluster = Cluster::open([nodes.servers[0].url()]).unwrap();
    let guard = single(TokioEnv::for_key(&cluster, KEY), options()).try_acquire().await.unwrap();
    let replica = nodes.node(3);
    eventually(&replica, || async { nodes.keys(3).await == Reply::Int(1) }).await;
    nodes.servers[0].kill();
    call(&replica, &["CLUSTER", "FAILOVER", "TAKEOVER"]).await;
    // The other two are known from its own list of slots.
    eventually(&replica, || async { guard.extend().await.is_ok() }).await;
    assert_eq!(guard.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_has_left_the_cluster_and_lives_on_is_left_behind() {
    let nodes = Nodes::start(false).await;
    let cluster = Cluster::open(nodes.servers.iter().map(RedisServer::url)).unwrap();
    let lock = single(TokioEnv::for_key(&cluster, KEY), options());
    let guard = lock.try_acquire().await.unwrap();
    nodes.move_slot(0, 1).await;
    for place in [1, 2] {
        let forgot = call(&nodes.node(place), &["CLUSTER", "FORGET", &nodes.ids[0]]).await;
        assert_eq!(forgot, Reply::Ok);
    }
    assert_eq!(call(&nodes.node(0), &["CLUSTER", "RESET", "SOFT"]).await, Reply::Ok);
    assert!(guard.extend().await.is_ok());
    assert_eq!(guard.release().await, Released::Released);
    assert_eq!(lock.try_acquire().await.unwrap().release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_told_wherever_they_listen() {
    let nodes = Nodes::start(false).await;
    let notified = || Options::builder(LONG).notify().build().unwrap();
    let holder = single(nodes.env(), notified()).try_acquire().await.unwrap();
    let lock = single(nodes.env(), notified());
    let waiter = tokio::spawn(async move { lock.acquire(PATIENCE, wait::Poll::default()).await });
    let channel = format!("picklock:{KEY}");
    let owner = nodes.node(0);
    eventually(&owner, || async { listeners(&owner, &channel).await == 1 }).await;
    // It listens to a node that is the owner no more, when another publishes.
    nodes.move_slot(0, 1).await;
    assert_eq!(holder.release().await, Released::Released);
    let guard = waiter.await.unwrap().unwrap();
    assert!(taken(&guard, &nodes.node(1)).await);
    assert_eq!(guard.release().await, Released::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_follows_its_slot_and_nobody_is_let_in_twice() {
    let nodes = Nodes::start(false).await;
    let queue = |env| Queue::new(env, Node(0), KEY.as_bytes(), options()).unwrap();
    let waiting = |place: usize| {
        let env = nodes.node(place);
        async move { call(&env, &["ZCARD", "{b}.line"]).await.as_int() }
    };
    let holder = queue(nodes.env()).acquire(PATIENCE).await.unwrap();
    let mut waiters = Vec::new();
    let goal = nodes.node(1);
    for place in 1..=3 {
        let (lock, goal) = (queue(nodes.env()), goal.clone());
        waiters.push(tokio::spawn(async move {
            let guard = lock.acquire(PATIENCE).await.unwrap();
            // The first keeps it until the slot has moved, as the holder before it did not.
            eventually(&goal, || async { taken(&guard, &goal).await }).await;
            assert_eq!(guard.release().await, Released::Released);
        }));
        eventually(&nodes.node(0), || async { waiting(0).await == Some(place) }).await;
    }
    // While nothing moves it is handed over, to the first who came.
    assert_eq!(holder.release().await, Released::Released);
    eventually(&nodes.node(0), || async { waiting(0).await == Some(2) }).await;
    // Now the others listen to a node that cannot count them for the one that publishes.
    nodes.move_slot(0, 1).await;
    for waiter in waiters {
        waiter.await.unwrap();
    }
    eventually(&nodes.node(1), || async { nodes.keys(1).await == Reply::Int(0) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_each_node_gives_to_the_other_is_led_on_a_few_times_and_no_more() {
    let listen = || TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (one, other) = (listen(), listen());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let (first, second) = (port(&one), port(&other));
    let asked = Arc::new(AtomicUsize::new(0));
    for (listener, elsewhere) in [(one, second), (other, first)] {
        let asked = Arc::clone(&asked);
        fake::answering(listener, move |_, words| {
            let slots =
                format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{first}\r\n");
            let moved = format!("-MOVED {SLOT} 127.0.0.1:{elsewhere}\r\n");
            let sets = words.matches("$3\r\nSET\r\n").count();
            asked.fetch_add(sets, Ordering::Relaxed);
            slots.repeat(words.matches("SLOTS").count()) + &moved.repeat(sets)
        });
    }
    let cluster = Cluster::open([format!("redis://127.0.0.1:{first}/")]).unwrap();
    let lock = single(TokioEnv::for_key(&cluster, KEY), options());
    let error = lock.try_acquire().await.unwrap_err();
    // Nobody has carried it out, so there is nothing to clean up.
    assert!(matches!(&error, NotAcquired::NotSent(why) if why.contains("led on")), "{error}");
    assert_eq!(asked.load(Ordering::Relaxed), 6);
    assert_eq!(lock.counters().get(Count::CleanUp), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_taken_out_of_the_cluster_leaves_the_answer_to_others() {
    let listen = || TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (outside, inside) = (listen(), listen());
    let urls = [&outside, &inside].map(|it| format!("redis://{}/", it.local_addr().unwrap()));
    let port = inside.local_addr().unwrap().port();
    let owned = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
    for (listener, slots) in [(outside, "*0\r\n".to_owned()), (inside, owned)] {
        fake::answering(listener, move |_, words| {
            let sets = words.matches("$3\r\nSET\r\n").count();
            slots.repeat(words.matches("SLOTS").count()) + &"+OK\r\n".repeat(sets)
        });
    }
    let cluster = Cluster::open(urls.clone()).unwrap();
    let guard = single(TokioEnv::for_key(&cluster, KEY), options()).try_acquire().await;
    assert!(guard.is_ok(), "{guard:?}");
    let alone = Cluster::open([&*urls[0]]).unwrap();
    let error = single(TokioEnv::for_key(&alone, KEY), options()).try_acquire().await.unwrap_err();
    assert!(matches!(&error, NotAcquired::NotSent(why) if why.contains("no owner")), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_opened_as_a_server_by_itself_says_what_to_use() {
    let nodes = Nodes::start(false).await;
    let lock = single(nodes.node(1), options());
    let error = lock.acquire(PATIENCE, ONCE_MORE).await.unwrap_err();
    assert!(matches!(&error, NotAcquired::Refused(moved) if &*moved.code == "MOVED"), "{error}");
    assert!(error.to_string().contains("`Cluster`"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_behind_and_names_an_owner_that_is_gone_is_not_asked_for_ever() {
    let listen = || TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (behind, ahead) = (listen(), listen());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let urls = [&behind, &ahead].map(|it| format!("redis://127.0.0.1:{}/", port(it)));
    let (gone, here) = (port(&listen()), port(&ahead));
    for (listener, owner) in [(behind, gone), (ahead, here)] {
        fake::answering(listener, move |_, words| {
            let slots =
                format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{owner}\r\n");
            let sets = words.matches("$3\r\nSET\r\n").count();
            slots.repeat(words.matches("SLOTS").count()) + &"+OK\r\n".repeat(sets)
        });
    }
    let lock = single(TokioEnv::for_key(&Cluster::open(urls).unwrap(), KEY), options());
    let guard = lock.acquire(PATIENCE, ONCE_MORE).await;
    assert!(guard.is_ok(), "{guard:?}");
}
