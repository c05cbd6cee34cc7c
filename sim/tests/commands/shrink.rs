//! `picklock shrink`, and the counterexamples that are kept, as their user meets them.

use std::fs;

use scenarios::scenario::{Overrides, Scenario};

use crate::cli_support::{Room, Said, words};

fn run(room: &Room, line: &str, code: i32) -> Said {
    room.run(&words(line)).ended(code)
}

/// The scenario that a run was shrunk to, as its file has it.
fn scenario(room: &Room, said: &Said) -> (String, Scenario) {
    let file = said.after("scenario:");
    let text = fs::read_to_string(room.path().join(file)).unwrap();
    let scenario = Scenario::parse("x", file, &text, &Overrides::default()).unwrap();
    (text, scenario)
}

#[test]
fn a_failing_seed_of_a_search_becomes_a_scenario_in_which_nothing_is_drawn() {
    let room = Room::new();
    let line =
        "--scenario gc-pause --lock del-release --searched --world virtual --seeds 0..40 --quiet";
    run(&room, line, 1);
    let said = run(&room, "shrink picklock-out/gc-pause/latest --no-confirm", 1);
    assert!(said.stderr.contains("shrunk from "), "{}", said.stderr);
    let (text, scenario) = scenario(&room, &said);
    assert!(scenario.clients <= 3 && (1..=3).contains(&scenario.faults.len()), "{text}");
    assert!(scenario.swarm.kinds() == 0 && !text.contains("[swarm]"), "{text}");
    let of = scenario.source.strip_prefix("picklock shrink picklock-out/gc-pause/latest, of ");
    assert!(of.is_some_and(|it| it.contains("--scenario gc-pause")), "{}", scenario.source);
    let violated = said.stdout.lines().next().unwrap().to_owned();
    let file = said.after("scenario:");
    for seed in ["1", "77"] {
        let again = room.run(&["--scenario", file, "--world", "virtual", "--seed", seed]).ended(1);
        assert!(again.stdout.contains(&violated), "{violated} in {}", again.stdout);
        assert!(!again.stdout.contains("not as expected"), "{}", again.stdout);
    }
    let picture = room.path().join(said.after("picture:"));
    assert!(fs::metadata(picture).is_ok_and(|it| it.len() > 0));
}

#[test]
fn a_staged_run_of_many_clients_is_shrunk_to_those_that_matter() {
    let room = Room::new();
    run(&room, "--scenario gc-pause --lock polling --world virtual --seed 1 --quiet", 1);
    let line = "shrink picklock-out/gc-pause/latest --no-confirm --invariant mutual-exclusion --format json";
    let said = run(&room, line, 1);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(
        (&json["whole"]["clients"], &json["invariant"]),
        (&10.into(), &"mutual-exclusion".into())
    );
    assert_eq!(json["example"]["clients"], 2, "{}", said.stdout);
    assert_eq!(json["example"]["faults"], serde_json::json!(["pause"]));
    let steps = json["example"]["steps"].as_u64().unwrap();
    assert!((1..=10).contains(&steps), "{steps}");
}

/// An error with which a server answers is no fault that a history tells enough of.
#[test]
fn what_cannot_be_staged_is_said_and_its_smallest_schedule_is_replayed() {
    let room = Room::new();
    let line = "--scenario drawn-errors.toml --world virtual --seeds 0..200 --quiet";
    room.file("drawn-errors.toml", DRAWN_ERRORS);
    let found = room.run(&words(line));
    assert!(matches!(found.code, Some(1 | 5)), "{}\n{}", found.stdout, found.stderr);
    let code = found.code.unwrap();
    let said = run(&room, "shrink picklock-out/drawn-errors/latest --no-confirm", code);
    assert!(said.stdout.contains("\nnot staged: "), "{}", said.stdout);
    assert!(!said.stdout.contains("\nscenario: "), "{}", said.stdout);
    let place = said.after("replay:").rsplit(' ').next().unwrap().to_owned();
    let again = room.run(&["replay", &place]).ended(code);
    assert!(again.stdout.contains("byte for byte"), "{}", again.stdout);
    let shorter = |dir: &str| fs::read(room.path().join(dir).join("history.jsonl")).unwrap().len();
    assert!(shorter(&place) < shorter("picklock-out/drawn-errors/latest"));
    // What was shrunk can be shrunk again, and is no smaller then.
    let twice = run(&room, &format!("shrink {place} --no-confirm"), code);
    assert!(twice.stdout.contains("\nnot staged: "), "{}", twice.stdout);
    let choices = room.path().join(&place).join("choices.json");
    fs::write(&choices, "[1, 2,").unwrap();
    let said = room.run(&["replay", &place]).ended(2);
    assert!(said.message().contains("choices.json cannot be used"), "{}", said.stderr);
}

const DRAWN_ERRORS: &str = r#"
title = "A server answers with errors now and then"
story = "A release that is refused leaves the key."
source = "a test"
clients = 4
available_within = "1s"

[lock]
recipe = "polling"
ttl = "5s"
retries = 500
pause = "20ms"

[workload.register]
hold = "10ms"
rounds = 3

[network]
latency = { min = "1ms", max = "3ms" }

[swarm]
refuse = 0.2
within = "1s"
"#;

#[test]
fn a_run_that_holds_or_was_live_or_was_edited_is_not_shrunk() {
    let room = Room::new();
    run(
        &room,
        "--scenario bonus-pool --lock single --world virtual --clients 2 --seed 1 --quiet",
        0,
    );
    let said = run(&room, "shrink picklock-out/bonus-pool/latest", 4);
    assert!(said.stdout.starts_with("nothing to shrink: "), "{}", said.stdout);
    let said = run(&room, "shrink missing", 2);
    assert!(said.message().contains("name the directory of a run"), "{}", said.stderr);
    run(&room, "--scenario gc-pause --lock polling --world virtual --seed 1 --quiet", 1);
    let said = run(&room, "shrink picklock-out/gc-pause/latest --invariant pool", 2);
    assert!(said.message().contains("this run does not violate pool"), "{}", said.stderr);
    assert!(said.message().contains("mutual-exclusion"), "{}", said.stderr);
    let history = room.path().join("picklock-out/gc-pause/latest/history.jsonl");
    let text = fs::read_to_string(&history).unwrap();
    let last = text.trim_end().rfind('\n').unwrap();
    fs::write(&history, &text[..=last]).unwrap();
    let said = run(&room, "shrink picklock-out/gc-pause/latest", 2);
    assert!(said.message().contains("differs from the recorded history"), "{}", said.stderr);
    run(&room, "--scenario gc-pause --lock polling --world embedded --seed 1 --quiet", 1);
    let said = run(&room, "shrink picklock-out/gc-pause/latest", 2);
    assert!(said.message().contains("made in the embedded world"), "{}", said.stderr);
    let said = run(&room, "shrink picklock-out/gc-pause/latest --format junit", 2);
    assert!(said.message().contains("use human or json"), "{}", said.stderr);
    assert!(!room.path().join("picklock-regressions").exists(), "nobody asked for it");
}

/// Finds a counterexample of a recipe and keeps it; its path.
fn kept(room: &Room) -> String {
    let line = "explore --lock del-release --clients 2 --rounds 1 --no-confirm --keep";
    let said = run(room, line, 1);
    assert_eq!(said.after("kept:"), "picklock-regressions/del-release-ownership.toml");
    "picklock-regressions/del-release-ownership.toml".to_owned()
}

#[test]
fn what_is_kept_is_run_first_by_every_run_of_its_recipe() {
    let room = Room::new();
    let kept = kept(&room);
    let files = || fs::read_dir(room.path().join("picklock-regressions")).unwrap().count();
    let count = files();
    let says = format!("del-release in picklock-regressions, run first: {count} still violated");
    // It is found again, and not kept twice.
    let line = "explore --lock del-release --clients 2 --rounds 1 --no-confirm --keep";
    assert!(run(&room, line, 1).stderr.contains(&says));
    assert_eq!(files(), count);
    let of =
        |lock: &str| format!("--scenario bonus-pool --lock {lock} --world virtual --clients 2");
    let said = run(&room, &format!("{} --seed 1", of("del-release")), 0);
    assert!(said.stderr.contains(&says), "{}", said.stderr);
    let said = run(&room, &format!("{} --seeds 0..3", of("del-release")), 0);
    assert!(said.stderr.contains(&says), "{}", said.stderr);
    let said = run(&room, &format!("{} --seed 1", of("single")), 0);
    assert!(!said.stderr.contains("run first"), "it is another recipe's: {}", said.stderr);
    let said = run(&room, &format!("{} --seed 1 --regressions elsewhere", of("del-release")), 0);
    assert!(!said.stderr.contains("run first"), "{}", said.stderr);
    // Whoever runs the file itself does not run it twice.
    let said = run(&room, &format!("--scenario {kept} --world virtual --seed 1"), 1);
    let others = format!("run first: {} still violated", count - 1);
    assert!(said.stderr.contains(&others), "{}", said.stderr);
}

#[test]
fn a_stale_file_and_one_that_is_violated_again_are_noticed() {
    let room = Room::new();
    let path = room.path().join(kept(&room));
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    fs::create_dir(path.parent().unwrap()).unwrap();
    let of = "--scenario bonus-pool --lock single --world virtual --clients 2 --seed 1 --quiet";
    // As if the flaw had been mended.
    let mended = text.replace("del-release", "single");
    fs::write(&path, &mended).unwrap();
    let said = run(&room, of, 3);
    assert!(said.stderr.contains("stale: "), "{}", said.stderr);
    assert!(said.stderr.contains("expects key to be violated, and it is held"), "{}", said.stderr);
    let guards = mended.replace("\"violated\"", "\"held\"");
    fs::write(&path, &guards).unwrap();
    let said = run(&room, &of.replace(" --quiet", ""), 0);
    assert!(said.stderr.contains("run first: 1 still held"), "{}", said.stderr);
    // The flaw is back.
    fs::write(&path, guards.replace("\"single\"", "\"del-release\"")).unwrap();
    let said = run(&room, &of.replace("single", "del-release"), 1);
    assert!(said.stderr.contains("regression: key is violated again in "), "{}", said.stderr);
    fs::write(&path, "title = 1").unwrap();
    let said = run(&room, of, 2);
    assert!(said.message().contains("del-release-ownership.toml"), "{}", said.stderr);
}
