//! The lock and the workload run unchanged on a second environment, a bare single-threaded one.

mod bare_world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bare_world::BareEnv;
use history::verdict::{Level, Outcome};
use history::{History, Journal};
use picklock::env::Env;
use scenarios::judge::{Circumstances, judge};
use scenarios::recipe;
use scenarios::result::RunResult;
use scenarios::scenario::{Overrides, Scenario};
use scenarios::trial::{Naming, Trial};

const SEED: u64 = 7;
/// The commands by which recipes take the lock.
const TAKES: [&str; 2] = ["SET", "SETNX"];

fn bonus_pool(lock: &str, set: &[(&str, &str)]) -> Scenario {
    let text = scenarios::catalog::text("bonus-pool").unwrap();
    // The bare world has one server.
    let set = [&[("topology.kind", "standalone")], set].concat();
    let set = set.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let overrides = Overrides { lock: Some(lock.to_owned()), set, ..Overrides::default() };
    Scenario::parse("bonus-pool", "bonus-pool.toml", text, &overrides).unwrap()
}

/// Runs a scenario in the bare world.
fn history_of(scenario: &Scenario, seed: u64) -> History {
    let naming = Naming { world: "bare", seed, prefix: "{test}:", exact: true };
    let trial = Arc::new(Trial::<BareEnv>::new(scenario, naming, Journal::new).unwrap());
    let journal: Journal = trial.journal().clone();
    let clients = scenario.clients;
    bare_world::run(seed, async move {
        let run = BareEnv::new();
        trial.set_up(run.clone()).await.unwrap();
        let done = Arc::new(AtomicU32::new(0));
        for client in 1..=clients {
            let (trial, done, env) = (Arc::clone(&trial), Arc::clone(&done), BareEnv::new());
            run.spawn(async move {
                trial.client(env, client).await;
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        while done.load(Ordering::Relaxed) < clients {
            run.sleep(Duration::from_millis(1)).await;
        }
        trial.look_back(run).await.unwrap();
    });
    journal.history()
}

fn result_of(scenario: &Scenario) -> RunResult {
    let history = history_of(scenario, SEED);
    judge(&history, Circumstances { complete: true, ..Circumstances::default() })
}

#[test]
fn locks_hold_at_every_level_with_ten_winners() {
    for about in recipe::ALL {
        let lock = about.name;
        let scenario = bonus_pool(lock, &[]);
        if scenario.expectation(lock).unwrap().belief != Outcome::Held {
            continue;
        }
        let result = result_of(&scenario);
        for invariant in &result.invariants {
            // The articles' locks keep no validity that could be held to anything; one lock has tokens.
            let is_said = match invariant.name.as_str() {
                "lease-validity" => about.validity == recipe::Validity::Tracked,
                "rising-tokens" => lock == "fenced",
                // All come at once, so nobody surely comes behind another; no server answers with an error,
                // everybody gets what it is granted, no hold lasts until its renewal, and no work is given to the lock.
                "fairness" | "perseverance" | "fail-fast" | "given-back" | "renewal" => false,
                "deletion-tries" | "work-told" => false,
                _ => true,
            };
            let expected = if is_said { Outcome::Held } else { Outcome::NotApplicable };
            assert_eq!(invariant.verdict, expected, "{lock}: {invariant:?}");
        }
        assert_eq!(result.stats.winners, Some(10), "{lock}");
        assert_eq!(result.stats.acquisitions.invoked, 100, "{lock}");
        let tries: u64 = TAKES.iter().filter_map(|it| result.stats.commands.get(*it)).sum();
        // One to acquire, had nobody come in vain; by a script, where it is released by one, too.
        let scripts = result.stats.commands.get("EVALSHA").copied().unwrap_or_default();
        assert!(tries > 100 || scripts > 200, "{lock}: tried again: {tries}, {scripts}");
    }
}

#[test]
fn without_a_lock_prizes_are_won_twice() {
    let result = result_of(&bonus_pool("none", &[]));
    assert_eq!(result.level(Level::Key), Outcome::NotApplicable);
    assert_eq!(result.level(Level::Belief), Outcome::Violated);
    assert_eq!(result.level(Level::Effect), Outcome::Violated);
    let distinct = result.invariants.iter().find(|it| it.name == "distinct-prizes").unwrap();
    let witness = distinct.witness.as_ref().unwrap();
    assert!(witness.clients.len() == 2 && !witness.steps.is_empty(), "{witness:?}");
}

/// Work beyond the TTL: the articles' lock is broken at belief and effect; the library's knows that
/// its validity has ended, and takes nothing.
#[test]
fn work_beyond_the_ttl_breaks_the_articles_lock_and_not_the_librarys() {
    let long = [
        ("lock.ttl", "20ms"),
        ("workload.bonus_pool.hold", "60ms"),
        ("clients", "20"),
        ("lock.pause", "5ms"),
    ];
    let result = result_of(&bonus_pool("polling", &long));
    assert_eq!(result.level(Level::Key), Outcome::Held, "it compares before it deletes");
    assert_eq!(result.level(Level::Belief), Outcome::Violated);
    assert_eq!(result.level(Level::Effect), Outcome::Violated);
    let [single, watchdog] = ["single", "single-watchdog"].map(|lock| bonus_pool(lock, &long));
    let [single, watchdog] = [single, watchdog].map(|scenario| result_of(&scenario));
    for level in [Level::Key, Level::Belief, Level::Effect] {
        assert_eq!(single.level(level), Outcome::Held, "{single:?}");
        assert_eq!(watchdog.level(level), Outcome::Held, "{watchdog:?}");
    }
    // Nobody finishes in time, which says nothing of the lock.
    assert_eq!(single.level(Level::Progress), Outcome::Inconclusive);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let scenario = bonus_pool("single", &[]);
    let bytes = |seed| {
        let mut bytes = Vec::new();
        history::write(&history_of(&scenario, seed), &mut bytes).unwrap();
        bytes
    };
    assert_eq!(bytes(SEED), bytes(SEED));
    assert_ne!(bytes(SEED), bytes(SEED + 1));
}
