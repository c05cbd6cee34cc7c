//! Tests with a client that sends and does not read.

use std::time::Duration;

use picklock::env::Node;
use resp::frame::CommandName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::session::OUTSTANDING_MOST;
use crate::{Action, ClientId, Detail, Link, Plan, Proxy, Rule, Side, Upstream};

const PING: &[u8] = b"PING\r\n";
const PONG: &[u8] = b"+PONG\r\n";
/// What may have been read at once before the proxy sees that it has to stop.
const READ_AT_ONCE: usize = 1 << 14;
/// How often the proxy has had its turn when it has had every occasion to read on.
const TURNS: usize = 300;

async fn connect(link: &Link, server: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(link.addr()).await.unwrap();
    (client, server.accept().await.unwrap().0)
}

fn pings(link: &Link) -> usize {
    let count = link.counters().commands.get(&CommandName::new(b"PING")).copied();
    usize::try_from(count.unwrap_or_default()).unwrap()
}

/// Reads this many bytes, and writes as many answers as come whole.
async fn answer(server: &mut TcpStream, mut requests: usize) {
    let mut room = vec![0; READ_AT_ONCE / PING.len() * PING.len()];
    while requests > 0 {
        let some = (room.len() / PING.len()).min(requests);
        server.read_exact(&mut room[..some * PING.len()]).await.unwrap();
        server.write_all(&PONG.repeat(some)).await.unwrap();
        requests -= some;
    }
}

#[tokio::test]
async fn a_client_is_not_read_on_while_too_many_replies_are_to_be_struck() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(Detail::Faults).unwrap();
    let upstream = Upstream::Tcp(server.local_addr().unwrap());
    let link = proxy.listen(ClientId(0), Node(0), upstream, Plan::default()).unwrap();
    // Done to each reply, so that each has to be remembered.
    proxy.rules().add(Rule::new(Action::Delay(Side::Reply, Duration::ZERO)).command("PING"));
    let (client, mut end) = connect(&link, &server).await;
    let (mut other, mut others_end) = connect(&link, &server).await;
    let (mut replies, mut requests) = client.into_split();
    let all = 3 * OUTSTANDING_MOST;
    let sending = tokio::spawn(async move {
        requests.write_all(&PING.repeat(all)).await.unwrap();
        requests
    });
    let mut come = vec![0; OUTSTANDING_MOST * PING.len()];
    end.read_exact(&mut come).await.unwrap();
    let mut behind = 0;
    for _ in 0..TURNS {
        other.write_all(b"ECHO a\r\n").await.unwrap();
        others_end.read_exact(&mut [0; 8]).await.unwrap();
        while let Ok(count @ 1..) = end.try_read(&mut come) {
            behind += count;
        }
    }
    assert!(pings(&link) <= OUTSTANDING_MOST + READ_AT_ONCE, "{} are read", pings(&link));
    let answering = tokio::spawn(async move {
        let part = behind % PING.len();
        let whole = OUTSTANDING_MOST + behind / PING.len();
        end.write_all(&PONG.repeat(whole)).await.unwrap();
        if part > 0 {
            end.read_exact(&mut vec![0; PING.len() - part]).await.unwrap();
            end.write_all(PONG).await.unwrap();
        }
        answer(&mut end, all - whole - usize::from(part > 0)).await;
        end
    });
    replies.read_exact(&mut vec![0; all * PONG.len()]).await.unwrap();
    assert_eq!(pings(&link), all, "all come once replies come");
    sending.await.unwrap();
    answering.await.unwrap();
}

#[tokio::test]
async fn a_client_that_reads_nothing_until_it_has_sent_everything_is_served() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(Detail::Faults).unwrap();
    let upstream = Upstream::Tcp(server.local_addr().unwrap());
    let link = proxy.listen(ClientId(0), Node(0), upstream, Plan::default()).unwrap();
    let (mut client, mut end) = connect(&link, &server).await;
    let all = 5 * OUTSTANDING_MOST;
    // The server keeps the replies until all requests have come, as redis-server does in memory.
    let serving = tokio::spawn(async move {
        end.read_exact(&mut vec![0; all * PING.len()]).await.unwrap();
        end.write_all(&PONG.repeat(all)).await.unwrap();
        end
    });
    client.write_all(&PING.repeat(all)).await.unwrap();
    client.read_exact(&mut vec![0; all * PONG.len()]).await.unwrap();
    serving.await.unwrap();
}
