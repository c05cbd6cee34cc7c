//! Verdict, exit code and report of whole runs, through the binary, in both live worlds.

mod cli_support;
mod endpoint_support;
mod proxy_support;

use std::fs;

use cli_support::{Room, Said, short, words};
use endpoint_support::Theirs;
use history::History;
use history::verdict::{Level, Outcome};
use scenarios::result::{Capable, RunResult};

const WORLDS: [&str; 2] = ["embedded", "redis"];

/// A short run in this world, with these options beside.
fn run(room: &Room, world: &str, options: &[&str]) -> Said {
    room.run(&short(&[&["--world", world], options].concat()))
}

fn found(result: &RunResult, name: &str) -> Outcome {
    result.invariants.iter().find(|it| it.name == name).unwrap().verdict
}

fn history_of(room: &Room) -> History {
    let file = fs::read(room.only_run().join("history.jsonl")).unwrap();
    history::read(&file[..]).unwrap()
}

#[test]
fn a_sound_lock_holds_and_everything_is_written_down() {
    for world in WORLDS {
        let room = Room::new();
        let said = run(&room, world, &["--seed", "7"]).ended(0);
        assert!(said.stdout.contains("verdict: held"), "{}", said.stdout);
        let result = room.result();
        assert_eq!((result.verdict, result.complete), (Outcome::Held, true));
        assert_eq!((result.world.as_str(), result.seed), (world, 7));
        assert_eq!(result.stats.winners, Some(10));
        assert_eq!(result.server.capabilities["Lua scripts"], Capable::Yes);

        let run = room.only_run();
        let mut names: Vec<String> = fs::read_dir(&run)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut expected = words(
            "history.jsonl junit.xml latency.hlog latency.png latency.svg manifest.json over-time.svg \
             report.html result.json summary.md trace.json",
        );
        expected.extend((world == "redis").then_some("server-0.log"));
        expected.sort_unstable();
        assert_eq!(names, expected);
        let latest = run.parent().unwrap().join("latest");
        assert_eq!(latest.canonicalize().unwrap(), run.canonicalize().unwrap());
        assert!(said.stdout.contains(run.file_name().unwrap().to_str().unwrap()));
        room.is_left_clean();
    }
    let said = run(&Room::new(), "embedded", &["--lock", "queue", "--lua"]).ended(0);
    assert!(said.stdout.contains("verdict: held"), "{}", said.stdout);
}

#[test]
fn a_result_is_valid_by_the_schema_that_is_printed() {
    let room = Room::new();
    run(&room, "embedded", &["--lock", "none", "--hold", "20ms"]).ended(1);
    let text = fs::read(room.only_run().join("result.json")).unwrap();
    room.fits_schema(&["schema"], &text, |result| &mut result["verdict"]);
}

#[test]
fn clients_sent_what_the_server_has_counted() {
    let room = Room::new();
    run(&room, "redis", &["--lock", "single"]).ended(0);
    let stats = room.result().stats;
    let counted = stats.server_commands.expect("the server was ours");
    for name in ["SET", "EVALSHA"] {
        assert!(stats.commands[name] > 0);
        assert_eq!(stats.commands[name], counted[name], "{name}");
    }
}

#[test]
fn without_a_lock_safety_is_violated_and_the_witness_names_who_what_and_when() {
    for world in WORLDS {
        let room = Room::new();
        let said = run(&room, world, &["--lock", "none", "--hold", "20ms"]).ended(1);
        assert!(said.stdout.contains("verdict: violated (belief, effect"), "{}", said.stdout);
        let result = room.result();
        assert_eq!(result.level(Level::Key), Outcome::NotApplicable);
        let prize = result.invariants.iter().find(|it| it.name == "distinct-prizes").unwrap();
        let witness = prize.witness.as_ref().unwrap();
        let [first, second, ..] = witness.clients[..] else { panic!("{witness:?}") };
        assert_ne!(first, second);
        for client in [first, second] {
            assert!(witness.summary.contains(&client.to_string()), "{witness:?}");
            assert!(witness.steps.iter().any(|step| step.client == client), "{witness:?}");
        }
        assert!(witness.summary.starts_with("prize "), "{witness:?}");
        assert!(witness.steps.iter().all(|step| step.at_ns > 0), "{witness:?}");
        let acquisitions: Vec<u32> =
            history_of(&room).events.iter().map(|e| e.acquisition).collect();
        assert!(witness.acquisitions.iter().all(|it| acquisitions.contains(it)));
    }
}

#[test]
fn a_ttl_shorter_than_the_work_is_run_and_remarked_on() {
    for world in WORLDS {
        let room = Room::new();
        let short = ["--lock", "polling", "--ttl", "20ms", "--hold", "60ms"];
        let said = run(&room, world, &short).ended(1);
        assert!(said.stdout.contains("shorter than the work"), "{}", said.stdout);
        let result = room.result();
        assert_eq!(found(&result, "mutual-exclusion"), Outcome::Violated);
        assert!(result.remarks.iter().any(|it| it.contains("TTL of 20ms")), "{:?}", result.remarks);
    }
}

/// The register has a server of its own: what is asked of it is counted with nobody's locking.
#[test]
fn the_register_is_kept_apart_from_the_lock() {
    for world in WORLDS {
        let room = Room::new();
        let register = ["--scenario", "long-job", "--clients", "3", "--ttl", "1s", "--hold", "5ms"];
        let rounds = ["--set", "workload.register.rounds=2", "--world", world];
        room.run(&[&register[..], &rounds].concat()).ended(0);
        let (result, history) = (room.result(), history_of(&room));
        let timeline = history::Timeline::of(&history);
        assert_eq!(timeline.register_left.unwrap().1, 6, "{world}");
        assert_eq!(result.stats.acquisitions.ok, 6, "{world}");
        assert_eq!(history.head.acquisitions, Some(6));
        let node = history.head.resource.unwrap();
        let (apart, locking): (Vec<_>, Vec<_>) =
            timeline.commands.iter().partition(|it| it.node == node);
        let name = |it: &&history::CommandOp| history.text(it.name) == "SET";
        // The one that sets it up, and one for each round.
        assert_eq!(apart.iter().copied().filter(name).count(), 7, "{world}");
        let sets = u64::try_from(locking.iter().copied().filter(name).count()).unwrap();
        assert_eq!(result.stats.commands["SET"], sets, "{world}");
        assert_eq!(result.stats.server_commands.unwrap()["SET"], sets, "{world}");
        assert!(!result.stats.commands.contains_key("GET"), "{world}");
        assert!(result.stats.latencies.iter().all(|it| it.operation != "GET"), "{world}");
        room.is_left_clean();
    }
}

#[test]
fn one_client_alone_shows_nothing() {
    let room = Room::new();
    let said = room.run(&["--scenario", "bonus-pool", "--clients", "1", "--world", "embedded"]);
    assert!(said.ended(3).stdout.contains("verdict: inconclusive"));
    assert_eq!(room.result().verdict, Outcome::Inconclusive);
}

#[test]
fn where_only_progress_is_violated_the_exit_code_says_so() {
    for world in WORLDS {
        let room = Room::new();
        let orphan = ["--scenario", "crash-holder", "--lock", "no-ttl", "--world", world];
        let said = room.run(&orphan).ended(5);
        assert!(said.stdout.contains("verdict: violated (progress)"), "{}", said.stdout);
        let result = room.result();
        assert_eq!(found(&result, "deadlock-freedom"), Outcome::Violated);
        assert_eq!(result.level(Level::Belief), Outcome::Held);
    }
}

#[test]
fn clients_that_run_out_of_retries_violate_nothing() {
    for world in WORLDS {
        let room = Room::new();
        // Nobody tries again while the first one works.
        let said = run(&room, world, &["--set", "lock.retries=0", "--hold", "100ms"]).ended(0);
        assert!(said.stdout.contains("ran out of retries"), "{}", said.stdout);
        assert_eq!(found(&room.result(), "all-prizes-won"), Outcome::NotApplicable);
    }
}

#[test]
fn a_run_asks_for_the_descriptors_that_it_uses_and_no_more() {
    let limited = |most: u32, world: &str, clients: &str| {
        let limit = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
        let room = Room::new();
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", &limit, env!("CARGO_BIN_EXE_picklock"), "--scenario", "bonus-pool"]);
        limited.args(["--world", world, "--clients", clients, "-q", "--seed", "1"]);
        let said = Said::of(limited.current_dir(room.path()).output().unwrap());
        assert_eq!(said.code == Some(0), room.path().join("picklock-out").exists());
        said
    };
    // Four for each client and the run itself, a link of the server's own, three for each of 64 connections
    // that are made again, and 128 besides.
    let needed = 728;
    limited(needed, "redis", "100").ended(0);
    // The embedded server has its end of each connection in the same process.
    for (most, world, clients, needed) in
        [(needed - 1, "redis", "100", needed), (256, "embedded", "5000", 25_393)]
    {
        let message = limited(most, world, clients).ended(69).message();
        let says = format!("{needed} open files are needed, but the limit is {most}");
        assert!(message.contains(&says), "{message}");
        assert!(message.contains(&format!("ulimit -n {needed}")), "{message}");
    }
    // With so few redis-server does not even start, and no other would.
    let message = limited(30, "redis", "100").ended(69).message();
    assert!(message.ends_with("; raise the limit with `ulimit -n`"), "{message}");
}

#[test]
fn a_server_without_a_directory_asks_for_one_and_for_no_other_server() {
    let room = Room::new().with("TMPDIR", "/nowhere");
    let message = room.run(&words("--scenario bonus-pool --world redis")).ended(69).message();
    for says in [
        "cannot create a directory for it in /nowhere: No such file or directory",
        "; set TMPDIR to a directory that has room",
    ] {
        assert!(message.contains(says), "{message}");
    }
    assert!(!message.contains("--server-bin"), "{message}");
}

#[test]
fn json_is_all_that_stdout_holds_where_it_is_asked_for() {
    let room = Room::new();
    for quiet in [&[][..], &["-q"], &["-v"]] {
        let options = [&["--format", "json", "--out", "elsewhere"], quiet].concat();
        let said = run(&room, "embedded", &options).ended(0);
        let result: RunResult = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(result.verdict, Outcome::Held);
    }
    let said = run(&room, "embedded", &["--format", "json", "-q"]).ended(0);
    assert_eq!(said.stderr, "");
    assert_eq!(serde_json::from_str::<RunResult>(&said.stdout).unwrap(), room.result());
}

#[test]
fn the_first_line_says_which_world_and_why_and_quiet_says_only_the_end() {
    let room = Room::new();
    let said = run(&room, "embedded", &[]).ended(0);
    assert!(said.stderr.starts_with("world embedded: "), "{}", said.stderr);
    let said = run(&room, "embedded", &["-q"]).ended(0);
    assert_eq!(said.stderr, "");
    let words: Vec<&str> = said.stdout.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(words, ["bonus-pool", "verdict", "report", "replay"]);
}

#[test]
fn where_no_server_is_found_the_model_stands_in_and_picklock_says_so() {
    let room = Room::new().with("PATH", "/nonexistent");
    let said = room.run(&short(&[])).ended(0);
    let message = said.message();
    assert!(message.starts_with("world embedded: no redis-server was found"), "{message}");
    assert!(message.contains("apt-get install redis-server"), "{message}");
    let said = room.run(&short(&["--world", "redis"])).ended(69);
    assert!(said.message().contains("--world embedded"), "{}", said.stderr);
}

#[test]
fn a_name_that_leads_elsewhere_does_not() {
    let room = Room::new();
    let text = scenarios::catalog::text("bonus-pool").unwrap();
    let file = room.file("evil.toml", format!("name = \"../../evil\"\n{text}"));
    let said = room.run(&["--scenario", &file, "--clients", "2", "--world", "embedded"]).ended(0);
    let run = room.only_run().canonicalize().unwrap();
    assert!(run.starts_with(room.path().canonicalize().unwrap().join("picklock-out")), "{run:?}");
    assert!(said.stdout.contains("verdict: held"), "{}", said.stdout);
}

#[test]
fn what_was_found_is_printed_though_it_cannot_be_written() {
    let room = Room::new();
    // A script that takes the run directory away as soon as the server is asked for.
    let script =
        "test \"$1\" = --version || rm -rf \"$HERE\"/picklock-out\nexec redis-server \"$@\"";
    let server = room.program("server", script);
    let here = room.path().to_str().unwrap().to_owned();
    let room = room.with("HERE", &here);
    let said = room.run(&short(&["--server-bin", &server])).ended(69);
    assert!(said.stdout.contains("verdict: held"), "{}", said.stdout);
    assert!(!said.stdout.contains("report:"), "{}", said.stdout);
    assert!(said.message().contains("result.json"), "{}", said.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_on_a_server_of_the_users_leave_it_as_it_was() {
    let mut theirs = Theirs::start(&[]).await;
    theirs.admin(&["SET", "foreign", "kept"], "+OK\r\n").await;
    theirs.admin(&["SET", "picklock:foreign", "kept"], "+OK\r\n").await;
    let url = theirs.url("", "");
    let room = Room::new();
    let options = ["--redis", &url, "--lock", "single-watchdog", "--seed", "7"];
    let args = short(&options);
    // At once, and with a seed in common.
    let both = [room.start(&args), room.start(&args)];
    for playing in both {
        let said = playing.said().ended(0);
        assert!(said.stdout.contains("--redis \"$PICKLOCK_REDIS\""), "{}", said.stdout);
    }
    theirs.admin(&["DBSIZE"], ":2\r\n").await;
    theirs.admin(&["GET", "foreign"], "$4\r\nkept\r\n").await;
    theirs.admin(&["GET", "picklock:foreign"], "$4\r\nkept\r\n").await;
}

#[test]
fn a_links_own_latency_reaches_that_client_and_is_read_once() {
    let room = Room::new();
    let text = scenarios::catalog::text("bonus-pool").unwrap();
    let usual = "latency = { min = \"200us\", max = \"2ms\" }";
    assert!(text.contains(usual));
    let link = "[[network.link]]\nclient = 2\nlatency = { file = \"rtt.csv\" }";
    let file = room.file("far.toml", text.replacen(usual, &format!("{usual}\n{link}"), 1));
    let measured = room.file("rtt.csv", "value_ms,count\n30,9\n40,1\n");
    let options = ["--scenario", &file, "--clients", "3", "--world", "embedded"];
    room.run(&options).ended(0);
    let mut asked = std::collections::BTreeMap::new();
    let mut answered = 0;
    for event in history_of(&room).events {
        match event.what {
            history::What::Command { .. } => drop(asked.insert(event.op, event.at_ns)),
            history::What::Answered { .. } if event.client == 2 => {
                // At least there and back; how much longer is the machine's affair.
                assert!(event.at_ns - asked[&event.op] >= 60_000_000);
                answered += 1;
            }
            _ => {}
        }
    }
    assert!(answered > 0);
    fs::remove_file(measured).unwrap();
    let message = room.run(&options).ended(2).message();
    assert!(message.contains("cannot read") && message.contains("rtt.csv"), "{message}");
}
