//! Schedules in which servers run every script in Lua are those in which known scripts run natively, byte for byte.
//!
//! `PICKLOCK_LUA_PAIRS=all` compares every recipe in every scenario, as it is staged and as it is searched; the default
//! is a few of those that send scripts.

use std::sync::Arc;

use harness::partition::Partition;
use harness::sweep::{BatchProgress, SweepPlan, sweep};
use history::What;
use scenarios::catalog;
use scenarios::matrix::{Pair, locks};
use scenarios::scenario::Scenario;
use virtual_world::{Choices, Runner, VirtualWorld};

/// One for each way in which scripts are sent, meet faults, and are replicated.
const FEW: [(&str, &[&str]); 6] = [
    ("gc-pause", &["single", "single-watchdog", "notify", "fenced", "queue"]),
    ("lost-reply", &["single", "redlock", "queue", "notify", "evalsha-only"]),
    ("failover", &["redlock", "queue", "fenced"]),
    ("power-loss", &["single", "queue"]),
    ("script-flush", &["single", "queue", "evalsha-only"]),
    ("ghost-renewal", &["single-watchdog", "fenced"]),
];
const SEEDS: u64 = 5;
/// The same with many clients.
const CROWDED: u64 = 1;

fn forms<'a>(scenario: &'a Scenario, lock: &'a str) -> impl Iterator<Item = Scenario> + 'a {
    let staged = Pair::scenario(&scenario.name, lock);
    let searched = scenario.unsearchable().is_none().then(|| Pair::searched(&scenario.name, lock));
    [Some(staged), searched].into_iter().flatten().map(Result::unwrap)
}

fn pairs() -> Vec<Scenario> {
    let all = catalog::all().unwrap();
    if std::env::var("PICKLOCK_LUA_PAIRS").is_ok_and(|which| which == "all") {
        return all.iter().flat_map(|it| locks().flat_map(|lock| forms(it, lock))).collect();
    }
    let named = |name: &str| all.iter().find(|it| it.name == name).unwrap();
    let few = FEW.iter().flat_map(|(name, locks)| locks.iter().map(|lock| (named(name), *lock)));
    few.flat_map(|(scenario, lock)| forms(scenario, lock)).collect()
}

#[test]
fn a_sweep_is_the_same_whether_or_not_scripts_run_in_lua() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let pairs = pairs();
    assert!(pairs.len() >= 30);
    for scenario in pairs.into_iter().map(Arc::new) {
        let seeds = 0..if scenario.is_crowded() { CROWDED } else { SEEDS };
        let plan = SweepPlan { seeds, part: Partition::WHOLE, threads, keep: 3, digest: true };
        let found = |lua_only| {
            let world = || VirtualWorld::new(lua_only);
            sweep(world, &scenario, &plan, &BatchProgress::default()).unwrap()
        };
        let (lua, native) = (found(true), found(false));
        let searched = if scenario.swarm.searched { ", searched" } else { "" };
        assert_eq!(lua, native, "{} with {}{searched}", scenario.name, scenario.lock.recipe);
    }
}

#[test]
fn what_is_compared_by_default_sends_scripts() {
    for (name, locks) in FEW {
        for lock in locks {
            let mut runner = Runner::new(&Pair::scenario(name, lock).unwrap()).unwrap();
            runner.run(0, Choices::seeded(0));
            let sends = runner.journal().look(|history| {
                let name = |what| match what {
                    What::Command { name, .. } => history.texts.get(name),
                    _ => "",
                };
                history.events.iter().any(|event| name(event.what).starts_with("EVAL"))
            });
            assert!(sends, "{name} with {lock}");
        }
    }
}
