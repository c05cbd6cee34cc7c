//! What a scenario expects, beside what a run has found.

use crate::cli_support::{Room, words};

#[test]
fn what_a_file_expects_is_set_beside_what_was_found() {
    let room = Room::new();
    let text = scenarios::catalog::text("gc-pause").unwrap();
    let file = room.file("mine.toml", text);
    let run = ["--scenario", &file, "--lock", "single", "--world", "virtual"];
    for seeds in [["--seed", "1"], ["--seeds", "0..3"]] {
        // The exit code says whether the lock is safe, and not whether that was expected.
        let said = room.run(&[&run[..], &seeds].concat()).ended(1).stdout;
        assert!(said.contains("as expected of single at key, belief, effect, progress"), "{said}");
        assert!(!said.contains("not as expected"), "{said}");
    }
    let wrong = text.replacen("effect = \"violated\"", "effect = \"held\"", 9);
    assert_ne!(wrong, text);
    let file = room.file("wrong.toml", wrong);
    let run = ["--scenario", &file, "--lock", "single", "--world", "virtual"];
    for seeds in [["--seed", "1"], ["--seeds", "0..3"]] {
        let said = room.run(&[&run[..], &seeds].concat()).ended(1).results();
        let says = "not as expected of single: effect is violated, and held is expected";
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn a_violation_that_the_catalogue_tells_of_is_said_to_be_expected() {
    let room = Room::new();
    let run = |line: &str, exit: i32| {
        room.run(&words(&format!("--scenario gc-pause --world virtual {line}"))).ended(exit).stdout
    };
    for seeds in ["--seed 1", "--seeds 0..3"] {
        let said = run(&format!("--lock single {seeds}"), 1);
        let why = "the resource takes the late write all the same";
        assert!(said.contains("as expected of single at ") && said.contains(why), "{said}");
    }
    // Of a lock that holds, and of a scenario that the user has changed, nothing is said.
    let held = run("--lock no-ttl --seed 1", 0);
    let changed = run("--lock single --seed 1 --ttl 201ms", 1);
    assert!(!held.contains("as expected") && !changed.contains("as expected"), "{held}{changed}");
}

#[test]
fn a_run_ends_by_what_is_expected_where_that_is_asked_for() {
    let room = Room::new();
    let text = scenarios::catalog::text("gc-pause").unwrap();
    let mine = room.file("mine.toml", text);
    let wrong = text.replacen("effect = \"violated\"", "effect = \"held\"", 9);
    let wrong = room.file("wrong.toml", wrong);
    let run = |file: &str, more: &str, exit: i32| {
        let line = format!("--scenario {file} --lock single --world virtual --expected {more}");
        room.run(&words(&line)).ended(exit)
    };
    for seeds in ["--seed 1", "--seeds 0..3"] {
        let junit = room.path().join("r.xml");
        let said =
            run(&mine, &format!("{seeds} --format human --format junit={}", junit.display()), 0);
        let junit = std::fs::read_to_string(junit).unwrap();
        assert!(junit.contains("violated, as expected") && !junit.contains("<failure"), "{junit}");
        // The verdict is of the lock: this one is violated, as is expected of it.
        assert!(said.results().contains("as expected of single at key"), "{}", said.stdout);
        assert!(said.stdout.contains("verdict: violated"), "{}", said.stdout);
        assert!(said.stdout.contains(" --expected\n"), "what runs it again: {}", said.stdout);
        assert!(run(&wrong, seeds, 1).results().contains("not as expected of single: effect"));
        let quiet = run(&wrong, &format!("{seeds} --quiet"), 1).message();
        assert!(quiet.contains("not as expected of single: effect"), "{quiet}");
        // A scenario of the catalogue has its own.
        assert!(run("gc-pause", seeds, 0).results().contains("as expected of single at key"));
    }
    // What a schedule cannot show, it does not show as expected: nobody else ever wants the lock.
    let said = run(&mine, "--seed 1 --clients 1", 3).results();
    assert!(said.contains("not as expected of single"), "{said}");

    let shards = room.path().join("shards").display().to_string();
    for nth in 1..=2 {
        run(&mine, &format!("--seeds 0..4 --partition slice:{nth}/2 --shards {shards}"), 0);
    }
    let merged = room.run(&["merge", &shards]).ended(0).results();
    assert!(merged.contains("as expected of single at key"), "{merged}");

    let other = room.file("other.toml", text.split("[[expect]]").next().unwrap());
    let said = run(&other, "--seed 1", 2);
    assert!(said.message().contains("none of other names single"), "{}", said.stderr);
}
