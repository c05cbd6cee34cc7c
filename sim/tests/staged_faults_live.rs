//! What a scenario stages, staged on real sockets in real time: the same stories come out.
//!
//! Each pair is a run of its own; they run side by side, for clients mostly wait.

mod live_support;

use history::fault::Fault;
use live_support::{play_all, struck};
use live_world::endpoint::Choice;

/// Which pairs, and the faults that each stages.
const PAIRS: [(&str, &str, &[Fault]); 26] = [
    ("check-then-create", "exists-then-set", &[Fault::Pause]),
    ("check-then-create", "single", &[Fault::Pause]),
    ("clock-skew", "getset-timestamp", &[Fault::ClockStep]),
    ("clock-skew", "single", &[Fault::ClockStep]),
    ("client-restarts", "del-release", &[Fault::Delay, Fault::Crash]),
    ("client-restarts", "single", &[Fault::Delay, Fault::Crash]),
    ("crash-holder", "no-ttl", &[Fault::Crash]),
    ("crash-holder", "single", &[Fault::Crash]),
    ("expiry-race", "get-del-release", &[Fault::Pause]),
    ("expiry-race", "native-cas", &[Fault::Pause]),
    ("gc-pause", "del-release", &[Fault::Pause]),
    ("gc-pause", "redlock", &[Fault::Pause]),
    ("gc-pause", "no-ttl", &[Fault::Pause]),
    ("gc-pause", "single", &[Fault::Pause]),
    ("holder-cut-off", "polling", &[Fault::Partition]),
    ("holder-cut-off", "single", &[Fault::Partition]),
    ("keys-flushed", "notify", &[Fault::Flush]),
    ("keys-flushed", "polling", &[Fault::Flush]),
    ("long-job", "polling", &[]),
    ("script-flush", "single", &[Fault::ScriptFlush]),
    ("server-stalls", "del-release", &[Fault::Stall]),
    ("server-stalls", "single", &[Fault::Stall]),
    ("slow-network", "del-release", &[Fault::Delay]),
    ("slow-network", "single", &[Fault::Delay]),
    ("stale-write", "fenced", &[Fault::Pause, Fault::Pause]),
    ("stale-write", "polling", &[Fault::Pause]),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_story_comes_out_as_in_the_virtual_world() {
    play_all(&Choice::Embedded, 6, &PAIRS, |scenario, lock, faults, run| {
        let of_hold = !matches!(scenario, "check-then-create" | "clock-skew" | "client-restarts");
        let expected = (0..).zip(faults).map(|(place, it)| (*it, of_hold, Some(place)));
        let expected: Vec<_> = expected.collect();
        let struck = struck(&run.history).into_iter();
        let struck: Vec<_> = struck.map(|it| (it.0, it.1 && of_hold, it.2)).collect();
        assert_eq!(struck, expected, "{scenario} {lock}");
    })
    .await;
}
