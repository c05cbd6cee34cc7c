//! The library's locks in surroundings that no scenario of the catalogue has yet: independent nodes,
//! replicas that must know, many rounds of handing over.

use history::verdict::{Level, Outcome};
use history::{History, What};
use scenarios::judge::{Circumstances, judge};
use scenarios::result::RunResult;
use scenarios::scenario::{Overrides, Scenario};
use virtual_world::{Choices, Runner};

const SWARM: &str = "[swarm]\norder = true\npause = { chance = 0.02, max = \"30ms\" }\n\
    crash = 0.002\ndelay = { chance = 0.02, max = \"30ms\" }\nlose_request = 0.005\n\
    lose_reply = 0.005\nreset = 0.005\npartitions = 2\npartition = \"100ms\"\ndrift_ppm = 1000\n\
    script_flush = true\nwithin = \"1s\"\n";

fn scenario(lock: &str, more: &str) -> Scenario {
    let text = format!(
        "title = \"t\"\nstory = \"s\"\nsource = \"s\"\nproperties = [\"no deadlock\"]\n\
         clients = 6\n\
         [lock]\nrecipe = \"{lock}\"\nttl = \"500ms\"\nretries = 400\npause = \"10ms\"\n\
         jitter = \"20ms\"\n\
         [workload.register]\nhold = \"5ms\"\nrounds = 4\nthink = \"10ms\"\n\
         [network]\nlatency = {{ min = \"200us\", max = \"2ms\" }}\n\
         {more}\
         [[expect]]\nlocks = [\"*\"]\nkey = \"held\"\nbelief = \"held\"\neffect = \"held\"\n\
         progress = \"held\"\nwhy = \"w\"\n"
    );
    Scenario::parse("survive", "survive.toml", &text, &Overrides::default()).unwrap()
}

fn judged(history: &History) -> RunResult {
    judge(history, Circumstances { complete: true, ..Circumstances::default() })
}

/// Runs so many schedules; no belief and no effect is ever broken, and nobody is stuck.
fn sweep(scenario: &Scenario, seeds: u64, mut look: impl FnMut(&History)) {
    let mut runner = Runner::new(scenario).unwrap();
    for seed in 0..seeds {
        let schedule = runner.run(seed, Choices::seeded(seed));
        assert_eq!(schedule.facts.stuck, 0, "seed {seed}");
        runner.journal().look(|history| {
            let result = judged(history);
            for level in [Level::Belief, Level::Effect] {
                assert_eq!(result.level(level), Outcome::Held, "seed {seed}: {result:#?}");
            }
            assert_ne!(result.level(Level::Key), Outcome::Violated, "seed {seed}: {result:#?}");
            look(history);
        });
    }
}

fn count(history: &History, what: impl Fn(&What) -> bool) -> usize {
    history.events.iter().filter(|event| what(&event.what)).count()
}

const FIVE: &str = "[topology]\nkind = \"independent\"\nnodes = 5\n";

#[test]
fn redlock_holds_under_the_swarm() {
    let mut faults = 0;
    sweep(&scenario("redlock", &format!("{FIVE}{SWARM}")), 60, |history| {
        faults += count(history, |what| matches!(what, What::Fault { .. }));
        assert!(count(history, |what| *what == What::Acquired) > 0);
    });
    assert!(faults > 0);
}

/// Two of five nodes die while the lock is held, and are back without memory long after.
#[test]
fn redlock_goes_on_with_a_minority_down_and_stands_still_without_a_quorum() {
    let dies = |server: u32| {
        format!(
            "[[fault]]\nkind = \"server-crash\"\non = \"server {server}\"\n\
             at = {{ phase = \"hold\", nth = 1 }}\nfor = \"5s\"\n"
        )
    };
    for (down, within_ns) in [(2, true), (3, false)] {
        let faults: String = (0..down).map(|nth| dies(2 * nth)).collect();
        sweep(&scenario("redlock", &format!("{FIVE}{faults}")), 5, |history| {
            let struck = count(history, |what| matches!(what, What::Fault { .. }));
            assert_eq!(struck, down as usize);
            let wrote = |event: &&history::Event| {
                matches!(event.what, What::Updated(_)) && event.at_ns < 4_000_000_000
            };
            let soon = history.events.iter().filter(wrote).count();
            assert_eq!(soon >= 24, within_ns, "{down} down: {soon} updates within 4 s");
            assert_eq!(count(history, |what| matches!(what, What::Updated(_))), 24, "in the end");
        });
    }
}

/// A lock on several servers is free again when a quorum of them has let go of it, and not when the first has.
#[test]
fn whether_a_lock_on_several_servers_is_free_is_asked_of_all_of_them() {
    let faults = "[[fault]]\nkind = \"server-crash\"\non = \"server 0\"\nat = { phase = \"hold\" }\n\
                  for = \"1ms\"\n[[fault]]\nkind = \"crash\"\non = \"holder\"\nat = { phase = \"hold\" }\n";
    let alone = Scenario { clients: 1, ..scenario("redlock", &format!("{FIVE}{faults}")) };
    let mut runner = Runner::new(&alone).unwrap();
    runner.run(1, Choices::listed(Vec::new()));
    runner.journal().look(|history| {
        let looks = history.events.iter().filter_map(|event| match event.what {
            What::Probe(pttl_ms) => Some(pttl_ms),
            _ => None,
        });
        let looks: Vec<i64> = looks.collect();
        assert!(
            looks.len() > 1 && looks[0] > 0,
            "four still have the dead client's key: {looks:?}"
        );
        assert_eq!(looks.last(), Some(&-2), "and let go of it");
    });
}

/// Both sides of what is allowed for clocks that run apart: a server whose clock jumps.
#[test]
fn a_step_within_the_allowance_is_harmless_and_one_beyond_it_is_not() {
    let text = scenarios::catalog::text("clock-step-allowed").unwrap();
    for lock in ["single", "redlock"] {
        for (by, belief) in [("20ms", Outcome::Held), ("40ms", Outcome::Violated)] {
            let step = if lock == "redlock" { "fault.2.by" } else { "fault.0.by" };
            let set = vec![(step.to_owned(), by.to_owned())];
            let lock = Some(lock.to_owned());
            let overrides = Overrides { lock, set, ..Overrides::default() };
            let scenario = Scenario::parse("step", "step.toml", text, &overrides).unwrap();
            let mut runner = Runner::new(&scenario).unwrap();
            for seed in 0..3 {
                runner.run(seed, Choices::seeded(seed));
                let found = runner.journal().look(|history| judged(history).level(Level::Belief));
                assert_eq!(found, belief, "{overrides:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_lock_that_is_handed_over_holds_under_the_swarm_round_after_round() {
    let mut acquired = 0;
    sweep(&scenario("queue", SWARM), 60, |history| {
        acquired += count(history, |what| *what == What::Acquired);
    });
    assert!(acquired > 60 * 12, "most rounds come to their end: {acquired}");
}

/// The replica that is promoted is the one that knew of the hold, so a lock that waited for it is not
/// granted twice.
#[test]
fn a_replica_that_acknowledged_keeps_the_lock_through_a_failover() {
    let failover = "[topology]\nkind = \"replicated\"\nreplicas = 1\n\
                    lag = { min = \"1ms\", max = \"4ms\" }\n\
                    [[fault]]\nkind = \"failover\"\nat = { phase = \"hold\" }\nfor = \"40ms\"\n";
    sweep(&scenario("single-wait", failover), 20, |history| {
        assert_eq!(count(history, |what| matches!(what, What::Fault { .. })), 1);
    });
}

#[test]
fn what_no_replica_acknowledges_is_not_claimed() {
    let slow = "[topology]\nkind = \"replicated\"\nreplicas = 1\nlag = \"10s\"\n";
    let mut runner = Runner::new(&scenario("single-wait", slow)).unwrap();
    runner.run(1, Choices::listed(Vec::new()));
    runner.journal().look(|history| {
        assert_eq!(count(history, |what| *what == What::Acquired), 0);
        let given_up = history.events.iter().any(|event| match event.what {
            What::NotAcquired(why) => history.texts.get(why).contains("acknowledged by 0"),
            _ => false,
        });
        assert!(given_up);
    });
}
