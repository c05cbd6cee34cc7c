//! Sentinels and cluster nodes name servers; through the proxy they name its links, so that a client
//! that follows them never leaves it.

use std::path::Path;
use std::sync::Arc;

use fault_proxy::{Addresses, ClientId, Detail, Link, Plan, Proxy, ProxyEvent, Upstream};
use picklock::command::Command;
use picklock::env::{Conn, Env, Node};
use picklock::reply::Reply;
use picklock::{Cluster, TokioEnv};
use test_server::RedisServer;

use crate::proxy_support::{Raw, addr, connect};

/// Servers, and one client's links to them, in the same order.
struct Bed {
    proxy: Proxy,
    addresses: Arc<Addresses>,
    servers: Vec<RedisServer>,
    links: Vec<Link>,
}

impl Bed {
    fn new() -> Self {
        let proxy = Proxy::start(Detail::Faults).unwrap();
        Self { proxy, addresses: Arc::default(), servers: Vec::new(), links: Vec::new() }
    }

    /// Opens a link to a server.
    fn link_to(&mut self, server: RedisServer) {
        let plan = Plan { addresses: Some(Arc::clone(&self.addresses)), ..Plan::default() };
        let node = Node(u16::try_from(self.links.len()).unwrap());
        let upstream = Upstream::Tcp(addr(&server));
        let link = self.proxy.listen(ClientId(0), node, upstream, plan).unwrap();
        self.addresses.insert(addr(&server), link.addr());
        self.servers.push(server);
        self.links.push(link);
    }

    async fn client(&self, place: usize) -> Raw {
        connect(self.links[place].addr()).await
    }

    async fn direct(&self, place: usize) -> Raw {
        connect(addr(&self.servers[place])).await
    }

    fn server_port(&self, place: usize) -> String {
        self.servers[place].port().to_string()
    }

    fn link_port(&self, place: usize) -> String {
        self.links[place].addr().port().to_string()
    }

    /// Asks a server in both protocols, through its link and past it: what came past it, with links in
    /// the place of servers, is what came through it, length by length.
    async fn is_rewritten(&self, place: usize, command: &str, names: &[usize]) {
        for hello in ["HELLO 2", "HELLO 3"] {
            let (mut client, mut direct) = (self.client(place).await, self.direct(place).await);
            for raw in [&mut client, &mut direct] {
                raw.ask(hello).await;
            }
            let reply = client.ask(command).await;
            let mut truth = direct.ask(command).await;
            for place in 0..self.servers.len() {
                let is_named = names.contains(&place);
                assert_eq!(reply.contains(&self.link_port(place)), is_named, "{command}: {reply}");
                assert!(!names.contains(&place) || truth.contains(&self.server_port(place)));
                truth = truth.replace(&self.server_port(place), &self.link_port(place));
            }
            // Counters and the like move on between the two; what is said has the same lines.
            assert_eq!(reply.lines().count(), truth.lines().count(), "{command}: {reply}");
        }
    }

    /// Whether a SET went through this link.
    fn has_set(&self, place: usize) -> bool {
        self.links[place].counters().commands.keys().any(|name| name.as_bytes() == b"SET")
    }

    /// Everything that was not rewritten.
    fn left(&self) -> Vec<String> {
        let records = self.proxy.log().records();
        let left = |event: &ProxyEvent| match event {
            ProxyEvent::LeftAddress(place) => Some(place.clone()),
            _ => None,
        };
        records.iter().filter_map(|record| left(&record.event)).collect()
    }
}

async fn run(env: &TokioEnv, words: &[&str]) -> Reply {
    let command = words[1..].iter().fold(Command::new(words[0]), Command::arg);
    env.connect(Node(0)).await.unwrap().call(command).await.unwrap()
}

#[tokio::test]
async fn who_asks_a_sentinel_is_led_to_links_before_and_after_a_failover() {
    let mut bed = Bed::new();
    bed.link_to(RedisServer::start(&["--repl-diskless-sync-delay", "0"]));
    let primary = bed.server_port(0);
    let replica = ["--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", &primary];
    bed.link_to(RedisServer::start(&replica));
    let has_replica = |role: &str| role.contains(&bed.server_port(1));
    bed.direct(0).await.ask_until("ROLE", has_replica).await;
    let sentinel = |own: u16, dir: &Path| {
        let config = format!(
            "port {own}\nbind 127.0.0.1\nsentinel monitor m 127.0.0.1 {primary} 1\n\
             sentinel down-after-milliseconds m 5000\nsentinel failover-timeout m 5000\n"
        );
        std::fs::write(dir.join("sentinel.conf"), config).unwrap();
        vec!["sentinel.conf".to_owned(), "--sentinel".to_owned()]
    };
    bed.link_to(RedisServer::start_with("redis-server", sentinel));
    // It has heard of the replica, and from the replica of its primary.
    let known = |reply: &str| [0, 1].iter().all(|place| reply.contains(&bed.server_port(*place)));
    bed.direct(2).await.ask_until("SENTINEL REPLICAS m", known).await;

    bed.is_rewritten(2, "SENTINEL get-master-addr-by-name m", &[0]).await;
    bed.is_rewritten(2, "SENTINEL MASTER m", &[0]).await;
    bed.is_rewritten(2, "SENTINEL masters", &[0]).await;
    bed.is_rewritten(2, "sentinel replicas m", &[0, 1]).await;
    bed.is_rewritten(2, "SENTINEL SLAVES m", &[0, 1]).await;
    bed.is_rewritten(0, "ROLE", &[1]).await;
    bed.is_rewritten(1, "ROLE", &[0]).await;
    // Other replies stay, though they hold the very same.
    let (mut client, mut direct) = (bed.client(0).await, bed.direct(0).await);
    let text = format!("ECHO 127.0.0.1:{primary}");
    assert_eq!(client.ask(&text).await, direct.ask(&text).await);

    // A client that knows nothing but the link to the sentinel.
    let sentinel = format!("redis://{}/", bed.links[2].addr());
    let env = || TokioEnv::sentinel([sentinel.as_str()], "m", "redis://ignored/").unwrap();
    assert_eq!(run(&env(), &["SET", "k", "1"]).await, Reply::Ok);
    assert!(bed.has_set(0) && !bed.has_set(1));

    let mut listeners = [bed.client(2).await, bed.client(2).await];
    listeners[1].ask("HELLO 3").await;
    for listener in &mut listeners {
        listener.send("SUBSCRIBE +switch-master\r\n").await;
        listener.read_until(b":1\r\n").await;
    }
    let mut client = bed.client(2).await;
    client.until("SENTINEL FAILOVER m", "+OK\r\n").await;
    let [from, to] = [0, 1].map(|place| bed.link_port(place));
    for listener in &mut listeners {
        let message = listener.read_until(format!(" 127.0.0.1 {to}\r\n").as_bytes()).await;
        let message = String::from_utf8_lossy(&message).into_owned();
        let text = format!("m 127.0.0.1 {from} 127.0.0.1 {to}\r\n");
        assert!(message.ends_with(&format!("${}\r\n{text}", text.len() - 2)), "{message}");
    }
    bed.is_rewritten(2, "SENTINEL get-master-addr-by-name m", &[1]).await;
    assert_eq!(run(&env(), &["SET", "k", "2"]).await, Reply::Ok);
    assert!(bed.has_set(1));
    assert_eq!(bed.left(), [""; 0]);
}

/// Of the two keys one lies in the first half of the slots, and one in the second.
const KEYS: [(&str, u16); 2] = [("b", 3300), ("a", 15495)];

#[tokio::test]
async fn who_follows_a_cluster_stays_on_its_links() {
    let mut bed = Bed::new();
    for _ in 0..2 {
        let (server, bus) = RedisServer::start_node(&[]);
        bed.link_to(server);
        let port = bed.server_port(bed.servers.len() - 1);
        let meet = format!("CLUSTER MEET 127.0.0.1 {port} {bus}");
        if bed.servers.len() > 1 {
            assert_eq!(bed.direct(0).await.ask(&meet).await, "+OK\r\n");
        }
    }
    for (place, range) in ["0 8191", "8192 16383"].into_iter().enumerate() {
        let add = format!("CLUSTER ADDSLOTSRANGE {range}");
        assert_eq!(bed.direct(place).await.ask(&add).await, "+OK\r\n");
    }
    for place in 0..2 {
        let is_whole = |info: &str| {
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
        };
        bed.direct(place).await.ask_until("CLUSTER INFO", is_whole).await;
        for command in ["CLUSTER SLOTS", "CLUSTER NODES", "cluster shards"] {
            bed.is_rewritten(place, command, &[0, 1]).await;
        }
        // By itself, and in a transaction.
        let (key, slot) = KEYS[1 - place];
        let moved = format!("-MOVED {slot} 127.0.0.1:{}\r\n", bed.link_port(1 - place));
        assert_eq!(bed.client(place).await.ask(&format!("GET {key}")).await, moved);
        let mut client = bed.client(place).await;
        client.exchange(format!("MULTI\r\nGET {key}\r\n"), format!("+OK\r\n{moved}")).await;
    }

    // In mid-move the first node asks a client to try the second.
    let mut ids = Vec::new();
    for place in 0..2 {
        let id = bed.direct(place).await.ask("CLUSTER MYID").await;
        ids.push(id.lines().nth(1).unwrap().to_owned());
    }
    let (key, slot) = KEYS[0];
    for (place, word) in [(1, "IMPORTING"), (0, "MIGRATING")] {
        let set = format!("CLUSTER SETSLOT {slot} {word} {}", ids[1 - place]);
        assert_eq!(bed.direct(place).await.ask(&set).await, "+OK\r\n");
    }
    let ask = format!("-ASK {slot} 127.0.0.1:{}\r\n", bed.link_port(1));
    assert_eq!(bed.client(0).await.ask(&format!("GET {key}")).await, ask);

    // A client that knows nothing but the link to the first node.
    let cluster = Cluster::open([format!("redis://{}/", bed.links[0].addr())]).unwrap();
    for (key, _) in KEYS {
        let env = TokioEnv::for_key(&cluster, key);
        assert_eq!(run(&env, &["SET", key, "1"]).await, Reply::Ok);
    }
    assert!(bed.has_set(0) && bed.has_set(1));
    assert_eq!(bed.left(), [""; 0]);
}
