//! A server behind TLS: faults still see frames, and certificates are checked.
//!
//! The key and certificates in `proxy_support` were made for this test and protect nothing.

use std::path::PathBuf;

use fault_proxy::{
    Action, ClientId, Link, Plan, ProxyEvent, Rule, Side, TlsError, Trust, Upstream,
};
use picklock::env::Node;

use crate::proxy_support::{Bed, addr, command, connect, eventually, file, terminator};

fn link(bed: &Bed, host: &str, port: u16, trust: &Trust) -> Link {
    let upstream = Upstream::tls(host, port, trust).unwrap();
    bed.proxy.listen(ClientId(1), Node(0), upstream, Plan::default()).unwrap()
}

#[tokio::test]
async fn faults_hit_frames_inside_tls() {
    let bed = Bed::new(Plan::default()).await;
    let port = terminator(addr(&bed.server)).await;
    let trust = Trust::SystemAnd(file("ca.pem"));
    for host in ["localhost", "127.0.0.1"] {
        let link = link(&bed, host, port, &trust);
        let mut client = connect(link.addr()).await;
        let big = vec![b'x'; 1 << 20];
        client.send(command(&[b"SET", b"big", &big])).await;
        client.exchange("STRLEN big\r\n", "+OK\r\n:1048576\r\n").await;
    }
    let fault = bed.proxy.rules().add(Rule::new(Action::Drop(Side::Reply)).key("k"));
    let link = link(&bed, "localhost", port, &trust);
    let mut client = connect(link.addr()).await;
    client.send("SET k 1\r\n").await;
    bed.direct().await.until("GET k", "$1\r\n1\r\n").await;
    assert_eq!(fault.fired(), 1);
}

#[tokio::test]
async fn an_unknown_certificate_is_refused_unless_anyone_is_trusted() {
    let bed = Bed::new(Plan::default()).await;
    let port = terminator(addr(&bed.server)).await;
    let anyone = link(&bed, "localhost", port, &Trust::Anyone);
    connect(anyone.addr()).await.exchange("PING\r\n", "+PONG\r\n").await;
    let Ok(upstream) = Upstream::tls("localhost", port, &Trust::System) else {
        return; // This machine trusts nobody at all, which is refusal enough.
    };
    let strict = bed.proxy.listen(ClientId(2), Node(0), upstream, Plan::default()).unwrap();
    assert!(connect(strict.addr()).await.end().await.is_err());
    let log = bed.proxy.log();
    eventually("the refusal is logged", || !log.records().is_empty()).await;
    let records = log.records();
    let ProxyEvent::Unreachable(why) = &records[0].event else { panic!("{records:?}") };
    assert!(why.contains("certificate"), "{why}");
}

#[test]
fn a_ca_file_that_is_none_is_named() {
    for path in [PathBuf::from("/nonexistent/ca.pem"), file("mod.rs")] {
        let error = Upstream::tls("localhost", 1, &Trust::SystemAnd(path.clone())).unwrap_err();
        assert!(matches!(error, TlsError::CaFile { .. }), "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    let error = Upstream::tls("no host", 1, &Trust::Anyone).unwrap_err();
    assert!(matches!(error, TlsError::HostName { .. }), "{error}");
}
