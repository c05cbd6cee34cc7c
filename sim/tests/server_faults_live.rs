//! Real servers that end, lose their power or their time, and take each other's place: the stories come out as in
//! the virtual world.

mod cli_support;
mod live_support;

use cli_support::{Room, Said, words};
use history::fault::Fault;
use history::verdict::Outcome;
use live_support::{TRIES, play_all, struck};
use live_world::endpoint::Choice;
use live_world::server::find_server;
use scenarios::result::RunResult;

/// Which pairs, and the faults that each stages.
const PAIRS: [(&str, &str, &[Fault]); 14] = [
    ("clock-step", "single", &[Fault::ClockStep]),
    ("clock-step", "redlock", &[Fault::Reset, Fault::Reset, Fault::ClockStep]),
    ("failover", "fenced", &[Fault::Failover]),
    ("failover", "redlock", &[Fault::ServerCrash]),
    ("failover", "single-wait", &[Fault::Failover]),
    ("keys-flushed", "fenced", &[Fault::Flush]),
    ("power-loss", "single", &[Fault::Pause, Fault::PowerLoss]),
    ("power-loss", "single-wait", &[Fault::Pause, Fault::PowerLoss]),
    ("power-loss-synced", "single", &[Fault::PowerLoss]),
    ("server-stalls", "del-release", &[Fault::Stall]),
    ("server-stalls", "single-wait", &[Fault::Stall]),
    ("split-brain", "single", &[Fault::SplitBrain]),
    ("split-brain", "single-wait", &[Fault::SplitBrain]),
    ("switchover", "single", &[Fault::Switchover]),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_story_of_servers_comes_out_as_in_the_virtual_world() {
    let server = Choice::Started(find_server(None, None).unwrap());
    // Their disks and processors are one, so that few run at a time.
    play_all(&server, 3, &PAIRS, |scenario, lock, faults, run| {
        let found: Vec<Fault> = struck(&run.history).into_iter().map(|it| it.0).collect();
        assert_eq!(found, faults, "{scenario} {lock}: {:?}", run.remarks);
        if faults.contains(&Fault::PowerLoss) {
            let cut = run.remarks.iter().any(|it| it.contains("bytes of its append-only file"));
            assert!(cut, "{:?}", run.remarks);
            // What was written before the run was on it: a server that never syncs tells another story.
            let all = run.remarks.iter().any(|it| it.contains("append-only file 0 were"));
            assert!(!all, "{:?}", run.remarks);
        }
    })
    .await;
}

#[test]
fn a_server_without_the_library_is_struck_by_no_power_loss_and_no_clock_step() {
    let room = Room::new();
    // Like a static executable, it does not load the library.
    let real = find_server(None, None).unwrap().path;
    let script = format!("#!/bin/sh\nunset LD_PRELOAD\nexec '{}' \"$@\"\n", real.display());
    let server = room.program("redis-server", &script);
    let says = |scenario, what| {
        let said = room.run(&["--scenario", scenario, "--server-bin", &server]).ended(3);
        assert!(said.results().contains(what), "{}", said.stdout);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| says("power-loss", "what is on its disk is unknown"));
        says("clock-step", "its clock cannot be changed");
    });
    room.is_left_clean();
}

#[test]
fn sentinels_fail_over_by_themselves_and_lead_every_client_through_the_proxy() {
    // The hold is longer than it takes sentinels to find out that the primary is gone.
    let args = "--scenario failover --world redis --clients 2 --ttl 20s --hold 12s --set lock.retries=600 \
                --set topology.sentinels=3 --set workload.register.rounds=1";
    let run = || {
        let room = Room::new();
        let said = room.run(&words(args));
        (room, said)
    };
    let (mut room, mut said) = run();
    for _ in 1..TRIES {
        // On a busy machine it takes them longer, and the run shows nothing.
        if said.code == Some(3) {
            (room, said) = run();
        }
    }
    let said = said.ended(1);
    assert!(said.stdout.contains("verdict: violated (belief, effect)"), "{}", said.stdout);
    let result = room.result();
    // Both were led to the new primary: the second client, and the first with its release.
    assert_eq!(result.stats.acquisitions.ok, 2, "{}", said.stdout);
    room.is_left_clean();
}

#[test]
fn a_cluster_is_no_other_story() {
    let room = Room::new();
    let on_cluster = ["--world", "redis", "--set", "topology.kind=cluster", "--format", "json"];
    for (lock, code, verdict) in
        [("get-del-release", 1, Outcome::Violated), ("single", 0, Outcome::Held)]
    {
        let run = ["--scenario", "expiry-race", "--lock", lock, "--seed", "1"];
        // On a busy machine the fault may find nobody, and the run shows nothing.
        let mut tries = (0..TRIES).map(|_| room.run(&[&run[..], &on_cluster].concat()));
        let shown = |said: &Said| said.code != Some(3);
        let said = tries.find(shown).expect("one of them shows something").ended(code);
        let result: RunResult = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(result.verdict, verdict, "{lock}");
        assert!(result.stats.acquisitions.ok > 1, "{lock}");
    }
    room.is_left_clean();
}
