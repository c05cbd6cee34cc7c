//! Large scenarios: what a scenario asks for is no livelock.

use super::*;

/// Every client has done its work, and no budget was exceeded.
fn ends(set: &[(&str, &str)]) {
    let scenario = catalogued("gc-pause", "single", &[&[("fault", "[]")], set].concat());
    let mut runner = Runner::new(&scenario).unwrap();
    let schedule = runner.run(1, Choices::seeded(1));
    assert_eq!((schedule.livelock, schedule.stuck.len()), (None, 0), "{set:?}");
}

const LONG: (&str, &str) = ("lock.ttl", "1h");
const ONCE: (&str, &str) = ("workload.register.rounds", "1");
const NO_RETRIES: (&str, &str) = ("lock.retries", "0");
const LOCKSTEP: (&str, &str) = ("network.latency", "1ms");
const ONE: (&str, &str) = ("clients", "1");

#[test]
fn many_tasks_begin_at_one_instant() {
    let many = "20000";
    ends(&[ONE, ONCE, NO_RETRIES, LONG, LOCKSTEP, ("workload.register.tasks", many)]);
    ends(&[ONE, ONCE, NO_RETRIES, LONG, LOCKSTEP, ("workload.register.beside", many)]);
}

#[test]
fn work_has_many_steps() {
    let four = ("clients", "4");
    ends(&[four, ONCE, LONG, ("lock.retries", "1000"), ("workload.register.steps", "100000")]);
}

#[test]
fn who_begins_again_may_do_as_much_again() {
    let scenario = catalogued("gc-pause", "single", &[]);
    let mut budget = crate::budget::Budget::default();
    budget.reset(3);
    budget.grant(&scenario);
    let granted = |budget: &crate::budget::Budget| format!("{budget:?}");
    let once = granted(&budget);
    budget.begin_again();
    assert_ne!(granted(&budget), once);
}

#[test]
fn many_faults_are_planned_for_one_instant() {
    let many = "1000";
    let counts = [
        ("swarm.partitions", many),
        ("swarm.power_losses", many),
        ("swarm.server_crashes", many),
        ("swarm.server_stalls", many),
    ];
    ends(&[&counts[..], &[LOCKSTEP]].concat());
}
