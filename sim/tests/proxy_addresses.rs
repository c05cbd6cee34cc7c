//! Sentinels and cluster nodes name servers; through the proxy they name its links, so that a client
//! that follows them never leaves it.

mod proxy_support;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;

use fault_proxy::{Addresses, ClientId, Detail, Link, Plan, Proxy, ProxyEvent, Upstream};
use live_world::server::{PrivateServer, ServerSpec, find_server};
use live_world::supervisor::Supervisor;
use picklock::command::Command;
use picklock::env::{Conn, Env, Node};
use picklock::reply::Reply;
use picklock::{Cluster, TokioEnv};
use proxy_support::{DEADLINE, Raw};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// Servers, and one client's links to them, in the same order.
struct Bed {
    proxy: Proxy,
    addresses: Arc<Addresses>,
    supervisor: Supervisor,
    running: Vec<PrivateServer>,
    servers: Vec<SocketAddr>,
    links: Vec<Link>,
}

impl Bed {
    fn new() -> Self {
        let proxy = Proxy::start(Detail::Faults).unwrap();
        let supervisor =
            Supervisor::spawn(Some(Path::new(env!("CARGO_BIN_EXE_picklock")))).unwrap();
        let addresses = Arc::new(Addresses::new());
        let (running, servers, links) = (Vec::new(), Vec::new(), Vec::new());
        Self { proxy, addresses, supervisor, running, servers, links }
    }

    /// Starts a server and opens a link to it.
    async fn start(&mut self, args: &[&str]) {
        let binary = find_server(None, None).unwrap().path;
        let args = args.iter().map(ToString::to_string).collect();
        let spec = ServerSpec { args, ..ServerSpec::new(binary) };
        let server = PrivateServer::start(&self.supervisor, spec).await.unwrap();
        self.link_to(server.addr());
        self.running.push(server);
    }

    fn link_to(&mut self, server: SocketAddr) {
        let plan = Plan { addresses: Some(Arc::clone(&self.addresses)), ..Plan::default() };
        let node = Node(u16::try_from(self.links.len()).unwrap());
        let upstream = Upstream::Tcp(server);
        let link = self.proxy.listen(ClientId(0), node, upstream, plan).unwrap();
        self.addresses.insert(server, link.addr());
        self.servers.push(server);
        self.links.push(link);
    }

    async fn client(&self, place: usize) -> Raw {
        Raw(TcpStream::connect(self.links[place].addr()).await.unwrap())
    }

    async fn direct(&self, place: usize) -> Raw {
        Raw(TcpStream::connect(self.servers[place]).await.unwrap())
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
            let told = client.ask(command).await;
            let mut truth = direct.ask(command).await;
            for place in 0..self.servers.len() {
                let is_named = names.contains(&place);
                assert_eq!(told.contains(&self.link_port(place)), is_named, "{command}: {told}");
                assert!(!names.contains(&place) || truth.contains(&self.server_port(place)));
                truth = truth.replace(&self.server_port(place), &self.link_port(place));
            }
            // Counters and the like move on between the two; what is said has the same lines.
            assert_eq!(told.lines().count(), truth.lines().count(), "{command}: {told}");
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

/// A sentinel, which has no CONFIG by which a supervised server is known; killed when dropped.
struct Sentinel {
    child: Child,
    addr: SocketAddr,
    _dir: TempDir,
}

impl Sentinel {
    async fn start(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sentinel.conf");
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let own = format!("port {}\nbind 127.0.0.1\ndir {}\n", addr.port(), dir.path().display());
        std::fs::write(&file, own + config).unwrap();
        let binary = find_server(None, None).unwrap().path;
        let mut command = std::process::Command::new(binary);
        command.arg(&file).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null());
        let sentinel = Self { child: command.spawn().unwrap(), addr, _dir: dir };
        let answers = async {
            while TcpStream::connect(addr).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, answers).await.expect("a sentinel");
        sentinel
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until the answer holds this.
async fn asked_until(raw: &mut Raw, command: &str, holds: impl Fn(&str) -> bool) {
    let asked = async {
        while !holds(&raw.ask(command).await) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, asked).await.expect(command);
}

async fn run(env: &TokioEnv, words: &[&str]) -> Reply {
    let command = words[1..].iter().fold(Command::new(words[0]), Command::arg);
    env.connect(Node(0)).await.unwrap().call(command).await.unwrap()
}

#[tokio::test]
async fn who_asks_a_sentinel_is_led_to_links_before_and_after_a_failover() {
    let mut bed = Bed::new();
    bed.start(&["--repl-diskless-sync-delay", "0"]).await;
    let primary = bed.server_port(0);
    let replica = ["--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", &primary];
    bed.start(&replica).await;
    asked_until(&mut bed.direct(0).await, "ROLE", |role| role.contains(&bed.server_port(1))).await;
    let config = format!(
        "sentinel monitor m 127.0.0.1 {primary} 1\n\
         sentinel down-after-milliseconds m 5000\nsentinel failover-timeout m 5000\n"
    );
    let sentinel = Sentinel::start(&config).await;
    bed.link_to(sentinel.addr);
    let mut direct = bed.direct(2).await;
    // It has heard of the replica, and from the replica of its primary.
    let known = |told: &str| [0, 1].iter().all(|place| told.contains(&bed.server_port(*place)));
    asked_until(&mut direct, "SENTINEL REPLICAS m", known).await;

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
    asked_until(&mut client, "SENTINEL FAILOVER m", |told| told == "+OK\r\n").await;
    let [from, to] = [0, 1].map(|place| bed.link_port(place));
    for listener in &mut listeners {
        let told = listener.read_until(format!(" 127.0.0.1 {to}\r\n").as_bytes()).await;
        let told = String::from_utf8_lossy(&told).into_owned();
        let text = format!("m 127.0.0.1 {from} 127.0.0.1 {to}\r\n");
        assert!(told.ends_with(&format!("${}\r\n{text}", text.len() - 2)), "{told}");
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
        let bus = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let args = ["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()];
        bed.start(&args).await;
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
        asked_until(&mut bed.direct(place).await, "CLUSTER INFO", |info| {
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
        })
        .await;
        for command in ["CLUSTER SLOTS", "CLUSTER NODES", "cluster shards"] {
            bed.is_rewritten(place, command, &[0, 1]).await;
        }
        // By itself, and in a transaction.
        let (key, slot) = KEYS[1 - place];
        let moved = format!("-MOVED {slot} 127.0.0.1:{}\r\n", bed.link_port(1 - place));
        assert_eq!(bed.client(place).await.ask(&format!("GET {key}")).await, moved);
        let mut client = bed.client(place).await;
        client.send(format!("MULTI\r\nGET {key}\r\n")).await;
        client.expect(format!("+OK\r\n{moved}")).await;
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
