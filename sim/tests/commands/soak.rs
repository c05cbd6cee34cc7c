//! `picklock soak` as its user meets it: it ends by itself, is gone on with, and ends at a violation.

use std::fs;
use std::os::unix::fs::symlink;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cli_support::{Room, Said, eventually, words};

/// Short, and with faults that strike holds.
const SMALL: &str = "soak --scenario gc-pause,crash-holder --lock single,redlock --threads 2";

fn soak(room: &Room, line: &str) -> Said {
    room.run(&words(line))
}

/// The same, gone on with until every pair has been run: on a busy machine a second is not enough.
#[track_caller]
fn soak_all(room: &Room, line: &str) -> Said {
    let lasted = || -> u64 {
        let sittings = state(room)["sittings"].as_array().cloned().unwrap_or_default();
        sittings.iter().map(|it| it["lasted_ns"].as_u64().unwrap()).sum()
    };
    let mut said = soak(room, &format!("{line} --for 1s"));
    for seconds in [4, 8, 16, 32] {
        if said.code == Some(0) {
            break;
        }
        // The time is over, and not every pair has been run.
        said.ended(3);
        let span_ms = lasted() / 1_000_000 + seconds * 1_000;
        said = soak(room, &format!("{line} --for {span_ms}ms --resume"));
    }
    said.ended(0)
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
    let said = soak_all(&room, &format!("{SMALL} --seed 4711"));
    for part in ["; 4 of 4 pairs run", "strikes in holds", "drawn from 4711"] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    assert!(said.stdout.contains("\nverdict: held\n"), "{}", said.stdout);
    assert!(said.stdout.contains("\npause "), "{}", said.stdout);
    assert!(!said.stdout.contains("go on:"), "{}", said.stdout);
    let state = state(&room);
    assert!(schedules(&state).iter().all(|it| *it >= 10 && it.is_multiple_of(10)));
    assert!(state["sittings"][0]["highest_bytes"].as_u64() > Some(1 << 20));
    let page = page(&room);
    for part in ["badge held", "done: 4 pairs", "<th scope=\"row\">gc-pause</th>"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    // What is done is not gone on with, and not done again.
    let said = soak(&room, &format!("{SMALL} --for 1s --seed 4711")).ended(2);
    assert!(said.message().contains("add --resume"), "{}", said.stderr);
    soak(&room, &format!("{SMALL} --for 1s --resume")).ended(0);
    assert_eq!(schedules(&self::state(&room)), schedules(&state));
    let sittings = |state: &Value| state["sittings"].as_array().unwrap().len();
    assert_eq!(sittings(&self::state(&room)), sittings(&state));
}

#[test]
fn the_base_seed_decides_what_is_run() {
    let convicted = |seed: &str| {
        let room = Room::new();
        let line = "soak --scenario gc-pause --lock del-release --threads 1 --for 1h --budget 1s";
        soak(&room, &format!("{line} --seed {seed}")).ended(1);
        state(&room)["found"]["conviction"].clone()
    };
    let first = convicted("1");
    assert!(first["seed"].is_u64(), "{first}");
    assert_eq!(convicted("1"), first);
    assert_ne!(convicted("2"), first, "other seeds are other schedules");
}

#[test]
fn what_ends_a_soak_is_run_again_whatever_variables_say() {
    // They are of `run`, and a soak ignores them.
    let room = Room::new().with("PICKLOCK_TTL", "10s").with("PICKLOCK_HOLD", "1ms");
    let line = "soak --scenario gc-pause --lock del-release --threads 1 --for 1h --budget 1s";
    soak(&room, line).ended(1);
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
        let verdict =
            "\ninterrupted: the rest would have run other schedules\nverdict: inconclusive\n";
        assert!(said.stdout.contains(verdict), "{}", said.stdout);
        assert!(said.stdout.contains(" --resume\n"), "{}", said.stdout);
        let state = state(&room);
        assert_eq!(state["sittings"].as_array().unwrap().len(), nth + 1);
        schedules(&state);
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
    let mut span_ms = lasted / 1_000_000;
    let after = eventually("each pair has gone on", || {
        span_ms += 1_000;
        let said = soak(&room, &format!("{SMALL} --for {span_ms}ms --resume"));
        // Until every pair has been run it is inconclusive.
        assert!(matches!(said.code, Some(0 | 3)), "{}", said.stderr);
        assert!(said.stdout.contains(" sittings; "), "{}", said.stdout);
        let after = schedules(&state(&room));
        before.iter().zip(&after).all(|(before, after)| before < after).then_some(after)
    });
    // Two that were interrupted, one that was killed, and those behind it.
    assert!(state(&room)["sittings"].as_array().unwrap().len() >= 4);
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
        ["key violated: ownership", "\nverdict: violated (key)\n", "\nscenario: picklock-out/soak/"]
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
    soak_all(&room, &format!("{SMALL} --seed 5"));
    for (line, says) in [
        ("soak --scenario gc-pause --lock single --for 1h --resume".to_owned(), "was asked for"),
        (format!("{SMALL} --for 1h --resume --seed 6"), "drawn from 5, not from 6"),
        (format!("{SMALL} --scenario by-hand-none --for 1h --out x"), "by-hand"),
        ("soak --lock nobody --for 1h --out x".to_owned(), "no recipe is called"),
        (format!("{SMALL} --for 0s --out x"), "leaves no time"),
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

#[test]
fn of_two_soaks_in_one_directory_the_first_learns_that_it_is_not_alone() {
    let room = Room::new();
    let line = format!("{SMALL} --for 1h --progress lines");
    let first = room.start(&words(&line));
    eventually("it soaks", || first.stderr().contains(" schedules in ").then_some(()));
    let second = room.start(&words(&format!("{line} --resume")));
    eventually("it soaks", || second.stderr().contains(" schedules in ").then_some(()));
    first.signal(Signal::SIGINT);
    let said = first.said().ended(69);
    assert!(said.message().contains("written by another picklock meanwhile"), "{}", said.stderr);
    second.signal(Signal::SIGINT);
    second.said().ended(130);
}
