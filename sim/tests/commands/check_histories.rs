//! `picklock check` on histories of runs: it finds what the run found.

use std::fs::{self, File};
use std::path::Path;

use history::verdict::{Level, Outcome};
use scenarios::catalog;
use scenarios::result::RunResult;

use crate::cli_support::{Room, short};

const LOCKS: [&str; 4] = ["none", "polling", "single", "single-watchdog"];

/// What `check` says of a history, with its exit code.
fn check(room: &Room, history: &Path) -> (i32, RunResult) {
    let said = room.run(&["check", history.to_str().unwrap(), "--format", "json"]);
    let result = serde_json::from_str(&said.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", said.stdout, said.stderr));
    (said.code.unwrap(), result)
}

#[test]
fn check_finds_what_the_run_found() {
    let mut codes = Vec::new();
    // Some scenarios, two locks each, in turn: a run with all its files takes a while in the
    // development build.
    let mut locks = LOCKS.into_iter().cycle().zip(["3", "4", "5"].into_iter().cycle());
    for (name, _) in catalog::ALL.into_iter().step_by(3) {
        for (lock, seed) in locks.by_ref().take(2) {
            let room = Room::new();
            let args = ["--scenario", name, "--lock", lock, "--world", "virtual", "--seed", seed];
            let run = room.run(&args);
            let of_run = room.result();
            let (code, of_check) = check(&room, &room.only_run().join("history.jsonl"));
            assert_eq!(Some(code), run.code, "{name}, {lock}, seed {seed}");
            assert_eq!(of_check.invariants, of_run.invariants, "{name}, {lock}, seed {seed}");
            assert_eq!(of_check.verdict, of_run.verdict);
            let (mut stats, latencies) = (of_run.stats, Vec::new());
            (stats.latencies, stats.server_commands) = (latencies, None);
            assert_eq!(of_check.stats, stats, "{name}, {lock}, seed {seed}");
            codes.push(code);
        }
    }
    codes.sort_unstable();
    codes.dedup();
    assert!(codes.len() > 1, "runs that held and runs that did not: {codes:?}");
}

#[test]
fn a_live_run_is_judged_again_alike() {
    for (world, lock) in [("embedded", "none"), ("redis", "single")] {
        let room = Room::new();
        let run = room.run(&short(&["--world", world, "--lock", lock, "--hold", "5ms"]));
        let (code, of_check) = check(&room, &room.only_run().join("history.jsonl"));
        let of_run = room.result();
        assert_eq!((Some(code), of_check.verdict), (run.code, of_run.verdict));
        assert_eq!(of_check.invariants, of_run.invariants);
        assert_eq!(of_check.stats.commands, of_run.stats.commands);
    }
}

#[test]
fn a_pipe_and_stdin_tell_the_same_story_as_the_file() {
    let room = Room::new();
    let args = ["--scenario", "bonus-pool", "--lock", "none", "--world", "virtual", "--seed", "7"];
    room.run(&[&args[..], &["--clients", "10"]].concat()).ended(1);
    let file = room.only_run().join("history.jsonl");
    let of_file = room.run(&["check", file.to_str().unwrap()]).ended(1);
    assert!(of_file.stdout.contains("wins prize 10"), "the story is told: {}", of_file.stdout);
    let lines = fs::read_to_string(&file).unwrap().lines().count();
    let footer = format!("history: {}, {lines} lines\n", file.display());
    assert!(of_file.stdout.ends_with(&footer), "{}", of_file.stdout);

    let mut command = room.command(&["check", "-"]);
    let output = command.stdin(File::open(&file).unwrap()).output().unwrap();
    let of_stdin = String::from_utf8(output.stdout).unwrap();
    let story = |text: &str| text.split("history: ").next().unwrap().to_owned();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(story(&of_stdin), story(&of_file.stdout));

    let (reader, mut writer) = std::io::pipe().unwrap();
    let text = fs::read(&file).unwrap();
    let pen = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &text).unwrap());
    let output = room.command(&["check", "/dev/stdin"]).stdin(reader).output().unwrap();
    pen.join().unwrap();
    assert_eq!(story(&String::from_utf8(output.stdout).unwrap()), story(&of_file.stdout));
    room.is_left_clean();
}

#[test]
fn what_is_not_asked_is_told_and_can_be_asked() {
    let room = Room::new();
    // A lost reply leaves a key that nobody owns, until its TTL is over.
    let args =
        ["--scenario", "lost-reply", "--lock", "polling", "--world", "virtual", "--seed", "1"];
    room.run(&args).ended(5);
    let text = fs::read_to_string(room.only_run().join("history.jsonl")).unwrap();
    let asked = r#""available_within_ns":8000000000,"#;
    assert!(text.contains(asked), "{}", text.lines().next().unwrap());
    let unasked = room.file("unasked.jsonl", text.replacen(asked, "", 1));
    let (code, result) = check(&room, Path::new(&unasked));
    assert_eq!((code, result.verdict), (0, Outcome::Held));
    let told = ["availability", "wake-up", "fairness", "efficiency"];
    for name in told {
        let told = format!("{name}: not checked, as no limit is set; set one, such as --");
        assert!(result.remarks.iter().any(|it| it.starts_with(&told)), "{:?}", result.remarks);
    }
    let said = room.run(&["check", &unasked]).ended(0);
    assert!(said.stdout.contains("availability: not checked"), "{}", said.stdout);

    let options = ["--available-within", "8s", "--woken-within", "1h", "--fair-within", "1000"];
    let options = [&["check", &unasked], &options[..], &["--commands-within", "1e6"]].concat();
    let said = room.run(&[&options[..], &["--format", "json"]].concat()).ended(5);
    let result: RunResult = serde_json::from_str(&said.stdout).unwrap();
    let found = result.invariants.iter().find(|it| it.name == "availability").unwrap();
    assert_eq!(found.verdict, Outcome::Violated);
    assert!(result.remarks.is_empty(), "{:?}", result.remarks);
    assert!(result.replay.contains("--available-within 8s --woken-within 1h"), "{}", result.replay);
    let wrong = room.run(&["check", &unasked, "--commands-within", "many"]).ended(2);
    assert!(wrong.message().contains("a number from 0 to"), "{}", wrong.stderr);
}

#[test]
fn what_was_cut_short_holds_nothing_and_misses_nothing() {
    let room = Room::new();
    let args = ["--scenario", "bonus-pool", "--world", "virtual", "--seed", "7", "--clients", "10"];
    room.run(&args).ended(0);
    let text = fs::read_to_string(room.only_run().join("history.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let half = room.file("half.jsonl", lines[..lines.len() / 2].join("\n"));
    let said = room.run(&["check", &half, "--incomplete"]).ended(3);
    assert!(said.stdout.contains("the run did not come to its end"), "{}", said.stdout);
    let head = room.file("head.jsonl", lines[0]);
    let said = room.run(&["check", &head]).ended(3);
    assert!(said.message().contains("a head but no events"), "{}", said.stderr);
}

/// The least that is worth judging, as the document shows it.
fn example_from_elsewhere() -> String {
    let document = include_str!("../../../docs/history.md");
    let (_, section) = document.split_once("## Histories from elsewhere").unwrap();
    let (_, block) = section.split_once("```jsonl\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

#[test]
fn a_history_from_elsewhere_is_judged_as_the_document_says() {
    let room = Room::new();
    let outcomes = |text: &str| {
        let file = room.file("elsewhere.jsonl", text);
        let (code, result) = check(&room, Path::new(&file));
        let of = |name: &str| result.invariants.iter().find(|it| it.name == name).unwrap().clone();
        let [key, belief, lease] = ["ownership", "mutual-exclusion", "lease-validity"].map(of);
        assert_eq!(key.verdict, Outcome::Inconclusive);
        assert!(key.reason.unwrap().contains("no command touched the lock's key"));
        assert_eq!(lease.verdict, Outcome::NotApplicable);
        let progress = of("deadlock-freedom");
        assert_eq!(progress.verdict, Outcome::Inconclusive);
        assert!(progress.reason.unwrap().contains("not looked at in the end"));
        assert_eq!(result.level(Level::Effect), Outcome::NotApplicable);
        assert!(result.invariants.iter().all(|it| it.name != "availability"));
        (code, belief)
    };
    let overlapping = example_from_elsewhere();
    let (code, belief) = outcomes(&overlapping);
    assert_eq!((code, belief.verdict), (1, Outcome::Violated));
    assert!(belief.witness.unwrap().summary.ends_with("for 1 ms"));
    // The second client gets it a moment later, when the first has begun to release.
    let in_turn = overlapping.replace(":7000000", ":8000000");
    let mut lines: Vec<&str> = in_turn.lines().collect();
    lines.swap(4, 5);
    let (code, belief) = outcomes(&lines.join("\n"));
    assert_eq!((code, belief.verdict), (3, Outcome::Held));
    // Who keeps a validity and never says it relies on nothing.
    let tracked = overlapping.replace("\"tracked\":false", "\"tracked\":true");
    let (code, belief) = outcomes(&tracked);
    assert_eq!((code, belief.verdict), (3, Outcome::Held));
    // Who was killed believes nothing any more.
    let killed = r#"{"at_ns":6000000,"client":1,"stage":"note","what":"fault","fault":"crash","for_ns":0,"in_hold":true}"#;
    let mut lines: Vec<&str> = overlapping.lines().collect();
    lines.insert(4, killed);
    let (code, belief) = outcomes(&lines.join("\n"));
    assert_eq!((code, belief.verdict), (3, Outcome::Held));
}
