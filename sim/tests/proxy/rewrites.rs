//! `picklock proxy --rewrite`: whoever follows a cluster stays behind the proxies.

use nix::sys::signal::Signal;
use test_server::RedisServer;

use crate::cli_support::{Playing, Room, eventually, words};
use crate::proxy_support::{Raw, addr, connect};

/// Two nodes of a cluster, each with half of the slots, that know each other.
async fn cluster() -> [RedisServer; 2] {
    let [(first, _), (second, bus)] = [(); 2].map(|()| RedisServer::start_node(&[]));
    let nodes = [first, second];
    let mut first = direct(&nodes[0]).await;
    let meet = format!("CLUSTER MEET 127.0.0.1 {} {bus}", nodes[1].port());
    assert_eq!(first.ask(&meet).await, "+OK\r\n");
    for (node, range) in nodes.iter().zip(["0 8191", "8192 16383"]) {
        let add = format!("CLUSTER ADDSLOTSRANGE {range}");
        assert_eq!(direct(node).await.ask(&add).await, "+OK\r\n");
    }
    for node in &nodes {
        let is_whole = |info: &str| {
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
        };
        direct(node).await.ask_until("CLUSTER INFO", is_whole).await;
    }
    nodes
}

async fn direct(node: &RedisServer) -> Raw {
    connect(addr(node)).await
}

/// Where a proxy listens, as it says.
fn port(playing: &Playing, name: &str) -> u16 {
    eventually("it says where it listens", || {
        let said = playing.stdout();
        let line =
            said.lines().find_map(|it| it.strip_prefix(&format!("{name}: 127.0.0.1:")))?.to_owned();
        line.split_once(' ')?.0.parse().ok().filter(|_| said.ends_with('\n'))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_of_a_cluster_name_the_proxies() {
    let nodes = cluster().await;
    let [one, other] = [0, 1].map(|place: usize| format!("127.0.0.1:{}", nodes[place].port()));
    let room = Room::new();
    for flag in ["--rewrite", "--cluster", "--sentinel"] {
        let args = ["proxy", flag, "--listen", "a=0,b=0", "--upstream", &format!("{one},{other}")];
        let playing = room.start(&args);
        let ports = ["a", "b"].map(|name| port(&playing, name));
        let mut client = connect(([127, 0, 0, 1], ports[0]).into()).await;
        // The slot of `a` is the other's, that of `b` its own.
        let moved = format!("-MOVED 15495 127.0.0.1:{}\r\n", ports[1]);
        assert_eq!(client.ask("GET a").await, moved);
        assert_eq!(client.ask("GET b").await, "$-1\r\n");
        for command in ["CLUSTER SLOTS", "CLUSTER NODES", "CLUSTER SHARDS"] {
            let reply = client.ask(command).await;
            assert!(ports.iter().all(|it| reply.contains(&it.to_string())), "{command}: {reply}");
            // Alone, a port may stand in a time or in an id, too.
            let place = |it: &RedisServer| match command {
                "CLUSTER NODES" => format!("127.0.0.1:{}@", it.port()),
                _ => format!(":{}\r\n", it.port()),
            };
            let bypass = |it: &RedisServer| reply.contains(&place(it));
            assert!(!nodes.iter().any(bypass), "{command}: {reply}");
        }
        playing.signal(Signal::SIGTERM);
        let said = playing.said().ended(0);
        assert!(!said.stderr.contains("no proxy leads"), "{}", said.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_proxy_is_left_and_named_and_without_the_option_all_are() {
    let nodes = cluster().await;
    let [one, other] = [0, 1].map(|place: usize| format!("127.0.0.1:{}", nodes[place].port()));
    let room = Room::new();
    for (flags, notes) in [(&["--cluster"][..], true), (&[], false)] {
        let args = ["proxy", "--listen", "a=0", "--upstream", &one];
        let playing = room.start(&[&args[..], flags].concat());
        let mut client = connect(([127, 0, 0, 1], port(&playing, "a")).into()).await;
        assert_eq!(client.ask("GET a").await, format!("-MOVED 15495 {other}\r\n"));
        playing.signal(Signal::SIGTERM);
        let said = playing.said().ended(0);
        let note = format!("no proxy leads: {other}. Give each");
        assert_eq!(said.message().contains(&note), notes, "{}", said.stderr);
    }
}

#[test]
fn a_proxy_that_no_reply_could_name_is_refused() {
    let room = Room::new();
    for (line, says) in [
        (
            "proxy --cluster --listen 0.0.0.0:0 --upstream 127.0.0.1:1",
            "no address that a client can reach",
        ),
        ("proxy --cluster --listen 0 --upstream rediss://localhost:1", "without TLS"),
    ] {
        let said = room.run(&words(line)).ended(2);
        assert!(said.message().contains(says), "{}", said.stderr);
    }
}
