//! `picklock matrix` as its user meets it: what it prints and writes, and how it ends.

mod cli_support;
mod endpoint_support;
mod proxy_support;
mod servers_support;

use cli_support::{Room, words};
use endpoint_support::Theirs;
use scenarios::matrix::{Conformance, Matrices, Matrix};

#[test]
fn what_is_expected_ends_well_and_is_written_in_every_form() {
    let room = Room::new();
    let file = |name: &str| room.path().join(name);
    let to = |format: &str, name: &str| format!("{format}={}", file(name).display());
    let formats = [to("json", "m.json"), to("junit", "m.xml"), to("markdown", "m.md")];
    let pairs = ["--scenario", "gc-pause,crash-holder", "--lock", "single,no-ttl,none"];
    let mut args = [&["matrix"], &pairs[..], &["--seeds", "0..2", "--format", "human"]].concat();
    for format in &formats {
        args.extend(["--format", format]);
    }
    let said = room.run(&args).ended(0);
    assert!(said.stdout.ends_with("verdict: as expected\n"), "{}", said.stdout);
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();
    let found: Matrix = serde_json::from_str(&read("m.json")).unwrap();
    assert_eq!((found.pairs.len(), found.scenarios()), (6, vec!["crash-holder", "gc-pause"]));
    let runs = found.pairs.iter().flat_map(|pair| &pair.cells).map(|cell| cell.runs.total());
    assert!(runs.into_iter().all(|runs| runs == 2));
    assert!(read("m.xml").contains("<testsuite name=\"gc-pause\" tests=\"3\""));
    assert!(read("m.md").contains("## `crash-holder`"));
}

#[test]
fn a_matrix_in_lua_is_the_same() {
    let room = Room::new();
    let pairs =
        words("matrix --scenario gc-pause,lost-reply,script-flush --lock single,queue,fenced");
    for more in ["--seeds 0..2 --format json", "--searched --seeds 0..5 --format json"] {
        let args = [pairs.clone(), words(more)].concat();
        let native = room.run(&args);
        let lua = room.run(&[args, vec!["--lua"]].concat());
        assert_eq!((lua.code, lua.stdout), (native.code, native.stdout), "{more}");
    }
}

#[test]
fn what_is_not_found_where_it_is_claimed_ends_badly() {
    let room = Room::new();
    // One schedule is not enough to find what is claimed of it.
    let few = ["matrix", "--scenario", "late-messages", "--lock", "del-release", "--seeds", "0..1"];
    let said = room.run(&[&few[..], &["--format", "json"]].concat()).ended(1);
    let found: Matrix = serde_json::from_str(&said.stdout).unwrap();
    let key = &found.pairs[0].cells[0];
    assert_eq!((key.standing, key.runs.violated), (Conformance::Different, 0));
    let said = room.run(&few).ended(1);
    assert!(said.stdout.contains("not as expected: late-messages with del-release: key is held"));
    assert!(!said.after("replay:").contains("--lua"));
    let said = room.run(&[&few[..], &["--lua"]].concat()).ended(1);
    assert!(said.after("replay:").ends_with(" --lua"), "{}", said.stdout);
}

#[test]
fn scenarios_of_ones_own_are_put_to_the_test_beside_those_of_the_catalogue() {
    let room = Room::new();
    let text = scenarios::catalog::text("gc-pause").unwrap();
    let mine = room.file("mine.toml", text);
    let wrong = room.file("wrong.toml", text.replace("effect = \"violated\"", "effect = \"held\""));
    let with = |files: &str| -> Vec<String> {
        let words = "matrix --lock single,none --seeds 0..2 --format human --format";
        let mut args: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let junit = room.path().join("m.xml");
        args.extend([format!("junit={}", junit.display()), "--scenario".into(), files.to_owned()]);
        args
    };
    let said = room.run(&with(&format!("{mine},crash-holder"))).ended(0).stdout;
    assert!(said.contains("\nmine\n") && said.contains("\ncrash-holder\n"), "{said}");
    let said = room.run(&[with(&mine), vec!["--searched".to_owned()]].concat());
    assert!(said.stdout.contains("\nmine\n"), "{}", said.stdout);
    let said = room.run(&with(&wrong)).ended(1).stdout;
    assert!(
        said.contains("not as expected: wrong with none, single: effect is violated"),
        "{said}"
    );
    let junit = std::fs::read_to_string(room.path().join("m.xml")).unwrap();
    let replay = junit.split("replay: ").nth(1).unwrap().split('<').next().unwrap();
    assert!(
        replay.contains(&format!("matrix --world virtual --scenario {wrong} --lock ")),
        "{replay}"
    );
    assert!(replay.ends_with(" --seeds 0..1"), "{replay}");
    assert!(said.contains(&format!("verdict: not as expected\nreplay: {replay}\n")), "{said}");
    let failed = junit.matches("<failure ").count();
    assert!(failed > 0 && junit.matches("replay: ").count() == failed, "{junit}");
    assert!(junit.contains(" time=\"") && !junit.contains("time=\"0.000\""), "{junit}");
    // The line does again what it says.
    let words: Vec<&str> = replay.split(' ').skip_while(|word| *word != "matrix").collect();
    let again = room.run(&words).ended(1).stdout;
    assert!(again.contains("not as expected: wrong with"), "{again}");
    // Of two with one name nobody could tell which is meant.
    let said = room.run(&with(&format!("{mine},{mine}"))).ended(2);
    assert!(said.message().contains("two scenarios are called mine"), "{}", said.stderr);
}

#[test]
fn searched_forms_are_run_where_there_are_any() {
    let room = Room::new();
    let some = ["matrix", "--searched", "--lock", "none", "--seeds", "0..3", "--format", "json"];
    let said = room.run(&[&some[..], &["--scenario", "long-job,late-messages"]].concat()).ended(0);
    let found: Matrix = serde_json::from_str(&said.stdout).unwrap();
    assert!(found.pairs.iter().all(|pair| pair.searched));
    assert_eq!(found.scenarios(), ["late-messages", "long-job"]);
    let said = room.run(&some);
    let found: Matrix = serde_json::from_str(&said.stdout).unwrap();
    let scenarios = found.scenarios();
    assert!(scenarios.contains(&"gc-pause") && !scenarios.contains(&"polling-load"));
}

#[test]
fn a_live_world_runs_what_it_can_and_says_what_not() {
    let room = Room::new();
    let pairs =
        ["--scenario", "crash-holder,late-messages", "--lock", "single", "--format", "json"];
    let said = room.run(&[&["matrix", "--world", "embedded"], &pairs[..]].concat()).ended(0);
    let found: Matrix = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((found.totals.as_expected, found.totals.not_run), (4, 4));
    assert!(found.pairs[1].not_run.as_ref().unwrap().contains("searches for faults"));
    room.is_left_clean();
}

#[test]
fn a_pair_that_cannot_be_run_ends_the_matrix_and_lets_the_others_end() {
    let room = Room::new();
    let limited = room.program(
        "limited",
        concat!(
            "export TMPDIR=$PWD/tmp\nulimit -n 64\nexec ",
            env!("CARGO_BIN_EXE_picklock"),
            " matrix --world redis --scenario gc-pause --lock single,redlock,queue,del-release"
        ),
    );
    let said = room.start_program(&limited).said().ended(69);
    assert_eq!(said.stderr.matches("open files are needed").count(), 1, "{}", said.stderr);
    room.is_left_clean();
}

#[test]
fn the_page_of_a_live_world_tells_the_run_that_violated_something() {
    let room = Room::new();
    let pairs = ["--scenario", "crash-holder", "--lock", "single,no-ttl", "--format", "html"];
    let page = room.run(&[&["matrix", "--world", "embedded"], &pairs[..]].concat()).ended(0).stdout;
    assert_eq!(page.matches("<svg xmlns").count(), 1, "of the one that is violated");
    for told in
        ["key never expires", "matrix --world embedded --scenario crash-holder --lock no-ttl"]
    {
        assert!(page.contains(told), "{told} in {page}");
    }
}

#[test]
fn several_servers_are_tried_one_after_the_other() {
    let room = Room::new();
    let other = room.program("another", "exec redis-server \"$@\"");
    let pairs = ["--scenario", "crash-holder", "--lock", "single,polling"];
    let matrix = [&["matrix", "--world", "redis"], &pairs[..]].concat();
    let file = |name: &str| room.path().join(name).display().to_string();
    let (json, junit) = (format!("json={}", file("m.json")), format!("junit={}", file("m.xml")));
    let two = ["--server-bin", "redis-server", "--server-bin", &other];
    let formats = ["--format", "human", "--format", &json, "--format", &junit];
    let said = room.run(&[&matrix[..], &two, &formats].concat()).ended(0);
    assert!(said.stdout.contains("\n on all 2 servers\n"), "{}", said.stdout);
    assert!(said.stdout.contains(&other) && said.stdout.ends_with("verdict: as expected\n"));
    let found: Matrices = serde_json::from_slice(&std::fs::read(file("m.json")).unwrap()).unwrap();
    let servers: Vec<&str> = found.matrices.iter().flat_map(|it| it.server.as_deref()).collect();
    assert_eq!((found.totals.as_expected, servers.len()), (16, 2));
    assert!(servers[1].contains(&other), "{servers:?}");
    let text = std::fs::read_to_string(file("m.xml")).unwrap();
    assert!(text.contains("another, named by --server-bin\" tests=\"2\""), "{text}");

    // One that ends at its start takes nothing away from the other.
    let banner = "test \"$1\" = --version && echo 'Redis server v=9.9.9 sha=0' && exit";
    let dies = room.program("dies", &format!("{banner}\necho 'FATAL: the moon is full'; exit 3"));
    let two = ["--server-bin", &dies, "--server-bin", "redis-server"];
    let said = room.run(&[&matrix[..], &two].concat()).ended(69);
    assert!(said.message().contains("the moon is full") && said.message().contains(&dies));
    let real = servers[0].split(", ").next().unwrap();
    assert!(said.stdout.contains(&format!("\n on {real}\n  held  ")), "{}", said.stdout);
    assert!(
        said.stdout
            .contains(&format!("\n on {dies}\n  not run: cannot start a private redis-server"))
    );
    assert!(said.stdout.ends_with("verdict: not tested on every server\n"), "{}", said.stdout);

    // One that is none is told of before anything runs.
    for (two, code, says) in [
        (["--server-bin", "redis-server", "--server-bin", "/bin/true"], 69, "/bin/true"),
        (["--server-bin", "redis-server", "--server-bin", "redis-server"], 2, "twice"),
    ] {
        let said = room.run(&[&matrix[..], &two].concat()).ended(code);
        assert!(said.message().contains(says) && said.stdout.is_empty(), "{}", said.message());
    }
    let two = ["--server-bin", "redis-server", "--server-bin", &other];
    let url = ["--redis", "redis://127.0.0.1:1"];
    let said = room.run(&[&matrix[..], &two, &url].concat()).ended(2);
    assert!(said.message().contains("omit one of the two"), "{}", said.message());
    room.is_left_clean();
}

#[test]
fn further_servers_forget_and_jump_when_they_are_to() {
    let room = Room::new();
    let pairs = ["--scenario", "clock-step-allowed,power-loss-synced", "--lock", "native-cas"];
    let args = [&["matrix", "--world", "redis", "--format", "json"], &pairs[..]].concat();
    for (name, path) in servers_support::all() {
        let server = ["--server-bin", path.to_str().unwrap()];
        let said = room.run(&[&args[..], &server].concat()).ended(0);
        let found: Matrix = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!((found.totals.as_expected, found.totals.not_run), (8, 0), "{name}");
        assert!(found.server.unwrap().contains(&name), "{name}");
    }
    room.is_left_clean();
}

#[test]
fn a_file_that_has_no_place_is_refused_before_anything_runs() {
    let room = Room::new();
    for file in [room.path().join("missing").join("m.xml"), room.path().to_owned()] {
        let format = format!("junit={}", file.display());
        let said = room.run(&["matrix", "--format", &format]).ended(2);
        assert!(said.message().contains("name a file in a directory that is there"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_strike_others_is_left_out_and_nothing_else_is() {
    let theirs = Theirs::start(&[]).await;
    let url = theirs.url("", "");
    let pairs = ["--scenario", "script-flush,crash-holder", "--lock", "single", "--format", "json"];
    let room = Room::new();
    let said =
        room.run(&[&["matrix", "--world", "redis", "--redis", &url], &pairs[..]].concat()).ended(0);
    let found: Matrix = serde_json::from_str(&said.stdout).unwrap();
    let why: Vec<&String> = found.pairs.iter().filter_map(|it| it.not_run.as_ref()).collect();
    assert!(
        matches!(why[..], [it] if it.contains("would affect everyone who uses this server")),
        "{why:?}"
    );
    assert_eq!((found.totals.as_expected, found.totals.not_run), (4, 4));
    let several = ["--scenario", "crash-holder", "--lock", "single,redlock"];
    let said = [&["matrix", "--world", "redis", "--redis", &url], &several[..]].concat();
    let said = room.run(&said).ended(0);
    assert!(said.stdout.contains("the scenario needs 5 independent servers"), "{}", said.stdout);
}
