//! `picklock tune --confirm`: leases of the shipped lock on a real redis-server go wrong as often as the model says.

mod cli_support;

use cli_support::Room;
use scenarios::tuning::{Found, Tuning};

#[test]
fn leases_on_a_real_server_go_wrong_as_often_as_the_model_says() {
    let room = Room::new();
    let out = room.path().join("out").display().to_string();
    // Points of the grid that go wrong often enough: nothing is tried but them.
    let args = "tune --hold lognormal:1s,p99=10s --pause lognormal:1s,p99=10s --pauses 12/minute --every 1m --ttl 2s,3s \
                --overlaps 100/s --lost 100/s --holds 2000 --confirm --confirm-for 8s --format json --out";
    let args: Vec<&str> = args.split_whitespace().chain([&out[..]]).collect();
    let said = room.run(&args).ended(0);
    let tuning: Tuning = serde_json::from_str(&said.stdout).unwrap();
    let confirmation = tuning.confirmation.expect("it was asked for");
    assert!(confirmation.server.starts_with("redis "), "{}", confirmation.server);
    assert!(confirmation.agrees(), "{confirmation:#?}");
    assert_eq!(confirmation.tried.len(), 2, "without renewal, and with it");
    for tried in &confirmation.tried {
        let Found::Seen(seen) = &tried.found else { panic!("{tried:?}") };
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
