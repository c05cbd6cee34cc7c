//! `picklock explore` and `picklock confirm` as their user meets them.

use std::fs;
use std::path::PathBuf;

use nix::sys::signal::Signal;
use scenarios::scenario::{Overrides, Scenario};

use crate::cli_support::{Room, Said, eventually, words};

/// Explores in the smallest world, without a server.
fn explore(room: &Room, options: &str, code: i32) -> Said {
    let line = format!("explore --clients 2 --rounds 1 --no-confirm {options}");
    room.run(&words(&line)).ended(code)
}

#[test]
fn a_flawed_lock_leaves_a_scenario_that_runs_and_violates_the_same() {
    let room = Room::new();
    let said = explore(&room, "--lock del-release", 1);
    assert!(said.stdout.starts_with("key violated: ownership"), "{}", said.stdout);
    assert!(said.after("verdict:").starts_with("violated (key): ownership after "));
    assert!(said.stderr.contains("2 clients, 1 round, 1 fault: "), "{}", said.stderr);
    let file = said.after("scenario:");
    let path: PathBuf = room.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    let scenario = Scenario::parse("x", file, &text, &Overrides::default()).unwrap();
    assert_eq!((scenario.clients, scenario.faults.len()), (2, 1));
    assert!(!text.contains("[swarm]"), "what says nothing is left out: {text}");
    let again = room.run(&["--scenario", file, "--world", "virtual", "--seed", "9"]).ended(1);
    assert!(again.stdout.contains("key violated: ownership"), "{}", again.stdout);
    assert!(
        !again.stdout.contains("unlike what"),
        "it turns out as its file expects: {}",
        again.stdout
    );
    let latest = room.path().join("picklock-out/explore/del-release/latest/ownership.toml");
    assert_eq!(fs::read_to_string(latest).unwrap(), text);
}

#[test]
fn a_server_that_cannot_confirm_is_told_of_before_the_search() {
    let room = Room::new();
    for (server, says) in [
        (["--server-bin", "/nonexistent"], "cannot run /nonexistent"),
        (["--redis", "redis://127.0.0.1:1"], "nothing accepts connections"),
    ] {
        let said = room.run(&[&words("explore --lock del-release")[..], &server].concat());
        let said = said.ended(69);
        assert!(said.message().contains(says), "{}", said.stderr);
        assert!(!said.stderr.contains("2 clients"), "nothing was searched: {}", said.stderr);
        assert_eq!(said.stdout, "");
    }
    assert!(!room.path().join("picklock-out").exists());
}

#[test]
fn without_a_server_only_commands_with_a_world_are_told_of_another() {
    let room = Room::new().with("PATH", "/nonexistent");
    let said = room.run(&["confirm", "gc-pause"]).ended(69).message();
    let says = "run, matrix and attack need none with --world embedded";
    assert!(said.contains("no redis-server on PATH") && said.contains(says), "{said}");
}

#[test]
fn a_lock_that_only_stalls_ends_with_the_code_of_progress() {
    let room = Room::new();
    let said = explore(&room, "--lock no-ttl --quiet", 5);
    assert_eq!(said.stdout.lines().count(), 1, "{}", said.stdout);
    assert!(said.stdout.contains("violated (progress): deadlock-freedom"), "{}", said.stdout);
    assert_eq!(said.stderr, "");
}

#[test]
fn a_sound_lock_is_exhausted_within_bounds_that_are_printed() {
    let room = Room::new();
    let said = explore(&room, "--lock single --format json=found.json --format human", 0);
    let verdict = said.after("verdict:");
    let says = ["exhausted: ", " schedules in ", "none violates anything"];
    assert!(says.iter().all(|it| verdict.contains(it)), "{verdict}");
    assert_eq!(said.after("bounds:"), "2 clients, 1 round, 1 fault");
    let json = fs::read_to_string(room.path().join("found.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["ended"], &json["lock"]), (&"exhausted".into(), &"single".into()));
    let of_stages = json["stages"].as_array().unwrap().iter().map(|it| it["schedules"].as_u64());
    assert_eq!(json["schedules"].as_u64(), of_stages.sum());
    assert!(!room.path().join("picklock-out").exists(), "there is nothing to carry");
}

#[test]
fn a_budget_that_runs_out_is_said_and_nothing_counts_as_exhausted() {
    let said = explore(&Room::new(), "--lock single --faults 3 --budget 1ms", 3);
    assert!(
        said.results().contains("the budget ran out before the bounds were exhausted"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_signal_ends_the_search_and_what_was_tried_is_said() {
    let room = Room::new();
    let options = "explore --lock single --clients 2 --rounds 1 --faults 3 --budget 1h";
    let playing = room.start(&words(options));
    eventually("two faults are combined", || playing.stderr().contains(" 1 fault: ").then_some(()));
    playing.signal(Signal::SIGINT);
    let said = playing.said().ended(130);
    assert!(
        said.after("verdict:").starts_with("inconclusive: interrupted after "),
        "{}",
        said.stdout
    );
    room.is_left_clean();
}

#[test]
fn a_scenario_gives_the_world_and_the_lock() {
    let room = Room::new();
    let said = explore(&room, "--scenario gc-pause --lock polling", 1);
    let text = fs::read_to_string(room.path().join(said.after("scenario:"))).unwrap();
    assert!(text.contains("pause = \"50ms\""), "the pause between attempts is its own: {text}");
    assert!(
        text.contains(
            "source = \"picklock explore --lock polling --scenario gc-pause --clients 2 --rounds 1 --faults 1\""
        ),
        "{text}"
    );
}

#[test]
fn slips_are_met_with_what_to_do() {
    let room = Room::new();
    for (options, says) in [
        ("explore", "choose one, such as --lock single"),
        ("explore --lock singel", "did you mean `single`?"),
        ("explore --lock single --scenario gc-paus", "did you mean `gc-pause`?"),
        ("explore --lock single --faults 4", "from 0 to 3"),
        ("explore --lock single --clients 1", "from 2 to 5"),
        ("explore --lock single --format junit", "use human or json"),
        ("explore --lock single --beyond", "it is for recipes with a known flaw"),
        ("confirm missing.toml", "give the path of a scenario file"),
        ("confirm", "FILE.toml"),
    ] {
        let said = room.run(&words(options)).ended(2);
        assert!(said.message().contains(says), "{options}: {}", said.stderr);
        assert_eq!(said.stdout, "", "{options}");
    }
    room.is_left_clean();
}

#[test]
fn a_file_that_is_in_the_way_of_the_directory_is_left_alone() {
    let room = Room::new();
    room.file("taken", "mine");
    let said = explore(&room, "--lock none --out taken", 2);
    assert!(said.message().contains("taken"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(room.path().join("taken")).unwrap(), "mine");
}

/// The virtual world decides what is to be confirmed; where that is nothing, no server is asked.
#[test]
fn a_scenario_that_violates_nothing_has_nothing_to_confirm() {
    let said = Room::new().run(&words("confirm gc-pause --lock no-ttl")).ended(4);
    assert!(said.stdout.contains("nothing to confirm"), "{}", said.stdout);
}

#[test]
fn a_redis_server_confirms_what_was_found() {
    let room = Room::new();
    let line = "explore --clients 2 --rounds 1 --lock get-del-release";
    let said = room.run(&words(line)).ended(1);
    assert!(said.stdout.contains("\nconfirmed on redis-server "), "{}", said.stdout);
    let file = said.after("scenario:");
    let said = room.run(&["confirm", file]).ended(1);
    assert!(
        said.stdout.starts_with("confirmed: ownership (key) on redis-server "),
        "{}",
        said.stdout
    );
    room.is_left_clean();
}

/// A sound lock in the place of the flawed one: the schedule is the same, and violates nothing.
#[test]
fn what_another_lock_does_is_not_confirmed() {
    let room = Room::new();
    let said = explore(&room, "--lock get-del-release", 1);
    let file = said.after("scenario:").to_owned();
    let said = room.run(&["confirm", &file, "--lock", "single"]).ended(4);
    assert!(said.stdout.contains("nothing to confirm"), "{}", said.stdout);
}
