//! What a scenario stages, staged on real sockets in real time: the same stories come out.
//!
//! Each pair is a run of its own; they run side by side, for clients mostly wait.

mod live_support;

use live_support::{play_all, struck};
use live_world::endpoint::Choice;
use scenarios::fault::Fault;

/// Which pairs, and the fault that each stages; none where it stages none.
const PAIRS: [(&str, &str, Option<Fault>); 20] = [
    ("check-then-create", "exists-then-set", Some(Fault::Pause)),
    ("check-then-create", "single", Some(Fault::Pause)),
    ("clock-skew", "getset-timestamp", Some(Fault::ClockStep)),
    ("clock-skew", "single", Some(Fault::ClockStep)),
    ("crash-holder", "no-ttl", Some(Fault::Crash)),
    ("crash-holder", "single", Some(Fault::Crash)),
    ("expiry-race", "get-del-release", Some(Fault::Pause)),
    ("expiry-race", "single", Some(Fault::Pause)),
    ("gc-pause", "del-release", Some(Fault::Pause)),
    ("gc-pause", "redlock", Some(Fault::Pause)),
    ("gc-pause", "no-ttl", Some(Fault::Pause)),
    ("gc-pause", "single", Some(Fault::Pause)),
    ("holder-cut-off", "polling", Some(Fault::Partition)),
    ("holder-cut-off", "single", Some(Fault::Partition)),
    ("long-job", "polling", None),
    ("script-flush", "single", Some(Fault::ScriptFlush)),
    ("slow-network", "del-release", Some(Fault::Delay)),
    ("slow-network", "single", Some(Fault::Delay)),
    ("stale-write", "fenced", Some(Fault::Pause)),
    ("stale-write", "polling", Some(Fault::Pause)),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_story_comes_out_as_in_the_virtual_world() {
    play_all(&Choice::Embedded, 6, &PAIRS, |scenario, lock, fault, run| {
        let of_hold = !matches!(scenario, "check-then-create" | "clock-skew");
        let expected: Vec<_> = fault.map(|it| (it, of_hold, Some(0))).into_iter().collect();
        let struck = struck(&run.history).into_iter();
        let struck: Vec<_> = struck.map(|it| (it.0, it.1 && of_hold, it.2)).collect();
        assert_eq!(struck, expected, "{scenario} {lock}");
    })
    .await;
}
