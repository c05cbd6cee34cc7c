//! `picklock serve` as its user meets it: a server for tests, which ends when it is told to.

use nix::sys::signal::Signal;

use crate::cli_support::{Playing, Room, asked, eventually};

/// The port that it says it listens on.
fn port(playing: &Playing) -> u16 {
    eventually("it listens", || {
        let said = playing.stdout();
        let line = said.lines().find_map(|line| line.strip_prefix("listening: 127.0.0.1:"))?;
        line.parse().ok()
    })
}

#[test]
fn it_serves_until_it_is_told_to_end() {
    let room = Room::new();
    let playing = room.start(&["serve", "--listen", "0"]);
    let answer = asked(
        port(&playing),
        "SET a 1 NX\r\nSET a 2 NX\r\nINCR a\r\nEVAL \"return redis.call('GET', KEYS[1])\" 1 a",
    );
    assert_eq!(answer, "+OK\r\n$-1\r\n:2\r\n$1\r\n2\r\n+OK\r\n");
    playing.signal(Signal::SIGTERM);
    let said = playing.said().ended(0);
    assert!(said.stdout.contains("not for production"), "{}", said.stdout);
    room.is_left_clean();
}

#[test]
fn a_password_is_asked_for() {
    let room = Room::new().with("PICKLOCK_PASSWORD", "open sesame");
    let playing = room.start(&["serve", "--listen", "0"]);
    let port = port(&playing);
    assert!(asked(port, "GET a").starts_with("-NOAUTH"));
    assert_eq!(asked(port, "AUTH \"open sesame\"\r\nGET a"), "+OK\r\n$-1\r\n+OK\r\n");
    playing.signal(Signal::SIGINT);
    playing.said().ended(0);
}

#[test]
fn what_cannot_be_listened_on_is_said() {
    let room = Room::new();
    let playing = room.start(&["serve", "--listen", "0"]);
    let taken = port(&playing).to_string();
    let said = room.run(&["serve", "--listen", &taken]).ended(69);
    assert!(said.message().contains("0 picks a free one"), "{}", said.stderr);
    let said = room.run(&["serve", "--listen", "somewhere"]).ended(2);
    assert!(said.message().contains("somewhere"), "{}", said.stderr);
}
