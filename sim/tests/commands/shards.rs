//! Work that is shared between machines: what `merge` makes of the shards is what one run of the whole gives, byte for
//! byte, and what does not belong together is refused.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::cli_support::{Room, Said, eventually, words};

const SWEEP: &str = "run --scenario late-messages --lock del-release --world virtual --digest";
const MATRIX: &str =
    "matrix --scenario gc-pause,lost-reply --lock single,none,redlock,no-ttl --seeds 0..3";
/// Every format that says the same on every machine.
const FORMATS: &str = "--format json=NAME.json --format markdown=NAME.md --format junit=NAME.xml";

fn formats(name: &str) -> Vec<String> {
    words(FORMATS).into_iter().map(|word| word.replace("NAME", name)).collect()
}

fn asked(command: &str, more: &[String]) -> Vec<String> {
    words(command).into_iter().map(str::to_owned).chain(more.iter().cloned()).collect()
}

fn shard(room: &Room, command: &str, partition: &str, directory: &str) -> Said {
    let more = ["--partition", partition, "--shards", directory].map(str::to_owned);
    room.run(&asked(command, &more))
}

#[track_caller]
fn same_files(room: &Room, one: &str, other: &str) {
    for ending in ["json", "md", "xml"] {
        let read =
            |name: &str| fs::read_to_string(room.path().join(format!("{name}.{ending}"))).unwrap();
        assert!(read(one) == read(other), "{one}.{ending} and {other}.{ending} differ");
    }
}

#[test]
fn merged_shards_of_a_sweep_are_the_same_as_one_run() {
    let room = Room::new();
    let sweep = format!("{SWEEP} --seeds 100..300");
    room.run(&asked(&sweep, &formats("whole"))).ended(1);
    for (of, scheme) in [(1, "slice"), (2, "hash"), (7, "slice"), (64, "hash")] {
        let directory = format!("of-{of}");
        for nth in 1..=of {
            shard(&room, &sweep, &format!("{scheme}:{nth}/{of}"), &directory).ended(0);
        }
        let merged = asked(&format!("merge {directory}"), &formats(&directory));
        room.run(&merged).ended(1);
        same_files(&room, "whole", &directory);
    }
    let written: Vec<_> =
        room.runs().iter().map(|run| fs::read(run.join("sweep.json")).unwrap()).collect();
    assert!(written.len() == 5 && written.iter().all(|it| *it == written[0]));
}

#[test]
fn merged_shards_of_a_matrix_are_the_same_as_one_run() {
    let room = Room::new();
    room.run(&asked(MATRIX, &formats("whole"))).ended(0);
    for (of, scheme) in [(1, "slice"), (3, "slice"), (7, "hash")] {
        let directory = format!("of-{of}");
        for nth in 1..=of {
            shard(&room, MATRIX, &format!("{scheme}:{nth}/{of}"), &directory).ended(0);
        }
        room.run(&asked(&format!("merge {directory}"), &formats(&directory))).ended(0);
        same_files(&room, "whole", &directory);
    }
}

/// The machine that merges may have variables that the others did not have.
#[test]
fn variables_do_not_change_what_is_merged() {
    let room = Room::new();
    let sweep = "run --scenario late-messages --lock del-release --world virtual --seeds 0..40";
    shard(&room, sweep, "slice:1/1", "s").ended(0);
    room.run(&asked("merge s", &formats("plain"))).ended(1);
    let room =
        [("LOCK", "single"), ("SEED", "7"), ("TTL", "2s"), ("WORLD", "redis"), ("SET", "x=y")]
            .into_iter()
            .fold(room, |room, (name, value)| room.with(&format!("PICKLOCK_{name}"), value));
    room.run(&asked("merge s", &formats("varied"))).ended(1);
    same_files(&room, "plain", "varied");
}

/// An exploration without what differs from run to run: how long it took, and where its files are.
fn explored(room: &Room, file: &str) -> String {
    let text = fs::read_to_string(room.path().join(file)).unwrap();
    let same = |line: &&str| {
        !["\"seconds\"", "\"file\"", "\"picture\""].iter().any(|it| line.contains(it))
    };
    text.lines().filter(same).collect::<Vec<_>>().join("\n")
}

#[test]
fn merged_shards_of_an_exploration_are_the_same_as_one_run() {
    let room = Room::new();
    let all: [(&str, u8, i32, &[u64]); 3] =
        [("get-del-release", 1, 1, &[1, 2, 7]), ("none", 2, 1, &[3]), ("single", 1, 0, &[3])];
    for (lock, faults, ends, parts) in all {
        let explore = format!(
            "explore --lock {lock} --clients 2 --rounds 1 --faults {faults} --no-confirm --quiet"
        );
        room.run(&words(&format!("{explore} --format json=whole.json"))).ended(ends);
        let room_of = room.path().join("picklock-out/explore").join(lock);
        // The counterexamples of each run, in the order of the runs.
        let written = || -> Vec<BTreeMap<OsString, String>> {
            let tomls = |run: &Path| {
                let all = fs::read_dir(run).unwrap().map(|it| it.unwrap().path());
                let tomls = all.filter(|it| it.extension().is_some_and(|it| it == "toml"));
                let read = |it: PathBuf| {
                    (it.file_name().unwrap().into(), fs::read_to_string(&it).unwrap())
                };
                tomls.map(read).collect()
            };
            // Where nothing was found there is no directory.
            let all = fs::read_dir(&room_of).into_iter().flatten();
            let mut runs: Vec<_> = all.map(|it| it.unwrap().path()).collect();
            runs.retain(|it| !it.is_symlink());
            runs.sort();
            runs.iter().map(|run| tomls(run)).collect()
        };
        for &of in parts {
            let directory = format!("{lock}-{of}");
            for nth in 1..=of {
                shard(&room, &explore, &format!("slice:{nth}/{of}"), &directory).ended(0);
            }
            room.run(&words(&format!("merge {directory} --quiet --format json=merged.json")))
                .ended(ends);
            assert_eq!(explored(&room, "whole.json"), explored(&room, "merged.json"), "{of}");
        }
        let written = written();
        let runs = if ends == 0 { 0 } else { parts.len() + 1 };
        assert_eq!(written.len(), runs, "{lock}: shards write none");
        assert!(written.iter().all(|it| !it.is_empty() && *it == written[0]), "{lock}");
    }
}

/// In real time two runs differ in more than how they are shared, so verdicts are compared, and what is written.
#[test]
fn merged_shards_of_an_attack_have_every_plan_once_and_in_order() {
    let room = Room::new();
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/attack/shell/naive.sh");
    let worker = worker.canonicalize().unwrap().display().to_string();
    let only = "release.del.late-request,acquire.set.oom,acquire.set.reset-after";
    let attack = |more: &str| {
        let line = format!("attack --world embedded --only {only} {more} -- {worker}");
        room.run(&words(&line))
    };
    attack("--format json=whole.json").ended(1);
    for nth in 1..=3 {
        attack(&format!("--partition slice:{nth}/3 --shards s")).ended(0);
    }
    // One that was cut short before its first plan: of the others nothing is lost.
    let file = room.path().join("s/slice-1-of-3.json");
    let whole = fs::read_to_string(&file).unwrap();
    let mut shard: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let found = &mut shard["found"]["attack"];
    (found["report"], found["kept"]) = (serde_json::Value::Null, serde_json::json!({}));
    shard["complete"] = false.into();
    fs::write(&file, shard.to_string()).unwrap();
    let two = room.run(&words("merge s --allow-missing --format json=two.json"));
    let text = fs::read_to_string(room.path().join("two.json")).unwrap();
    assert_eq!(text.matches("\"plan\": ").count(), 2, "{}", two.stderr);
    assert!(matches!(two.code, Some(1 | 3)), "nothing has interrupted it: {:?}", two.code);
    assert!(two.message().contains("cut short: s/slice-1-of-3.json"), "{}", two.stderr);
    fs::write(&file, whole).unwrap();
    let again = attack("--partition slice:1/3 --shards s --resume").ended(0);
    assert!(again.stdout.contains("slice:1/3: 1 of 1 plans"), "{}", again.stdout);
    let said = room.run(&words("merge s --format json=merged.json --format human")).ended(1);
    let verdicts = |file: &str| {
        let text = fs::read_to_string(room.path().join(file)).unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["complete"], true);
        let plans = found["plans"].as_array().unwrap().iter();
        plans.map(|it| (it["plan"].clone(), it["outcome"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(verdicts("whole.json"), verdicts("merged.json"));
    let results = said.results();
    assert!(results.contains("BUG release.del.late-request"), "{results}");
    // The histories have come along.
    let report = results.split("report: ").nth(1).unwrap().trim();
    let history = report.replace("report.html", "release.del.late-request.jsonl");
    room.run(&["check", &history]).ended(1);
}

/// One that its budget cuts short goes on where it was.
#[test]
fn a_shard_of_an_exploration_that_was_cut_short_is_gone_on_with() {
    let room = Room::new();
    let explore = "explore --lock single --no-confirm --quiet";
    let asked = format!("{explore} --shards s --budget");
    // Some thousand schedules take longer.
    room.run(&words(&format!("{asked} 1ns"))).ended(3);
    let missing = room.run(&words("merge s")).ended(2);
    assert!(missing.message().contains("cut short"), "{}", missing.stderr);
    let all_the_same = room.run(&words("merge s --allow-missing")).ended(3);
    let results = all_the_same.results();
    assert!(
        results.contains("verdict: inconclusive") && results.contains("cut short"),
        "{results}"
    );
    room.run(&words(&format!("{asked} 10m --resume"))).ended(0);
    room.run(&words(&format!("{explore} --budget 10m --format json=whole.json"))).ended(0);
    room.run(&words("merge s --quiet --format json=merged.json")).ended(0);
    assert_eq!(explored(&room, "whole.json"), explored(&room, "merged.json"));
}

/// Says how much of the shard is done, by its file.
fn next(file: &Path) -> u64 {
    let shard: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    shard["found"]["sweep"]["next"].as_u64().unwrap()
}

#[test]
fn a_shard_that_was_cut_short_is_gone_on_with() {
    let room = Room::new();
    let sweep = format!("{SWEEP} --seeds 0..2000 --threads 1");
    room.run(&asked(&sweep, &formats("whole"))).ended(1);
    let part = ["--partition", "slice:1/2", "--shards", "s"].map(str::to_owned);
    let file = room.path().join("s/slice-1-of-2.json");
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let resume = asked(&sweep, &[&part[..], &["--resume".to_owned()]].concat());
        let before = if file.exists() { next(&file) } else { 0 };
        let mut playing = room.start(&resume);
        // The first batch is saved.
        eventually("something is saved", || (file.exists() && next(&file) > before).then_some(()));
        playing.signal(signal);
        // On a fast machine it is done by then.
        let ends = if signal == Signal::SIGKILL { [None, Some(0)] } else { [Some(130), Some(0)] };
        assert!(ends.contains(&playing.end().code()));
        assert!(next(&file) > 0);
    }
    let refused = shard(&room, &sweep, "slice:1/2", "s").ended(2);
    assert!(refused.message().contains("add --resume"), "{}", refused.stderr);
    room.run(&asked(&sweep, &[&part[..], &["--resume".to_owned()]].concat())).ended(0);
    let done = room.run(&asked(&sweep, &[&part[..], &["--resume".to_owned()]].concat())).ended(0);
    assert!(done.stdout.contains("1000 of 1000 schedules"), "{}", done.stdout);
    shard(&room, &sweep, "slice:2/2", "s").ended(0);
    room.run(&asked("merge s", &formats("merged"))).ended(1);
    same_files(&room, "whole", "merged");
}

#[test]
fn shards_that_do_not_belong_together_are_refused() {
    let room = Room::new();
    let sweep = format!("{SWEEP} --seeds 0..20");
    let all = |command: &str, directory: &str| {
        for nth in [1, 2] {
            shard(&room, command, &format!("slice:{nth}/2"), directory).ended(0);
        }
    };
    all(&sweep, "a");
    all(&format!("{SWEEP} --seeds 10..30"), "overlapping");
    all(&sweep.replace("late-messages", "crash-holder"), "scenario");
    all(MATRIX, "matrix");
    let text = fs::read_to_string(room.path().join("a/slice-2-of-2.json")).unwrap();
    let build = text.find("\"build\": \"").unwrap() + "\"build\": \"".len();
    let other = format!("{}{}{}", &text[..build], "0".repeat(40), &text[build + 40..]);
    room.file("build.json", other);
    room.file("cut.json", text.replace("\"complete\": true", "\"complete\": false"));
    room.file("torn.json", &text[..text.len() / 2]);
    room.file("other.json", "{\"format\": 1}");
    let one = "a/slice-1-of-2.json";
    for (with, says) in [
        ("overlapping/slice-2-of-2.json", "--seeds 10..30"),
        ("scenario/slice-2-of-2.json", "crash-holder"),
        ("matrix/slice-2-of-2.json", "no parts of one whole"),
        ("build.json", "two builds"),
        ("cut.json", "cut short: cut.json"),
        ("torn.json", "no shard"),
        ("other.json", "no shard"),
        ("", "missing: slice:2/2"),
        ("a", "both slice:1/2"),
        ("nowhere.json", "no shard"),
    ] {
        let said = room.run(&asked(&format!("merge {one} {with}"), &[])).ended(2);
        assert!(said.message().contains(says), "{with}: {}", said.stderr);
    }
    assert!(room.runs().is_empty(), "what is refused writes nothing");
    // What another build has written cannot be merged by this one, even alone.
    let said = room.run(&["merge", "build.json", "--allow-missing"]).ended(2);
    assert!(said.message().contains("two builds"), "{}", said.stderr);
}

#[test]
fn a_shard_is_not_written_over_by_another_process() {
    let room = Room::new();
    let sweep = format!("{SWEEP} --seeds 0..1000000000 --shards s --progress lines");
    let first = room.start(&words(&sweep));
    eventually("it sweeps", || first.stderr().contains(" schedules ").then_some(()));
    let path = room.path().join("s/slice-1-of-1.json");
    let mut theirs: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    theirs["complete"] = true.into();
    fs::write(&path, theirs.to_string()).unwrap();
    first.signal(Signal::SIGTERM);
    let said = first.said().ended(69);
    assert!(said.message().contains("by another picklock meanwhile"), "{}", said.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), theirs.to_string());
}

#[test]
fn a_shard_of_a_command_that_has_none_is_edited() {
    let room = Room::new();
    shard(&room, &format!("{SWEEP} --seeds 0..3"), "slice:1/1", "s").ended(0);
    let path = room.path().join("s/slice-1-of-1.json");
    let mut edited: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edited["asked"]["command"] = serde_json::json!(["soak"]);
    fs::write(&path, edited.to_string()).unwrap();
    let said = room.run(&["merge", "s"]).ended(2);
    assert!(said.message().contains("is no shard"), "{}", said.stderr);
}

#[test]
fn a_place_that_takes_no_shard_is_refused() {
    let room = Room::new();
    let file = room.file("file", "mine");
    for place in ["/proc", "/proc/sub", "/dev/null", &file] {
        for resume in [&[][..], &["--resume".to_owned()]] {
            let sweep = format!("{SWEEP} --seeds 0..3 --shards {place}");
            let said = room.run(&asked(&sweep, resume)).ended(2).message();
            let says = [format!("cannot write {place}/"), "another directory with --shards".into()];
            assert!(says.iter().all(|it| said.contains(it)), "{place}: {said}");
        }
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let room = Room::new();
    let sweep = "run --scenario late-messages --lock del-release --world virtual --seeds 0..40";
    shard(&room, sweep, "slice:1/2", "s").ended(0);
    shard(&room, sweep, "slice:2/2", "s").ended(0);
    room.run(&["merge", "s"]).ended(1);
    let path = room.path().join("s/slice-1-of-2.json");
    let whole: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let violated = |found: &serde_json::Value| {
        let all = found["sweep"]["sweep"]["invariants"].as_array().unwrap();
        all.iter().position(|it| it["violated"].as_u64() > Some(0)).unwrap()
    };
    let nth = violated(&whole["found"]);
    let invariant = format!("/found/sweep/sweep/invariants/{nth}");
    for (place, value) in [
        (format!("{invariant}/violated"), u64::MAX.into()),
        (format!("{invariant}/inconclusive"), u64::MAX.into()),
        (format!("{invariant}/held"), 1_000.into()),
        (format!("{invariant}/first_violated"), serde_json::Value::Null),
        (format!("{invariant}/name"), "another".into()),
        ("/found/sweep/sweep/invariants/0/name".to_owned(), "another".into()),
        ("/found/sweep/sweep/schedules".to_owned(), 3.into()),
        ("/found/sweep/sweep/violations".to_owned(), 0.into()),
        ("/found/sweep/sweep/met_hold".to_owned(), u64::MAX.into()),
    ] {
        let mut edited = whole.clone();
        *edited.pointer_mut(&place).unwrap() = value;
        fs::write(&path, edited.to_string()).unwrap();
        let said = room.run(&["merge", "s"]).ended(2);
        assert!(said.message().contains("does not add up"), "{place}: {}", said.stderr);
        assert!(said.message().contains("run this part again"), "{place}: {}", said.stderr);
    }
    fs::write(&path, whole.to_string()).unwrap();
    room.run(&["merge", "s"]).ended(1);
    shard(&room, MATRIX, "slice:1/1", "m").ended(0);
    let path = room.path().join("m/slice-1-of-1.json");
    let text = fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("\"held\": 3", format!("\"held\": {}", u64::MAX)),
        ("\"first_violated\": 0", "\"first_violated\": null".to_owned()),
    ] {
        let edited = text.replacen(from, &to, 1);
        assert_ne!(edited, text);
        fs::write(&path, edited).unwrap();
        let said = room.run(&["merge", "m"]).ended(2);
        assert!(said.message().contains("does not add up"), "{}", said.stderr);
    }
}

#[test]
fn what_is_missing_counts_as_inconclusive_where_it_is_allowed() {
    let room = Room::new();
    let sweep = "run --scenario crash-holder --lock single --world virtual --seeds 0..20";
    shard(&room, sweep, "slice:2/3", "s").ended(0);
    let said = room.run(&["merge", "s", "--allow-missing"]).ended(3);
    assert!(said.results().contains("missing: slice:1/3, slice:3/3"), "{}", said.stdout);
    assert!(said.stdout.contains("verdict: inconclusive"), "{}", said.stdout);
    shard(&room, MATRIX, "slice:1/8", "m").ended(0);
    let said = room.run(&["merge", "m", "--allow-missing"]).ended(3);
    assert!(said.results().contains("its shard is missing"), "{}", said.stdout);
    assert!(!said.results().contains("verdict: as expected"), "{}", said.stdout);
    assert!(said.message().contains("missing: slice:2/8"), "{}", said.stderr);
    let report = format!("{sweep} --shards t --format json=t.json");
    let said = room.run(&words(&report)).ended(2);
    assert!(said.message().contains("picklock merge"), "{}", said.stderr);
}

#[test]
fn a_scenario_file_that_has_changed_is_noticed() {
    let room = Room::new();
    let text = scenarios::catalog::text("crash-holder").unwrap();
    room.file("mine.toml", text);
    let sweep = "run --scenario mine.toml --lock single --world virtual --seeds 0..5";
    shard(&room, sweep, "slice:1/1", "s").ended(0);
    room.run(&["merge", "s"]).ended(0);
    room.file("mine.toml", text.replacen("clients = ", "clients = 1", 1));
    let said = room.run(&["merge", "s"]).ended(2);
    assert!(said.message().contains("no longer what it was"), "{}", said.stderr);
}

#[test]
fn the_number_of_a_part_comes_from_the_engine() {
    let room = Room::new().with("JOB_COMPLETION_INDEX", "4");
    let sweep = "run --scenario crash-holder --lock single --world virtual --seeds 0..20";
    shard(&room, sweep, "slice:auto/5", "s").ended(0);
    assert!(room.path().join("s/slice-5-of-5.json").exists());
    let said = shard(&room, sweep, "slice:auto/4", "s").ended(2);
    assert!(said.message().contains("no part 5 of 4"), "{}", said.stderr);
}
