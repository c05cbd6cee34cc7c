//! A link whose bytes are not understood: they pass, and what strikes the wire strikes them.

use std::time::Duration;

use fault_proxy::{Action, ClientId, Cut, Latency, ProxyEvent, Rule, Side, Upstream};
use scenarios::distribution::Distribution;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::proxy_support::{DEADLINE, Pipe, accept, connect};

/// What a RESP link would refuse, decide on, and never deliver.
const HOSTILE: &[u8] = b"*99999999999999999999\r\n*1\r\n$4\r\nPING\r\n\x00\xff$-7\r\n";

#[tokio::test]
async fn any_bytes_pass_in_both_directions_and_no_rule_applies() {
    let bed = Pipe::new(Latency::None, Latency::None).await;
    let rule = bed.proxy.rules().add(Rule::new(Action::Drop(Side::Request)));
    let (mut client, mut server) = bed.connect().await;
    client.send(HOSTILE).await;
    server.expect(HOSTILE).await;
    server.send(HOSTILE).await;
    client.expect(HOSTILE).await;
    // The first to speak may be the server.
    let (mut client, mut server) = bed.connect().await;
    server.send(HOSTILE).await;
    client.expect(HOSTILE).await;
    assert_eq!(rule.fired(), 0);
    let counters = bed.link.counters();
    assert_eq!((counters.connections, counters.requests, counters.replies), (2, 0, 0));
    let records = bed.proxy.log().records();
    let places: Vec<(ClientId, u64)> =
        records.iter().map(|it| (it.client, it.connection)).collect();
    assert_eq!(places, [(ClientId(3), 1), (ClientId(3), 2)]);
    assert!(records.iter().all(|it| matches!(it.event, ProxyEvent::Opaque(_))), "{records:?}");
}

#[tokio::test]
async fn an_end_arrives_behind_what_was_sent_before_it() {
    let bed = Pipe::new(Latency::None, Latency::Fixed(Duration::from_millis(1))).await;
    let (mut client, mut server) = bed.connect().await;
    client.send(HOSTILE).await;
    client.0.shutdown().await.unwrap();
    assert_eq!(server.end().await.unwrap(), HOSTILE);
    // The other direction is still there.
    server.send("bye").await;
    drop(server);
    assert_eq!(client.end().await.unwrap(), b"bye");
}

#[tokio::test]
async fn latency_is_at_least_what_it_says_and_can_be_set_anew() {
    let ms = Duration::from_millis;
    let bed = Pipe::new(Latency::Fixed(ms(5)), Latency::Fixed(ms(7))).await;
    let (mut client, mut server) = bed.connect().await;
    for least in [12, 50] {
        let start = tokio::time::Instant::now();
        client.send("there").await;
        server.expect("there").await;
        server.send("back").await;
        client.expect("back").await;
        assert!(start.elapsed() >= ms(least));
        bed.link.set_latency(Latency::Fixed(ms(20)), Latency::Fixed(ms(30)));
    }
}

#[tokio::test]
async fn order_is_kept_whatever_is_drawn() {
    let spread = Latency::from(&"uniform:0s..3ms".parse::<Distribution>().unwrap());
    let bed = Pipe::new(spread.clone(), spread).await;
    let (mut client, mut server) = bed.connect().await;
    let mut all = String::new();
    for number in 0..300 {
        let piece = format!("{number}\n");
        client.send(&piece).await;
        all.push_str(&piece);
    }
    server.expect(&all).await;
    server.send(&all).await;
    client.expect(&all).await;
}

#[tokio::test]
async fn a_cut_withholds_and_the_heal_delivers_in_order() {
    let bed = Pipe::new(Latency::None, Latency::None).await;
    let (mut client, mut server) = bed.connect().await;
    bed.link.cut(Cut::Requests);
    client.send("one ").await;
    server.send("back").await;
    client.expect("back").await;
    assert!(server.is_silent());
    bed.link.cut(Cut::Both);
    client.send("two").await;
    server.send("again").await;
    // A connection begun meanwhile waits as well.
    let mut late = connect(bed.link.addr()).await;
    late.send("three").await;
    assert!(client.is_silent() && server.is_silent());
    bed.link.cut(Cut::None);
    server.expect("one two").await;
    client.expect("again").await;
    accept(&bed.server).await.expect("three").await;
}

#[tokio::test]
async fn what_is_sent_after_a_cut_waits_even_on_a_new_connection() {
    let bed = Pipe::new(Latency::None, Latency::None).await;
    for round in 0..500 {
        // The proxy may be about to look at it for the first time.
        let (mut client, mut server) = bed.connect().await;
        bed.link.cut(Cut::Requests);
        client.send("late").await;
        server.send("back").await;
        client.expect("back").await;
        assert!(server.is_silent(), "round {round}");
        bed.link.cut(Cut::None);
        server.expect("late").await;
    }
}

#[tokio::test]
async fn a_reset_loses_what_is_under_way_and_new_connections_are_welcome() {
    let hour = Latency::Fixed(Duration::from_secs(3600));
    let bed = Pipe::new(hour.clone(), hour).await;
    let (mut client, mut server) = bed.connect().await;
    client.send("lost").await;
    server.send("lost").await;
    bed.link.reset_connections();
    assert_eq!(client.end().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    // Closed, or reset over what it had sent and nobody had read; in neither case after a byte.
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(DEADLINE, server.0.read_to_end(&mut rest)).await.expect("an end");
    assert_eq!(rest, b"");
    bed.link.set_latency(Latency::None, Latency::None);
    let (mut client, mut server) = bed.connect().await;
    client.send("found").await;
    server.expect("found").await;
}

#[tokio::test]
async fn connections_to_come_go_to_another_server() {
    let bed = Pipe::new(Latency::None, Latency::None).await;
    let (mut client, mut server) = bed.connect().await;
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    bed.link.set_upstream(Upstream::Tcp(other.local_addr().unwrap()));
    let mut anew = connect(bed.link.addr()).await;
    anew.send("other").await;
    accept(&other).await.expect("other").await;
    client.send("same").await;
    server.expect("same").await;
}
