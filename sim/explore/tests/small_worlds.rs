//! Locks in small worlds: each flawed recipe is convicted, and the sound ones are exhausted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use explore::{
    Base, Bounds, Candidate, Counterexample, DRAWN, Explored, FoundSchedule, LastNumber, LastPart,
    SEED, SearchEnd, SearchFrontier, SearchPlan, Size, Violation, explain, search, shrink_staged,
};
use harness::sweep::BatchProgress;
use harness::world::{RunRequest, World as _};
use history::fault::{Fault, Whom};
use history::verdict::Level;
use scenarios::recipe;
use scenarios::scenario::{Overrides, Scenario, ScenarioFile, WorkloadPart};
use virtual_world::VirtualWorld;

const SMALLEST: Bounds = Bounds { clients: 2, rounds: 1, faults: 1 };

fn base(lock: &str) -> Base {
    Base::of_lock(lock, &mut VirtualWorld::default()).unwrap()
}

fn explored(base: &Base, bounds: Bounds, threads: usize) -> Explored {
    let plan = SearchPlan { bounds, threads, beyond: false };
    search(VirtualWorld::default, base, &plan, &BatchProgress::default(), |_| {}).unwrap()
}

/// What is found within these bounds, as small as it gets; the nearest level comes first.
fn counterexamples(base: &Base, bounds: Bounds) -> Vec<Counterexample> {
    let (explored, mut world) = (explored(base, bounds, 2), VirtualWorld::default());
    Counterexample::all(&mut world, base, &explored, "picklock explore").unwrap()
}

/// The nearest violation within these bounds.
fn nearest(base: &Base, bounds: Bounds) -> Counterexample {
    let all = counterexamples(base, bounds);
    all.into_iter().next().unwrap_or_else(|| panic!("{} holds", base.lock()))
}

#[test]
fn every_flawed_recipe_is_convicted_with_few_clients_faults_and_steps() {
    let convicted = |lock: &str| {
        let example = nearest(&base(lock), Bounds { clients: 3, rounds: 2, faults: 3 });
        let found = &example.found;
        let (clients, faults) = (found.candidate.size.clients, found.candidate.faults.len());
        assert!(clients <= 3 && faults <= 3, "{lock}: {found:?}");
        assert!((1..=10).contains(&example.steps()), "{lock}: {} steps", example.steps());
    };
    // What is found is made smaller on one thread.
    std::thread::scope(|scope| {
        for about in recipe::ALL.into_iter().filter(|about| about.flaw.is_some()) {
            scope.spawn(move || convicted(about.name));
        }
    });
}

#[test]
fn a_late_release_is_found_at_the_level_of_the_key_with_one_fault() {
    let example = nearest(&base("del-release"), SMALLEST);
    let found = &example.found;
    assert_eq!((found.violation.invariant, found.violation.level), ("ownership", Level::Key));
    assert_eq!(found.candidate.size, Size { clients: 2, rounds: 1 });
    assert_eq!(found.candidate.faults.len(), 1, "{found:?}");
    assert!(
        found.candidate.faults.iter().all(|it| it.kind != Fault::Crash),
        "who is dead deletes nothing"
    );
}

#[test]
fn a_violation_is_decided_by_its_fault_whatever_the_latencies() {
    let (base, mut world) = (base("del-release"), VirtualWorld::default());
    let found = nearest(&base, SMALLEST).found;
    let rows = explain(&mut world, &base, &found).unwrap();
    let [calm, struck] = rows[..] else {
        panic!("{rows:?}: a row without the fault, and one with it")
    };
    assert_eq!(calm, 0, "nothing goes wrong by itself");
    assert!(struck > DRAWN / 2, "{struck}: it does not hang on the latencies");
}

#[test]
fn what_needs_no_fault_is_found_without_one() {
    let example = nearest(&base("none"), SMALLEST);
    assert!(example.found.candidate.faults.is_empty(), "{:?}", example.found);
}

#[test]
fn a_counterexample_read_from_its_text_violates_the_same() {
    let base = base("get-del-release");
    let example = nearest(&base, SMALLEST);
    let written = ScenarioFile::read("x", "x.toml", &example.toml).unwrap();
    let read = written.with(&Overrides::default()).unwrap();
    assert_eq!(read, example.scenario);
    assert_eq!(read.name, "get-del-release-ownership", "its name is in it");
    let again = scenarios::matrix::Pair::form(&written, base.lock(), false);
    let again = std::sync::Arc::new(again.unwrap());
    let (shown, _) = harness::matrix::shown(&mut VirtualWorld::default(), &again, 1).unwrap();
    for (level, shown) in Level::ALL.into_iter().zip(shown) {
        assert_eq!(
            again.expected(base.lock(), level),
            shown,
            "{level:?}: it expects what it shows"
        );
    }
}

#[test]
fn each_invariant_is_shown_once_and_the_nearest_level_first() {
    let all = counterexamples(&base("fixed-value"), SMALLEST);
    let shown: Vec<_> = all.iter().map(|it| it.found.violation.clone()).collect();
    assert!(shown.len() > 1, "{shown:?}");
    assert!(shown.iter().map(|it| it.level).is_sorted(), "{shown:?}");
    for (nth, one) in shown.iter().enumerate() {
        assert!(!shown[..nth].iter().any(|other| other.is_of(one)), "{shown:?}");
    }
}

#[test]
fn shrinking_keeps_the_violation_and_leaves_out_what_it_does_not_need() {
    let base = base("fixed-value");
    let smallest = nearest(&base, SMALLEST).found;
    // The same in a larger world, with a fault more: a flush of scripts that nobody needs.
    let mut fault = smallest.candidate.faults[0].clone();
    let at = history::fault::Trigger { time: Some("1s".parse().unwrap()), ..Default::default() };
    (fault.kind, fault.on, fault.at) = (Fault::ScriptFlush, None, at);
    (fault.lasts, fault.until, fault.ways) = (None, None, None);
    let mut large = smallest.candidate.with(fault);
    large.size = Size { clients: 3, rounds: 2 };
    let large = FoundSchedule { candidate: large, violation: smallest.violation.clone() };
    let mut world = VirtualWorld::default();
    let shrunk = shrink_staged(&mut world, &base, &large).unwrap();
    assert_eq!(shrunk.candidate, smallest.candidate);
    assert_eq!(shrunk.violation, smallest.violation);
    let shown = Counterexample::of(&mut world, &base, shrunk, "picklock explore").unwrap();
    assert!(shown.witness().is_some());
}

#[test]
fn a_fault_that_nothing_needs_is_left_out_whomever_it_strikes() {
    let base = base("fixed-value");
    let smallest = nearest(&base, SMALLEST).found;
    let mut world = VirtualWorld::default();
    for client in [1, 2] {
        // A moment after all is over, of a client of the witness.
        let mut fault = smallest.candidate.faults[0].clone();
        let time = Some("100ms".parse().unwrap());
        fault.at = history::fault::Trigger { time, ..Default::default() };
        (fault.kind, fault.on) = (Fault::Pause, Some(Whom::Client(client)));
        (fault.lasts, fault.until, fault.ways) = (Some("1ms".parse().unwrap()), None, None);
        let candidate = smallest.candidate.with(fault);
        let run = world.run(&RunRequest::new(Arc::new(base.scenario(&candidate)), SEED)).unwrap();
        let all = Violation::all(&run.findings(), &candidate.faults);
        let violation = all.into_iter().find(|it| it.is_of(&smallest.violation)).unwrap();
        let large = FoundSchedule { candidate, violation };
        let shrunk = shrink_staged(&mut world, &base, &large).unwrap();
        assert_eq!(shrunk.candidate, smallest.candidate, "client {client}");
        assert_eq!(shrunk.violation, smallest.violation, "client {client}");
    }
}

#[test]
fn sound_recipes_are_exhausted() {
    for about in recipe::ALL.into_iter().filter(|about| about.is_sound()) {
        let explored = explored(&base(about.name), SMALLEST, 2);
        assert_eq!(explored.ended, SearchEnd::Exhausted, "{}: {:?}", about.name, explored.found);
        let tried: Vec<_> = explored.stages.iter().map(|it| (it.faults, it.is_whole)).collect();
        assert_eq!(tried, [(0, true), (1, true)]);
        assert_eq!(explored.stages[0].schedules, 1);
        let vacuous = explored.stages[1].vacuous;
        assert!(vacuous * 4 < explored.schedules(), "{}: places were come to", about.name);
    }
}

/// Every lock that expires fails there; without the flag nothing of it is staged.
#[test]
fn beyond_what_locks_assume_a_key_may_be_evicted() {
    let base = base("polling");
    let [within, beyond] = [false, true].map(|beyond| {
        let plan = SearchPlan { bounds: SMALLEST, threads: 2, beyond };
        let all = search(VirtualWorld::default, &base, &plan, &BatchProgress::default(), |_| {});
        let all = all.unwrap();
        let evicted =
            |it: &FoundSchedule| it.candidate.faults.iter().any(|it| it.kind == Fault::Evict);
        (all.schedules(), all.found.iter().any(evicted))
    });
    assert!(within.0 < beyond.0 && !within.1 && beyond.1, "{within:?}, {beyond:?}");
}

#[test]
fn what_is_found_does_not_depend_on_the_number_of_threads() {
    let base = base("polling");
    let shown = |threads| {
        let explored = explored(&base, Bounds { clients: 3, ..SMALLEST }, threads);
        let found =
            explored.found.into_iter().map(|it: FoundSchedule| (it.candidate, it.violation));
        (explored.stages, found.collect::<Vec<_>>())
    };
    let alone = shown(1);
    assert!(!alone.1.is_empty());
    assert!(shown(3) == alone);
}

#[test]
fn a_search_that_is_stopped_says_so() {
    let progress = BatchProgress::default();
    progress.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let plan = SearchPlan { bounds: SMALLEST, threads: 1, beyond: false };
    let explored =
        search(VirtualWorld::default, &base("single"), &plan, &progress, |_| {}).unwrap();
    assert_eq!((explored.ended, explored.schedules()), (SearchEnd::Stopped, 0));
}

/// What its renewals need is learnt by running it, and whether there are tokens for the resource to look at.
#[test]
fn a_small_world_has_what_the_recipe_does() {
    for (lock, renews, fences) in [
        ("single", false, false),
        ("fenced", false, true),
        ("single-watchdog", true, false),
        ("get-set-watchdog", true, false),
    ] {
        let small = base(lock).scenario(&Candidate::calm(Size { clients: 2, rounds: 1 }));
        let WorkloadPart::Register(register) = &small.workload else { panic!("{small:?}") };
        assert_eq!((register.hold > small.lock.ttl, register.fenced), (renews, fences), "{lock}");
    }
}

#[test]
fn a_scenario_gives_its_ttl_servers_and_workload_and_none_of_its_faults() {
    let text = scenarios::catalog::text("failover").unwrap();
    let overrides = Overrides { lock: Some("single".to_owned()), ..Overrides::default() };
    let scenario = Scenario::parse("failover", "failover.toml", text, &overrides).unwrap();
    let (servers, ttl) = (scenario.topology(), scenario.lock.ttl);
    let base = Base::of_scenario(scenario, &mut VirtualWorld::default()).unwrap();
    let calm = Candidate::calm(Size { clients: 2, rounds: 1 });
    let small = base.scenario(&calm);
    assert_eq!((small.topology(), small.lock.ttl, small.clients), (servers, ttl, 2));
    assert!(small.faults.is_empty() && small.swarm.kinds() == 0);
    let WorkloadPart::Register(register) = &small.workload else { panic!("{small:?}") };
    assert!(!register.fenced, "no tokens, no look at them");
}

#[test]
fn what_is_stopped_is_gone_on_with_at_the_first_parent_that_was_not_done_with() {
    let base = base("single");
    let plan = SearchPlan { bounds: Bounds { faults: 2, ..SMALLEST }, threads: 1, beyond: false };
    let calm = BatchProgress::default();
    let frontier =
        SearchFrontier::reach(&VirtualWorld::default, &base, &plan, &calm, &mut |_| {}).unwrap();
    let look = |parents, progress: &BatchProgress, stop_at: Option<LastNumber>| {
        let which = |number| {
            progress.stop.fetch_or(stop_at == Some(number), Ordering::Relaxed);
            true
        };
        let part = LastPart { parents, which, goes_on: true };
        let found =
            frontier.look(&VirtualWorld::default, &base, &plan, part, progress, |_| {}).unwrap();
        (found.next, found.stages.iter().map(|it| it.schedules).sum::<u64>())
    };
    let whole = look(0..3, &calm, None);
    assert_eq!(whole.0, 3);
    // Two parents are done with; of the third two schedules are tried, and not counted.
    let (next, first) = look(0..3, &BatchProgress::default(), Some((2, 2)));
    assert_eq!((next, look(0..2, &calm, None)), (2, (2, first)));
    assert_eq!(look(2..3, &calm, None).1 + first, whole.1);
}
