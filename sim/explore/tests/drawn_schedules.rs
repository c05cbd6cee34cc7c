//! Schedules that were drawn: they are made smaller, and staged.

use std::sync::Arc;

use explore::{Counterexample, DrawnSchedule, Violation, shrink_drawn, shrink_staged, staged};
use harness::world::{ChoicePlan, RunRequest, World as _};
use history::fault::Fault;
use history::verdict::Level;
use scenarios::distribution::Distribution;
use scenarios::matrix::Pair;
use virtual_world::VirtualWorld;

/// The first seed of this searched scenario that violates something at this level, and what it violates.
fn failing(scenario: &str, lock: &str, level: Level) -> DrawnSchedule {
    let scenario = Arc::new(Pair::searched(scenario, lock).unwrap());
    let mut world = VirtualWorld::default();
    for seed in 0..400 {
        let request = RunRequest::new(Arc::clone(&scenario), seed);
        let run = world.run(&RunRequest { choices: ChoicePlan::Recorded, ..request }).unwrap();
        let violations = Violation::all(&run.findings(), &[]);
        if let Some(violation) = violations.into_iter().find(|it| it.level == level) {
            return DrawnSchedule { scenario, seed, choices: run.choices.into(), violation };
        }
    }
    panic!("no seed of {lock} in {} fails", scenario.name);
}

fn violates(world: &mut VirtualWorld, schedule: &DrawnSchedule) -> bool {
    let run = world.run(&schedule.request()).unwrap();
    Violation::all(&run.findings(), &[]).iter().any(|it| it.is_like(&schedule.violation))
}

#[test]
fn a_schedule_of_choices_gets_smaller_and_violates_the_same() {
    let mut world = VirtualWorld::default();
    for (scenario, lock) in [("gc-pause", "del-release"), ("lost-reply", "no-ttl")] {
        let level = if lock == "no-ttl" { Level::Progress } else { Level::Key };
        let whole = failing(scenario, lock, level);
        assert!(violates(&mut world, &whole), "{lock}");
        let small = shrink_drawn(&mut world, &whole, || false).unwrap();
        assert!(violates(&mut world, &small), "{lock}");
        assert!(
            small.scenario.clients < whole.scenario.clients,
            "{lock}: {}",
            small.scenario.clients
        );
        let counts = (small.harmful(), whole.harmful());
        assert!(counts.0 * 10 < counts.1, "{lock}: {counts:?} choices are not benign");
        assert_eq!(small.violation, whole.violation, "{lock}");
    }
}

#[test]
fn without_time_nothing_is_changed() {
    let mut world = VirtualWorld::default();
    let whole = failing("gc-pause", "del-release", Level::Key);
    let same = shrink_drawn(&mut world, &whole, || true).unwrap();
    assert_eq!((same.scenario.clients, same.seed), (whole.scenario.clients, whole.seed));
    assert_eq!(same.choices, whole.choices);
}

#[test]
fn drawn_faults_are_staged_where_they_struck() {
    let mut world = VirtualWorld::default();
    for (scenario, lock, level, kinds) in [
        ("gc-pause", "del-release", Level::Key, &[Fault::Pause][..]),
        ("gc-pause", "polling", Level::Belief, &[Fault::Pause]),
        (
            "lost-reply",
            "no-ttl",
            Level::Progress,
            &[Fault::LoseReply, Fault::LoseRequest, Fault::Reset],
        ),
        ("crash-holder", "no-ttl", Level::Progress, &[Fault::Crash]),
        // Its client gives up before the answer comes.
        ("client-restarts", "setnx-expire", Level::Progress, &[Fault::Crash]),
        // The server is there again at once.
        ("power-loss", "notify-no-recheck", Level::Belief, &[Fault::PowerLoss]),
        ("failover", "evalsha-only", Level::Belief, &[Fault::Failover]),
        // Its replica lags for a time that is drawn.
        ("failover", "polling", Level::Belief, &[Fault::Failover]),
    ] {
        let whole = failing(scenario, lock, level);
        let small = shrink_drawn(&mut world, &whole, || false).unwrap();
        let (base, found) =
            staged(&mut world, &small).unwrap().unwrap_or_else(|| panic!("{lock} in {scenario}"));
        assert!(found.violation.is_of(&whole.violation), "{lock} in {scenario}");
        let found = shrink_staged(&mut world, &base, &found).unwrap();
        let candidate = &found.candidate;
        assert!(candidate.size.clients <= 3, "{lock} in {scenario}: {candidate:?}");
        let found_kinds: Vec<Fault> = candidate.faults.iter().map(|it| it.kind).collect();
        assert!((1..=3).contains(&found_kinds.len()), "{lock} in {scenario}: {candidate:?}");
        let is_drawn = |it: &Fault| kinds.contains(it) || *it == Fault::Delay;
        assert!(found_kinds.iter().all(is_drawn), "{lock} in {scenario}: {found_kinds:?}");
        let all_staged = base.scenario(candidate);
        let lag = all_staged.topology.lag.clone();
        assert!(
            lag.is_none_or(|it| matches!(it, Distribution::Constant(_))),
            "{lock}: it is drawn"
        );
        let again = world.run(&RunRequest::new(Arc::new(all_staged), 99)).unwrap();
        let same = Violation::all(&again.findings(), &candidate.faults);
        assert!(same.contains(&found.violation), "{lock} in {scenario}: whatever the seed");
        let written = Counterexample::of(&mut world, &base, found, "picklock shrink");
        written.unwrap_or_else(|why| panic!("{lock} in {scenario}: {why}"));
    }
}
