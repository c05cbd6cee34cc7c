//! Other people on the machine cannot use the servers that picklock starts, and where somebody does nothing is
//! concluded.

mod cli_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cli_support::{Room, asked, eventually, login, sets, words};
use history::verdict::Outcome;

/// A sound lock, which is held for long enough that somebody can interfere.
/// Long enough for somebody to log in meanwhile, on a busy machine, too.
const RUN: &str =
    "--scenario bonus-pool --clients 10 --hold 200ms --set lock.retries=1000 --world redis";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn nobody_else_can_use_a_private_server() {
    let room = Room::new();
    let playing = room.start(&words(RUN));
    let (server, port) = room.server();
    eventually("clients are at work", || (sets(port) > 2).then_some(()));
    let dir = fs::read_link(format!("/proc/{server}/cwd")).unwrap();
    assert_eq!(
        (mode(dir.parent().unwrap()), mode(&dir), mode(&dir.join("redis.conf"))),
        (0o700, 0o700, 0o600)
    );
    assert!(asked(port, "FLUSHALL").starts_with("-NOAUTH"), "{}", asked(port, "FLUSHALL"));
    let line = login(port);
    let password = line.strip_prefix("AUTH ").unwrap().trim();
    for process in room.processes() {
        let args = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        assert!(!args.contains(password), "in a command line: {args}");
    }
    let said = playing.said();
    assert!(!format!("{}{}", said.stdout, said.stderr).contains(password));
    for entry in fs::read_dir(room.only_run()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&bytes).contains(password));
    }
}

#[test]
fn whoever_logs_in_all_the_same_makes_the_run_inconclusive() {
    let room = Room::new();
    let playing = room.start(&words(RUN));
    let (_, port) = room.server();
    // Not before the first of them has won: until then keys are those of the preparations.
    eventually("clients are at work", || {
        asked(port, &format!("{}INFO commandstats", login(port))).contains("_decr:").then_some(())
    });
    let flushed = asked(port, &format!("{}FLUSHALL", login(port)));
    assert!(flushed.contains("+OK"), "{flushed}");
    let said = playing.said().ended(3);
    assert!(said.stdout.contains("somebody else has logged in"), "{}", said.stdout);
    assert_eq!(room.result().verdict, Outcome::Inconclusive);
}
