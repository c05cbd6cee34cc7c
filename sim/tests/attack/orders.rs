//! `picklock attack` as its user meets it: a lock that is picked, workers that are of no use, and nothing left behind.

use std::fs;

use nix::sys::signal::Signal;

use crate::cli_support::{Room, eventually, words};
use crate::example;

/// A lock of a few lines: SET NX PX, and DEL.
fn naive() -> String {
    example("naive.sh")
}

/// The same with a manual renewal, which is done so.
fn extended(room: &Room, name: &str, extend: &str) -> String {
    let naive = fs::read_to_string(naive()).unwrap();
    let ready = naive.replace("echo ready", "echo ready extends");
    let script =
        ready.replace("        check)", &format!("        extend) {extend} ;;\n        check)"));
    let script = script.replace("'$-1'*)", "'$-1'*|:0)");
    room.program(name, &format!("exec bash -c '{}'", script.replace('\'', "'\\''")))
}

/// A worker that answers everything with ok, after this.
fn worker(room: &Room, first: &str) -> String {
    let answers = "echo ready\nwhile read order; do echo ok; done";
    room.program("worker", &format!("{first}\n{answers}"))
}

#[test]
fn a_naive_lock_is_picked_in_both_worlds() {
    let naive = naive();
    for world in ["embedded", "redis"] {
        let room = Room::new();
        let only = "release.del.late-request,acquire.set.oom,acquire.set.reset-after";
        // Both believe it only if the third has asked before the second is done: on a busy machine that takes a while.
        let args = ["attack", "--world", world, "--ttl", "3s", "--only", only, "--format", "human"];
        let args = [&args[..], &["--format", "json=found.json", "--", &naive]].concat();
        let said = room.attack(&args).ended(1);
        let results = said.results();
        for says in [
            "lock key picklock-attack",
            "BUG release.del.late-request: the request arrives after the TTL",
            "client 1 deleted the lock's key with DEL while client",
            "both believed that they held the lock",
            "waits: its DEL is late",
            "--only release.del.late-request --ttl 3s",
            "behind for",
            "and answered unknown: -the connection broke",
            "3 plans: 1 with a bug, 1 with a lesser flaw (api), 1 held",
        ] {
            assert!(results.contains(says), "{world}: no {says:?} in {}", said.stdout);
        }
        let found = fs::read(room.path().join("found.json")).unwrap();
        room.fits_schema(&["schema", "attack"], &found, |it| &mut it["plans"][0]["outcome"]);
        let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
        assert_eq!(found["world"], world);
        let levels: Vec<_> = found["plans"][2]["findings"].as_array().unwrap().iter().collect();
        assert!(levels.iter().any(|it| it["level"] == "key"), "{found}");
        assert!(levels.iter().any(|it| it["level"] == "belief"), "{found}");
        assert!(!levels[0]["story"].as_array().unwrap().is_empty());
        room.is_left_clean();
    }
}

#[test]
fn what_strikes_servers_is_staged_in_both_worlds() {
    // It deletes no key but its own; its servers may be one.
    let lock = example("redlock.sh");
    let only = "restart,failover,server-clock,evict,power-loss";
    for (world, failover) in [("embedded", "not-stageable"), ("redis", "assumption")] {
        let room = Room::new();
        let args = ["attack", "--world", world, "--only", only, "--format", "json", "--", &lock];
        let said = room.attack(&args).ended(0);
        let found: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        let plans = found["plans"].as_array().unwrap().iter();
        let came: Vec<_> = plans.map(|it| (&it["plan"], &it["outcome"])).collect();
        let expected = [
            ("hold.restart", "held"),
            ("hold.power-loss", "assumption"),
            ("hold.failover", failover),
            ("hold.evict", "assumption"),
            ("hold.server-clock", failover),
        ];
        assert_eq!(came.len(), expected.len(), "{world}: {came:?}");
        for ((plan, outcome), expected) in came.iter().zip(expected) {
            assert_eq!((plan.as_str(), outcome.as_str()), (Some(expected.0), Some(expected.1)));
        }
        room.is_left_clean();
    }
}

#[test]
fn a_lock_on_several_servers_survives_what_strikes_one_of_them() {
    let redlock = example("redlock.sh");
    let room = Room::new();
    let only = "acquire.set.most.lose-reply,hold.power-loss,hold.most.power-loss";
    let args = ["attack", "--world", "redis", "--nodes", "3", "--only", only, "--", &redlock];
    let said = room.attack(&args).ended(0);
    for says in [
        "3 x redis",
        "  lose-reply                 ok",
        "cuts the server's power at server 1",
        "--nodes 3",
        "3 plans: 1 that no lock with a TTL survives (assumes), 2 held",
    ] {
        assert!(said.stdout.contains(says), "no {says:?} in {}", said.stdout);
    }
    let args = ["attack", "--world", "embedded", "--nodes", "2", "--", &naive()];
    let said = room.run(&args).ended(2).message();
    assert!(said.contains("sent nothing to server 1") && said.contains("REDIS_URLS"), "{said}");
    room.is_left_clean();
}

#[test]
fn a_clock_that_has_jumped_is_right_in_the_next_plan_and_so_are_those_of_other_servers() {
    let redlock = example("redlock.sh");
    let room = Room::new();
    let only = "hold.server-clock,hold.most.evict";
    let args = "attack --world redis --nodes 3 --jobs 1 --only";
    let said = room.attack(&[&words(args)[..], &[only, "--", &redlock]].concat()).ended(0);
    let says = "2 plans: 1 that no lock with a TTL survives (assumes), 1 held";
    assert!(said.results().contains(says), "{}", said.stdout);
    room.is_left_clean();
}

#[test]
fn the_history_of_a_finding_is_judged_alike_by_check() {
    let room = Room::new();
    let args = "attack --world embedded --only release.del.late-request --out out --";
    room.attack(&[&words(args)[..], &[&naive()]].concat()).ended(1);
    let history = "out/attack/latest/release.del.late-request.jsonl";
    let said = room.run(&["check", history]).ended(1);
    assert!(said.stdout.contains("deleted the lock's key with DEL"), "{}", said.stdout);
}

#[test]
fn an_answer_that_cannot_be_read_ends_the_attack_in_every_plan() {
    let room = Room::new();
    let naive = fs::read_to_string(naive()).unwrap();
    let short = naive.replace(r#"echo "unknown $reply""#, "echo ok valid_ms=-50");
    let args = "attack --world embedded --only acquire.set.oom,acquire.set.stop --";
    let short = room.file("short.sh", short);
    let said = room.attack(&[&words(args)[..], &["bash", &short]].concat()).ended(2).message();
    for says in [
        "in the plan acquire.set.oom the worker said `ok valid_ms=-50`: behind `ok` come",
        "0 or more. If no time is left, give the lock back and answer `no`",
    ] {
        assert!(said.contains(says), "no {says:?} in {said}");
    }
    room.is_left_clean();
}

#[test]
fn what_was_found_is_printed_where_it_cannot_be_kept() {
    let room = Room::new();
    let naive = fs::read_to_string(naive()).unwrap();
    let acquires = format!("acquire) rm -rf {}/out/attack/*;", room.path().display());
    let clears = room.file("clears.sh", naive.replace("acquire)", &acquires));
    let args = "attack --world embedded --only release.del.late-request --out out -- bash";
    let said = room.attack(&[&words(args)[..], &[&clears]].concat()).ended(69);
    assert!(said.results().contains("1 plan: 1 with a bug"), "{}", said.stdout);
    assert!(!said.stdout.contains("report: "), "{}", said.stdout);
    assert!(said.stderr.contains("attack.json"), "{}", said.stderr);
}

#[test]
fn reports_that_cannot_be_kept_are_an_error_of_the_command_line() {
    let room = Room::new();
    fs::write(room.path().join("taken"), "").unwrap();
    let args = "attack --world embedded --only release.del.late-request --out taken/out --";
    let said = room.attack(&[&words(args)[..], &[&naive()]].concat()).ended(2);
    assert!(said.stderr.contains("taken/out"), "{}", said.stderr);
}

#[test]
fn a_lock_that_its_holder_extends_is_struck_at_that_and_held_to_it() {
    let room = Room::new();
    let honest =
        extended(&room, "honest", r#"ask PEXPIRE "$PICKLOCK_KEY" "$PICKLOCK_TTL_MS" || broken"#);
    let only = "hold.pexpire.late-request,hold.pexpire2.reset-before";
    let args = ["attack", "--world", "embedded", "--only", only, "--", &honest];
    let said = room.attack(&args).ended(1);
    for says in ["extends the key of client", "2 plans: 1 with a bug, 1 held"] {
        assert!(said.results().contains(says), "no {says:?} in {}", said.stdout);
    }
    let liar = extended(&room, "liar", "reply=+OK");
    let args = ["attack", "--world", "embedded", "--only", "hold.stop", "--", &liar];
    let said = room.attack(&args).ended(1);
    let says = "said that it has extended the lock, whose key was not its own any more";
    assert!(said.results().contains(says), "{}", said.stdout);
}

#[test]
fn a_lock_that_keeps_nobody_out_is_convicted_without_any_fault() {
    let room = Room::new();
    let naive = fs::read_to_string(naive()).unwrap().replace(" NX PX ", " PX ");
    let always = room.file("always.sh", naive);
    let run = |world: &str, only: &str, again: &str| {
        let args = ["attack", "--world", world, "--only", only, "--again", again];
        room.attack(&[&args[..], &["--", "bash", &always]].concat())
    };
    for world in ["embedded", "redis"] {
        let said = run(world, "acquire.set.readonly", "1").ended(1).results();
        for says in [
            "BUG no-fault: nothing goes wrong",
            // Its value is the same in all clients.
            "overwrote the lock's key with SET",
            "both believed that they held the lock",
            "--only no-fault",
            "2 plans: ",
        ] {
            assert!(said.contains(says), "{world}: no {says:?} in {said}");
        }
        for lie in ["extended", "never had its key"] {
            assert!(!said.contains(lie), "{world}: {lie:?} in {said}");
        }
    }
    let said = run("embedded", "no-fault", "2").ended(1);
    assert!(said.results().contains("shown in 2 of 2 runs"), "{}", said.stdout);
    let args = ["attack", "--world", "embedded", "--only", "no-fault", "--", &self::naive()];
    assert!(room.attack(&args).ended(0).results().contains("1 plan: 1 held"));
}

#[test]
fn a_lock_that_harms_progress_alone_has_an_exit_of_its_own() {
    let room = Room::new();
    let naive = fs::read_to_string(naive()).unwrap();
    let immortal = room.file("immortal.sh", naive.replace(r#" PX "$PICKLOCK_TTL_MS""#, ""));
    let args = ["attack", "--world", "embedded", "--only", "hold.kill,acquire.set.oom", "--"];
    let said = room.attack(&[&args[..], &["bash", &immortal]].concat()).ended(5);
    for says in ["BUG hold.kill: the holder is killed progress:", "2 plans: 1 with a bug, 1 held"] {
        assert!(said.results().contains(says), "no {says:?} in {}", said.stdout);
    }
}

#[test]
fn a_worker_that_never_connects_again_is_told_of() {
    let room = Room::new();
    let naive = fs::read_to_string(naive()).unwrap();
    let once = room.file("once.sh", naive.replace("then connect; reply", "then reply"));
    let only = "acquire.set.reset-before,acquire.set.oom,hold.restart";
    let args = ["attack", "--world", "embedded", "--only", only, "--format", "human"];
    let args = [&args[..], &["--format", "json=found.json", "--", "bash", &once]].concat();
    let said = room.attack(&args).ended(0).results();
    for says in [
        "API acquire.set.reset-before: the connection breaks before the server sees the command",
        "progress: client 1 never got the free lock again: it answered ",
        ", the last with unknown: -the connection broke",
        "client 1 is struck at its SET: the connection breaks before the server sees the command",
        "picklock nothing goes wrong any more, and nobody has the lock",
        "the same in hold.restart",
        "3 plans: 2 with a lesser flaw (api), 1 held",
    ] {
        assert!(said.contains(says), "no {says:?} in {said}");
    }
    let found = fs::read(room.path().join("found.json")).unwrap();
    let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
    assert_eq!(found["plans"][0]["findings"][0]["invariant"], "recovers");
    room.is_left_clean();
}

#[test]
fn a_client_that_renews_on_after_its_release_is_struck_twice_at_most_there() {
    let room = Room::new();
    let endless =
        "ready renews\n(connect; while sleep 0.01; do ask PEXPIRE \"$PICKLOCK_KEY\" 600; done) &";
    let naive = fs::read_to_string(naive()).unwrap().replace("ready", endless);
    let endless = room.file("endless.sh", naive);
    let args = words("attack --world embedded --list --faults kill -- bash");
    let listed = room.run(&[&args[..], &[&endless]].concat()).ended(0).stdout;
    let of_release = listed.lines().filter(|line| line.starts_with("release.pexpire"));
    assert!(of_release.count() <= 2, "{listed}");
}

#[test]
fn a_worker_that_fails_at_its_start_is_replaced_twice() {
    for (fails, code) in [(2, 0), (3, 2)] {
        let room = Room::new();
        let dir = room.path().display();
        let script = format!(
            "for i in $(seq {fails}); do mkdir {dir}/failed$i 2> /dev/null || continue\n\
             echo ready; read order; echo unknown not yet; exec sleep 60; done\nexec {}",
            naive()
        );
        let worker = room.program("slow", &script);
        let said = room.run(&["attack", "--world", "embedded", "--list", "--", &worker]);
        let said = said.ended(code);
        if code != 0 {
            assert!(said.message().contains("`acquire` with `unknown not yet`"), "{}", said.stderr);
        }
        room.is_left_clean();
    }
}

#[test]
fn where_no_directory_can_be_made_the_machine_is_to_blame() {
    let room = Room::new().with("TMPDIR", "/nowhere");
    let naive = naive();
    for oracle in [&[][..], &["--oracle", "true"]] {
        let args = [&words("attack --world embedded")[..], oracle, &["--", &naive]].concat();
        let said = room.run(&args).ended(69).message();
        assert!(said.contains("cannot create a directory for it in /nowhere"), "{said}");
    }
}

#[test]
fn a_ttl_that_nobody_waits_for_is_refused() {
    let room = Room::new();
    let naive = naive();
    let args = ["attack", "--world", "embedded", "--ttl", "2d", "--", &naive];
    let said = room.run(&args).ended(2).message();
    assert!(said.contains("with a TTL of 2days an attack takes too long"), "{said}");
}

#[test]
fn a_machine_that_has_no_room_for_further_servers_runs_every_plan_on_the_first() {
    let room = Room::new();
    let script = "case $1 in --version) exec redis-server --version ;; esac\nmkdir started && exec redis-server \"$@\"";
    let script = script.replace("started", &format!("{}/started", room.path().display()));
    let server = room.program("once", &script);
    let naive = naive();
    let args = ["attack", "--server-bin", &server, "--jobs", "4", "--only", "acquire.set"];
    let args = [&args[..], &["--faults", "loading,busy,readonly", "--", &naive]].concat();
    let said = room.attack(&args).ended(0).results();
    assert!(said.contains("3 plans: 3 held"), "{said}");
    room.is_left_clean();
}

#[test]
fn the_clock_of_a_program_that_reads_it_itself_is_not_said_to_have_jumped() {
    let room = Room::new();
    let args = "attack --world embedded --only acquire.set.clock-back --";
    let said = |command: &[&str]| {
        room.attack(&[&words(args)[..], command, &[&naive()]].concat()).ended(0).results()
    };
    assert!(said(&["bash"]).contains("1 held"));
    // As good as a static program: nothing is loaded into it.
    let unseen = said(&["env", "-u", "LD_PRELOAD", "bash"]);
    let says = "n/a acquire.set.clock-back: it never asked the C library for the time";
    assert!(unseen.contains(says), "{unseen}");
}

#[test]
fn plans_are_listed_and_named() {
    let room = Room::new();
    let listed = room.run(&["attack", "--world", "embedded", "--list", "--", &naive()]).ended(0);
    for plan in ["acquire.set.lose-reply: ", "release.del.late-request: ", "hold.stop: "] {
        assert!(listed.stdout.contains(plan), "{}", listed.stdout);
    }
    assert!(listed.stderr.contains("learning what your command sends"), "{}", listed.stderr);
    let naive = naive();
    let list = |options: &str| {
        let args = [&words("attack --world embedded --list")[..], &words(options), &["--", &naive]];
        room.run(&args.concat())
    };
    let listed = list("--only release,hold --faults stop,kill").ended(0).stdout;
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["release.del.stop", "release.del.kill", "hold.stop", "hold.kill"]);
    for (options, says) in [
        ("--only release.get", "no plan is called release.get"),
        ("--only no-fault,nosuch", "no plan is called nosuch"),
        ("--only release,nosuch,other", "no plan is called nosuch or other"),
        ("--faults noscript", "no plan has the fault noscript"),
        ("--only release --faults oom", "no plan called release has the fault oom"),
    ] {
        let said = list(options).ended(2).message();
        assert!(said.contains(says) && said.contains("--list"), "{said}");
    }
    let said = list("--faults lost-reply").ended(2).message();
    for says in ["lost-reply", "late-request, ", "'lose-reply'"] {
        assert!(said.contains(says), "no {says} in {said}");
    }
    room.is_left_clean();
}

#[test]
fn too_few_open_files_are_not_the_fault_of_the_worker() {
    let room = Room::new();
    let picklock = env!("CARGO_BIN_EXE_picklock");
    let script = format!("ulimit -n 60\nexec {picklock} attack --world embedded -- {}", naive());
    let said = room.start_program(&room.program("limited", &script)).said().ended(69);
    assert!(said.message().contains("open files are needed, but the limit is 60"));
    room.is_left_clean();
}

#[test]
fn how_to_name_a_command_is_told_where_it_cannot_be_run() {
    let room = Room::new();
    let text = room.file("worker.py", "no program");
    for command in ["/nowhere/worker", "nowhere", "python3 worker.py", &text] {
        for oracle in [&[][..], &["--oracle", "true"]] {
            let said =
                room.run(&[&words("attack --world embedded"), oracle, &["--", command]].concat());
            let said = said.ended(2).message();
            assert!(said.contains(&format!("cannot run {command}: ")), "{said}");
            assert!(said.contains("`-- python3 worker.py`"), "{said}");
        }
    }
    let script = room.program("script", "");
    fs::write(&script, "#!/nowhere/interpreter\n").unwrap();
    let said = room.run(&["attack", "--world", "embedded", "--", &script]).ended(2).message();
    assert!(
        said.contains("script: its interpreter is missing: the one that its first line names"),
        "{said}"
    );
    room.is_left_clean();
}

#[test]
fn a_worker_that_is_of_no_use_is_told_of_in_one_message() {
    let room = Room::new();
    let script = |name: &str, script: &str| room.program(name, script);
    let connects = "exec 3<>/dev/tcp/$REDIS_HOST/$REDIS_PORT";
    let no_key =
        format!("bash -c '{connects}; printf \"AUTH $REDIS_PASSWORD\\r\\nGET x\\r\\n\" >&3'");
    let cases = [
        (script("ends", "echo about to fail >&2; exit 3"), "the worker ended (exit status: 3)"),
        (script("shows", "echo about to fail >&2; exit 3"), "about to fail"),
        (
            script("silent", "echo hello; read x; sleep 60"),
            "did not answer `ready` within 2s; it printed `hello`, which is not `ready`",
        ),
        (
            script("misspelt", "echo ready check; sleep 60"),
            "said `ready check`: unknown promise `check`: did you mean `checks`?",
        ),
        (
            script("fence", "echo ready; while read x; do echo ok fence=abc; done"),
            "said `ok fence=abc`: behind `ok` come `fence=NUMBER`",
        ),
        (
            script("yes", "echo ready; while read x; do echo yes; done"),
            "it printed `yes`, which is no answer: answer ok, no or unknown",
        ),
        (worker(&room, "sleep 0"), "your worker sent nothing to its Redis"),
        (
            script("no", "echo ready; while read x; do echo no; done"),
            "answered `acquire` with `no`",
        ),
        (
            script("unknown", "echo ready; while read x; do echo unknown because; done"),
            "answered `acquire` with `unknown because`",
        ),
        (
            script("loses", "echo ready; while read x; do echo ok; echo lost; done"),
            "said `lost` while it had the lock and answered `check` with `ok`",
        ),
        (
            script("keyless", &format!("echo ready; while read x; do {no_key}; echo ok; done")),
            "created no key",
        ),
    ];
    for (command, says) in cases {
        let args = "attack --world embedded --start-within 2s --";
        let said = room.run(&[&words(args)[..], &[&command]].concat()).ended(2).message();
        assert!(said.contains(says), "{command}: no {says:?} in {said}");
        assert!(said.contains("`picklock attack --help` shows how"), "{said}");
    }
    room.is_left_clean();
}

#[test]
fn whatever_a_worker_prints_or_starts_is_gone_with_it() {
    let room = Room::new();
    // It prints megabytes, lives on after SIGTERM, and leaves children in sessions of their own.
    let first = "trap '' TERM\nhead -c 5000000 /dev/zero | tr '\\0' 'x'\necho\nhead -c 5000000 /dev/zero >&2\n\
                 setsid sleep 600 > /dev/null 2>&1 &\n";
    let noisy = room.program("noisy", &format!("{first}exec {}", naive()));
    let args = "attack --world embedded --only acquire.set.oom --";
    room.attack(&[&words(args)[..], &[&noisy]].concat()).ended(0);
    room.is_left_clean();
}

#[test]
fn an_interrupted_attack_reports_what_there_is() {
    for (world, signal, code) in [
        ("embedded", Signal::SIGINT, Some(130)),
        ("redis", Signal::SIGTERM, Some(130)),
        ("redis", Signal::SIGKILL, None),
    ] {
        let room = Room::new();
        let options = words("--jobs 2 --again 99 --format junit=report.xml --progress lines --");
        let naive = naive();
        let args = [&["attack", "--world", world][..], &options, &[&naive]].concat();
        let mut playing = room.start(&args);
        eventually("plans are run", || playing.stderr().contains(" plans").then_some(()));
        playing.signal(signal);
        assert_eq!(playing.end().code(), code, "{}", playing.stderr());
        if code.is_some() {
            let report = std::fs::read_to_string(room.path().join("report.xml")).unwrap();
            assert!(report.contains("was cut short"), "{report}");
        }
        room.is_left_clean();
    }
}
