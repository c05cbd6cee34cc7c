//! Without faults the proxy changes nothing.

use fault_proxy::{Detail, Plan, ProxyEvent};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use crate::proxy_support::{Bed, Pipe, command};

/// Commands whose replies depend on nothing but the commands before.
fn commands() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = prop::sample::select(vec!["a", "b", "c"]);
    let value = prop::collection::vec(any::<u8>(), 0..50);
    let one = (0..9_u8, key, value).prop_map(|(which, key, value)| {
        let key = key.as_bytes();
        match which {
            0 => command(&[b"SET", key, &value, b"NX", b"PX", b"100000"]),
            1 => command(&[b"GET", key]),
            2 => command(&[b"DEL", key]),
            3 => command(&[b"RPUSH", key, &value]),
            4 => command(&[b"LRANGE", key, b"0", b"-1"]),
            5 => command(&[b"EVAL", b"return {1,{2,ARGV[1]},false}", b"1", key, &value]),
            6 => command(&[b"NOSUCH", key]),
            7 => b"echo inline\r\n".to_vec(),
            _ => command(&[b"HSET", key, b"f", &value]),
        }
    });
    prop::collection::vec(one, 1..60)
}

#[tokio::test]
async fn random_pipelines_get_byte_identical_replies() {
    let bed = Bed::new(Plan::default()).await;
    let (mut through, mut direct) = (bed.client().await, bed.direct().await);
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(Default::default()),
    );
    for round in 0..200 {
        let hello = if round % 2 == 0 { "HELLO 2\r\n" } else { "HELLO 3\r\n" };
        let pipeline = commands().new_tree(&mut runner).unwrap().current().concat();
        // HELLO tells the connection's number, which differs: its reply is not compared.
        let mut replies = Vec::new();
        for client in [&mut direct, &mut through] {
            let marker = format!("end-{round}");
            client.send(format!("FLUSHALL\r\n{hello}ECHO begin\r\n")).await;
            client.read_until(b"$5\r\nbegin\r\n").await;
            client.send(&pipeline).await;
            client.send(command(&[b"ECHO", marker.as_bytes()])).await;
            replies.push(client.read_until(format!("{marker}\r\n").as_bytes()).await);
        }
        assert_eq!(replies[0].escape_ascii().to_string(), replies[1].escape_ascii().to_string());
    }
    assert!(bed.proxy.log().records().is_empty());
    let counters = bed.link.counters();
    assert_eq!(counters.connections, 1);
    assert_eq!(counters.requests, counters.replies, "one reply a request");
}

#[tokio::test]
async fn eight_megabytes_go_there_and_back() {
    let bed = Bed::new(Plan::default()).await;
    let mut client = bed.client().await;
    let big: Vec<u8> = (0..8 << 20).map(|index: u32| index.to_le_bytes()[1]).collect();
    client.exchange(command(&[b"SET", b"k", &big]), "+OK\r\n").await;
    client.exchange("GET k\r\n", format!("${}\r\n", big.len())).await;
    client.expect(&big).await;
    client.expect("\r\n").await;
}

#[tokio::test]
async fn inline_commands_in_pieces_and_empty_lines_are_passed_on() {
    let bed = Bed::new(Plan::default()).await;
    let mut client = bed.client().await;
    for piece in ["\r\nPI", "NG\r", "\n\r\n*0\r\nPING x\n"] {
        client.send(piece).await;
    }
    client.expect("+PONG\r\n$1\r\nx\r\n").await;
    assert_eq!(bed.link.counters().requests, 2);
}

#[tokio::test]
async fn published_messages_arrive_in_resp2_and_as_pushes_in_resp3() {
    let bed = Bed::new(Plan::default()).await;
    let (mut two, mut three, mut direct) =
        (bed.client().await, bed.client().await, bed.direct().await);
    two.exchange("SUBSCRIBE c d\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n").await;
    two.expect("*3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:2\r\n").await;
    three.send("HELLO 3\r\nSUBSCRIBE c\r\nGET k\r\n").await;
    three.read_until(b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n_\r\n").await;
    direct.exchange("PUBLISH c m\r\n", ":2\r\n").await;
    two.expect("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n").await;
    three.expect(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n").await;
    two.exchange("PING\r\nUNSUBSCRIBE\r\nGET k\r\n", "*2\r\n$4\r\npong\r\n$0\r\n\r\n").await;
    two.read_until(b":0\r\n$-1\r\n").await;
}

#[tokio::test]
async fn monitor_and_suppressed_replies_do_not_break_the_connection() {
    let bed = Bed::new(Plan::default()).await;
    let (mut monitor, mut quiet) = (bed.client().await, bed.client().await);
    monitor.exchange("MONITOR\r\n", "+OK\r\n").await;
    quiet.send("CLIENT REPLY OFF\r\nSET k 1\r\nCLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\n").await;
    quiet.exchange("SET k 2\r\nGET k\r\n", "+OK\r\n$1\r\n2\r\n").await;
    monitor.read_until(b"\"GET\" \"k\"\r\n").await;
    let records = bed.proxy.log().records();
    assert!(matches!(records[0].event, ProxyEvent::Opaque(_)));
}

#[tokio::test]
async fn a_client_that_does_not_speak_resp_is_passed_through_and_noted() {
    let pipe = Pipe::with(Detail::Faults, Plan::default()).await;
    let (mut client, mut server) = pipe.connect().await;
    let hello = b"\x16\x03\x01\x00\xff*1\r\nnot RESP";
    client.send(hello).await;
    server.expect(hello).await;
    server.send(b"\x15\x03anything").await;
    client.expect(b"\x15\x03anything").await;
    let records = pipe.proxy.log().records();
    assert!(matches!(records[0].event, ProxyEvent::Opaque(why) if why.contains("TLS")));
}
