//! What a scenario stages, staged on real sockets in real time: the same stories come out.
//!
//! Each pair is a run of its own; they run side by side, for clients mostly wait. A machine that is busy
//! can keep a promise of progress waiting, so of progress only what is surely broken is compared.

use std::sync::Arc;

use scenarios::checker;
use scenarios::fault::Fault;
use scenarios::history::{History, What};
use scenarios::matrix::Pair;
use scenarios::verdict::{Level, Outcome, worst};
use sim::live::fleet::Fleet;
use sim::live::run::{Gauge, Order, run};
use sim::live::target::{Choice, KeySpace, Settings};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Which pairs, and the fault that each stages; none where it stages none.
const PAIRS: [(&str, &str, Option<Fault>); 19] = [
    ("check-then-create", "exists-then-set", Some(Fault::Pause)),
    ("check-then-create", "single", Some(Fault::Pause)),
    ("clock-skew", "getset-timestamp", Some(Fault::ClockStep)),
    ("clock-skew", "single", Some(Fault::ClockStep)),
    ("crash-holder", "no-ttl", Some(Fault::Crash)),
    ("crash-holder", "single", Some(Fault::Crash)),
    ("expiry-race", "get-del-release", Some(Fault::Pause)),
    ("expiry-race", "single", Some(Fault::Pause)),
    ("gc-pause", "del-release", Some(Fault::Pause)),
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

async fn history(scenario: &str, lock: &str) -> History {
    let scenario = Pair::scenario(scenario, lock).unwrap();
    assert_eq!(scenario.only_virtual(), None);
    let keys = KeySpace::of_run(&format!("{}-{lock}", scenario.name));
    let settings = Settings { software: scenario.software(), ..Settings::default() };
    let fleet = Fleet::open(Choice::Embedded, keys, &settings, &scenario).await.unwrap();
    let order = Order { scenario: &scenario, seed: 1, world: "embedded" };
    let (_interrupt, interrupted) = watch::channel(false);
    let run = run(&fleet, order, &Gauge::default(), interrupted).await.unwrap();
    fleet.close().await;
    assert_eq!(run.cut_short, None, "{} {lock}", scenario.name);
    run.history
}

#[tokio::test(flavor = "multi_thread")]
async fn every_story_comes_out_as_in_the_virtual_world() {
    let mut runs = JoinSet::new();
    let at_once = Arc::new(tokio::sync::Semaphore::new(6));
    for (scenario, lock, fault) in PAIRS {
        let at_once = Arc::clone(&at_once);
        runs.spawn(async move {
            let _place = at_once.acquire().await;
            (scenario, lock, fault, history(scenario, lock).await)
        });
    }
    while let Some(ended) = runs.join_next().await {
        let (scenario, lock, fault, history) = ended.unwrap();
        let struck: Vec<(Fault, bool, Option<u16>)> = history
            .events
            .iter()
            .filter_map(|event| match event.what {
                What::Fault { fault, in_hold, staged, .. } => Some((fault, in_hold, staged)),
                _ => None,
            })
            .collect();
        let of_hold = !matches!(scenario, "check-then-create" | "clock-skew");
        let expected: Vec<_> = fault.map(|it| (it, of_hold, Some(0))).into_iter().collect();
        let struck: Vec<_> = struck.into_iter().map(|it| (it.0, it.1 && of_hold, it.2)).collect();
        assert_eq!(struck, expected, "{scenario} {lock}");
        let findings = checker::judge(&history, true);
        let told = Pair::scenario(scenario, lock).unwrap();
        for level in Level::ALL {
            let of_level = findings.iter().filter(|it| it.level == level);
            let found = worst(of_level.map(|it| it.verdict.outcome()));
            let claimed = told.expected(lock, level);
            let shown = format!("{scenario} {lock} {level:?}: {findings:#?}");
            if claimed == Outcome::Violated {
                assert_eq!(found, claimed, "{shown}");
            } else if level != Level::Progress {
                assert_ne!(found, Outcome::Violated, "{shown}");
            }
        }
    }
}
