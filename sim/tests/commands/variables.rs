//! The `PICKLOCK_*` variables behind the options.

use crate::cli_support::{Room, words};

#[test]
fn variables_stand_behind_the_command_line_and_are_named_in_errors() {
    let room = Room::new().with("PICKLOCK_TTL", "5").with("PICKLOCK_OUT", "");
    let said = room.run(&["--scenario", "bonus-pool"]).ended(2);
    assert!(said.message().contains("the unit is missing"), "{}", said.stderr);
    assert!(said.message().contains("set in the environment: PICKLOCK_TTL"), "{}", said.stderr);
    // What the command line says is not looked for anywhere else, and later things are looked at.
    let said = room.run(&["--scenario", "bonus-pool", "--ttl", "0"]).ended(2);
    assert!(said.message().contains("protects nothing"), "{}", said.stderr);
}

#[test]
fn a_variable_that_is_empty_is_as_good_as_unset() {
    let mut room = Room::new();
    for name in ["CLIENTS", "TTL", "SET", "OUT", "REDIS", "REDIS_SERVER", "WORLD", "VERBOSE"] {
        room = room.with(&format!("PICKLOCK_{name}"), "");
    }
    let said = room.run(&["--scenario", "bonus-pool", "--lock", "paxos"]).ended(2);
    assert!(said.message().contains("the recipes are"), "{}", said.stderr);
}

#[test]
fn switches_are_set_by_variables_as_people_set_them() {
    for value in ["1", "true", "yes", "on"] {
        let room = Room::new().with("PICKLOCK_VERBOSE", value);
        room.run(&["list"]).ended(0);
        room.run(&["list", "-q"]).ended(0);
    }
    Room::new().with("PICKLOCK_VERBOSE", "perhaps").run(&["list"]).ended(2);
}

#[test]
fn an_option_wins_over_a_variable_that_contradicts_it() {
    let line = "--scenario crash-holder --lock single --world virtual -q";
    let room = Room::new().with("PICKLOCK_SEEDS", "0..3");
    for run in ["", "run "] {
        let said = room.run(&words(&format!("{run}{line} --seed 7"))).ended(0);
        assert!(said.stdout.contains(", seed 7\n"), "{}", said.stdout);
    }
    let room = Room::new().with("PICKLOCK_SEED", "7");
    let said = room.run(&words(&format!("{line} --seeds=0..3"))).ended(0);
    assert!(said.stdout.contains(", seeds 0..3\n"), "{}", said.stdout);
    room.run(&words(&format!("{line} --seeds 0..3 --seed 7"))).ended(2);
    Room::new()
        .with("PICKLOCK_SEEDS", "0..3")
        .with("PICKLOCK_SEED", "7")
        .run(&words(line))
        .ended(2);
}
