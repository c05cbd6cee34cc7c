//! Whatever may listen where a Redis was expected, or nothing: it is recognized, and gets no password.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fault_proxy::Trust;
use live_world::endpoint::{EndpointError, Refusal, Settings};
use live_world::server::find_server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::endpoint_support::{PASSWORD, Theirs, open, open_with, refusal, refusal_with, settings};
use crate::proxy_support::{addr, file, terminator};

/// A listener that hears something on a connection, writes it down, answers this, and closes.
async fn stranger(answer: &'static str) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let theirs = Arc::clone(&theirs);
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                let count = stream.read(&mut bytes).await.unwrap_or(0);
                theirs.lock().unwrap().extend_from_slice(&bytes[..count]);
                // The other side may have gone.
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (addr, heard)
}

#[tokio::test]
async fn other_services_are_recognized_and_get_no_password() {
    for (answer, says) in [
        ("HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", "answered `HTTP/1.1 400 Bad Request`"),
        ("", "closed without an answer"),
    ] {
        let (addr, heard) = stranger(answer).await;
        let refusal = refusal(&format!("redis://:{PASSWORD}@{addr}")).await.to_string();
        assert!(refusal.contains(says), "{refusal}");
        let heard = heard.lock().unwrap();
        assert!(!heard.is_empty(), "it was spoken to");
        assert!(!heard.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD.as_bytes()));
    }
}

#[tokio::test]
async fn a_listener_that_says_nothing_is_given_up() {
    // The kernel accepts; nobody ever looks.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let within = Duration::from_millis(50);
    let settings = Settings { answer_within: within, ..settings() };
    assert_eq!(refusal_with(&url, Trust::System, &settings).await, Refusal::Silent(within));
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_named() {
    let refusal = refusal("redis://:hunter2@127.0.0.1:1/2").await;
    assert!(matches!(refusal, Refusal::Unreachable { addr, .. } if addr.port() == 1), "{refusal}");
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_named() {
    // The top-level domain is reserved for names that never exist.
    let refusal = refusal("redis://picklock.invalid").await;
    let Refusal::UnknownHost { host, .. } = &refusal else { panic!("{refusal}") };
    assert_eq!(host, "picklock.invalid");
}

#[tokio::test]
async fn tls_is_not_spoken_to_a_server_without_it() {
    let theirs = Theirs::start(&[]).await;
    let url = theirs.url(":hunter2@", "").replace("redis://", "rediss://");
    let refusal = refusal_with(&url, Trust::Anyone, &settings()).await;
    assert_eq!(refusal, Refusal::PlainUnderTls);
}

#[tokio::test]
async fn a_server_with_tls_wants_it_and_a_certificate_that_is_trusted() {
    let theirs = Theirs::start(&[]).await;
    let port = terminator(addr(&theirs.server)).await;
    assert_eq!(refusal(&format!("redis://localhost:{port}")).await, Refusal::TlsUnderPlain);
    let url = format!("rediss://localhost:{port}");
    let ca = Trust::SystemAnd(file("ca.pem"));
    for trust in [ca, Trust::Anyone] {
        let endpoint = open_with(&url, trust, &settings()).await.unwrap();
        assert_eq!(endpoint.server().version, find_server(None, None).unwrap().version);
    }
    // A root, but not the one that has signed it.
    let stranger = Trust::SystemAnd(file("server.pem"));
    let refusal = refusal_with(&url, stranger, &settings()).await;
    assert!(matches!(refusal, Refusal::Untrusted(_)), "{refusal}");
    let missing = Trust::SystemAnd("/nonexistent/ca.pem".into());
    let error = open_with(&url, missing, &settings()).await.err().unwrap();
    assert!(matches!(error, EndpointError::Tls { .. }), "{error}");
    assert!(error.to_string().contains("/nonexistent/ca.pem"), "{error}");
}

/// Says LOADING on this many connections, and then leads to a server.
async fn loading(times: usize, server: SocketAddr) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let nth = count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                // Whether a connection is only tried or used shows when something comes.
                if nth < times {
                    while matches!(stream.read(&mut [0; 4096]).await, Ok(1..)) {
                        let line = b"-LOADING Redis is loading the dataset in memory\r\n";
                        let _ = stream.write_all(line).await;
                    }
                } else {
                    let mut server = TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
                }
            });
        }
    });
    (url, connections)
}

#[tokio::test]
async fn a_server_that_is_loading_is_waited_for() {
    let theirs = Theirs::start(&[]).await;
    let (url, connections) = loading(4, addr(&theirs.server)).await;
    open(&url).await.unwrap();
    assert!(connections.load(Ordering::Relaxed) > 4, "it has said LOADING");
}

#[tokio::test]
async fn a_server_that_loads_for_too_long_is_given_up() {
    let theirs = Theirs::start(&[]).await;
    let (url, _) = loading(usize::MAX, addr(&theirs.server)).await;
    let settings = Settings { loading_within: Duration::ZERO, ..settings() };
    let refusal = refusal_with(&url, Trust::System, &settings).await;
    assert_eq!(refusal, Refusal::Loading(Duration::ZERO));
}
