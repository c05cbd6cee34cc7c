//! `picklock attack` on a machine that is too busy for it.

use std::fs;

use crate::cli_support::Room;
use crate::example;

/// A worker that has the lock for long before it says so looks like one on a busy machine.
#[test]
fn plans_that_follow_a_disturbed_run_are_told_of() {
    let room = Room::new();
    let naive = fs::read_to_string(example("naive.sh")).unwrap();
    let slow =
        naive.replace("NX PX \"$PICKLOCK_TTL_MS\"", "NX PX \"$PICKLOCK_TTL_MS\" && sleep 0.1");
    let slow = room.program("slow", &format!("exec bash -c '{}'", slow.replace('\'', "'\\''")));
    let args = [
        "attack",
        "--world",
        "embedded",
        "--ttl",
        "400ms",
        "--only",
        "release.del.lose-request",
        "--",
    ];
    let said = room.run(&[&args[..], &[&slow]].concat()).ended(3);
    for says in
        ["no-fault: the machine was too busy", "no-fault: every run without a fault was disturbed"]
    {
        assert!(said.results().contains(says), "no {says:?} in {}", said.stdout);
    }
}
