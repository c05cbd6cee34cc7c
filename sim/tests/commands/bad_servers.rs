//! A server that is of no use is told of in one message that says what to do, with exit code 69.

use crate::cli_support::{Room, Said, eventually, sets, short, words};
use crate::endpoint_support::{PASSWORD, Theirs};

/// Runs against this URL; checks what holds for every server of no use.
fn refused(url: &str, options: &[&str]) -> String {
    let room = Room::new();
    let said = room.run(&short(&[&["--redis", url, "-q"], options].concat())).ended(69);
    check(&room, said)
}

fn check(room: &Room, said: Said) -> String {
    let message = said.message();
    assert!(!message.contains(PASSWORD), "{message}");
    assert_eq!(said.stdout, "", "{message}");
    assert!(!room.path().join("picklock-out").exists(), "{message}");
    room.is_left_clean();
    message
}

#[test]
fn a_port_where_nobody_listens_is_told_of() {
    let message = refused("redis://:hunter2@127.0.0.1:1", &[]);
    assert!(message.contains("start the server, or check host"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_are_asked_for() {
    let mut theirs = Theirs::start(&[]).await;
    theirs.admin(&["CONFIG", "SET", "requirepass", "secret"], "+OK\r\n").await;
    let none = refused(&theirs.url("", ""), &[]);
    assert!(none.contains("give it in the URL"), "{none}");
    let wrong = refused(&theirs.url(":hunter2@", ""), &[]);
    assert!(wrong.contains("correct user and password in the URL"), "{wrong}");
    let database = refused(&theirs.url(":secret@", "/99"), &[]);
    assert!(database.contains("no database 99"), "{database}");
    theirs.admin(&["DBSIZE"], ":0\r\n").await;
}

/// Runs as a user who may do all but this.
async fn without_right(rights: &[&str], options: &[&str]) -> String {
    let mut theirs = Theirs::start(&[]).await;
    let create = [&["ACL", "SETUSER", "bob", "on", ">hunter2", "+@all", "~*"], rights].concat();
    theirs.admin(&create, "+OK\r\n").await;
    let message = refused(&theirs.url("bob:hunter2@", ""), options);
    theirs.admin(&["DBSIZE"], ":0\r\n").await;
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_to_run_scripts_is_asked_for() {
    let message = without_right(&["-eval", "-evalsha"], &["--lock", "single"]).await;
    assert!(message.contains("ACL SETUSER bob +evalsha +eval ~picklock:*"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_that_scripts_need_are_asked_for() {
    let watchdog = ["--lock", "single-watchdog", "--ttl", "300ms", "--hold", "400ms"];
    let message = without_right(&["-pexpire"], &watchdog).await;
    assert!(message.contains("+pexpire"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_too_few_connections_is_told_of_before_anybody_starts() {
    let mut theirs = Theirs::start(&["--maxclients", "10"]).await;
    let message = refused(&theirs.url("", ""), &[]);
    assert!(message.contains("CONFIG GET maxclients"), "{message}");
    theirs.admin(&["DBSIZE"], ":0\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_not_spoken_to_in_tls() {
    let theirs = Theirs::start(&[]).await;
    let url = theirs.url("", "").replace("redis://", "rediss://");
    let message = refused(&url, &["--tls-insecure"]);
    assert!(message.contains("write redis:// instead"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_taking_writes_is_not_held_against_the_lock() {
    let mut theirs = Theirs::start(&[]).await;
    let room = Room::new();
    let options = ["--redis", &theirs.url("", ""), "--hold", "200ms", "--lock", "polling"];
    let playing = room.start(&short(&options));
    let port = theirs.server.port();
    eventually("clients are at work", || (sets(port) > 50).then_some(()));
    theirs.admin(&["CONFIG", "SET", "maxmemory", "1"], "+OK\r\n").await;
    let said = playing.said().ended(3);
    assert!(said.results().contains("raise its `maxmemory`"), "{}", said.stdout);
    assert!(!room.result().complete);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_have_scripts_is_of_no_use_to_a_lock_that_has() {
    let none = ["--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""];
    let theirs = Theirs::start(&none).await;
    let message = refused(&theirs.url("", ""), &["--lock", "single"]);
    assert!(message.contains("the server refuses EVALSHA (ERR unknown command"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_fault_answers_in_its_place_is_not_put_down_to_the_server() {
    let theirs = Theirs::start(&[]).await;
    let url = theirs.url("", "");
    let room = Room::new();
    for scenario in ["told-soon", "refused-release"] {
        let args = ["--scenario", scenario, "--lock", "single", "--redis", &url, "--expected"];
        room.run(&args).ended(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_is_not_held_against_the_lock() {
    let theirs = Theirs::start(&[]).await;
    let room = Room::new();
    let tries = "--scenario bonus-pool --clients 20 --ttl 200ms --set lock.pause=5ms --set lock.retries=100000";
    let url = theirs.url("", "");
    let playing = room.start(&[&words(tries)[..], &["--redis", &url, "--hold", "200ms"]].concat());
    let port = theirs.server.port();
    eventually("clients are at work", || (sets(port) > 50).then_some(()));
    drop(theirs);
    let said = playing.said().ended(3);
    assert!(said.results().contains("the server stopped answering"), "{}", said.stdout);
    assert!(!said.stdout.contains("nobody-stuck"), "{}", said.stdout);
}

#[test]
fn programs_that_are_no_server_are_told_of() {
    let room = Room::new();
    let version = "test \"$1\" = --version && echo 'Redis server v=7.0.15 sha=0' && exit";
    let dies = format!("{version}\necho 'FATAL: the moon is full'; exit 3");
    let copies = format!("{version}\nexec cat \"$@\" /dev/null");
    let taken = format!("{version}\necho 'bind: Address already in use'; exit 1");
    let warns = format!("echo 'the machine is old' >&2\n{dies}");
    for (script, says) in [
        ("echo true of some other house", "`--version` printed \"true of some other house\""),
        ("echo >&2; echo 'libmoon.so.7: cannot open' >&2", "printed \"libmoon.so.7: cannot open\""),
        ("exit 7", "`--version` printed \"\";"),
        (dies.as_str(), "FATAL: the moon is full"),
        (warns.as_str(), "FATAL: the moon is full"),
        (copies.as_str(), "ended before it was ready (exit status:"),
        (taken.as_str(), "bind: Address already in use"),
    ] {
        let server = room.program("server", script);
        let said = room.run(&short(&["--server-bin", &server, "-q"])).ended(69);
        let message = check(&room, said);
        assert!(message.contains(says) && message.contains("--world embedded"), "{message}");
        assert!(message.contains(&server), "{message}");
    }
    for missing in ["/nonexistent/redis-server", "/etc"] {
        let room = Room::new().with("PICKLOCK_REDIS_SERVER", missing);
        let said = room.run(&short(&["-q"])).ended(69);
        let message = check(&room, said);
        assert!(message.contains("(from PICKLOCK_REDIS_SERVER)"), "{message}");
        assert!(message.contains("name a redis-server that runs"), "{message}");
    }
    let room = Room::new();
    let (plain, text) = (room.file("plain", "echo"), room.program("text", ""));
    std::fs::write(&text, "no program").unwrap();
    for (path, says) in [
        ("/etc", "cannot run /etc (from --server-bin): it is a directory;"),
        (plain.as_str(), "is it executable (chmod +x)?"),
        (text.as_str(), "Exec format error"),
        ("/nonexistent/redis-server", "No such file or directory"),
        ("/bin/true", "/bin/true (from --server-bin) is not a Redis server"),
        ("/bin/cat", "/bin/cat (from --server-bin) is not a Redis server"),
    ] {
        let said = room.run(&short(&["--server-bin", path, "-q"])).ended(69);
        let message = check(&room, said);
        assert!(message.contains(says) && message.contains(path), "{message}");
    }
}

#[test]
fn doctor_looks_at_each_server_and_tells_what_it_can_do() {
    let room = Room::new();
    let two = ["doctor", "--server-bin", "/bin/true", "--server-bin", "redis-server"];
    let said = room.run(&two).ended(69);
    assert!(said.message().contains("/bin/true (from --server-bin) is not a Redis server"));
    assert!(said.stdout.contains("named by --server-bin\n    SET IFEQ: "), "{}", said.stdout);
    assert!(said.stdout.contains("    Lua scripts: yes\n"), "{}", said.stdout);
    assert!(said.stdout.contains("open files: "), "{}", said.stdout);
    room.is_left_clean();
}

#[test]
fn a_run_has_one_server() {
    let room = Room::new();
    let two = ["--server-bin", "redis-server", "--server-bin", "/usr/bin/redis-server"];
    for world in ["auto", "virtual"] {
        let said = room.run(&short(&[&two[..], &["--world", world]].concat())).ended(2);
        let message = check(&room, said);
        assert!(message.contains("--server-bin /usr/bin/redis-server names another"), "{message}");
        assert!(message.contains("`picklock matrix` takes several"), "{message}");
    }
}
