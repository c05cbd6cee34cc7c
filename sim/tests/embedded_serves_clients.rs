//! The embedded server, asked by the clients people use.

mod proxy_support;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use live_world::embedded::{EmbeddedServer, start};
use proxy_support::refused;
use redis::AsyncConnectionConfig;
use redis_model::options::ModelOptions;

fn server() -> EmbeddedServer {
    start(ModelOptions::default()).expect("a port on the loopback interface")
}

fn tool(server: &EmbeddedServer, name: &str, args: &[&str]) -> String {
    let binary = which::which(name).unwrap_or_else(|_| {
        panic!("install {name} 7.0 (apt-get install redis-tools) or put it on PATH")
    });
    let output = Command::new(binary)
        .args(["-h", "127.0.0.1", "-p", &server.addr().port().to_string()])
        .args(args)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name} {args:?} says {text}{complaints}");
    text
}

fn redis_cli(server: &EmbeddedServer, args: &[&str]) -> String {
    tool(server, "redis-cli", args)
}

fn raw(server: &EmbeddedServer) -> TcpStream {
    let stream = TcpStream::connect(server.addr()).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

fn ask(stream: &mut TcpStream, request: &[u8], length: usize) -> String {
    stream.write_all(request).expect("it reads");
    let mut reply = vec![0; length];
    stream.read_exact(&mut reply).expect("it answers");
    reply.escape_ascii().to_string()
}

/// What a stream says up to these bytes.
fn until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("it answers");
        bytes.push(byte[0]);
    }
    bytes
}

/// What a stream says up to its end.
fn rest(stream: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("it closes");
    rest.escape_ascii().to_string()
}

/// Waits until so many clients wait for an element.
fn blocked(server: &EmbeddedServer, clients: usize) {
    let line = format!("blocked_clients:{clients}\r");
    while !redis_cli(server, &["INFO", "clients"]).contains(&line) {}
}

#[test]
fn redis_cli_is_served() {
    let server = server();
    assert_eq!(redis_cli(&server, &["PING"]), "PONG\n");
    assert_eq!(redis_cli(&server, &["SET", "k", "t", "NX", "PX", "60000"]), "OK\n");
    assert_eq!(redis_cli(&server, &["SET", "k", "u", "NX", "PX", "60000"]), "\n");
    let script = "return {KEYS[1], redis.call('get', KEYS[1])}";
    assert_eq!(redis_cli(&server, &["-3", "EVAL", script, "1", "k"]), "k\nt\n");
    let info = redis_cli(&server, &["INFO", "everything"]);
    assert!(info.contains("cmdstat_set:calls=2,"), "{info}");
    assert!(info.contains("db0:keys=1,expires=1"), "{info}");
}

#[test]
fn redis_benchmark_is_served() {
    let server = server();
    let args = ["-t", "ping,set,get,incr", "-n", "20000", "-P", "16", "-q"];
    let report = tool(&server, "redis-benchmark", &args);
    for name in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR"] {
        assert!(report.contains(&format!("{name}: ")), "{report}");
    }
    assert!(!report.contains("rror"), "{report}");
    assert_eq!(redis_cli(&server, &["GET", "counter:__rand_int__"]), "20000\n");
}

#[tokio::test]
async fn redis_rs_is_served_in_both_protocols() {
    for suffix in ["", "?protocol=resp3"] {
        let server = server();
        let url = format!("redis://{}/{suffix}", server.addr());
        let client = redis::Client::open(url).expect("a URL");
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connected = client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connected.expect("a connection");
        let set: String = redis::cmd("SET")
            .arg(&["k", "token", "NX", "PX", "60000"])
            .query_async(&mut connection)
            .await
            .expect("a reply");
        assert_eq!(set, "OK");
        let script = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                      return redis.call('del', KEYS[1]) else return 0 end";
        for (token, deleted) in [("other", 0), ("token", 1), ("token", 0)] {
            let reply: i64 = redis::cmd("EVAL")
                .arg(&[script, "1", "k", token])
                .query_async(&mut connection)
                .await
                .expect("a reply");
            assert_eq!(reply, deleted);
        }
    }
}

#[test]
fn a_pop_waits_for_its_element_its_time_or_its_clients_end() {
    let server = server();
    let (mut popper, mut pusher) = (raw(&server), raw(&server));
    popper.write_all(b"BLPOP l 0\r\nPING\r\n").expect("it reads");
    // Another that has waited longer, and goes away.
    blocked(&server, 1);
    let mut gone = raw(&server);
    gone.write_all(b"BLPOP l m 0\r\n").expect("it reads");
    blocked(&server, 2);
    drop(gone);
    blocked(&server, 1);
    assert_eq!(ask(&mut pusher, b"RPUSH l a b\r\n", 4), ":2\\r\\n");
    let answer = "*2\\r\\n$1\\r\\nl\\r\\n$1\\r\\na\\r\\n+PONG\\r\\n";
    assert_eq!(ask(&mut popper, b"", 25), answer);
    assert_eq!(redis_cli(&server, &["LPOP", "l"]), "b\n");
    assert_eq!(redis_cli(&server, &["BLPOP", "l", "0.01"]), "\n");
}

#[test]
fn messages_reach_subscribers_in_both_protocols() {
    let server = server();
    let (mut old, mut new) = (raw(&server), raw(&server));
    let confirmed = "*3\\r\\n$9\\r\\nsubscribe\\r\\n$1\\r\\nc\\r\\n:1\\r\\n";
    assert_eq!(ask(&mut old, b"SUBSCRIBE c\r\n", 30), confirmed);
    new.write_all(b"HELLO 3\r\n").expect("it reads");
    until(&mut new, b"*0\r\n");
    assert_eq!(ask(&mut new, b"SUBSCRIBE c\r\n", 30), confirmed.replacen('*', ">", 1));
    assert_eq!(redis_cli(&server, &["PUBLISH", "c", "m"]), "2\n");
    let message = "*3\\r\\n$7\\r\\nmessage\\r\\n$1\\r\\nc\\r\\n$1\\r\\nm\\r\\n";
    assert_eq!(ask(&mut old, b"", 31), message);
    assert_eq!(ask(&mut new, b"", 31), message.replacen('*', ">", 1));
}

#[test]
fn an_expired_key_is_announced_though_nobody_sends_anything() {
    let server = server();
    let mut listener = raw(&server);
    listener.write_all(b"SUBSCRIBE __keyevent@0__:expired\r\n").expect("it reads");
    until(&mut listener, b":1\r\n");
    assert_eq!(redis_cli(&server, &["CONFIG", "SET", "notify-keyspace-events", "Ex"]), "OK\n");
    assert_eq!(redis_cli(&server, &["SET", "k", "v", "PX", "300"]), "OK\n");
    until(&mut listener, b"expired\r\n$1\r\nk\r\n");
}

#[test]
fn requests_may_all_be_sent_before_the_first_reply_is_read() {
    const REQUESTS: usize = 512;
    let server = server();
    let mut stream = raw(&server);
    stream.set_write_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let bulk = [&b"$65536\r\n"[..], &[b'x'; 65536], b"\r\n"].concat();
    let request = [b"*2\r\n$4\r\nECHO\r\n", &bulk[..]].concat();
    // More than the sockets of both ends hold.
    for _ in 0..REQUESTS {
        stream.write_all(&request).expect("it reads");
    }
    let mut replies = vec![0; REQUESTS * bulk.len()];
    stream.read_exact(&mut replies).expect("it answers");
    assert!(replies.chunks(bulk.len()).all(|reply| *reply == *bulk));
}

#[test]
fn a_killed_client_is_closed_and_hears_nothing_more() {
    let server = server();
    let id = |stream: &mut TcpStream| ask(stream, b"CLIENT ID\r\n", 4)[1..2].to_owned();
    let (mut idle, mut waiting, mut caller) = (raw(&server), raw(&server), raw(&server));
    let (first, second) = (id(&mut idle), id(&mut waiting));
    waiting.write_all(b"BLPOP l 0\r\n").expect("it reads");
    blocked(&server, 1);
    assert_eq!(redis_cli(&server, &["CLIENT", "KILL", "ID", &first]), "1\n");
    assert_eq!(redis_cli(&server, &["CLIENT", "KILL", "ID", &second]), "1\n");
    assert_eq!(redis_cli(&server, &["CLIENT", "KILL", "ID", &second]), "0\n");
    assert_eq!(rest(&mut idle) + &rest(&mut waiting), "");
    // Nobody waits for this any more.
    assert_eq!(redis_cli(&server, &["RPUSH", "l", "a"]), "1\n");
    assert_eq!(redis_cli(&server, &["LLEN", "l"]), "1\n");
    // Whoever kills itself is answered first; the old form and SKIPME NO do so.
    let address = caller.local_addr().expect("an address").to_string();
    caller.write_all(format!("CLIENT KILL {address}\r\nPING\r\n").as_bytes()).expect("it reads");
    assert_eq!(rest(&mut caller), "+OK\\r\\n");
}

#[test]
fn a_client_that_wants_no_replies_gets_none() {
    let server = server();
    let mut stream = raw(&server);
    let script = b"CLIENT REPLY SKIP\r\nSET k a\r\nGET k\r\nCLIENT REPLY OFF\r\nSET k b\r\n\
        NOSUCH\r\nCLIENT REPLY SKIP\r\nBLPOP l 0.01\r\nCLIENT REPLY ON\r\nGET k\r\nQUIT\r\n";
    stream.write_all(script).expect("it reads");
    assert_eq!(rest(&mut stream), r"$1\r\na\r\n+OK\r\n$1\r\nb\r\n+OK\r\n");
}

#[test]
fn a_malformed_stream_closes_only_its_own_connection() {
    let server = server();
    let (mut good, mut bad) = (raw(&server), raw(&server));
    assert_eq!(ask(&mut good, b"PING\r\n", 7), "+PONG\\r\\n");
    bad.write_all(b"PING\r\n*1\r\nnonsense\r\nPING\r\n").expect("it reads");
    let expected = "+PONG\\r\\n-ERR Protocol error: expected \\'$\\', got \\'n\\'\\r\\n";
    assert_eq!(rest(&mut bad), expected);
    assert_eq!(ask(&mut good, b"PING\r\n", 7), "+PONG\\r\\n");
}

#[test]
fn a_pipeline_is_answered_in_order_however_it_is_cut() {
    let server = server();
    let mut stream = raw(&server);
    for piece in [&b"*2\r\n$4\r\nEC"[..], b"HO\r\n$1\r\na\r\nECHO ", b"b\r\n\r\nQUIT\r\nPING\r\n"] {
        stream.write_all(piece).expect("it reads");
        stream.flush().expect("it is sent");
    }
    assert_eq!(rest(&mut stream), "$1\\r\\na\\r\\n$1\\r\\nb\\r\\n+OK\\r\\n");
}

#[test]
fn five_hundred_connections_are_served_at_once() {
    let server = server();
    let mut streams: Vec<TcpStream> = (0..500).map(|_| raw(&server)).collect();
    for stream in &mut streams {
        stream.write_all(b"INCR n\r\n").expect("it reads");
    }
    let seen: BTreeSet<_> = streams.iter_mut().map(|stream| until(stream, b"\r\n")).collect();
    assert_eq!(seen.len(), 500, "every client drew another number");
}

#[tokio::test]
async fn a_dropped_server_closes_its_connections_and_its_port() {
    let server = server();
    let addr = server.addr();
    let mut stream = raw(&server);
    assert_eq!(ask(&mut stream, b"PING\r\n", 7), "+PONG\\r\\n");
    drop(server);
    let mut rest = Vec::new();
    // Closed, or reset: either way nothing more comes.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty());
    refused(addr).await;
}
