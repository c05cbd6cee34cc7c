//! A path is bytes and need be no text: every option that takes one takes these, and nobody panics.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;

use crate::cli_support::{Room, Said};

/// A name that is no UTF-8.
fn odd(ending: &str) -> OsString {
    OsString::from_vec([b"o\xff\xfed".as_slice(), ending.as_bytes()].concat())
}

fn joined(text: &str, path: &OsStr) -> OsString {
    OsString::from_vec([text.as_bytes(), path.as_bytes()].concat())
}

fn run(room: &Room, args: &[&OsStr]) -> Said {
    let none: [&str; 0] = [];
    Said::of(room.command(&none).args(args).output().unwrap())
}

fn words(line: &str) -> Vec<&OsStr> {
    line.split(' ').map(OsStr::new).collect()
}

const SCHEDULE: &str = "--scenario gc-pause --lock single --world virtual --seed 1";

#[test]
fn a_report_goes_where_it_is_sent() {
    let room = Room::new();
    let (out, file) = (odd(""), odd(".json"));
    let format = joined("json=", &file);
    let to = |line| {
        let mut args = words(line);
        args.extend([OsStr::new("--out"), &out, OsStr::new("--format"), &format]);
        run(&room, &args)
    };
    // What the pause does to whoever writes after its lock has ended is as the story has it.
    to(SCHEDULE).ended(1);
    to("--scenario gc-pause --lock single --world virtual --seeds 0..2").ended(1);
    for (place, name) in [(&file, ""), (&out, "gc-pause/latest/manifest.json")] {
        let text = fs::read(room.path().join(place).join(name))
            .or_else(|_| fs::read(room.path().join(place)));
        serde_json::from_slice::<serde_json::Value>(&text.unwrap()).unwrap();
    }
    let latest = room.path().join(&out).join("gc-pause/latest");
    let history = latest.join("history.jsonl");
    run(&room, &[OsStr::new("replay"), latest.as_os_str()]).ended(1);
    run(&room, &[OsStr::new("check"), history.as_os_str(), OsStr::new("--format"), &format])
        .ended(1);
    let from = words("tune --preset go --ttl 5s --renew none --holds 1000 --format json --from");
    // Ten holds tell too little of millions a day.
    run(&room, &[&from[..], &[latest.as_os_str()]].concat()).ended(3);
    let mut tune = words("tune --preset go --hold 5ms --ttl 5s --renew none --holds 1000 --out");
    tune.push(&out);
    let said = run(&room, &tune).ended(0);
    assert!(said.stdout.contains("report: "), "{}", said.stdout);
}

#[test]
fn a_scenario_and_its_matrix_are_read_from_there() {
    let room = Room::new();
    let file = odd(".toml");
    fs::write(room.path().join(&file), scenarios::catalog::text("gc-pause").unwrap()).unwrap();
    let file = [OsStr::new("--scenario"), &file];
    let single = words("--lock single --world virtual");
    run(&room, &[&file[..], &single, &words("--seed 1")].concat()).ended(1);
    run(&room, &[&words("matrix")[..], &file, &single, &words("--seeds 0..1")].concat()).ended(0);
}

#[test]
fn a_server_is_started_from_there() {
    let room = Room::new();
    let server = odd("-server");
    let real = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|directory| directory.join("redis-server"))
        .find(|path| path.is_file())
        .expect("redis-server is not on the PATH; install it (apt-get install redis-server)");
    symlink(real, room.path().join(&server)).unwrap();
    let path = room.path().join(server);
    let bin = [OsStr::new("--server-bin"), path.as_os_str()];
    let run_it = words("--scenario crash-holder --lock single --world redis");
    run(&room, &[&run_it[..], &bin].concat()).ended(0);
    run(&room, &[&words("doctor")[..], &bin].concat()).ended(0);
    let matrix = words("matrix --scenario crash-holder --lock single --world redis");
    run(&room, &[&matrix[..], &bin].concat()).ended(0);
    room.is_left_clean();
}

#[test]
fn what_is_not_there_is_named() {
    let room = Room::new();
    let missing = odd("");
    let toml = odd(".toml");
    for (line, path, code) in [
        ("proxy --listen 0 --upstream rediss://127.0.0.1:1 --tls-ca", &missing, 2),
        ("--redis rediss://127.0.0.1:1 --scenario gc-pause --tls-ca", &missing, 2),
        ("doctor --server-bin", &missing, 69),
        ("--scenario gc-pause --server-bin", &missing, 69),
        ("tune --from", &missing, 2),
        ("check", &missing, 2),
        ("replay", &missing, 2),
        ("--scenario", &toml, 2),
        ("matrix --scenario", &toml, 2),
    ] {
        let mut args = words(line);
        args.push(path);
        let said = run(&room, &args).ended(code);
        assert!(said.message().contains("o\u{fffd}\u{fffd}d"), "{line}: {}", said.stderr);
    }
    let log = joined("no/such/", &missing);
    let mut args = words("proxy --listen 0 --upstream 127.0.0.1:1 --log");
    args.push(&log);
    run(&room, &args).ended(2);
}
