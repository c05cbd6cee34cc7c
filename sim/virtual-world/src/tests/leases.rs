//! The lease model of `tune` against the lock that is shipped, in this world: the same work, the same pauses,
//! and the shares of holds that go wrong must be the same.
//!
//! Invariant: nothing here computes what the lock does. What it says and what the server says are counted.

use std::sync::Mutex;

use harness::cues::Recovery;
use harness::injector::Injector;
use picklock::time::span_ns;
use picklock::{Options, Renewal, Single};

use super::*;
use ttl_model::law::{Law, Random};
use ttl_model::monte_carlo::shares;
use ttl_model::stat::{Interval, wilson};
use ttl_model::validate::{Measurements, Pausable};
use ttl_model::{Conditions, Setting};

const HOLDS: u32 = 6_000;
/// Before the rest of its messages, the client's way to the server and back.
const LATENCY: &str = "1ms";

fn law(text: &str) -> Law {
    Law::new(&text.parse().expect("a distribution"))
}

fn conditions(hold: &str, per_s: f64, pause: &str) -> Conditions {
    Conditions {
        hold: law(hold),
        round_trip: law("2ms"),
        pause: Some((per_s / 1e9, law(pause))),
        drift_ppm: 0,
        write_ns: 0,
    }
}

impl Pausable for VirtualEnv {
    async fn pause_for(&self, span: Duration) {
        with(|sim| {
            sim.pause_client(1, 0);
            sim.end_later(Recovery::Resume(1), span_ns(span));
        });
        // Goes on when the process does.
        self.sleep(Duration::from_nanos(1)).await;
    }
}

/// Has one client take the lock again and again, and counts.
fn played(conditions: &Conditions, setting: Setting, seed: u64) -> Measurements {
    let _world = world(2);
    network(LATENCY);
    let mut options = Options::builder(setting.ttl);
    if let Some(every) = setting.renew {
        options = options.renewal(Renewal { every, max_hold: None });
    }
    let options = options.build().expect("a setting that can be");
    let seen = Arc::new(Mutex::new(Measurements::default()));
    let (theirs, conditions) = (Arc::clone(&seen), conditions.clone());
    let env = VirtualEnv::of(1);
    task(1, async move {
        let lock = Single::new(env, Node(0), *b"k", options).expect("a key");
        let (mut random, mut played) = (Random::new(seed, 0), Measurements::default());
        for _ in 0..HOLDS {
            let held = played.hold(&env, &lock, &conditions, &mut random).await;
            held.expect("nobody else wants it");
        }
        theirs.lock().unwrap().merge(played);
    });
    drive(u64::MAX);
    let played = seen.lock().unwrap().clone();
    assert_eq!(played.holds(), u64::from(HOLDS));
    played
}

fn within(share: f64, Interval { low, high, .. }: Interval) -> bool {
    (low..=high).contains(&share)
}

/// The model's shares lie within what 6,000 holds of the shipped lock show them to be.
fn agree(conditions: &Conditions, ttl_ms: u32, renew_ms: Option<u32>, seed: u64) {
    let (ttl, renew) = (ttl_ms * MS, renew_ms.map(|it| it * MS));
    let setting = Setting { ttl, renew, tracked: true };
    let seen = played(conditions, setting, seed);
    let (lost, outlived) = shares(conditions, setting, 60_000, seed).expect("it can be");
    for (what, hits, share) in [("lost", seen.lost, lost), ("outlived", seen.outlived, outlived)] {
        // Something must be there to be compared, and something must be left over.
        assert!(hits > 100 && hits < u64::from(HOLDS) - 100, "{setting:?}: {hits} {what}");
        let shown = wilson(hits, u64::from(HOLDS));
        assert!(within(share, shown), "{setting:?}: {share} {what} is not in {shown:?}");
    }
}

#[test]
fn a_lease_that_is_not_renewed_goes_wrong_as_often_as_the_model_says() {
    let paused = conditions("lognormal:500ms,p99=5s", 0.5, "lognormal:300ms,p99=5s");
    agree(&paused, 1_000, None, 1);
    agree(&paused, 3_000, None, 2);
}

#[test]
fn a_lease_that_is_renewed_goes_wrong_as_often_as_the_model_says() {
    let paused = conditions("lognormal:3s,p99=20s", 0.3, "lognormal:300ms,p99=5s");
    agree(&paused, 1_000, Some(333), 3);
    agree(&paused, 2_000, Some(1_500), 4);
}

#[test]
fn a_model_of_another_lock_is_found_out() {
    let paused = conditions("lognormal:3s,p99=20s", 0.3, "lognormal:300ms,p99=5s");
    let setting =
        |renew_ms: u32| Setting { ttl: 1_000 * MS, renew: Some(renew_ms * MS), tracked: true };
    let seen = played(&paused, setting(333), 3);
    let (lost, _) = shares(&paused, setting(800), 20_000, 3).expect("it can be");
    assert!(!within(lost, wilson(seen.lost, u64::from(HOLDS))), "{lost} {}", seen.lost);
}
