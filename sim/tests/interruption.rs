//! However a run is ended, nothing of it stays behind, and whoever asked politely gets a report.

mod cli_support;
mod endpoint_support;
mod proxy_support;

use std::fs;

use cli_support::{Playing, Room, Said, eventually, long, sets, words};
use endpoint_support::Theirs;
use history::verdict::Outcome;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use scenarios::sweep::Sweep;

/// Waits until clients are at work: everybody but the holder tries again and again.
fn clients_are_at_work(port: u16) {
    eventually("clients are at work", || (sets(port) > 20).then_some(()));
}

/// A long run on a redis-server, with clients at work; the process and the port of the server.
fn at_work(room: &Room) -> (Playing, i32, u16) {
    let playing = room.start(&long("polling", "5m", &["--world", "redis"]));
    let (server, port) = room.server();
    clients_are_at_work(port);
    (playing, server, port)
}

/// It ends with a partial report, and nothing else of it is left.
fn ends_politely(room: &Room, playing: Playing) -> Said {
    let said = playing.said().ended(130);
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
    room.is_left_clean();
    said
}

#[test]
fn a_polite_end_leaves_a_partial_report_and_impatience_changes_nothing() {
    let [int, term, hup] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    for signals in [&[int][..], &[term], &[hup], &[int, int, term, hup, int]] {
        let room = Room::new();
        let (playing, ..) = at_work(&room);
        signals.iter().for_each(|signal| playing.signal(*signal));
        let said = ends_politely(&room, playing);
        assert!(said.stderr.contains("interrupted"), "{signals:?}: {}", said.stderr);
        assert!(said.stdout.contains("report: "), "{signals:?}: {}", said.stdout);
    }
}

#[test]
fn an_interrupted_run_wakes_the_server_that_it_has_stalled() {
    let room = Room::new();
    let stalls = "--scenario server-stalls --lock single --world redis --set fault.0.for=10m";
    let playing = room.start(&words(stalls));
    let (server, _) = room.server();
    let status = || fs::read_to_string(format!("/proc/{server}/status")).unwrap();
    eventually("the server is stalled", || status().contains("State:\tT").then_some(()));
    playing.signal(Signal::SIGINT);
    playing.said().ended(130);
    // The first holder was at work: only clients that were stopped have deleted keys, and they were answered.
    let history = fs::read_to_string(room.only_run().join("history.jsonl")).unwrap();
    let event = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let events: Vec<_> = history.lines().map(event).collect();
    let deletion = |it: &&serde_json::Value| it["stage"] == "invoke" && it["touch"] == "delete";
    let mut deletions = events.iter().filter(deletion).map(|it| &it["op"]);
    let answered =
        |op: &serde_json::Value| events.iter().any(|it| it["stage"] == "ok" && it["op"] == *op);
    assert!(deletions.any(answered), "{history}");
    room.is_left_clean();
}

#[test]
fn the_embedded_world_is_interrupted_alike() {
    let room = Room::new();
    let embedded = ["--world", "embedded", "--progress", "lines"];
    let playing = room.start(&long("polling", "5m", &embedded));
    // The first line of progress; there is no server to ask.
    eventually("the run goes on", || playing.stderr().contains("clients done").then_some(()));
    playing.signal(Signal::SIGINT);
    ends_politely(&room, playing);
}

#[test]
fn a_schedule_of_virtual_time_is_interrupted_alike() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let room = Room::new();
        let run = "--scenario gc-pause --lock single --world virtual --seed 1 --clients 2";
        let rounds = " --set workload.register.rounds=100000";
        let playing = room.start(&words(&format!("{run}{rounds}")));
        eventually("it is about to run", || (room.runs().len() == 1).then_some(()));
        playing.signal(signal);
        let said = playing.said().ended(130);
        assert!(said.stderr.contains("interrupted"), "{}", said.stderr);
        assert!(said.stdout.contains("report: "), "{}", said.stdout);
        let result = room.result();
        assert!(!result.complete);
        assert_ne!(result.verdict, Outcome::Held);
        room.is_left_clean();
    }
}

#[test]
fn a_second_signal_ends_at_once_what_is_written_for_long() {
    let room = Room::new();
    let pipe = room.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let run = "--scenario gc-pause --lock single --world virtual --seed 1 --clients 2 --quiet";
    let long = "--set workload.register.rounds=100000 --format json=pipe";
    let playing = room.start(&words(&format!("{run} {long}")));
    eventually("it is about to run", || (room.runs().len() == 1).then_some(()));
    playing.signal(Signal::SIGTERM);
    // Nobody reads the report, so it is written for ever.
    eventually("it says so", || playing.stderr().contains("a second signal").then_some(()));
    playing.signal(Signal::SIGTERM);
    playing.said().ended(130);
}

#[test]
fn an_interrupted_shrink_says_so() {
    let room = Room::new();
    let run = "--scenario late-messages --lock del-release --world virtual --searched";
    let run = words(run);
    let seed = (0..50).find(|seed| {
        let seed = ["--seed", &seed.to_string(), "-q"].map(str::to_owned);
        let args = run.iter().map(|it| (*it).to_owned()).chain(seed).collect::<Vec<_>>();
        let violated = room.run(&args).code == Some(1);
        if !violated {
            fs::remove_dir_all(room.path().join("picklock-out")).unwrap();
        }
        violated
    });
    assert!(seed.is_some(), "some schedule violates something");
    let run = room.only_run();
    let playing = room.start(&["shrink", run.to_str().unwrap(), "--no-confirm"]);
    let place = room.path().join("picklock-out/shrink");
    eventually("it is about to shrink", || place.is_dir().then_some(()));
    eventually("it watches for SIGINT", || playing.catches(Signal::SIGINT).then_some(()));
    playing.signal(Signal::SIGINT);
    let said = playing.said().ended(130);
    assert!(said.stderr.contains("interrupted"), "{}", said.stderr);
}

#[test]
fn an_interrupted_sweep_does_not_say_that_anything_held() {
    let room = Room::new();
    let args = words(
        "--scenario crash-holder --lock single --world virtual --threads 1 --progress lines \
         --seeds 0..1000000000 --format human --format json=sweep.json",
    );
    let playing = room.start(&args);
    eventually("the sweep goes on", || playing.stderr().contains("schedules done").then_some(()));
    playing.signal(Signal::SIGINT);
    let said = playing.said().ended(130);
    assert!(said.results().contains("of 1000000000 schedules"), "{}", said.stdout);
    assert!(said.stdout.contains("verdict: inconclusive"), "{}", said.stdout);
    let found: Sweep =
        serde_json::from_slice(&fs::read(room.path().join("sweep.json")).unwrap()).unwrap();
    assert!(found.interrupted && found.schedules > 0);
    assert_eq!(found.verdict(), Outcome::Inconclusive);
    room.is_left_clean();
}

#[test]
fn an_interrupted_matrix_shows_what_there_is_and_does_not_end_as_if_all_were_expected() {
    let room = Room::new();
    let args = words(
        "matrix --scenario crash-holder,gc-pause,lost-reply --lock single --threads 1 --progress lines \
         --seeds 0..1000000000 --format json",
    );
    let playing = room.start(&args);
    eventually("the matrix goes on", || playing.stderr().contains("pairs done").then_some(()));
    playing.signal(Signal::SIGINT);
    let said = playing.said().ended(130);
    let found: scenarios::matrix::Matrix = serde_json::from_str(&said.stdout).unwrap();
    assert!(found.interrupted && !found.is_as_expected());
    assert!(found.pairs.iter().all(|it| it.not_run.as_deref() == Some("interrupted")));
    room.is_left_clean();
}

#[test]
fn an_exploration_says_its_pace_and_what_is_left_of_its_budget() {
    let room = Room::new();
    let args = words("explore --lock single --budget 10m --faults 3 --progress lines --no-confirm");
    let playing = room.start(&args);
    eventually("it says so", || playing.stderr().contains(" left at most").then_some(()));
    assert!(playing.stderr().contains(" schedules in "), "{}", playing.stderr());
    playing.signal(Signal::SIGINT);
    let said = playing.said().ended(130);
    assert!(said.stdout.contains("verdict: inconclusive: interrupted after "), "{}", said.stdout);
}

#[test]
fn an_end_before_there_is_a_server_leaves_nothing_at_all() {
    let room = Room::new();
    let version = "test \"$1\" = --version && echo 'Redis server v=7.0.15 sha=0' && exit";
    let server = room.program("server", &format!("{version}\n: > \"$0.started\"\nexec sleep 600"));
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let mut playing = room.start(&long("polling", "5m", &["--server-bin", &server]));
        let started = room.path().join("server.started");
        eventually("it is started", || fs::remove_file(&started).ok());
        playing.signal(signal);
        if signal == Signal::SIGINT {
            let said = playing.said().ended(130);
            assert!(said.stderr.contains("nothing to report"), "{}", said.stderr);
            assert!(!room.path().join("picklock-out").exists());
        } else {
            playing.end();
        }
        room.is_left_clean();
    }
}

#[test]
fn a_supervisor_that_is_killed_does_not_leave_its_server() {
    let room = Room::new();
    let (playing, server, _) = at_work(&room);
    let stat = fs::read_to_string(format!("/proc/{server}/stat")).unwrap();
    let parent = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap();
    kill(Pid::from_raw(parent.parse().unwrap()), Signal::SIGKILL).unwrap();
    eventually("the server is gone", || (!room.processes().contains(&server)).then_some(()));
    playing.signal(Signal::SIGINT);
    ends_politely(&room, playing);
}

#[test]
fn a_server_that_is_killed_ends_the_run_with_what_was_seen() {
    let room = Room::new();
    let (playing, server, port) = at_work(&room);
    kill(Pid::from_raw(server), Signal::SIGKILL).unwrap();
    // The holder works on for minutes; that the server has gone it finds out afterwards.
    eventually("the server is gone", || (sets(port) == 0).then_some(()));
    playing.signal(Signal::SIGINT);
    let said = ends_politely(&room, playing);
    // Its keys went with it.
    assert!(!said.stdout.contains("may be left on the server"), "{}", said.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_takes_its_keys_off_a_server_of_the_users() {
    let mut theirs = Theirs::start(&[]).await;
    theirs.admin(&["SET", "foreign", "kept"], "+OK\r\n").await;
    for lock in ["polling", "single", "single-watchdog"] {
        theirs.admin(&["CONFIG", "RESETSTAT"], "+OK\r\n").await;
        let room = Room::new();
        let playing = room.start(&long(lock, "5m", &["--redis", &theirs.url("", "")]));
        clients_are_at_work(theirs.server.port());
        playing.signal(Signal::SIGINT);
        ends_politely(&room, playing);
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
    let far = "network.latency={ min = \"1ms\", max = \"600ms\" }";
    let url = theirs.url("", "");
    let options = ["--redis", &url, "--set", "lock.pause=1ms", "--set", far];
    for _ in 0..3 {
        theirs.admin(&["CONFIG", "RESETSTAT"], "+OK\r\n").await;
        let room = Room::new();
        let playing = room.start(&long("polling", "0", &options));
        eventually("a lock was taken", || (sets(theirs.server.port()) > 2).then_some(()));
        playing.signal(Signal::SIGTERM);
        playing.said().ended(130);
        theirs.admin(&["DBSIZE"], ":300000\r\n").await;
    }
}
