//! `picklock proxy` between redis-cli and redis-server, faults switched on and off over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use test_server::RedisServer;

use crate::cli_support::{Playing, Room, eventually};

/// redis-cli at this port.
fn redis_cli(port: &str) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", port]).stdin(Stdio::null());
    command
}

/// What it prints.
fn ask_redis(port: &str, words: &[&str]) -> String {
    let said = redis_cli(port)
        .args(words)
        .output()
        .expect("redis-cli is not on the PATH; install it (apt-get install redis-tools)");
    String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).trim().to_owned()
}

/// `picklock proxy` at work.
struct Proxy {
    playing: Playing,
    _room: Room,
}

impl Proxy {
    fn start(upstream: &str) -> Self {
        let room = Room::new();
        let args = ["proxy", "--listen", "0", "--upstream", upstream, "--control", "0"];
        let playing = room.start(&args);
        Self { playing, _room: room }
    }

    /// What it says behind this word: where it listens, or is told what to do.
    fn said(&self, word: &str) -> String {
        eventually("it says where it listens", || {
            let said = self.playing.stdout();
            let line = said.lines().find_map(|line| line.strip_prefix(word).map(str::to_owned));
            // The last line is whole once all has been said.
            line.filter(|_| said.contains("control: ") && said.ends_with('\n'))
        })
    }

    fn port(&self) -> String {
        let line = self.said("redis: 127.0.0.1:");
        line.split_once(' ').unwrap().0.to_owned()
    }

    /// The status and the body of an answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (code, answer) = self.send(&format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        (code, if answer.is_empty() { Value::Null } else { serde_json::from_str(&answer).unwrap() })
    }

    /// The status and the body that these bytes are answered with.
    fn send(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.said("control: http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let code = head.split(' ').nth(1).unwrap_or("0").parse().unwrap();
        (code, body.to_owned())
    }

    /// Puts a toxic on the proxy.
    fn put(&self, toxic: Value) {
        let (code, answer) = self.ask("POST", "/proxies/redis/toxics", &toxic.to_string());
        assert_eq!(code, 200, "{answer}");
    }

    fn take(&self, name: &str) {
        assert_eq!(self.ask("DELETE", &format!("/proxies/redis/toxics/{name}"), "").0, 204);
    }

    /// The events of the log, oldest first.
    fn events(&self) -> Vec<String> {
        let (_, log) = self.ask("GET", "/proxies/redis/log", "");
        let events = log.as_array().unwrap().iter();
        events.map(|it| it["event"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn faults_are_switched_on_and_off_while_it_runs() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start(&format!("127.0.0.1:{}", server.port()));
    let (through, beside) = (proxy.port(), server.port().to_string());
    assert_eq!(ask_redis(&through, &["SET", "k", "1"]), "OK");

    // Carried out, and never heard of.
    proxy.put(json!({"type": "redis", "name": "deaf", "attributes":
        {"action": "drop-reply", "command": "INCR", "key": "k", "nth": 1}}));
    let mut waiting = redis_cli(&through);
    let mut waiting = waiting.args(["INCR", "k"]).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the reply is lost", || {
        proxy.events().contains(&"reply-lost".to_owned()).then_some(())
    });
    assert_eq!(ask_redis(&beside, &["GET", "k"]), "2");
    waiting.kill().unwrap();
    let said = waiting.wait_with_output().unwrap();
    assert!(said.stdout.is_empty(), "{said:?}");
    assert_eq!(ask_redis(&through, &["INCR", "k"]), "3");
    proxy.take("deaf");

    // Held until the fault is taken away.
    proxy.put(json!({"type": "redis", "name": "held", "attributes":
        {"action": "hold", "command": "DEL"}}));
    std::thread::scope(|scope| {
        let deleted = scope.spawn(|| ask_redis(&through, &["DEL", "k"]));
        let faults = || proxy.events().iter().filter(|it| *it == "fault").count();
        eventually("it is held", || (faults() == 2).then_some(()));
        assert_eq!(ask_redis(&beside, &["EXISTS", "k"]), "1");
        proxy.take("held");
        assert_eq!(deleted.join().unwrap(), "1");
    });

    proxy.put(json!({"type": "reset_peer", "stream": "upstream", "attributes": {"timeout": 0}}));
    assert_eq!(ask_redis(&beside, &["SET", "k", "there"]), "OK");
    // How redis-cli puts it depends on how far it came.
    assert_ne!(ask_redis(&through, &["GET", "k"]), "there");
    assert_eq!(proxy.ask("POST", "/reset", "").0, 204);
    assert_eq!(ask_redis(&through, &["PING"]), "PONG");

    let (code, off) = proxy.ask("POST", "/proxies/redis", r#"{"enabled": false}"#);
    assert_eq!((code, &off["enabled"]), (200, &json!(false)));
    assert!(ask_redis(&through, &["PING"]).contains("refused"));
    assert_eq!(proxy.ask("PATCH", "/proxies/redis", r#"{"enabled": true}"#).0, 200);
    assert_eq!(ask_redis(&through, &["PING"]), "PONG");
    let events = proxy.events();
    for event in ["fault", "reply-lost", "effect-put", "befallen", "ended", "effect-taken"] {
        assert!(events.contains(&event.to_owned()), "{event}: {events:?}");
    }
}

#[test]
fn a_proxy_made_over_http_serves_and_goes() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::start("127.0.0.1:1");
    let wanted = json!({"name": "other", "upstream": format!("localhost:{}", server.port())});
    let (code, made) = proxy.ask("POST", "/proxies", &wanted.to_string());
    let listen = made["listen"].as_str().unwrap_or_default();
    assert_eq!(code, 201, "{made}");
    let port = listen.strip_prefix("127.0.0.1:").unwrap();
    assert_eq!(ask_redis(port, &["PING"]), "PONG");
    assert_eq!(proxy.ask("DELETE", "/proxies/other", "").0, 204);
    assert!(ask_redis(port, &["PING"]).contains("refused"));
}

#[test]
fn what_is_no_request_is_refused_and_the_next_one_is_served() {
    let proxy = Proxy::start("127.0.0.1:1");
    let request = |head: &str| {
        proxy.send(&format!("GET /version HTTP/1.1\r\nConnection: close\r\n{head}\r\n"))
    };
    assert_eq!(request("Host: localhost\r\n").0, 200);
    assert_eq!(request("Host: localhost\r\nUser-Agent: Mozilla/5.0\r\n").0, 403);
    assert_eq!(request("Host: evil.example:8475\r\n").0, 403);
    for header in ["Origin: http://localhost", "Origin: null", "Sec-Fetch-Site: same-site"] {
        let (code, says) = request(&format!("Host: localhost\r\n{header}\r\n"));
        assert!(code == 403 && says.contains("web pages"), "{header}: {code} {says}");
    }
    assert_eq!(proxy.send("nonsense\r\n\r\n").0, 400);
    assert_eq!(proxy.ask("POST", "/proxies", "{").0, 400);
    let head = "POST /proxies HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let big = proxy.send(&format!("{head}Content-Length: 2000000\r\n\r\n"));
    assert_eq!(big.0, 413, "{}", big.1);
    let (code, body) = proxy.ask("POST", "/proxies", &"[".repeat(100_000));
    assert_eq!(code, 400, "{body}");
    assert_eq!(proxy.ask("GET", "/proxies/redis", "").0, 200);
}

#[test]
fn who_is_slow_is_in_nobodys_way() {
    let proxy = Proxy::start("127.0.0.1:1");
    let control = proxy.said("control: http://");
    let slow = || {
        let mut stream = TcpStream::connect(&control).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
            .write_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")
            .unwrap();
        stream
    };
    let half: Vec<TcpStream> = (0..64).map(|_| slow()).collect();
    assert_eq!(proxy.ask("GET", "/proxies/redis", "").0, 200);
    // It was not their time that had run out: all but the oldest are still welcome.
    for mut stream in half.into_iter().skip(1) {
        stream.write_all(b"\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}
