//! A sound recipe violates nothing, whatever the number of clients, the TTL and the latency, and whatever is drawn;
//! and what it does not promise is said with the assumption that it makes.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use history::verdict::{Finding, Level, Outcome, Verdict};
use scenarios::recipe;
use scenarios::scenario::{Overrides, Scenario, ScenarioError};
use scenarios::sweep::Sweep;
use virtual_world::{Choices, Runner};

/// The recipes of the library for one server.
const LOCKS: [&str; 6] = ["single", "single-watchdog", "native-cas", "notify", "queue", "fenced"];
const CLIENTS: [u32; 4] = [2, 10, 100, 1_000];
const TTLS: [&str; 4] = ["1ms", "100ms", "10s", "1h"];
const LATENCIES: [&str; 4] = ["0s", "1ms", "100ms", "5s"];
const SEEDS: u64 = 2;
/// A crowd takes as long as many schedules.
const CROWD: u32 = 100;

fn parse(name: &str, lock: &str, set: &[(&str, &str)]) -> Result<Scenario, ScenarioError> {
    let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let lock = Some(lock.to_owned());
    let overrides = Overrides { lock, searched: true, set, ..Overrides::default() };
    let text = scenarios::catalog::text(name).unwrap();
    Scenario::parse(name, &format!("{name}.toml"), text, &overrides)
}

/// The searched form of a shipped scenario with this lock, and more set.
fn scenario(name: &str, lock: &str, set: &[(&str, &str)]) -> Scenario {
    parse(name, lock, set).unwrap()
}

/// What some schedules show together, with all that was found in them.
fn sweep(runner: &mut Runner, seeds: u64) -> (Sweep, Vec<Finding>) {
    let (mut sweep, mut findings) = (Sweep::default(), Vec::new());
    for seed in 0..seeds {
        let facts = runner.run(seed, Choices::seeded(seed)).facts;
        runner.journal().look(|history| {
            sweep.add(seed, history, facts, 1);
            findings.extend(checkers::judge(history, true));
        });
    }
    (sweep, findings)
}

/// Any reply may be lost; what is asked is a second, whatever else is set. Nothing, where it is refused because
/// nobody could ever hold the lock.
fn at(lock: &str, clients: u32, ttl: &str, latency: &str) -> Option<Runner> {
    // Where no answer comes in time a client looks after each attempt for a whole TTL.
    let in_vain = latency == "5s";
    let retries = match clients {
        _ if in_vain => "1",
        CROWD.. => "10",
        _ => "60",
    };
    let clients = clients.to_string();
    let set = [
        ("clients", clients.as_str()),
        ("lock.ttl", ttl),
        ("lock.retries", retries),
        ("workload.register.rounds", if in_vain { "1" } else { "3" }),
        ("network.latency", latency),
        ("network.link", "[]"),
        ("available_within", "1s"),
        ("woken_within", "1s"),
    ];
    match parse("lost-reply", lock, &set) {
        Ok(scenario) => Runner::new(&scenario).ok(),
        Err(error) => {
            assert!(error.to_string().contains("no request is answered within"), "{error}");
            None
        }
    }
}

#[test]
fn nothing_is_violated_at_any_size_and_speed() {
    let mut all = Vec::new();
    // Each in turn, so that every pair of them comes up and a crowd does not last for minutes.
    let mut locks = LOCKS.into_iter().cycle();
    for ttl in TTLS {
        for latency in LATENCIES {
            // A crowd that cleans up for an hour each, or whose lock expires all the time, takes minutes.
            let clients = CLIENTS.into_iter().filter(|it| *it < CROWD || ttl == "10s");
            for clients in clients {
                let most = if clients > CROWD { 1 } else { LOCKS.len() };
                all.extend(locks.by_ref().take(most).map(|lock| (lock, clients, ttl, latency)));
            }
        }
    }
    let (next, refused) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
    let work = || {
        while let Some(&(lock, clients, ttl, latency)) = all.get(next.fetch_add(1, Relaxed)) {
            let Some(mut runner) = at(lock, clients, ttl, latency) else {
                refused.lock().unwrap().insert((ttl, latency));
                continue;
            };
            let seeds = if clients >= CROWD { 1 } else { SEEDS };
            let failing = sweep(&mut runner, seeds).0.failing;
            assert!(failing.is_empty(), "{lock}, {clients}, {ttl}, {latency}: {failing:?}");
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    // The drift allowance leaves nothing of a millisecond; elsewhere a round trip takes longer than the TTL.
    let expected = LATENCIES.map(|latency| ("1ms", latency)).into_iter();
    let expected = expected.chain([("100ms", "100ms"), ("100ms", "5s")]);
    assert_eq!(refused.into_inner().unwrap(), expected.collect());
}

/// Waiters far behind in a line must look before the length of the line is over: else one lost message
/// leaves the lock to nobody for as long.
#[test]
fn a_long_line_recovers_from_a_lost_handover() {
    let mut runner = Runner::new(&scenario("lost-reply", "queue", &[("clients", "60")])).unwrap();
    let (shown, findings) = sweep(&mut runner, 40);
    assert!(shown.failing.is_empty(), "{:?}", shown.failing);
    let availability = findings.iter().filter(|it| it.name == "availability");
    let (mut held, mut excused) = (0, 0);
    for finding in availability {
        match &finding.verdict {
            Verdict::NotApplicable(why) => {
                assert!(why.contains("drawn faults may strike again and again"), "{why}");
                excused += 1;
            }
            verdict => held += u64::from(verdict.outcome() == Outcome::Held),
        }
    }
    assert!(held > 0 && excused > 0, "both happen: {held}, {excused}");
}

/// All faults that no lock is asked to survive are left out: servers that forget, and clocks that step.
const FAULTS: [(&str, &str); 8] = [
    ("search.swarm.pause", r#"{ chance = 0.1, max = "2s" }"#),
    ("search.swarm.delay", r#"{ chance = 0.1, max = "2s" }"#),
    ("search.swarm.crash", "0.002"),
    ("search.swarm.lose_request", "0.02"),
    ("search.swarm.lose_reply", "0.02"),
    ("search.swarm.reset", "0.02"),
    ("search.swarm.drift_ppm", "2000"),
    ("search.swarm.script_flush", "true"),
];

#[test]
fn faults_beyond_what_a_lock_assumes_are_named_and_not_held_against_it() {
    let mut assumptions = 0;
    for lock in LOCKS {
        for latency in ["1ms", r#"{ min = "0s", max = "2s" }"#] {
            let set: Vec<_> = FAULTS.into_iter().chain([("network.latency", latency)]).collect();
            let mut runner = Runner::new(&scenario("slow-network", lock, &set)).unwrap();
            let (shown, findings) = sweep(&mut runner, 30);
            assert!(shown.failing.is_empty(), "{lock}, {latency}: {:?}", shown.failing);
            let effect = findings.iter().filter(|it| it.level == Level::Effect);
            assumptions += effect.filter(|it| names_the_assumption(&it.verdict)).count();
        }
    }
    assert!(assumptions > 0, "some write came late");
}

fn names_the_assumption(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Inconclusive(why) if why.contains("the lock assumes that no pause"))
}

/// The same faults in front of the recipes of the articles: each that is not excused by them is convicted still.
#[test]
fn a_flawed_recipe_is_excused_by_nothing() {
    let flawed = recipe::ALL.iter().filter(|about| about.flaw.is_some() && about.locks);
    let flawed: Vec<_> = flawed.map(|about| about.name).collect();
    let convicted = flawed.iter().filter(|lock| {
        let mut runner = Runner::new(&scenario("slow-network", lock, &FAULTS)).unwrap();
        !sweep(&mut runner, 30).0.failing.is_empty()
    });
    assert_eq!(convicted.count(), flawed.len());
}
