//! `picklock tune --confirm`: leases of the shipped lock on a real redis-server go wrong as often as the model says.

mod cli_support;

use cli_support::{Room, Said};
use ttl_model::tuning::{ConfirmationOutcome, Tuning};

#[test]
fn leases_on_a_real_server_go_wrong_as_often_as_the_model_says() {
    let room = Room::new();
    let out = room.path().join("out").display().to_string();
    // Points of the grid that go wrong often enough: nothing is tried but them.
    let args = "tune --hold lognormal:1s,p99=10s --pause lognormal:1s,p99=10s --pauses 12/minute --every 1m --ttl 2s,3s \
                --overlaps 100/s --lost 100/s --holds 2000 --confirm --confirm-for 12s --format json --out";
    let args: Vec<&str> = args.split_whitespace().chain([&out[..]]).collect();
    // Where other programs keep the server from answering, it says so, and a user would run it again.
    let mut runs = (0..3).map(|_| room.run(&args));
    let busy = |said: &Said| said.code == Some(69) && said.stderr.contains("run again when");
    let said = runs.find(|said| !busy(said)).expect("the server answers in one of three runs");
    let said = said.ended(0);
    let tuning: Tuning = serde_json::from_str(&said.stdout).unwrap();
    let confirmation = tuning.confirmation.expect("it was asked for");
    assert!(confirmation.server.starts_with("redis "), "{}", confirmation.server);
    assert_eq!(confirmation.agrees(), Some(true), "{confirmation:#?}");
    assert_eq!(confirmation.tried.len(), 2, "without renewal, and with it");
    for tried in &confirmation.tried {
        let ConfirmationOutcome::Seen(seen) = &tried.found else { panic!("{tried:?}") };
        assert!(tried.in_grid && tried.stretch < 0.5, "{tried:?}");
        assert_eq!(seen.ttl.to_string(), "500ms");
        // What agrees with everything would show nothing.
        for share in [seen.lost, seen.outlived] {
            assert!(share.hits > 50 && share.high < share.low * 2.0, "{seen:?}");
        }
        assert!(seen.pauses > 100 && seen.holds > 1_000, "{seen:?}");
    }
    let page = std::fs::read_to_string(room.path().join("out/tune/latest/report.html")).unwrap();
    assert!(page.contains("Tried on redis "));
    room.is_left_clean();
}

#[test]
fn a_confirmation_that_can_show_nothing_is_refused() {
    let room = Room::new();
    let said = room
        .run(&["tune", "--hold", "20ms", "--preset", "go", "--confirm", "--confirm-for", "10ms"])
        .ended(2);
    assert!(said.stderr.contains("--confirm-for 20s"), "{}", said.stderr);
    room.is_left_clean();
}

#[test]
fn where_nothing_is_to_be_seen_nothing_is_confirmed_and_before_long() {
    let room = Room::new();
    let out = room.path().join("out").display().to_string();
    // Holds of minutes that go wrong once in a million years.
    let args = "tune --preset jvm-g1 --hold lognormal:5m,p99=20m --clients 10 --every 4h --locks 10 --takeover 2m --ttl 1m \
                --renew 1/3 --confirm --confirm-for 2s --holds 1000 --out";
    let args: Vec<&str> = args.split_whitespace().chain([&out[..]]).collect();
    let said = room.run(&args).ended(3);
    assert!(said.stdout.contains("cannot say") && said.stdout.contains("answer: met"));
    assert!(said.stderr.contains("too few holds failed on the server"), "{}", said.stderr);
    room.is_left_clean();
}

#[test]
fn a_server_that_cannot_be_had_is_told_of_before_anything_is_simulated() {
    let room = Room::new();
    let out = room.path().join("out");
    let script = room.program("redis-server", "#!/bin/sh\nexit 1\n");
    let args = ["tune", "--preset", "go", "--hold", "5ms", "--confirm", "--server-bin", &script];
    let more = ["--out", &out.display().to_string()];
    room.run(&[&args[..], &more].concat()).ended(69);
    assert!(!out.exists(), "nothing was begun");
    room.is_left_clean();
}
