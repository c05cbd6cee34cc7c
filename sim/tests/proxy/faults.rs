//! Faults hit exactly the frame they name, and look to the client as a network would.

use std::time::Duration;

use fault_proxy::{
    Action, AfterLostReply, ClientId, Cut, Gate, Latency, Occurrence, Plan, ProxyEvent, Rule, Side,
    Upstream,
};
use picklock::env::Node;
use redis::AsyncConnectionConfig;
use scenarios::distribution::Distribution;

use crate::proxy_support::{Bed, DEADLINE, Raw, addr, command, connect, eventually, refused};

fn rule(action: Action) -> Rule {
    Rule::new(action).command("SET").key("k")
}

#[tokio::test]
async fn a_lost_reply_leaves_the_key_set_and_the_client_without_answer() {
    let bed = Bed::new(Plan::default()).await;
    let fault = bed.proxy.rules().add(rule(Action::Drop(Side::Reply)));
    let client = redis::Client::open(format!("redis://{}", bed.link.addr())).unwrap();
    // The handshake has the same limit.
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(2)));
    let mut connection =
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    let set: redis::RedisResult<()> =
        redis::cmd("SET").arg("k").arg("v").query_async(&mut connection).await;
    assert!(set.unwrap_err().is_timeout());
    bed.direct().await.until("GET k", "$1\r\nv\r\n").await;
    assert_eq!(fault.fired(), 1);
}

#[tokio::test]
async fn after_a_lost_reply_nothing_more_comes_and_nothing_more_goes() {
    let bed = Bed::new(Plan::default()).await;
    bed.proxy.rules().add(rule(Action::Drop(Side::Reply)));
    let (mut client, mut direct) = (bed.client().await, bed.direct().await);
    client.exchange("SET a 1\r\nSET k 1\r\nSET b 1\r\nPING\r\n", "+OK\r\n").await;
    direct.until("GET k", "$1\r\n1\r\n").await;
    eventually("the reply is lost", || lost_reply(&bed) == Some(2)).await;
    direct.exchange("EXISTS b\r\n", ":0\r\n").await;
    // Whatever had been passed on would come before the end.
    drop(bed.proxy);
    assert_eq!(client.end().await.unwrap(), b"");
}

/// The request whose reply was lost.
fn lost_reply(bed: &Bed) -> Option<u64> {
    let records = bed.proxy.log().records();
    records
        .iter()
        .find(|record| matches!(record.event, ProxyEvent::ReplyLost))
        .map(|found| found.frame)
}

#[tokio::test]
async fn where_one_direction_is_dead_later_requests_still_arrive() {
    let after_lost_reply = AfterLostReply::RequestsPass;
    let bed = Bed::new(Plan { after_lost_reply, ..Plan::default() }).await;
    bed.proxy.rules().add(rule(Action::Drop(Side::Reply)));
    let (mut client, mut direct) = (bed.client().await, bed.direct().await);
    client.send("SET k 1\r\nSET b 1\r\n").await;
    direct.until("GET b", "$1\r\n1\r\n").await;
    eventually("the reply is lost", || lost_reply(&bed) == Some(1)).await;
    drop(bed.proxy);
    assert_eq!(client.end().await.unwrap(), b"");
}

#[tokio::test]
async fn a_lost_request_is_never_seen_and_neither_is_what_follows() {
    let bed = Bed::new(Plan::default()).await;
    bed.proxy.rules().add(rule(Action::Drop(Side::Request)));
    let (mut client, mut direct) = (bed.client().await, bed.direct().await);
    client.exchange("SET a 1\r\nSET k 1\r\nSET b 1\r\n", "+OK\r\n").await;
    // The client gives up; the server then sees the end of the connection, and nothing before it.
    drop(client);
    let alone = |info: &str| info.contains("connected_clients:1\r\n");
    direct.ask_until("INFO clients", alone).await;
    direct.exchange("EXISTS k b\r\n", ":0\r\n").await;
}

#[tokio::test]
async fn after_the_grace_the_connection_is_reset() {
    let grace = Some(Duration::from_millis(20));
    let bed = Bed::new(Plan { grace, ..Plan::default() }).await;
    bed.proxy.rules().add(rule(Action::Drop(Side::Request)));
    let mut client = bed.client().await;
    client.send("SET k 1\r\n").await;
    assert_eq!(client.end().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn the_nth_match_is_hit_exactly() {
    let bed = Bed::new(Plan::default()).await;
    let fault = bed
        .proxy
        .rules()
        .add(rule(Action::Reset(Side::Request)).when(Occurrence::Nth(3)).client(ClientId(0)));
    let mut client = bed.client().await;
    client
        .exchange("SET k 1\r\nSET j 1\r\nGET k\r\nSET k 2\r\n", "+OK\r\n+OK\r\n$1\r\n1\r\n+OK\r\n")
        .await;
    let mut second = bed.client().await;
    second.send("SET k 3\r\n").await;
    assert_eq!(second.end().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(fault.fired(), 1);
    client.exchange("SET k 4\r\nGET k\r\n", "+OK\r\n$1\r\n4\r\n").await;
    let records = bed.proxy.log().records();
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!((record.connection, record.frame, record.key.as_deref()), (2, 1, Some(&b"k"[..])));
}

#[tokio::test]
async fn a_reset_in_place_of_the_reply_comes_after_the_server_has_run_it() {
    let bed = Bed::new(Plan::default()).await;
    bed.proxy.rules().add(rule(Action::Reset(Side::Reply)));
    let mut client = bed.client().await;
    client.send("SET k 1\r\n").await;
    assert_eq!(client.end().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    bed.direct().await.exchange("GET k\r\n", "$1\r\n1\r\n").await;
}

#[tokio::test]
async fn a_gate_holds_a_frame_and_all_behind_it_until_it_opens() {
    let bed = Bed::new(Plan::default()).await;
    let gate = Gate::shut();
    let fault = bed.proxy.rules().add(rule(Action::Hold(Side::Request, gate.clone())));
    let (mut client, mut direct) = (bed.client().await, bed.direct().await);
    client.exchange("SET a 1\r\nSET k 1\r\nSET b 1\r\n", "+OK\r\n").await;
    eventually("it is held", || fault.fired() == 1).await;
    direct.exchange("EXISTS k b\r\n", ":0\r\n").await;
    gate.open();
    client.expect("+OK\r\n+OK\r\n").await;
}

#[tokio::test]
async fn a_held_reply_waits_after_the_server_has_run_it() {
    let bed = Bed::new(Plan::default()).await;
    let gate = Gate::shut();
    bed.proxy.rules().add(rule(Action::Hold(Side::Reply, gate.clone())));
    let (mut client, mut direct) = (bed.client().await, bed.direct().await);
    client.send("SET k 1\r\nPING\r\n").await;
    direct.until("GET k", "$1\r\n1\r\n").await;
    assert!(client.is_silent());
    gate.open();
    client.expect("+OK\r\n+PONG\r\n").await;
}

#[tokio::test]
async fn a_cut_withholds_requests_until_the_heal() {
    let bed = Bed::new(Plan::default()).await;
    let (mut client, mut direct) = (bed.client().await, bed.direct().await);
    client.exchange("PING\r\n", "+PONG\r\n").await;
    bed.link.cut(Cut::Requests);
    client.send("SET k 1\r\n").await;
    // A client that gives up does not recall what it has sent.
    drop(client);
    let mut late = bed.client().await;
    late.send("GET k\r\n").await;
    direct.exchange("EXISTS k\r\n", ":0\r\n").await;
    bed.link.cut(Cut::None);
    direct.until("GET k", "$1\r\n1\r\n").await;
    // Which of the two connections arrives first is open: it is the value, or nothing.
    late.expect("$").await;
}

#[tokio::test]
async fn more_than_the_proxy_holds_back_arrives_after_the_heal() {
    let bed = Bed::new(Plan::default()).await;
    let mut client = bed.client().await;
    // Without replies nothing but the room made by writing wakes the lane.
    client.exchange("PING\r\nCLIENT REPLY OFF\r\n", "+PONG\r\n").await;
    bed.link.cut(Cut::Requests);
    let append = command(&[b"APPEND", b"k", &vec![b'x'; 1 << 20]]);
    let sender = tokio::spawn(async move {
        for _ in 0..24 {
            client.send(&append).await;
        }
        client.send("CLIENT REPLY ON\r\nSTRLEN k\r\n").await;
        client
    });
    eventually("the lane is full", || bed.link.counters().requests >= 6).await;
    bed.link.cut(Cut::None);
    let mut client = tokio::time::timeout(DEADLINE, sender).await.unwrap().unwrap();
    client.expect(format!("+OK\r\n:{}\r\n", 24 << 20)).await;
}

#[tokio::test]
async fn a_lost_reply_of_a_stream_stays_lost() {
    let bed = Bed::new(Plan::default()).await;
    bed.proxy.rules().add(Rule::new(Action::Drop(Side::Reply)).command("MONITOR"));
    let (mut client, mut direct) = (bed.client().await, bed.direct().await);
    client.send("MONITOR\r\n").await;
    eventually("it is a stream", || bed.proxy.log().records().len() == 2).await;
    direct.exchange("GET k\r\nPING\r\n", "$-1\r\n+PONG\r\n").await;
    drop(bed.proxy);
    // Closed, or reset over what the client was not to have; nothing came before.
    assert!(client.end().await.is_ok_and(|rest| rest.is_empty()));
}

#[tokio::test]
async fn a_cut_of_replies_lets_requests_through() {
    let bed = Bed::new(Plan::default()).await;
    let (mut client, mut direct) = (bed.client().await, bed.direct().await);
    client.exchange("PING\r\n", "+PONG\r\n").await;
    bed.link.cut(Cut::Replies);
    client.send("SET k 1\r\n").await;
    direct.until("GET k", "$1\r\n1\r\n").await;
    assert!(client.is_silent());
    bed.link.cut(Cut::None);
    client.expect("+OK\r\n").await;
    bed.link.reset_connections();
    assert_eq!(client.end().await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    bed.client().await.exchange("PING\r\n", "+PONG\r\n").await;
}

#[tokio::test]
async fn jitter_never_reorders() {
    let spread = Latency::from(&"uniform:0s..3ms".parse::<Distribution>().unwrap());
    let (requests, replies) = (spread.clone(), spread);
    let bed = Bed::new(Plan { requests, replies, ..Plan::default() }).await;
    let mut client = bed.client().await;
    let (mut sent, mut expected) = (String::new(), String::new());
    for number in 1..=300 {
        sent.push_str("INCR n\r\n");
        expected.push_str(&format!(":{number}\r\n"));
    }
    client.exchange(sent, expected).await;
}

#[tokio::test]
async fn latency_and_delay_are_at_least_what_they_say() {
    let requests = Latency::Fixed(Duration::from_millis(5));
    let replies = Latency::Fixed(Duration::from_millis(7));
    let bed = Bed::new(Plan { requests, replies, ..Plan::default() }).await;
    bed.proxy.rules().add(rule(Action::Delay(Side::Reply, Duration::from_millis(30))));
    let mut client = bed.client().await;
    for (line, least_ms) in [("SET j 1\r\n", 12), ("SET k 1\r\n", 42)] {
        let start = tokio::time::Instant::now();
        client.exchange(line, "+OK\r\n").await;
        assert!(start.elapsed() >= Duration::from_millis(least_ms), "{line}");
    }
}

#[tokio::test]
async fn an_unreachable_server_shows_as_a_reset_and_in_the_log() {
    let bed = Bed::new(Plan::default()).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plan = Plan::default();
    let link = bed.proxy.listen(ClientId(1), Node(1), Upstream::Tcp(nobody), plan).unwrap();
    // The reset may come so soon that the connect itself reports it.
    if let Ok(stream) = tokio::net::TcpStream::connect(link.addr()).await {
        assert!(Raw(stream).end().await.is_err());
    }
    let records = bed.proxy.log().records();
    assert!(
        matches!(records[0].event, ProxyEvent::Unreachable(_)) && records[0].client == ClientId(1)
    );
    link.set_upstream(Upstream::Tcp(addr(&bed.server)));
    connect(link.addr()).await.exchange("PING\r\n", "+PONG\r\n").await;
}

#[tokio::test]
async fn dropping_the_proxy_closes_listeners_and_connections() {
    let Bed { proxy, link, server: _server } = Bed::new(Plan::default()).await;
    let mut client = connect(link.addr()).await;
    client.exchange("PING\r\n", "+PONG\r\n").await;
    drop(proxy);
    assert_eq!(client.end().await.unwrap(), b"");
    refused(link.addr()).await;
}
