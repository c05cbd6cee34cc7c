//! Streams that are no RESP, or worse: they end their own connection, with a reason, and nothing else.

use std::sync::Arc;

use fault_proxy::{Addresses, Detail, Plan, ProxyEvent, Side};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRng, TestRunner};
use resp::frame::{FrameError, Limits, Scanner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::proxy_support::{DEADLINE, Pipe};

/// How many pairs of streams are tried.
const PAIRS: usize = 400;

/// Parts of streams: right ones, wrong ones, and such as promise what never comes.
const PARTS: [&[u8]; 36] = [
    b"*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    b"PING\r\n",
    b"\r\n",
    b"MULTI\r\n",
    b"EXEC\r\n",
    b"ROLE\r\n",
    b"RESET\r\n",
    b"MONITOR\r\n",
    b"SUBSCRIBE a b\r\n",
    b"UNSUBSCRIBE\r\n",
    b"CLUSTER SLOTS\r\n",
    b"SENTINEL MASTERS\r\n",
    b"CLIENT REPLY OFF\r\n",
    b"*-1\r\n",
    b"*-5\r\n",
    b"$-7\r\n",
    b"*0\r\n",
    b"*16777216\r\n",
    b"*16777217\r\n",
    b"*18446744073709551616\r\n",
    b"$536870912\r\n",
    b"$99999999999\r\n",
    b"*?\r\n",
    b"$?\r\n",
    b"%1\r\n+a\r\n:1\r\n",
    b"%9223372036854775808\r\n",
    b">2\r\n$7\r\nmessage\r\n$1\r\nm\r\n",
    b"|1\r\n+ttl\r\n:1\r\n+OK\r\n",
    b"!7\r\nMOVED 1\r\n",
    b"=8\r\ntxt:some\r\n",
    b"~1\r\n#t\r\n",
    b"-MOVED 1 127.0.0.1:1\r\n",
    b"*2\r\n$6\r\nmaster\r\n*1\r\n*3\r\n",
    b"$3\r\nabcde\r\n",
    b"+OK\r\n",
];

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => prop::sample::select(PARTS.to_vec()).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..80),
        1 => Just(vec![b'a'; 100_000]),
        1 => (1..400_usize).prop_map(|depth| b"*1\r\n".repeat(depth)),
    ];
    let whole = prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat());
    // Most are whole; the others end somewhere.
    (whole, prop::option::weighted(0.3, any::<prop::sample::Index>())).prop_map(
        |(mut bytes, cut)| {
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            bytes
        },
    )
}

/// Why this stream ends its connection, if it does.
fn refused(mut scanner: Scanner, mut rest: &[u8]) -> Option<FrameError> {
    loop {
        match scanner.scan(rest) {
            Ok(Some(frame)) => rest = &rest[frame.len..],
            Ok(None) => return None,
            Err(error) => return Some(error),
        }
    }
}

/// With a map of addresses, so that replies are looked into; without links in it, so that none changes.
async fn bed() -> Pipe {
    let plan = Plan { addresses: Some(Arc::new(Addresses::default())), ..Plan::default() };
    Pipe::with(Detail::Faults, plan).await
}

/// A client that does nothing wrong is served.
async fn is_well(bed: &Pipe) {
    let (mut client, mut server) = bed.connect().await;
    client.send("PING\r\n").await;
    server.expect("PING\r\n").await;
    server.send("+PONG\r\n").await;
    client.expect("+PONG\r\n").await;
}

/// Says it all, and gives what came until the other end closed or broke.
async fn talk(mut stream: TcpStream, says: &[u8], closes_first: bool) -> Vec<u8> {
    let mut heard = Vec::new();
    let talked = async {
        // Either may fail where the connection has been reset.
        let _ = stream.write_all(says).await;
        if closes_first {
            let _ = stream.shutdown().await;
        }
        let _ = stream.read_to_end(&mut heard).await;
    };
    tokio::time::timeout(DEADLINE, talked).await.expect("the connection ends");
    heard
}

#[tokio::test]
async fn whatever_is_sent_the_connection_ends_and_the_proxy_does_not() {
    let bed = bed().await;
    let rng = TestRng::deterministic_rng(Default::default());
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut refusals = [0, 0];
    let (mut client, mut server) = bed.connect().await;
    for _ in 0..PAIRS {
        let (asks, answers) = (stream(), stream()).new_tree(&mut runner).unwrap().current();
        let streams = || format!("{} / {}", asks.escape_ascii(), answers.escape_ascii());
        let (client, server) = bed.connect().await;
        let (to_client, to_server) =
            tokio::join!(talk(client.0, &asks, true), talk(server.0, &answers, false));
        assert!(asks.starts_with(&to_server), "{}: {}", streams(), to_server.escape_ascii());
        assert!(answers.starts_with(&to_client), "{}: {}", streams(), to_client.escape_ascii());
        let wrong = [
            refused(Scanner::requests(Limits::default()), &asks),
            refused(Scanner::replies(Limits::default()), &answers),
        ];
        let records = bed.proxy.log().take();
        let is_opaque = records.iter().any(|it| matches!(it.event, ProxyEvent::Opaque(_)));
        let malformed = records.iter().find_map(|it| match it.event {
            ProxyEvent::Malformed(side, why) => Some((side, why)),
            _ => None,
        });
        match malformed {
            // The reason is that of the scanner for the side that came first.
            Some((Side::Request, why)) => assert_eq!(wrong[0], Some(why), "{}", streams()),
            Some((Side::Reply, why)) => assert_eq!(wrong[1], Some(why), "{}", streams()),
            None => assert!(wrong[0].is_none() || is_opaque, "{}: {records:?}", streams()),
        }
        if let Some((side, _)) = malformed {
            refusals[usize::from(side == Side::Reply)] += 1;
        }
    }
    assert!(refusals.iter().all(|count| *count > 20), "{refusals:?}");
    // The connection that was there before is as well as a new one.
    client.send("PING\r\n").await;
    server.expect("PING\r\n").await;
    is_well(&bed).await;
}

/// Kilobytes of this process that are in memory.
#[cfg(target_os = "linux")]
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_merely_promised_takes_no_memory() {
    let bed = bed().await;
    is_well(&bed).await;
    let before = resident_kb();
    let mut open = Vec::new();
    for _ in 0..100 {
        let (mut client, mut server) = bed.connect().await;
        client.send("*1048576\r\n$536870912\r\nx").await;
        server.send(b"*100000\r\n".repeat(100)).await;
        server.send("$536870912\r\nx").await;
        open.push((client, server));
    }
    is_well(&bed).await;
    // Half a megabyte a connection would be this much; promised were a hundred thousand.
    let grown = resident_kb().saturating_sub(before);
    assert!(grown < 50 << 10, "{grown} kB");
    assert!(bed.proxy.log().records().is_empty());
}
