//! What is wrong with the user's words is said in one clear message, and nothing is started.

use std::fs::File;
use std::process::Stdio;

use crate::cli_support::{Room, short, words};

/// Arguments, and what the message must hold.
const WRONG: [(&[&str], &str); 113] = [
    (&[], "--scenario"),
    (&["--scenario", ""], "picklock list"),
    (&["--scenario", "bonus-pol"], "did you mean `bonus-pool`?"),
    (&["--scenario", "solitaire"], "no scenario is called"),
    (&["--scenario", "../bonus-pool"], "cannot read the scenario ../bonus-pool"),
    (&["--scenario", "missing.toml"], "give the path of a scenario file"),
    (&["--scenario", "/"], "Is a directory"),
    (&["--scenario", "/dev/zero"], "so it is no scenario"),
    (&["bonus-pool"], "--scenario bonus-pool"),
    (&["merge", "."], "there is no shard in ."),
    (&["run", "bonus-pool"], "--scenario bonus-pool"),
    (&["--scenario", "bonus-pool", "list"], "must follow `list`"),
    (&["--scenario", "bonus-pool", "--lock", "singel"], "did you mean `single`?"),
    (&["--scenario", "bonus-pool", "--lock", "paxos"], "the recipes are: none, "),
    (&["--scenario", "bonus-pool", "--clients", "0"], "at least one client"),
    (&["--scenario", "bonus-pool", "--clients", "100001"], "100000 is the most"),
    (&["--scenario", "bonus-pool", "--clients", "-1"], "a whole number of clients"),
    (&["--scenario", "bonus-pool", "--clients", "99999999999"], "a whole number of clients"),
    (&["--scenario", "bonus-pool", "--seed", "-1"], "a seed is a whole number"),
    (&["--scenario", "bonus-pool", "--ttl", "0"], "protects nothing"),
    (&["--scenario", "bonus-pool", "--ttl", "-1s"], "cannot be negative"),
    (&["--scenario", "bonus-pool", "--ttl", "500"], "the unit is missing"),
    (&["--scenario", "bonus-pool", "--ttl", "99999999999y"], "a year is the most"),
    (&["--scenario", "bonus-pool", "--ttl", "1500us"], "whole milliseconds"),
    // So short that the drift allowance leaves nothing of it.
    (&["--scenario", "bonus-pool", "--ttl", "1ms"], "change the TTL with --ttl"),
    (&["--scenario", "bonus-pool", "--set", "lock.tll=1s"], "did you mean `ttl`?"),
    (&["--scenario", "bonus-pool", "--set", "lock.retries=-1"], "a whole number"),
    (&["--scenario", "bonus-pool", "--set", "nonsense"], "use key=value"),
    (
        &["--scenario", "failover", "--world", "embedded"],
        "install a redis-server and use --world redis",
    ),
    (
        &[
            "--scenario",
            "power-loss-synced",
            "--world",
            "embedded",
            "--set",
            "topology.kind=cluster",
        ],
        "add --world virtual",
    ),
    (&["--scenario", "bonus-pool", "--set", "swarm.failovers=1"], "needs a replica"),
    (&["--scenario", "bonus-pool", "--redis", "localhost"], "redis://"),
    (&["--scenario", "bonus-pool", "--world", "embedded", "--redis", "redis://h"], "omit one"),
    (&["--scenario", "bonus-pool", "--tls-insecure"], "--redis rediss://"),
    (&["-q", "-v", "list"], "remove one"),
    (&["show", "singel"], "did you mean `single`?"),
    // Another letter is another word.
    (&["show", "nope"], "`picklock list` shows the names"),
    (&["--scenario", "bonus-pool", "--threads", "2"], "add --seeds A..B"),
    (&["run", "--scenario", "bonus-pool", "--threads", "2"], "add --seeds A..B"),
    (
        &["--scenario", "bonus-pool", "--world", "virtual", "--digest", "--seed", "1"],
        "or remove --digest",
    ),
    (&["tune", "--hold", "5ms", "--measure-for", "2s"], "no effect without --measure"),
    (&["tune", "--hold", "5ms", "--confirm-for", "2s"], "no effect without --confirm"),
    (&["tune", "--hold", "5ms", "--redis", "redis://h"], "add --measure or --confirm, or remove"),
    (
        &["explore", "--lock", "single", "--no-confirm", "--redis", "redis://h"],
        "omit one of the two",
    ),
    (&["proxy", "--listen", "0", "--upstream", "127.0.0.1:1", "--tls-insecure"], "or omit them"),
    (&["--scenario", "bonus-pool", "--set", "fault.0.for=1s"], "the scenario has no `fault`"),
    (&["list", "--format", "junit"], "use human or json"),
    (&["help", "matrx"], "unrecognized subcommand"),
    (&["man", "matrx"], "did you mean `matrix`?"),
    (&["matrix", "--scenario", "missing.toml"], "give the path of a scenario file"),
    (&["show", "single", "--toml"], "describes it"),
    (&["show", "failover", "--lock", "singel"], "did you mean `single`?"),
    (&["matrix", "--scenario", "gc-paus"], "did you mean `gc-pause`?"),
    (&["matrix", "--lock", "single,singel"], "did you mean `single`?"),
    (&["matrix", "--format", "pdf"], "use human, json, junit, markdown or (of a matrix) html"),
    (&["--scenario", "bonus-pool", "--format", "html=x"], "only `picklock matrix` has a page"),
    (&["report"], "<RUN>..."),
    (&["matrix", "--format", "junit="], "add a file name after the ="),
    (&["matrix", "--format", "human", "--format", "json"], "only one format can go to stdout"),
    (&["matrix", "--seeds", "3..3"], "is empty"),
    (&["matrix", "--world", "embedded", "--seeds", "0..9"], "only the virtual world has them"),
    (&["--scenario", "gc-pause", "--searched"], "add --world virtual"),
    (
        &["--scenario", "polling-load", "--world", "virtual", "--searched"],
        "no searched form: what it",
    ),
    (&SEARCHED_AND_STAGED, "search.swarm"),
    (&["matrix", "--searched", "--scenario", "polling-load"], "omit --searched"),
    (&["matrix", "--searched", "--world", "embedded"], "add --world virtual"),
    (&["matrix", "--redis", "redis://h"], "omit one of the two"),
    (
        &["--scenario", "gc-pause", "--redis", "redis://h", "--server-bin", "x"],
        "omit one of the two",
    ),
    (&["--scenario", "bonus-pool", "--lua"], "add --world virtual or --world embedded"),
    (&["--scenario", "bonus-pool", "--lua", "--world", "redis"], "a redis-server always does"),
    (&["matrix", "--lua", "--world", "redis"], "or omit --lua"),
    (
        &["--scenario", "gc-pause", "--set", "workload.register.tasks=1000000000"],
        "100000 is the most",
    ),
    (
        &["--scenario", "gc-pause", "--set", "workload.register.rounds=10000000"],
        "100000 is the most",
    ),
    (&["--scenario", "gc-pause", "--set", "swarm.server_stalls=4000000000"], "1000 is the most"),
    (&["--scenario", "gc-pause", "--world", "virtual", "--tls-ca", "/nope"], "--tls-ca is about"),
    (&["--scenario", "gc-pause", "--world", "virtual", "--tls-insecure"], "has none"),
    (&["--scenario", "gc-pause", "--seeds", "-1..5"], "use A..B"),
    (
        &["--scenario", "gc-pause", "--seeds", "0..5", "--threads", "-1"],
        "use a whole number from 1 to 65535",
    ),
    (&["--scenario", "gc-pause", "--seeds", "0..5", "--threads", ""], "from 1 to 65535"),
    (&["--scenario", "gc-pause", "--clients", "99999999999999999999"], "100000 is the most"),
    (&["tune", "--seed", "x"], "a seed is a whole number from 0 to"),
    (&["attack", "python3", "worker.py"], "comes after `--`: -- python3 …"),
    (&["explore", "single"], "choose a recipe with --lock single"),
    (&["replay"], "tip: <RUN>: Directory of the run, such as picklock-out/bonus-pool/latest"),
    (&["report"], "such as picklock-out/bonus-pool/latest"),
    (&["attack", "--list"], "tip: <COMMAND>...: Your worker's command"),
    (&["run", "gc-pause"], "run a scenario with --scenario gc-pause"),
    (&["--scenario", "bonus-pool", "--set", "prizes=3"], "as in workload.bonus_pool.prizes=3"),
    (&["attack", "--nodes", "8", "--", "w"], "use a whole number from 1 to 7"),
    (&["attack", "--ttl", "0s", "--", "w"], "1ms is the least"),
    (&["attack", "--ttl", "1ns", "--", "w"], "Redis counts whole milliseconds"),
    (&["attack", "--start-within", "0s", "--", "w"], "such as --start-within 30s"),
    (&["attack", "--key", "", "--", "w"], "--key is empty"),
    (&["attack", "--lock-key", "", "--", "w"], "--lock-key is empty"),
    (&["attack", "--oracle", "", "--", "w"], "--oracle is empty"),
    (&["attack", "--end-within", "5s", "--", "w"], "--oracle <CMD>"),
    (&["check", "x", "--available-within", "-1s"], "cannot be negative"),
    (&["check", "x", "--fair-within", "-1"], "use a whole number from 0 to 4294967295"),
    (&["check", "x", "--fair-within", "x"], "use a whole number from 0 to 4294967295"),
    (&["check", "x", "--commands-within", "-1"], "use a number from 0"),
    (&["serve", "--listen", "-1"], "`-1` is not an address to listen on"),
    (&["explore", "--lock", "single", "--budget", "-1s"], "cannot be negative"),
    (&["--scenario", "power-loss", "--redis", "redis://127.0.0.1:1"], "a server of its own"),
    (
        &["--scenario", "gc-pause", "--lock", "redlock", "--redis", "redis://127.0.0.1:1"],
        "leave out --redis, and picklock starts them",
    ),
    (
        &["--scenario", "gc-pause", "--redis", "rediss://127.0.0.1:1", "--tls-ca", "/nope"],
        "--tls-ca: cannot read /nope",
    ),
    (&["soak", "--out", "/proc"], "choose another directory with --out"),
    (&["soak", "--out", "/dev/null"], "choose another directory with --out"),
    (
        &["explore", "--lock", "del-release", "--keep", "--regressions", "/proc", "--no-confirm"],
        "choose another directory with --regressions",
    ),
    (&["list", "--format", "xml"], "use human or json"),
    (
        &["proxy", "--listen", "0", "--upstream", "127.0.0.1:1", "--fault", "bandwidth=5XB/s"],
        "MB or MiB",
    ),
    (&["proxy", "--listen", "0", "--upstream", "127.0.0.1:1", "--log", "/nope/x"], "/nope/x"),
    (
        &["--scenario", "gc-pause", "--set", "fault.0.ppm=9000000000"],
        "a whole number from -2147483648",
    ),
    (
        &["--scenario", "gc-pause", "--set", "topology.replica=[{ server = 0, lag = '1s' }]"],
        "belongs to the kind",
    ),
];

/// What is staged is no part of a searched form.
const SEARCHED_AND_STAGED: [&str; 7] =
    ["--scenario", "gc-pause", "--world", "virtual", "--searched", "--set", "fault.0.for=1s"];

#[test]
fn every_slip_is_met_with_what_to_do() {
    let room = Room::new();
    for (args, says) in WRONG {
        let said = room.run(args).ended(2);
        assert!(said.message().contains(says), "{args:?}: {}", said.stderr);
        assert_eq!(said.stdout, "", "{args:?}");
    }
    assert!(!room.path().join("picklock-out").exists());
    room.is_left_clean();
}

fn pool() -> &'static str {
    scenarios::catalog::text("bonus-pool").unwrap()
}

#[test]
fn a_slip_in_a_file_is_shown_in_its_place() {
    let room = Room::new();
    for (from, to, at, says) in [
        ("clients = 100", "cleints = 100", "cleints", "did you mean `clients`?"),
        ("\"single\"", "\"singel\"", "\"singel", "did you mean `single`?"),
        ("[\"none\"]", "[\"nonne\"]", "\"nonne", "did you mean `none`?"),
        ("bonus_pool]", "bonus_pol]", "bonus_pol]", "did you mean `bonus_pool`?"),
        ("ttl = \"1s\"", "ttl = \"0s\"", "\"0s", "protects nothing"),
        ("retries = 5", "", "[lock]", "add `retries` there"),
    ] {
        let text = pool().replacen(from, to, 1);
        let before = &text[..text.find(at).unwrap()];
        let line_begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        let (line, column) = (before.matches('\n').count() + 1, before.len() - line_begin + 1);
        let file = room.file("file.toml", text.clone());
        let said = room.run(&["--scenario", &file]).ended(2);
        let place = format!("file.toml:{line}:{column}");
        assert!(said.message().contains(&place), "{to}: {place} not in {}", said.stderr);
        assert!(said.message().contains(says), "{to}: {}", said.stderr);
    }
}

#[test]
fn what_is_no_text_is_refused_and_line_ends_and_marks_of_other_systems_are_taken() {
    let room = Room::new();
    for bytes in [&b"\xff\xfea\0"[..], &[0, 159, 146, 150]] {
        let file = room.file("binary.toml", bytes);
        let said = room.run(&["--scenario", &file]).ended(2);
        assert!(said.message().contains("no UTF-8 text"), "{}", said.stderr);
    }
    let empty = room.file("empty.toml", "");
    let said = room.run(&["--scenario", &empty]).ended(2);
    assert!(said.message().contains("add `title` there"), "{}", said.stderr);
    for text in [format!("\u{feff}{}", pool()), pool().replace('\n', "\r\n")] {
        let file = room.file("odd.toml", text);
        // As far as the last check, but not into a run.
        let said = room.run(&["--scenario", &file, "--clients", "0"]).ended(2);
        assert!(said.message().contains("at least one client"), "{}", said.stderr);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named_before_anything_is_started() {
    let room = Room::new();
    let file = room.file("file", "mine");
    for out in [file.as_str(), &format!("{file}/deeper"), "/proc/picklock", "/dev/null"] {
        let said = room.run(&short(&["--out", out])).ended(2);
        assert!(said.message().contains(out), "{}", said.stderr);
        assert!(said.message().contains("choose another place with --out"), "{}", said.stderr);
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn a_scenario_shown_with_a_lock_expects_nothing_of_others() {
    let room = Room::new();
    let shown = |lock| room.run(&["show", "gc-pause", "--lock", lock]).ended(0).stdout;
    assert!(!shown("del-release").contains("get-del-release"));
    assert!(shown("get-del-release").contains("where it differs from above"));
}

#[test]
fn what_is_asked_for_is_printed_on_stdout_alone() {
    let room = Room::new();
    for (args, holds) in [
        (&["list"][..], "bonus-pool"),
        (&["show", "bonus-pool"], "article 1"),
        (&["show", "single"], "assumes"),
        (
            &["show", "gc-pause"],
            "pause of holder, at hold.before-write, until another client comes to",
        ),
        (&["show", "failover"], "with single-wait:"),
        (&["show", "failover", "--lock", "redlock"], "server-crash of server 0, at hold, for 4s"),
        (&["show", "failover", "--lock", "redlock"], "5 independent servers"),
        (&["show", "failover", "--lock", "redlock", "--toml"], "kind = \"independent\""),
        (&["show", "failover", "--toml"], "[[variant]]"),
        (&["show", "late-messages"], "--world virtual --seeds 0..1000 [--lock RECIPE]"),
        (&["schema"], "\"picklock result\""),
        (&["schema", "attack"], "\"picklock attack\""),
        (&["completions", "bash"], "_picklock"),
        (&["doctor"], "the embedded model works"),
        (&["--version"], "picklock "),
        (&["--help"], "Exit codes"),
        (&["run", "--help"], "--scenario"),
        (&["attack", "--help"], "answers each order that it reads"),
        (&["help"], "Exit codes"),
        (&["help", "matrix"], "picklock matrix [OPTIONS]"),
        (&["list", "--format", "json"], "\"picklock/list/1\""),
    ] {
        let said = room.run(args).ended(0);
        assert!(said.stdout.contains(holds), "{args:?}: {}", said.stdout);
        assert_eq!(said.stderr, "", "{args:?}");
    }
    room.is_left_clean();
}

#[test]
fn a_locale_without_utf_8_gets_ascii() {
    let room = Room::new().with("LC_ALL", "C").with("COLUMNS", "20");
    assert!(room.run(&["list"]).ended(0).stdout.is_ascii());
    assert!(room.run(&["--scenario", "bonus-pol"]).ended(2).stderr.is_ascii());
}

/// `/dev/full` takes nothing: it stands for a disk without room behind a redirection.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// A pipe whose reader has gone.
fn broken() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

#[test]
fn nobody_has_to_listen() {
    let room = Room::new();
    let code = |args: &[&str], stdout: Stdio, stderr: Stdio| {
        let mut command = room.command(args);
        command.stdout(stdout).stderr(stderr).status().unwrap().code()
    };
    let wrong = ["--scenario", "bonus-pol"];
    let unreachable = ["doctor", "--redis", "redis://127.0.0.1:1"];
    assert_eq!(code(&["list"], broken(), Stdio::null()), Some(0));
    assert_eq!(code(&wrong, Stdio::null(), broken()), Some(2));
    assert_eq!(code(&wrong, Stdio::null(), full()), Some(2));
    assert_eq!(code(&unreachable, broken(), broken()), Some(69));
    assert_eq!(code(&unreachable, full(), full()), Some(69));
}

#[test]
fn results_that_do_not_fit_where_stdout_leads_are_no_success() {
    let room = Room::new();
    for (word, what) in [("list", "results"), ("--help", "help"), ("--version", "help")] {
        let mut command = room.command(&[word]);
        let output = command.stdout(full()).stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(69), "{word}: {stderr}");
        assert!(stderr.contains(&format!("cannot write the {what} to stdout")), "{stderr}");
    }
}

#[test]
fn a_host_that_cannot_be_found_is_no_slip() {
    let room = Room::new();
    let run = ["--scenario", "bonus-pool", "--redis", "redis://no%20such%20host:7"];
    let proxy = ["proxy", "--listen", "0", "--upstream", "no such host:7"];
    for args in [&run[..], &proxy] {
        let said = room.run(args);
        assert_eq!(said.code, Some(69), "{args:?}: {}", said.stderr);
    }
}

#[test]
fn a_scenario_of_ones_own_begins_from_one_of_the_catalogue() {
    let room = Room::new();
    let toml = room.run(&["show", "--toml", "gc-pause", "--lock", "polling"]).ended(0).stdout;
    let file = room.path().join("mine.toml");
    std::fs::write(&file, toml).unwrap();
    let file = file.to_str().unwrap();
    let said = room.run(&["--config", file, "--world", "virtual", "--seed", "1"]).ended(1);
    assert!(said.stdout.contains("lock polling"), "{}", said.stdout);
}

#[test]
fn a_list_for_programs_names_everything_that_can_be_run() {
    let said = Room::new().run(&["list", "--format", "json"]).ended(0);
    let list: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let names = |what: &str| -> Vec<String> {
        let all = list[what].as_array().unwrap().iter();
        all.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("scenarios"), scenarios::catalog::ALL.map(|(name, _)| name));
    assert_eq!(names("recipes"), scenarios::recipe::ALL.map(|about| about.name));
}

#[test]
fn a_variable_for_threads_is_no_word_on_the_command_line() {
    let room = Room::new().with("PICKLOCK_THREADS", "2");
    room.run(&["--scenario", "gc-pause", "--world", "virtual", "--seed", "1"]).ended(1);
}

#[test]
fn a_quiet_sweep_says_what_failed_and_the_verdict() {
    let sweep = ["--scenario", "gc-pause", "--world", "virtual", "--seeds", "0..3", "-q"];
    let room = Room::new();
    let said = room.run(&[&sweep[..], &["--lock", "none"]].concat()).ended(1).stdout;
    assert!(
        said.starts_with("gc-pause: ") && said.contains("\nverdict: violated (belief, effect)\n"),
        "{said}"
    );
    assert!(said.contains("--seed 0\n"), "{said}");
    for left_out in ["a second of processor time", "inconclusive", "in a hold"] {
        assert!(!said.contains(left_out), "{left_out}: {said}");
    }
    assert_eq!(room.runs().len(), 1, "the report is written all the same");
}

#[test]
fn a_run_is_written_in_every_form() {
    let room = Room::new();
    let file = |name: &str| room.path().join(name);
    let run = ["--scenario", "gc-pause", "--lock", "del-release", "--world", "virtual"];
    for (seeds, begins) in [
        (["--seed", "1"], "# gc-pause, lock del-release, world virtual, seed 1"),
        (
            ["--seeds", "0..20"],
            "# gc-pause: 10 clients, lock del-release, world virtual, seeds 0..20",
        ),
    ] {
        let [junit, page] = ["r.xml", "r.md"].map(|name| file(name).display().to_string());
        let formats = format!("--format human --format junit={junit} --format markdown={page}");
        let said = room.run(&[&run[..], &seeds, &words(&formats)].concat()).ended(1);
        assert!(said.stdout.contains("verdict: violated"), "{}", said.stdout);
        let [junit, page] = [junit, page].map(|path| std::fs::read_to_string(path).unwrap());
        assert!(page.starts_with(begins), "{page}");
        assert!(
            page.contains("\n## key violated: ownership\n") && page.contains("\n1. "),
            "{page}"
        );
        assert!(
            junit.contains(
                "name=\"key ownership\" classname=\"picklock.virtual.gc-pause.del-release\""
            ),
            "{junit}"
        );
        assert!(junit.contains("<failure "), "{junit}");
        let failed = junit.matches("<failure ").count() + junit.matches("<error ").count();
        assert_eq!(
            junit.matches("\nreplay: ").count() + junit.matches(">replay: ").count(),
            failed
        );
        assert!(junit.contains("--scenario gc-pause --lock del-release --world virtual --seed"));
        let cases = junit.matches("<testcase ").count();
        assert_eq!(junit.matches(" time=\"").count(), cases + 2, "{junit}");
        assert!(!junit.contains("time=\"0.000\""), "{junit}");
    }
    let twice = room.run(&[&run[..], &["--format", "json", "--format", "junit"]].concat()).ended(2);
    assert!(twice.message().contains("only one format can go to stdout"), "{}", twice.stderr);
}
