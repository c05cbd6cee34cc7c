//! However a run is ended, nothing of it stays behind, and whoever asked politely gets a report.

mod cli_support;
mod endpoint_support;
mod proxy_support;

use std::fs;

use cli_support::{LONG, Room, eventually, sets};
use endpoint_support::Theirs;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scenarios::sweep::Sweep;
use scenarios::verdict::Outcome;

/// Waits until clients are at work: everybody but the holder tries again and again.
fn clients_are_at_work(port: u16) {
    eventually("clients are at work", || (sets(port) > 20).then_some(()));
}

/// What a partial report must be like.
fn check_partial_report(room: &Room) {
    let result = room.result();
    assert!(!result.complete);
    assert_eq!(result.verdict, Outcome::Inconclusive);
    assert!(result.stats.acquisitions.invoked > 0);
    let run = room.only_run();
    for name in ["report.html", "history.jsonl", "latency.png", "manifest.json"] {
        assert!(run.join(name).is_file(), "{name}");
    }
    let names = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name());
    let hidden: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert!(hidden.is_empty(), "half-written: {hidden:?}");
}

#[test]
fn a_polite_end_leaves_a_partial_report_and_no_server() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let room = Room::new();
        let playing = room.start(&[&LONG[..], &["--world", "redis"]].concat());
        clients_are_at_work(room.server().1);
        playing.signal(signal);
        let said = playing.said().ended(130);
        assert!(said.stderr.contains("interrupted"), "{signal}: {}", said.stderr);
        assert!(said.stdout.contains("report: "), "{signal}: {}", said.stdout);
        check_partial_report(&room);
        room.is_left_clean();
    }
}

#[test]
fn impatience_changes_nothing() {
    let room = Room::new();
    let playing = room.start(&[&LONG[..], &["--world", "redis"]].concat());
    clients_are_at_work(room.server().1);
    for signal in [Signal::SIGINT, Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT]
    {
        playing.signal(signal);
    }
    playing.said().ended(130);
    check_partial_report(&room);
    room.is_left_clean();
}

#[test]
fn the_embedded_world_is_interrupted_alike() {
    let room = Room::new();
    let playing =
        room.start(&[&LONG[..], &["--world", "embedded", "--progress", "lines"]].concat());
    eventually("the run goes on", || {
        // The first line of progress; there is no server to ask.
        playing.stderr().contains("clients done").then_some(())
    });
    playing.signal(Signal::SIGINT);
    playing.said().ended(130);
    check_partial_report(&room);
}

#[test]
fn an_interrupted_sweep_does_not_say_that_anything_held() {
    let room = Room::new();
    let sweep =
        "--scenario crash-holder --lock single --world virtual --threads 1 --progress lines";
    let many = ["--seeds", "0..1000000000", "--format", "human", "--format", "json=sweep.json"];
    let args: Vec<&str> = sweep.split(' ').chain(many).collect();
    let playing = room.start(&args);
    eventually("the sweep goes on", || playing.stderr().contains("schedules done").then_some(()));
    playing.signal(Signal::SIGINT);
    let said = playing.said().ended(130);
    let flat = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("of 1000000000 schedules"), "{}", said.stdout);
    assert!(said.stdout.contains("verdict: inconclusive"), "{}", said.stdout);
    let found: Sweep =
        serde_json::from_slice(&fs::read(room.path().join("sweep.json")).unwrap()).unwrap();
    assert!(found.interrupted && found.schedules > 0);
    assert_eq!(found.verdict(), Outcome::Inconclusive);
    room.is_left_clean();
}

#[test]
fn a_sudden_end_leaves_no_server_either() {
    let room = Room::new();
    let mut playing = room.start(&[&LONG[..], &["--world", "redis"]].concat());
    clients_are_at_work(room.server().1);
    playing.signal(Signal::SIGKILL);
    playing.end();
    room.is_left_clean();
}

#[test]
fn an_end_before_there_is_a_server_leaves_nothing_at_all() {
    let room = Room::new();
    let version = "test \"$1\" = --version && echo 'Redis server v=7.0.15 sha=0' && exit";
    let server = room.program("server", &format!("{version}\n: > \"$0.started\"\nexec sleep 600"));
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let playing = room.start(&[&LONG[..], &["--server-bin", &server]].concat());
        let started = room.path().join("server.started");
        eventually("it is started", || fs::remove_file(&started).ok());
        playing.signal(signal);
        if signal == Signal::SIGINT {
            let said = playing.said().ended(130);
            assert!(said.stderr.contains("nothing to report"), "{}", said.stderr);
            assert!(!room.path().join("picklock-out").exists());
        } else {
            let mut playing = playing;
            playing.end();
        }
        room.is_left_clean();
    }
}

#[test]
fn a_supervisor_that_is_killed_does_not_leave_its_server() {
    let room = Room::new();
    let playing = room.start(&[&LONG[..], &["--world", "redis"]].concat());
    let (server, port) = room.server();
    clients_are_at_work(port);
    let stat = fs::read_to_string(format!("/proc/{server}/stat")).unwrap();
    let parent = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap();
    kill(Pid::from_raw(parent.parse().unwrap()), Signal::SIGKILL).unwrap();
    eventually("the server is gone", || (!room.processes().contains(&server)).then_some(()));
    playing.signal(Signal::SIGINT);
    playing.said().ended(130);
    check_partial_report(&room);
    room.is_left_clean();
}

#[test]
fn a_server_that_is_killed_ends_the_run_with_what_was_seen() {
    let room = Room::new();
    let playing = room.start(&[&LONG[..], &["--world", "redis", "-q"]].concat());
    let (server, port) = room.server();
    clients_are_at_work(port);
    kill(Pid::from_raw(server), Signal::SIGKILL).unwrap();
    // The holder works on for minutes; that the server has gone it finds out afterwards.
    eventually("the server is gone", || (sets(port) == 0).then_some(()));
    playing.signal(Signal::SIGINT);
    playing.said().ended(130);
    check_partial_report(&room);
    room.is_left_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_takes_its_keys_off_a_server_of_the_users() {
    let mut theirs = Theirs::start(&[]).await;
    theirs.admin(&["SET", "foreign", "kept"], "+OK\r\n").await;
    for lock in ["polling", "single", "single-watchdog"] {
        theirs.admin(&["CONFIG", "RESETSTAT"], "+OK\r\n").await;
        let room = Room::new();
        let options = ["--redis", &theirs.url("", ""), "--set", &format!("lock.recipe={lock}")];
        let args: Vec<&str> =
            LONG.into_iter().filter(|word| !["--lock", "polling"].contains(word)).collect();
        let playing = room.start(&[&args[..], &options].concat());
        clients_are_at_work(theirs.server.port());
        playing.signal(Signal::SIGINT);
        playing.said().ended(130);
        check_partial_report(&room);
        theirs.admin(&["DBSIZE"], ":1\r\n").await;
    }
    theirs.admin(&["GET", "foreign"], "$4\r\nkept\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_still_on_their_way_do_not_come_after_the_clean_up() {
    let mut theirs = Theirs::start(&["--enable-debug-command", "yes"]).await;
    // So many that it takes a while to search them for what the run has left.
    theirs.admin(&["DEBUG", "POPULATE", "300000"], "+OK\r\n").await;
    // Everybody has a SET on its way, and the first to arrive takes the lock.
    let far = ["--set", "network.latency={ min = \"1ms\", max = \"600ms\" }"];
    let free = ["--hold", "0", "--redis", &theirs.url("", ""), "--set", "lock.pause=1ms"];
    let args: Vec<&str> =
        LONG.iter().copied().filter(|word| !["--hold", "5m"].contains(word)).collect();
    for _ in 0..3 {
        theirs.admin(&["CONFIG", "RESETSTAT"], "+OK\r\n").await;
        let room = Room::new();
        let playing = room.start(&[&args[..], &free, &far].concat());
        eventually("a lock was taken", || (sets(theirs.server.port()) > 2).then_some(()));
        playing.signal(Signal::SIGTERM);
        playing.said().ended(130);
        theirs.admin(&["DBSIZE"], ":300000\r\n").await;
    }
}
