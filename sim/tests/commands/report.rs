//! `picklock report`: what was stored is drawn again, byte for byte, and runs are compared; what is no run is refused with a reason.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli_support::{Room, words};

fn run(room: &Room, lock: &str, out: &str) -> PathBuf {
    let line = "--scenario gc-pause --world virtual --seed 1 --lock";
    room.run(&[&words(line)[..], &[lock, "--out", out]].concat());
    room.path().join(out).join("gc-pause/latest").canonicalize().unwrap()
}

fn files(of: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(of).unwrap().map(|it| it.unwrap().path());
    let mut all: Vec<_> = entries
        .map(|it| (it.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&it).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn a_run_is_drawn_again_byte_for_byte_and_stays_as_it_is() {
    let room = Room::new();
    let run = run(&room, "del-release", "out");
    let before = files(&run);
    let said = room.run(&["report", run.to_str().unwrap(), "--out", "again"]).ended(0);
    assert!(said.stdout.contains("report: again/report/"), "{}", said.stdout);
    assert_eq!(files(&run), before);
    let again = files(&room.path().join("again/report/latest"));
    let names = |of: &[(String, Vec<u8>)]| of.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&again), names(&before));
    for (one, other) in before.iter().zip(&again) {
        assert!(one == other, "{} differs", one.0);
    }
}

#[test]
fn runs_are_compared_in_the_order_in_which_they_are_named() {
    let room = Room::new();
    let runs = [run(&room, "single", "one"), run(&room, "del-release", "two")];
    let runs = runs.map(|it| it.to_str().unwrap().to_owned());
    let said = room.run(&["report", &runs[1], &runs[0]]).ended(0);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[1].contains("del-release") && lines[2].contains("single"), "{}", said.stdout);
    let latest = room.path().join("picklock-out/report/latest");
    let json: Value =
        serde_json::from_slice(&fs::read(latest.join("compare.json")).unwrap()).unwrap();
    assert_eq!(json["schema"], "picklock/compare/1");
    assert_eq!(json["runs"][0]["directory"], Value::from(runs[1].as_str()));
    assert_eq!(json["runs"][1]["result"]["lock"], "single");
    let page = fs::read_to_string(latest.join("compare.html")).unwrap();
    assert!(page.contains(">lock.recipe</th>") && !page.contains(">lock.ttl</th>"), "one differs");
    // What compares runs is no run.
    let said = room.run(&["report", latest.to_str().unwrap()]).ended(2);
    assert!(said.message().contains("is of `picklock report`, and no run"), "{}", said.stderr);
}

#[test]
fn what_is_no_run_is_refused_before_anything_is_written() {
    let room = Room::new();
    let run = run(&room, "del-release", "out");
    let is_refused = |of: &str, says: &str| {
        let said = room.run(&["report", run.to_str().unwrap(), of]).ended(2);
        assert!(said.message().contains(says), "{says}: {}", said.stderr);
        assert!(!room.path().join("picklock-out").exists());
    };
    is_refused("nowhere", "cannot read nowhere/manifest.json: No such file");
    fs::create_dir(room.path().join("empty")).unwrap();
    is_refused("empty", "name the directory of a run");
    is_refused(run.join("report.html").to_str().unwrap(), "Not a directory");

    let edited = |name: &str, change: &dyn Fn(String) -> String| {
        let copy = room.path().join("copy");
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy).unwrap();
        for (name, bytes) in files(&run) {
            fs::write(copy.join(name), bytes).unwrap();
        }
        let text = fs::read_to_string(copy.join(name)).unwrap();
        fs::write(copy.join(name), change(text)).unwrap();
    };
    edited("result.json", &|text| text[..text.len() / 2].to_owned());
    is_refused("copy", "copy/result.json cannot be used: EOF");
    edited("history.jsonl", &|text| text.replacen("\"seed\":1", "\"seed\":2", 1));
    is_refused(
        "copy",
        "copy/history.jsonl cannot be used: it is of gc-pause with del-release and seed 2",
    );
    edited("manifest.json", &|text| text.replace("picklock/manifest/1", "picklock/manifest/9"));
    is_refused("copy", "its format is \"picklock/manifest/9\"");
    edited("result.json", &|text| text.replace("picklock/result/1", "picklock/result/9"));
    is_refused("copy", "its format is \"picklock/result/9\"");
}
