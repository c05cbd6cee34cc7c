//! More threads than a machine can start: it is said, and nothing is run.

use crate::cli_support::{Room, Said};

/// Runs picklock with so much address space, in kilobytes.
fn limited(room: &Room, kilobytes: u32, args: &str) -> Said {
    let picklock = env!("CARGO_BIN_EXE_picklock");
    let script = format!("ulimit -v {kilobytes}\nexec {picklock} {args}");
    let path = room.program("limited", &script);
    room.start_program(&path).said()
}

#[test]
fn threads_that_cannot_be_started_are_counted_and_a_smaller_number_is_asked_for() {
    let room = Room::new();
    let of_run = "--scenario gc-pause --lock single --world virtual --seeds";
    for args in [
        // So much work that each thread is needed: of few, those that are done early make room for others.
        &format!("{of_run} 0..2000"),
        "matrix --seeds 0..2",
        "tune --preset go --hold 5ms --holds 20000000 --ttl 1s,5s",
        "soak --scenario gc-pause --lock single --for 1m",
    ] {
        let said = limited(&room, 600_000, &format!("{args} --threads 2000 -q")).ended(69);
        let message = said.message();
        assert!(message.contains("this machine starts only"), "{message}");
        assert!(message.contains("ask for fewer with --threads"), "{message}");
    }
    let few = limited(&room, 2_000_000, &format!("{of_run} 0..50 --threads 3 -q"));
    assert!(matches!(few.code, Some(0..=3)), "{:?}: {}", few.code, few.stderr);
}
