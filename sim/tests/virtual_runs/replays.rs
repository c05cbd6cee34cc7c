//! The same seeds give the same bytes, whatever is around them: process, directory, threads, time
//! zone; and a replay from a run's directory says whether it is the same.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn picklock(at: &Path, args: &[&str], time_zone: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_picklock"))
        .args(args)
        .args(["--progress", "off"])
        .current_dir(at)
        .env("TZ", time_zone)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

const RUN: [&str; 4] = ["--scenario", "bonus-pool", "--world", "virtual"];

#[test]
fn a_thousand_seeds_give_the_same_bytes_in_another_process_directory_and_time_zone() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sweep = |at: &Path, threads: &str, zone: &str| {
        // Fewer clients than the scenario has, for the sake of those who wait for the tests.
        let more = ["--clients", "20", "--seeds", "0..1000", "--digest", "--format", "json"];
        let args = [&RUN[..], &more[..], &["--threads", threads][..]].concat();
        let output = picklock(at, &args, zone);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        json(&output)
    };
    let first = sweep(here.path(), "1", "UTC");
    let again = sweep(there.path(), "3", "Asia/Kathmandu");
    assert!(first["digest"].is_array(), "{first}");
    assert_eq!(first, again);
    assert_eq!(first["schedules"], 1000);
    for fault in ["pause", "crash", "delay", "lose-request", "lose-reply", "reset", "partition"] {
        let struck = first["coverage"][fault]["strikes"].as_u64();
        assert!(struck.is_some_and(|times| times > 10), "{fault}: {struck:?}");
    }
}

#[test]
fn a_digest_is_printed_quietly_too_and_asked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    for quiet in [&[][..], &["-q"]] {
        let sweep = ["--clients", "5", "--seeds", "0..3", "--digest"];
        let output = picklock(dir.path(), &[&RUN[..], &sweep, quiet].concat(), "UTC");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("\ndigest of all histories: "), "{text}");
        assert!(text.trim_end().ends_with("--seeds 0..3 --digest"), "{text}");
    }
}

#[test]
fn a_run_in_lua_is_written_and_replayed_as_any_other() {
    let written = |lua: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let args = [&RUN[..], &["--lock", "queue", "--seed", "5"], lua].concat();
        assert_eq!(picklock(dir.path(), &args, "UTC").status.code(), Some(0));
        let run = dir.path().join("picklock-out/bonus-pool/latest");
        let file = |name| std::fs::read_to_string(run.join(name)).unwrap();
        let mut result: Value = serde_json::from_str(&file("result.json")).unwrap();
        // Only the replay line tells them apart.
        let replay = result["replay"].take();
        assert_eq!(replay.as_str().unwrap().ends_with(" --lua"), !lua.is_empty(), "{replay}");
        let files = (file("history.jsonl"), result);
        for lua in [&[][..], &["--lua"]] {
            let replay = [&["replay", run.to_str().unwrap()], lua].concat();
            assert_eq!(picklock(dir.path(), &replay, "UTC").status.code(), Some(0));
        }
        files
    };
    assert_eq!(written(&[]), written(&["--lua"]));
}

#[test]
fn a_searched_run_says_so_and_replays() {
    let dir = tempfile::tempdir().unwrap();
    let pair = ["--scenario", "gc-pause", "--lock", "polling", "--world", "virtual"];
    let searched = |more: &[&str]| {
        picklock(
            dir.path(),
            &[&pair[..], &["--searched", "--format", "json"][..], more].concat(),
            "UTC",
        )
    };
    let sweep = json(&searched(&["--seeds", "0..300"]));
    let seed = sweep["failing"].as_object().unwrap().keys().next().expect("a conviction");
    let output = searched(&["--seed", seed]);
    assert_eq!(output.status.code(), Some(1));
    let result = json(&output);
    assert_eq!(result["searched"], true);
    let line = result["replay"].as_str().unwrap();
    assert!(line.ends_with(&format!("--world virtual --seed {seed} --searched")), "{line}");

    let run = dir.path().join("picklock-out/gc-pause/latest");
    let again = picklock(Path::new("/"), &["replay", run.to_str().unwrap()], "UTC");
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(said.contains("byte for byte"), "{said}");
    // Nothing was staged, and something struck.
    let history = std::fs::read_to_string(run.join("history.jsonl")).unwrap();
    assert!(history.contains("\"pause\"") && !history.contains("\"staged\":"), "{history}");
    // The scripted form of the same pair says nothing of it.
    let scripted = json(&picklock(
        dir.path(),
        &[&pair[..], &["--seed", seed, "--format", "json"]].concat(),
        "UTC",
    ));
    assert_eq!(scripted.get("searched"), None);
    assert!(!scripted["replay"].as_str().unwrap().contains("--searched"));
}

#[test]
fn a_run_replays_from_its_directory_and_says_so_where_it_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let args = [&RUN[..], &["--lock", "none", "--seed", "7", "--clients", "10"][..]].concat();
    assert_eq!(picklock(dir.path(), &args, "UTC").status.code(), Some(1));
    let run = dir.path().join("picklock-out/bonus-pool/latest");
    let replay = || picklock(Path::new("/"), &["replay", run.to_str().unwrap()], "Asia/Tokyo");
    let same = replay();
    let said = String::from_utf8_lossy(&same.stdout).into_owned();
    assert_eq!(same.status.code(), Some(1), "the verdict is the run's: {said}");
    assert!(said.contains("byte for byte"), "{said}");

    let refused = |name: &str, from: &str, to: &str, says: &str| {
        let path = run.join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text, "nothing was edited");
        std::fs::write(&path, edited).unwrap();
        let output = replay();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(says), "{name}: {said}");
        std::fs::write(&path, text).unwrap();
    };
    refused("history.jsonl", "\"at_ns\":", "\"at_ns\":1", "differs");
    refused("history.jsonl", "\"stage\":\"invoke\"", "\"stage\":\"dance\"", "line");
    refused("manifest.json", "\"seed\": 7", "\"seed\": 8", "seed 8");
    refused("manifest.json", "\"lock\": {", "\"lock\": [", "manifest.json");
    refused("manifest.json", "\"virtual\"", "\"redis\"", "only runs of the virtual world");
    let cut = run.join("manifest.json");
    let text = std::fs::read_to_string(&cut).unwrap();
    std::fs::write(&cut, &text[..text.len() / 2]).unwrap();
    assert_eq!(replay().status.code(), Some(2));
}
