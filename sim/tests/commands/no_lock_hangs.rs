//! A lock that goes on for ever ends its schedule, not picklock: violated, at level progress.

use history::verdict::{Level, Outcome};
use scenarios::matrix::Matrix;
use scenarios::result::RunResult;
use scenarios::sweep::{STUCK, Sweep};

use crate::cli_support::{Room, words};

/// Whoever does not get the lock asks again at once, as often as it likes, and nothing takes time.
const SPINNING: &str = "--scenario polling-load --lock polling --clients 2 --hold 10ms --world virtual \
                        --set network.latency=0s --set lock.pause=0s --set lock.jitter=0s \
                        --set lock.retries=4294967295";

#[test]
fn a_run_tells_who_went_on_and_its_replay_tells_the_same() {
    let room = Room::new();
    let said = room.run(&[words(SPINNING), words("--seed 3")].concat()).ended(5);
    assert!(said.stdout.contains("a livelock: the schedule was ended after"), "{}", said.stdout);
    assert!(said.stdout.contains("verdict: violated (progress)"), "{}", said.stdout);
    let result: RunResult = room.result();
    let found = result.invariants.iter().find(|it| it.name == STUCK).unwrap();
    let witness = found.witness.as_ref().unwrap();
    assert_eq!((found.level, found.verdict), (Level::Progress, Outcome::Violated));
    assert!(witness.clients == [1] || witness.clients == [2], "{witness:?}");
    assert!(witness.steps[0].text.starts_with("a task of it ran "), "{witness:?}");
    assert!(
        result.level(Level::Key) == Outcome::Inconclusive && result.replay.contains("--seed 3")
    );
    let run = room.only_run().display().to_string();
    let said = room.run(&["replay", &run]).ended(5);
    assert!(said.stdout.contains("byte for byte"), "{}", said.stdout);
}

#[test]
fn a_sweep_goes_on_and_a_matrix_too() {
    let room = Room::new();
    let options = words("--seeds 0..3 --threads 2 --format json");
    let said = room.run(&[words(SPINNING), options].concat()).ended(5);
    let sweep: Sweep = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((sweep.schedules, sweep.violations), (3, 3));
    let stuck = sweep.invariants.iter().find(|it| it.name == STUCK).unwrap();
    assert_eq!((stuck.violated, stuck.first_violated), (3, Some(0)));
    assert_ne!(sweep.level(Level::Key), Outcome::Held, "nobody knows what would have come");

    let mut spinning = scenarios::catalog::text("polling-load").unwrap().to_owned();
    for (is, shall) in [
        ("pause = \"50ms\"\njitter = \"2ms\"", "pause = \"0s\""),
        ("retries = 4000", "retries = 4294967295"),
        ("progress = \"violated\"", "progress = \"held\""),
        ("clients = 100", "clients = 2"),
        ("{ min = \"200us\", max = \"2ms\" }", "\"0s\""),
    ] {
        assert!(spinning.contains(is), "{is}");
        spinning = spinning.replace(is, shall);
    }
    let file = room.file("spinning.toml", spinning);
    let options = ["matrix", "--scenario", &file, "--lock", "polling,none", "--format", "json"];
    let said = room.run(&[&options[..], &["--seeds", "0..2"]].concat()).ended(1);
    let found: Matrix = serde_json::from_str(&said.stdout).unwrap();
    let progress = |lock| {
        let pair = found.pairs.iter().find(|it| it.lock == lock).unwrap();
        pair.cells.iter().map(|cell| cell.runs.violated).collect::<Vec<_>>()[3]
    };
    assert_eq!((progress("polling"), progress("none")), (2, 0));
}
