//! Effects on the wire: put there, taken away, and seen by both ends as a network would show them.

use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::time::Duration;

use fault_proxy::{
    ClientId, Detail, Effect, EffectId, Latency, Plan, Protocol, ProxyEvent, Side, Toxicity,
    Upstream,
};
use picklock::env::Node;
use tokio::net::TcpStream;

use crate::proxy_support::{Bed, Pipe, Raw, accept, connect, refused};

const ALL: Toxicity = Toxicity::ALL;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

async fn pipe() -> Pipe {
    Pipe::new(Latency::None, Latency::None).await
}

/// What ended connections of this link, or directions of them.
fn ended_by(pipe: &Pipe) -> Vec<EffectId> {
    let records = pipe.proxy.log().records();
    let ended =
        |event: &ProxyEvent| if let ProxyEvent::EndedBy(id) = event { Some(*id) } else { None };
    records.iter().filter_map(|record| ended(&record.event)).collect()
}

#[tokio::test]
async fn a_slow_wire_takes_its_time_and_changes_nothing() {
    let pipe = pipe().await;
    let (mut client, mut server) = pipe.connect().await;
    let rate = NonZeroU64::new(100_000).unwrap();
    let slow = pipe.link.add_effect(Side::Reply, Effect::Bandwidth(rate), ALL);
    let bytes: Vec<u8> = (0..20_000_u32).map(|place| place.to_le_bytes()[0]).collect();
    let start = tokio::time::Instant::now();
    server.send(&bytes).await;
    client.expect(&bytes).await;
    assert!(start.elapsed() >= ms(200));
    // The other direction is as quick as ever, and so is this one afterwards.
    client.send(&bytes).await;
    server.expect(&bytes).await;
    assert!(pipe.link.remove_effect(slow) && !pipe.link.remove_effect(slow));
    server.send(&bytes).await;
    client.expect(&bytes).await;
}

#[tokio::test]
async fn a_slow_wire_delivers_a_big_frame_in_pieces() {
    let bed = Bed::new(Plan::default()).await;
    let rate = NonZeroU64::new(10_000).unwrap();
    bed.link.add_effect(Side::Reply, Effect::Bandwidth(rate), ALL);
    let mut client = bed.client().await;
    client.send("SETRANGE k 1000000 x\r\nGET k\r\n").await;
    // All of it would take more than a minute and a half.
    client.expect(":1000001\r\n$1000001\r\n\0\0\0\0").await;
}

#[tokio::test]
async fn latencies_add_up() {
    let pipe = pipe().await;
    let later = |count| Effect::Latency(Latency::Fixed(ms(count)));
    pipe.link.add_effect(Side::Reply, later(20), ALL);
    pipe.link.add_effect(Side::Reply, later(30), ALL);
    let (mut client, mut server) = pipe.connect().await;
    let start = tokio::time::Instant::now();
    server.send("x").await;
    client.expect("x").await;
    assert!(start.elapsed() >= ms(50));
}

#[tokio::test]
async fn a_slow_close_comes_behind_the_data_and_later() {
    let pipe = pipe().await;
    let (mut client, mut server) = pipe.connect().await;
    pipe.link.add_effect(Side::Reply, Effect::SlowClose(ms(60)), ALL);
    let start = tokio::time::Instant::now();
    server.send("bye").await;
    drop(server);
    client.expect("bye").await;
    assert_eq!(client.end().await.unwrap(), b"");
    assert!(start.elapsed() >= ms(60));
}

#[tokio::test]
async fn a_half_open_connection_is_silent_where_the_other_end_has_gone() {
    let pipe = pipe().await;
    for side in [Side::Reply, Side::Request] {
        let effect = pipe.link.add_effect(side, Effect::HalfOpen, ALL);
        let (client, server) = pipe.connect().await;
        let (gone, mut left) = match side {
            Side::Reply => (server, client),
            Side::Request => (client, server),
        };
        drop(gone);
        // The proxy's one thread has seen the end by the time it has served somebody else.
        for _ in 0..2 {
            let (mut client, mut server) = pipe.connect().await;
            client.send("anybody?").await;
            server.expect("anybody?").await;
        }
        assert!(left.is_silent());
        left.send("is anybody there?").await;
        if side == Side::Reply {
            // Had an end been on its way, it would have come before.
            pipe.link.reset_connections();
            assert_eq!(left.end().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
        pipe.link.remove_effect(effect);
    }
}

#[tokio::test]
async fn a_timeout_lets_nothing_through_and_closes() {
    let pipe = pipe().await;
    // Long enough for both to send something first.
    let effect = pipe.link.add_effect(Side::Request, Effect::Timeout(ms(1_000)), ALL);
    let start = tokio::time::Instant::now();
    let (mut client, mut server) = pipe.connect().await;
    client.send("lost").await;
    server.send("found").await;
    assert_eq!(client.end().await.unwrap(), b"found");
    assert!(start.elapsed() >= ms(1_000));
    assert_eq!(server.end().await.unwrap(), b"");
    assert_eq!(ended_by(&pipe), [effect]);
}

#[tokio::test]
async fn a_timeout_that_is_taken_away_in_time_delivers_what_was_withheld() {
    let pipe = pipe().await;
    let hour = Duration::from_secs(3600);
    let effect = pipe.link.add_effect(Side::Request, Effect::Timeout(hour), ALL);
    let (mut client, mut server) = pipe.connect().await;
    client.send("late").await;
    assert!(server.is_silent());
    pipe.link.remove_effect(effect);
    server.expect("late").await;
}

#[tokio::test]
async fn a_cut_lets_no_connection_through_either() {
    let pipe = pipe().await;
    let effect = pipe.link.add_effect(Side::Reply, Effect::Cut, ALL);
    let mut client = connect(pipe.link.addr()).await;
    client.send("here").await;
    pipe.link.remove_effect(effect);
    let mut server = accept(&pipe.server).await;
    server.expect("here").await;
    let effect = pipe.link.add_effect(Side::Reply, Effect::Cut, ALL);
    server.send("withheld").await;
    client.send("there").await;
    server.expect("there").await;
    assert!(client.is_silent());
    pipe.link.remove_effect(effect);
    client.expect("withheld").await;
}

#[tokio::test]
async fn a_reset_strikes_open_connections_and_those_to_come() {
    let pipe = pipe().await;
    let (mut client, _server) = pipe.connect().await;
    let effect = pipe.link.add_effect(Side::Request, Effect::ResetAfter(Duration::ZERO), ALL);
    assert_eq!(client.end().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    // Who is struck as early as that may hear of it from connecting itself.
    let reset = match TcpStream::connect(pipe.link.addr()).await {
        Ok(stream) => Raw(stream).end().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    let _server = accept(&pipe.server).await;
    assert_eq!(ended_by(&pipe), [effect; 2]);
}

#[tokio::test]
async fn behind_its_limit_a_direction_is_closed() {
    let pipe = pipe().await;
    let (mut client, mut server) = pipe.connect().await;
    server.send("before").await;
    client.expect("before").await;
    let effect = pipe.link.add_effect(Side::Reply, Effect::Limit(4), ALL);
    server.send("12").await;
    client.expect("12").await;
    server.send("3456789").await;
    assert_eq!(client.end().await.unwrap(), b"34");
    assert_eq!(ended_by(&pipe), [effect]);
    // Of frames, too, no more gets through than that; the rest of a pipeline is gone.
    let bed = Bed::new(Plan::default()).await;
    bed.link.add_effect(Side::Request, Effect::Limit(20), ALL);
    let mut client = bed.client().await;
    client.send("SET a 1\r\nSET b 2\r\nSET c 3\r\nSET d 4\r\n").await;
    assert_eq!(client.end().await.unwrap(), b"+OK\r\n+OK\r\n");
}

/// Which of so many connections an effect strikes.
async fn struck(seed: u64) -> Vec<bool> {
    let plan = Plan { seed, protocol: Protocol::Opaque, ..Plan::default() };
    let Pipe { proxy, link, server } = Pipe::with(Detail::Faults, plan).await;
    link.add_effect(Side::Reply, Effect::Timeout(Duration::ZERO), Toxicity::of(0.5).unwrap());
    let mut struck = Vec::new();
    for number in 1..=24 {
        let mut client = connect(link.addr()).await;
        let mut server = accept(&server).await;
        // One that is spared answers, one that is not ends without an answer.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut server.0, b"here").await;
        drop(server);
        struck.push(client.end().await.is_ok_and(|rest| rest.is_empty()));
        let log = proxy.log().records();
        let decided = log.iter().find_map(|record| match record.event {
            ProxyEvent::Struck(_) if record.connection == number => Some(true),
            ProxyEvent::Spared(_) if record.connection == number => Some(false),
            _ => None,
        });
        assert_eq!(decided, struck.last().copied());
    }
    struck
}

#[tokio::test]
async fn the_seed_says_which_connections_are_struck() {
    let [first, again, other] = [struck(1).await, struck(1).await, struck(2).await];
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!(first.contains(&true) && first.contains(&false));
}

#[tokio::test]
async fn a_link_can_be_closed_and_opened_again_where_it_was() {
    let pipe = pipe().await;
    let (mut client, _server) = pipe.connect().await;
    let addr = pipe.link.addr();
    let effect = pipe.link.add_effect(Side::Reply, Effect::Limit(2), ALL);
    pipe.link.close();
    assert_eq!(client.end().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    refused(addr).await;
    let again = pipe.proxy.reopen(&pipe.link, addr).unwrap();
    assert_eq!(again.addr(), addr);
    // Its effects are still there, and connections are counted on.
    let mut client: Raw = connect(addr).await;
    accept(&pipe.server).await.send("1234").await;
    assert_eq!(client.end().await.unwrap(), b"12");
    assert_eq!(again.counters().connections, 2);
    assert!(again.remove_effect(effect));
    let taken =
        pipe.proxy.listen_on(addr, ClientId(9), Node(0), Upstream::Tcp(addr), Plan::default());
    assert!(taken.unwrap_err().to_string().contains(&addr.to_string()));
}
