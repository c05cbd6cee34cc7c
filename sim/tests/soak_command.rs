//! `picklock soak` as its user meets it: it ends by itself, is gone on with, and ends at a violation.

mod cli_support;

use std::fs;
use std::os::unix::fs::symlink;

use cli_support::{Room, Said, eventually, words};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Short, and with faults that strike holds.
const SMALL: &str = "soak --scenario gc-pause,crash-holder --lock single,redlock --threads 2";

fn soak(room: &Room, line: &str) -> Said {
    room.run(&words(line))
}

fn state(room: &Room) -> Value {
    let text = fs::read(room.path().join("picklock-out/soak/soak.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn page(room: &Room) -> String {
    fs::read_to_string(room.path().join("picklock-out/soak/soak.html")).unwrap()
}

/// What each pair has run, and that all counts agree.
#[track_caller]
fn schedules(state: &Value) -> Vec<u64> {
    let of = |it: &Value| it["schedules"].as_u64().unwrap();
    let pairs: Vec<u64> = state["found"]["pairs"].as_array().unwrap().iter().map(of).collect();
    let sum: u64 = pairs.iter().sum();
    assert_eq!(sum, of(&state["found"]["whole"]));
    assert_eq!(sum, state["sittings"].as_array().unwrap().iter().map(of).sum::<u64>());
    pairs
}

#[test]
fn a_soak_ends_by_itself_and_says_what_it_has_run() {
    let room = Room::new();
    let said = soak(&room, &format!("{SMALL} --for 2s --seed 4711")).ended(0);
    for part in ["of 4 pairs; 4 of them have been run", "strikes in holds", "drawn from 4711"] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    assert!(said.stdout.contains("\nverdict: held\n"), "{}", said.stdout);
    assert!(said.stdout.contains("\npause "), "{}", said.stdout);
    assert!(!said.stdout.contains("go on:"), "{}", said.stdout);
    let state = state(&room);
    assert!(schedules(&state).iter().all(|it| *it >= 10 && it.is_multiple_of(10)));
    assert!(state["sittings"][0]["highest_bytes"].as_u64() > Some(1 << 20));
    let page = page(&room);
    for part in ["badge held", "done: 4 pairs", "in 1 sitting", "<th scope=\"row\">gc-pause</th>"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    // What is done is not gone on with, and not done again.
    let said = soak(&room, &format!("{SMALL} --for 2s --seed 4711")).ended(2);
    assert!(said.message().contains("add --resume"), "{}", said.stderr);
    soak(&room, &format!("{SMALL} --for 2s --resume")).ended(0);
    assert_eq!(schedules(&self::state(&room)), schedules(&state));
}

#[test]
fn the_base_seed_decides_what_is_run() {
    let run = |seed: &str| {
        let room = Room::new();
        soak(&room, &format!("{SMALL} --for 1s --seed {seed}")).ended(0);
        let state = state(&room);
        let next = state["found"]["next"].as_u64().unwrap();
        (next, state["found"]["whole"]["virtual_ns"].as_u64().unwrap())
    };
    let [one, other] = ["1", "2"].map(run);
    assert!(one.0 > 4 && other.0 > 4);
    assert_ne!(one.1, other.1, "other seeds are other schedules");
}

#[test]
fn a_soak_that_was_ended_is_gone_on_with() {
    let room = Room::new();
    let line = format!("{SMALL} --for 1h --progress lines");
    for (nth, signal) in [Signal::SIGINT, Signal::SIGTERM].into_iter().enumerate() {
        let resume = if nth == 0 { "" } else { " --resume" };
        let playing = room.start(&words(&format!("{line}{resume}")));
        eventually("it soaks", || playing.stderr().contains(" schedules in ").then_some(()));
        playing.signal(signal);
        let said = playing.said().ended(130);
        assert!(said.stdout.contains("go on: "), "{}", said.stdout);
        assert!(said.stdout.contains(" --resume\n"), "{}", said.stdout);
        let state = state(&room);
        assert_eq!(state["sittings"].as_array().unwrap().len(), nth + 1);
        assert!(schedules(&state).iter().all(|it| *it > 0));
        assert!(page(&room).contains("interrupted: 4 pairs"));
    }
    // Killed, it is gone on with from where it was saved.
    let before = schedules(&state(&room));
    let mut playing = room.start(&words(&format!("{line} --resume")));
    eventually("it soaks", || playing.stderr().contains(" schedules in ").then_some(()));
    playing.signal(Signal::SIGKILL);
    playing.end();
    let lasted: u64 = state(&room)["sittings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["lasted_ns"].as_u64().unwrap())
        .sum();
    let whole = format!("{SMALL} --for {}ms --resume", lasted / 1_000_000 + 1_000);
    let said = soak(&room, &whole).ended(0);
    assert!(said.stdout.contains("in 4 sittings"), "{}", said.stdout);
    let after = schedules(&state(&room));
    assert!(before.iter().zip(&after).all(|(before, after)| before < after));
    let gaps = state(&room);
    let (next, open) = (gaps["found"]["next"].as_u64().unwrap(), &gaps["found"]["open"]);
    let done = after.iter().sum::<u64>() / 10;
    assert_eq!(
        done + open.as_array().unwrap().len() as u64,
        next,
        "no turn is lost or counted twice"
    );
}

#[test]
fn the_first_violation_ends_it_with_its_shrunk_story() {
    let room = Room::new();
    let line = "soak --scenario gc-pause --lock single,del-release --for 1h --seed 3 --threads 1";
    let said = soak(&room, line).ended(1);
    for part in
        ["key violated: ownership", "\nverdict: violated\n", "\nscenario: picklock-out/soak/"]
    {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    assert!(said.stderr.contains("shrunk from "), "{}", said.stderr);
    let state = state(&room);
    let conviction = &state["found"]["conviction"];
    assert_eq!(conviction["lock"], "del-release");
    let page = page(&room);
    let again = page.split("<h2>Run it again</h2><pre>").nth(1).and_then(|it| it.split('<').next());
    let again: Vec<&str> =
        again.unwrap().split_whitespace().skip_while(|it| *it != "--scenario").collect();
    room.run(&again).ended(1);
    // It is told again, and not gone on with.
    let said = soak(&room, &format!("{line} --resume")).ended(1);
    assert!(said.stdout.contains("key violated: ownership"), "{}", said.stdout);
    assert_eq!(schedules(&self::state(&room)), schedules(&state));
}

#[test]
fn a_soak_of_something_else_and_files_of_others_are_left_alone() {
    let room = Room::new();
    soak(&room, &format!("{SMALL} --for 1s --seed 5")).ended(0);
    for (line, says) in [
        ("soak --scenario gc-pause --lock single --for 1h --resume".to_owned(), "was asked for"),
        (format!("{SMALL} --for 1h --resume --seed 6"), "drawn from 5, not from 6"),
        (format!("{SMALL} --scenario by-hand-none --for 1h --out x"), "by-hand"),
        ("soak --lock nobody --for 1h --out x".to_owned(), "no recipe is called"),
    ] {
        let said = soak(&room, &line).ended(2);
        assert!(said.message().contains(says), "{says}: {}", said.stderr);
    }
    let at = |name: &str| room.path().join(name);
    fs::create_dir(at("theirs")).unwrap();
    fs::write(at("theirs/soak.html"), "mine").unwrap();
    let said = soak(&room, &format!("{SMALL} --for 1s --out theirs")).ended(2);
    assert!(said.message().contains("is left alone"), "{}", said.stderr);
    fs::create_dir(at("linked")).unwrap();
    symlink(at("theirs/soak.html"), at("linked/soak.json")).unwrap();
    let said = soak(&room, &format!("{SMALL} --for 1s --out linked --resume")).ended(2);
    assert!(said.message().contains("no regular file"), "{}", said.stderr);
    fs::write(at("theirs/soak.json"), "{\"format\": \"other\"}").unwrap();
    let said = soak(&room, &format!("{SMALL} --for 1s --out theirs --resume")).ended(2);
    assert!(said.message().contains("no file of a soak"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(at("theirs/soak.html")).unwrap(), "mine");
    assert!(!at("x").exists());
}
