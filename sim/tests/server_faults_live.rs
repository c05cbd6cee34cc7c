//! Real servers that end, lose their power or their time, and take each other's place: the stories come out as in
//! the virtual world.

mod cli_support;
mod live_support;

use std::sync::Arc;

use cli_support::Room;
use live_support::{play, shows_what_is_claimed, struck};
use scenarios::fault::Fault;
use sim::live::server::find_server;
use sim::live::target::Choice;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Which pairs, and the faults that each stages.
const PAIRS: [(&str, &str, &[Fault]); 8] = [
    ("clock-step", "single", &[Fault::ClockStep]),
    ("clock-step", "redlock", &[Fault::Reset, Fault::Reset, Fault::ClockStep]),
    ("failover", "fenced", &[Fault::Failover]),
    ("failover", "redlock", &[Fault::ServerCrash]),
    ("failover", "single-wait", &[Fault::Failover]),
    ("power-loss", "single", &[Fault::PowerLoss]),
    ("power-loss", "single-wait", &[Fault::PowerLoss]),
    ("power-loss-synced", "single", &[Fault::PowerLoss]),
];

fn choice() -> Choice {
    Choice::Started(find_server(None, None).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_story_of_servers_comes_out_as_in_the_virtual_world() {
    let mut runs = JoinSet::new();
    // Their disks and processors are one.
    let at_once = Arc::new(Semaphore::new(2));
    for (scenario, lock, faults) in PAIRS {
        let at_once = Arc::clone(&at_once);
        runs.spawn(async move {
            let _place = at_once.acquire().await;
            (scenario, lock, faults, play(choice(), scenario, lock).await)
        });
    }
    while let Some(ended) = runs.join_next().await {
        let (scenario, lock, faults, run) = ended.unwrap();
        let found: Vec<Fault> = struck(&run.history).into_iter().map(|it| it.0).collect();
        assert_eq!(found, faults, "{scenario} {lock}: {:?}", run.remarks);
        shows_what_is_claimed(scenario, lock, &run.history);
        if faults.contains(&Fault::PowerLoss) {
            let cut = run.remarks.iter().any(|it| it.contains("bytes of its append-only file"));
            assert!(cut, "{:?}", run.remarks);
        }
    }
}

#[test]
fn where_nobody_knows_what_is_on_a_disk_nothing_is_claimed() {
    let room = Room::new();
    // As a static executable does, it takes no notice of the library.
    let real = find_server(None, None).unwrap().path;
    let script = format!("#!/bin/sh\nunset LD_PRELOAD\nexec '{}' \"$@\"\n", real.display());
    let server = room.program("redis-server", &script);
    for (scenario, what) in [
        ("power-loss", "nobody knows what is on its disk"),
        ("clock-step", "its clock cannot be set"),
    ] {
        let said = room.run(&["--scenario", scenario, "--server-bin", &server]).ended(3);
        let message = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(message.contains(what), "{message}");
    }
    room.is_left_clean();
}
