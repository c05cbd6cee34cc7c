//! `picklock attack --oracle` as its user meets it: programs that take no orders, judged by what they leave.

use std::fs;

use nix::sys::signal::Signal;

use crate::cli_support::{Room, Said, eventually, words};
use crate::example;

/// A program that speaks to its Redis after this, and ends.
fn program(room: &Room, name: &str, script: &str) -> String {
    let connect = "exec 3<>/dev/tcp/$REDIS_HOST/$REDIS_PORT\n\
                   ask() { printf '%s\\r\\n' \"$*\" >&3; read -r reply <&3; [[ $reply != -* ]]; }\n\
                   ask AUTH $REDIS_PASSWORD\n";
    room.program(
        name,
        &format!("exec bash -c '{}' {name}", format!("{connect}{script}").replace('\'', "'\\''")),
    )
}

/// Attacks this with these options.
fn attack(room: &Room, options: &str, oracle: &str, program: &str) -> Said {
    let args = [&["attack"], &words(options)[..], &["--oracle", oracle, "--", program]].concat();
    room.attack(&args)
}

#[test]
fn a_job_with_a_naive_lock_is_convicted_at_its_key_and_by_the_oracle() {
    for world in ["embedded", "redis"] {
        // Long enough for a late message to meet somebody at work, on a busy machine, too.
        let room = Room::new().with("WORK_SECONDS", "0.3");
        let options = format!(
            "--world {world} --only run.del.late-request,run.set.late-reply,run.set.oom \
             --format human --format json=found.json --format junit=found.xml"
        );
        let said = attack(&room, &options, &example("job_oracle.sh"), &example("job.sh")).ended(1);
        let results = said.results();
        for says in [
            "3 programs, TTL 600 ms",
            "lock key picklock-attack",
            "client 1 deleted the lock's key with DEL while client",
            "BUG run.set.late-reply: the reply arrives after the TTL",
            "effect: the oracle is not content (exit status: 1): the counter is ",
            "--oracle",
            "run.set.oom: client 1 ended with exit status: 1",
            "3 plans: 2 with a bug, 1 held",
        ] {
            assert!(results.contains(says), "{world}: no {says:?} in {}", said.stdout);
        }
        let found: serde_json::Value =
            serde_json::from_slice(&fs::read(room.path().join("found.json")).unwrap()).unwrap();
        assert_eq!(found["world"], world);
        assert_eq!(found["oracle"], example("job_oracle.sh"));
        let findings = |plan: &str| {
            let plans = found["plans"].as_array().unwrap();
            let plan = plans.iter().find(|it| it["plan"] == plan).unwrap();
            plan["findings"].as_array().unwrap().clone()
        };
        // Which of the two is told, and which is the same, may differ.
        assert!(findings("run.del.late-request").iter().any(|it| it["level"] == "key"), "{found}");
        let oracle = findings("run.set.late-reply");
        let oracle = oracle.iter().find(|it| it["invariant"] == "oracle").unwrap();
        assert_eq!((&oracle["level"], &oracle["severity"]), (&"effect".into(), &"bug".into()));
        let story = oracle["story"].to_string();
        for says in [
            "is struck at its SET: the reply arrives after the TTL",
            "is sent the late reply to its SET",
            "the oracle: the counter is",
        ] {
            assert!(story.contains(says), "no {says:?} in {oracle}");
        }
        let junit = fs::read_to_string(room.path().join("found.xml")).unwrap();
        assert!(junit.contains("failures=\"2\"") && junit.contains("--oracle"), "{junit}");
        assert_eq!(junit.matches("\nreplay: ").count(), 2, "{junit}");
        // Three plans, their suite and the whole; each takes the time of its copies' work at least.
        assert_eq!(junit.matches(" time=\"").count(), 5, "{junit}");
        assert!(!junit.contains("time=\"0.000\""), "{junit}");
        room.is_left_clean();
    }
}

#[test]
fn the_line_that_repeats_a_plan_names_the_oracle() {
    let room = Room::new().with("WORK_SECONDS", "0.3");
    let oracle = format!("{} || exit 7", example("job_oracle.sh"));
    let options = "--world embedded --only run.set.late-reply";
    let said = attack(&room, options, &oracle, &example("job.sh")).ended(1);
    let again = format!("--oracle '{oracle}' --end-within 30s -- ");
    assert!(said.stdout.contains(&again), "no {again} in {}", said.stdout);
    assert!(said.stdout.contains("(exit status: 7)"), "{}", said.stdout);
}

#[test]
fn plans_are_those_of_what_the_program_sends() {
    let room = Room::new();
    let listed = attack(&room, "--world embedded --list", "true", &example("job.sh")).ended(0);
    for plan in ["run.set.oom: ", "run.get.busy: ", "run.set2.late-reply: ", "hold.stop: "] {
        assert!(listed.stdout.contains(plan), "{}", listed.stdout);
    }
    for plan in ["auth", "run.get.readonly", "run.set3", "run.del.oom"] {
        assert!(!listed.stdout.contains(plan), "{plan} in {}", listed.stdout);
    }
    room.is_left_clean();
}

#[test]
fn without_a_lock_nothing_is_said_of_a_key() {
    let room = Room::new();
    // It reads its input to the end, which is at once.
    let counts = program(&room, "counts", "cat; ask INCR counter || ask INCR counter");
    let options = "--world embedded --only run.incr.loading,run.incr.kill --format json";
    let said = attack(&room, options, "true", &counts).ended(0);
    let found: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(found["lock_key"], serde_json::Value::Null);
    for plan in found["plans"].as_array().unwrap() {
        assert_eq!((&plan["outcome"], &plan["key"]), (&"held".into(), &"n/a".into()), "{plan}");
    }
    let listed = attack(&room, "--world embedded --list", "true", &counts).ended(0);
    assert!(!listed.stdout.contains("hold."), "{}", listed.stdout);
    room.is_left_clean();
}

#[test]
fn a_program_that_a_fault_keeps_from_ending_is_a_bug() {
    let room = Room::new();
    let endless = program(&room, "endless", "ask INCR counter && exit\necho it failed; sleep 600");
    let options = "--world embedded --end-within 2s --only run.incr.loading";
    // No bug of the lock, but of progress.
    let said = attack(&room, options, "true", &endless).ended(5);
    let results = said.results();
    for says in ["progress: client 1 did not end within ", "printed: it failed", "is killed"] {
        assert!(results.contains(says), "no {says:?} in {}", said.stdout);
    }
    room.is_left_clean();
}

#[test]
fn what_only_a_fence_could_prevent_is_an_assumption() {
    let room = Room::new();
    // It leaves its key to expire, so nothing is wrong but what it writes when another has the lock.
    let takes = "if redis.call(\"set\", KEYS[1], 1, \"nx\", \"px\", ARGV[1]) then redis.call(\"rpush\", KEYS[2], \"got\") \
                 return 1 end return 0";
    let takes = takes.replace('"', "\\x22");
    let takes = format!("EVAL \\\"{takes}\\\" 2 $PICKLOCK_KEY log $PICKLOCK_TTL_MS");
    let late = program(
        &room,
        "late",
        &format!(
            "until ask \"{takes}\" && [[ $reply == :1* ]]; do sleep 0.05; done\nask RPUSH log done"
        ),
    );
    let oracle =
        program(&room, "oracle", "ask LINDEX log 1; read -r second <&3; [[ $second == done* ]]");
    let options = "--world embedded --only run.rpush.late-request";
    let said = attack(&room, options, &oracle, &late).ended(0);
    assert!(said.results().contains("ASSUMES run.rpush.late-request"), "{}", said.stdout);
    room.is_left_clean();
}

#[test]
fn programs_and_oracles_that_are_of_no_use_are_told_of_in_one_message() {
    let room = Room::new();
    let sends = program(&room, "sends", "ask INCR counter");
    let keeps = program(&room, "keeps", "ask SET $PICKLOCK_KEY 1 NX PX 9000 || true");
    // What has to end has time for it, on a busy machine, too.
    let cases = [
        ("60s", "true", "true", "your program sent nothing to its Redis"),
        ("60s", &keeps, "true", "the lock's key lives 9 s, where 600 ms were asked for"),
        ("60s", &room.program("fails", "echo about to fail >&2; exit 3"), "true", "about to fail"),
        ("1s", &room.program("sleeps", "sleep 600"), "true", "client 1 did not end within 1 s"),
        (
            "60s",
            &sends,
            "echo nope; exit 5",
            "the oracle is not content (exit status: 5); it printed: nope",
        ),
        ("5s", &sends, "sleep 600", "the oracle did not end within 5 s"),
    ];
    for (within, command, oracle, says) in cases {
        let options = format!("--world embedded --end-within {within}");
        let said = attack(&room, &options, oracle, command);
        let said = said.ended(2).message();
        assert!(said.contains(says), "{command}: no {says:?} in {said}");
        assert!(said.contains("docs/attack.md"), "{said}");
    }
    room.is_left_clean();
}

#[test]
fn whatever_a_program_prints_or_starts_is_gone_with_it() {
    let room = Room::new();
    // It prints megabytes, lives on after SIGTERM, and leaves children in sessions of their own.
    let first = "trap '' TERM\nhead -c 5000000 /dev/zero | tr '\\0' 'x'\necho\nhead -c 5000000 /dev/zero >&2\n\
                 setsid sleep 600 > /dev/null 2>&1 &\nsleep 600 &\n";
    let noisy = room.program("noisy", &format!("{first}exec {}", example("job.sh")));
    let options = "--world embedded --only run.get.busy,run.del.kill";
    attack(&room, options, &example("job_oracle.sh"), &noisy).ended(0);
    room.is_left_clean();
}

#[test]
fn the_history_of_a_program_is_judged_alike_by_check() {
    let room = Room::new().with("WORK_SECONDS", "0.3");
    let options = "--world embedded --only run.del.late-request";
    attack(&room, options, &example("job_oracle.sh"), &example("job.sh")).ended(1);
    let history = room.only_run().join("run.del.late-request.jsonl");
    let said = room.run(&["check", history.to_str().unwrap()]).ended(1);
    assert!(said.stdout.contains("deleted the lock's key with DEL"), "{}", said.stdout);
}

#[test]
fn an_interrupted_attack_on_programs_leaves_nothing() {
    for (world, signal, code) in [
        ("embedded", Signal::SIGINT, Some(130)),
        ("redis", Signal::SIGTERM, Some(130)),
        ("redis", Signal::SIGKILL, None),
    ] {
        let room = Room::new();
        let (oracle, job) = (example("job_oracle.sh"), example("job.sh"));
        let options = ["attack", "--world", world, "--jobs", "2", "--again", "99"];
        let args = [&options[..], &["--oracle", &oracle, "--", &job]].concat();
        let mut playing = room.start(&args);
        eventually("plans are run", || room.runs().first().map(drop));
        eventually("programs run", || (room.processes().len() > 4).then_some(()));
        playing.signal(signal);
        assert_eq!(playing.end().code(), code, "{}", playing.stderr());
        room.is_left_clean();
    }
}
