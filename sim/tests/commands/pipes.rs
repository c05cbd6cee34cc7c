//! Pipes with a name: nothing waits in silence for what nobody may ever write.

use std::fs;
use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::cli_support::{HEAD, Room, eventually, words};

/// A pipe of this name in the room; its path.
fn pipe(room: &Room, name: &str) -> String {
    let path = room.path().join(name);
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_history_or_a_scenario_that_somebody_is_to_write_is_waited_for_aloud() {
    let room = Room::new();
    let (history, scenario) = (pipe(&room, "history"), pipe(&room, "pool.toml"));
    let text = scenarios::catalog::text("crash-holder").unwrap();
    let run = ["--scenario", &scenario, "--lock", "single", "--world", "virtual", "--seed", "1"];
    for (args, path, text) in [(&["check", &history][..], &history, HEAD), (&run, &scenario, text)]
    {
        let playing = room.start(args);
        let says = format!("{path} is a pipe: waiting for what writes to it");
        eventually("it says so", || playing.stderr().contains(&says).then_some(()));
        fs::write(path, format!("{text}\n")).unwrap();
        let said = playing.said();
        assert!(matches!(said.code, Some(0 | 3 | 4)), "{:?}: {}", said.code, said.stderr);
        assert!(said.stdout.contains("verdict"), "{}", said.stdout);
    }
}

#[test]
fn what_was_measured_is_not_read_from_a_pipe() {
    let room = Room::new();
    let log = format!("file:{}", pipe(&room, "hold.csv"));
    let set = format!("network.latency={{ file = \"{}\" }}", &log["file:".len()..]);
    let run = ["--scenario", "gc-pause", "--world", "virtual", "--seed", "1", "--set", &set];
    for args in [&["tune", "--preset", "go", "--hold", &log][..], &run] {
        let said = room.run(args).ended(2);
        assert!(said.message().contains("it is a pipe: copy it into a file"), "{}", said.stderr);
    }
}

#[test]
fn what_is_read_whole_is_read_from_regular_files_alone() {
    let room = Room::new();
    let run = "--scenario gc-pause --lock del-release --world virtual --seed 1 --out out";
    room.run(&words(run)).ended(1);
    let run = room.path().join("out/gc-pause/latest");
    let pipe = pipe(&room, "pipe.json");
    let tls = ["--tls-ca", &pipe];
    let redis = ["--scenario", "gc-pause", "--redis", "rediss://127.0.0.1:1"];
    let proxy = ["proxy", "--listen", "0", "--upstream", "rediss://127.0.0.1:1"];
    for args in [&["merge", &pipe][..], &[&redis[..], &tls].concat(), &[&proxy[..], &tls].concat()]
    {
        let said = room.run(args).ended(2);
        assert!(said.message().contains("it is no regular file"), "{args:?}: {}", said.stderr);
    }
    for (name, command) in
        [("history.jsonl", "report"), ("result.json", "report"), ("manifest.json", "replay")]
    {
        fs::remove_file(run.join(name)).unwrap();
        symlink("/dev/zero", run.join(name)).unwrap();
        let said = room.run(&[command, run.to_str().unwrap()]).ended(2);
        let says = format!("{name}: it is no regular file");
        assert!(said.message().contains(&says), "{}", said.stderr);
    }
}
