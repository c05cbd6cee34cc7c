//! The control API with a token: who does not have it is answered with 401, and nothing is done.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::cli_support::{Playing, Room, eventually};

const TOKEN: &str = "Zm9yIGEgdGVzdCBhbG9uZQ==";
const TOXIC: &str = r#"{"type": "latency", "name": "slow", "attributes": {"latency": 1}}"#;

fn token_file(room: &Room, mode: u32) -> String {
    let path = room.file("token", format!("{TOKEN}\n"));
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

/// A proxy whose control API listens here, and where that is.
fn start(room: &Room, control: &str, token: &str) -> (Playing, String) {
    let proxy = ["proxy", "--listen", "0", "--upstream", "127.0.0.1:1", "--control", control];
    let playing = room.start(&[&proxy[..], &["--token-file", token]].concat());
    let addr = eventually("it listens", || {
        let said = playing.stdout();
        let addr = said.lines().find_map(|line| line.strip_prefix("control: http://"))?.to_owned();
        said.ends_with('\n').then_some(addr)
    });
    (playing, addr)
}

/// The whole answer to a request with these headers.
fn ask(addr: &str, request: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[track_caller]
fn is(answer: &str, code: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
}

#[test]
fn without_the_token_nothing_is_done_and_with_it_everything() {
    let room = Room::new();
    // Another address of loopback, which is for the token's owners alone, too.
    let (playing, addr) = start(&room, "127.0.0.2:0", &token_file(&room, 0o600));
    assert!(addr.starts_with("127.0.0.2:"), "{addr}");
    let authorized = format!("Host: picklock.test:8475\r\nAuthorization: Bearer {TOKEN}\r\n");
    let toxics = "/proxies/redis/toxics";
    let none =
        |addr: &str| ask(addr, &format!("GET {toxics}"), &authorized, "").ends_with("\r\n\r\n[]\n");
    for headers in [
        String::new(),
        "Host: localhost\r\n".to_owned(),
        "Authorization: Bearer\r\n".to_owned(),
        format!("Authorization: Bearer {TOKEN}x\r\n"),
        format!("Authorization: Bearer {}\r\n", &TOKEN[..TOKEN.len() - 1]),
        format!("Authorization: Bearer {}\r\n", TOKEN.to_lowercase()),
        format!("Authorization: Basic {TOKEN}\r\n"),
        format!("Authorization: {TOKEN}\r\n"),
        format!("Authorization: Bearer x\r\nAuthorization: Bearer {TOKEN}\r\n"),
        format!("X-Authorization: Bearer {TOKEN}\r\n"),
    ] {
        for (request, body) in [
            (format!("POST {toxics}"), TOXIC),
            (format!("POST {toxics}?token={TOKEN}"), TOXIC),
            ("POST /proxies/redis".to_owned(), r#"{"enabled": false}"#),
            ("DELETE /proxies/redis".to_owned(), ""),
            ("GET /proxies".to_owned(), ""),
            ("GET /nowhere".to_owned(), ""),
        ] {
            let answer = ask(&addr, &request, &headers, body);
            is(&answer, 401);
            assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
            assert!(!answer.contains(TOKEN) && !answer.contains("upstream"), "{answer}");
        }
        assert!(none(&addr), "{headers}: nothing is done");
    }
    is(&ask(&addr, &format!("POST {toxics}"), &authorized, TOXIC), 200);
    assert!(!none(&addr));
    let one = ask(&addr, "GET /proxies/redis", &authorized, "");
    assert!(one.contains(r#""enabled":true"#) && one.contains("slow"), "{one}");
    // A page in a browser has no reason to have it.
    is(&ask(&addr, "GET /proxies", &format!("{authorized}Origin: http://x.test\r\n"), ""), 403);
    playing.signal(Signal::SIGTERM);
    let said = playing.said().ended(0);
    assert!(!format!("{}{}", said.stdout, said.stderr).contains(TOKEN));
}

#[test]
fn a_token_counts_on_loopback_too_and_may_be_behind_a_link() {
    let room = Room::new();
    let file = token_file(&room, 0o640);
    let link = room.path().join("link");
    symlink(&file, &link).unwrap();
    let (_playing, addr) = start(&room, "0", link.to_str().unwrap());
    is(&ask(&addr, "GET /version", "Host: localhost\r\n", ""), 401);
    let headers = format!("Host: localhost\r\nauthorization: bearer {TOKEN}\r\n");
    is(&ask(&addr, "GET /version", &headers, ""), 200);
}

#[test]
fn a_token_that_is_none_is_refused_before_anything_listens() {
    let room = Room::new();
    let run = |more: &[&str]| {
        let proxy = ["proxy", "--listen", "0", "--upstream", "127.0.0.1:1"];
        let said = room.run(&[&proxy[..], more].concat()).ended(2);
        assert!(said.stdout.is_empty() && !said.stderr.contains(TOKEN), "{}", said.stderr);
        said.message()
    };
    assert!(run(&["--control", "127.0.0.2:0"]).contains("add --token-file"));
    assert!(run(&["--control", "0.0.0.0:0"]).contains("without a token"));
    let file = room.path().join("token");
    let path = file.to_str().unwrap();
    assert!(run(&["--token-file", path]).contains("--control"));
    let with = |more: &str| run(&["--control", "127.0.0.2:0", "--token-file", more]);
    assert!(with(path).contains("No such file"));
    for mode in [0o644, 0o604, 0o620, 0o602, 0o666] {
        token_file(&room, mode);
        let said = with(path);
        assert!(said.contains(&format!("mode {mode:o}")) && said.contains("chmod 600"), "{said}");
    }
    assert!(with(room.path().to_str().unwrap()).contains("no regular file"));
    assert!(with("/dev/null").contains("no regular file"));
    for (text, says) in
        [("", "0 characters"), ("short", "5 characters"), ("two words, not one", "ASCII")]
    {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert!(with(path).contains(says), "{text}");
    }
}
