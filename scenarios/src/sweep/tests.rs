//! Adding up schedules: whatever their order, and however many of them show nothing.

use history::verdict::Vacuous;
use history::{Event, Head};

use super::*;

fn history(in_holds: &[bool]) -> History {
    let mut history = History::new(Head { locks: true, ..Head::default() });
    for &in_hold in in_holds {
        let what =
            What::Fault { fault: Fault::Pause, node: None, for_ns: 1, in_hold, staged: None };
        history.events.push(Event { at_ns: 0, client: 1, acquisition: 0, op: 0, what });
    }
    history
}

#[test]
fn adding_up_does_not_depend_on_the_order() {
    let (stuck, fine) = (Facts { stuck: 1, ..Facts::default() }, Facts::default());
    let schedules = [
        (3, vec![true, false], stuck),
        (1, vec![], fine),
        (2, vec![false], stuck),
        (9, vec![true], stuck),
    ];
    let add = |order: &[usize]| {
        let mut sweep = Sweep::default();
        for &place in order {
            let (seed, holds, facts) = &schedules[place];
            let mut one = Sweep::default();
            one.add(*seed, &history(holds), *facts, 2);
            sweep.merge(one, 2);
        }
        sweep
    };
    let sweep = add(&[0, 1, 2, 3]);
    assert_eq!(sweep, add(&[3, 2, 1, 0]));
    assert_eq!((sweep.schedules, sweep.violations), (4, 3));
    assert_eq!(sweep.failing.keys().collect::<Vec<_>>(), [&2, &3], "the lowest two");
    let pause = sweep.coverage[&Fault::Pause];
    assert_eq!((pause.strikes, pause.in_hold), (4, 2));
    assert_eq!((pause.schedules, pause.schedules_in_hold), (3, 2));
    assert_eq!(sweep.met_hold, 2);
    let kind = FailureKind { schedules: 3, seed: 2, strikes: 1, levels: 1, invariants: 1 };
    assert_eq!(sweep.worst(9), [(STUCK, kind)], "the one with the fewest strikes, then the lowest");
    assert_eq!(sweep.worst(0), []);
    let struck = |schedules, stuck: Option<u64>| StruckSchedules {
        schedules,
        violated: stuck.map(|it| (STUCK.to_owned(), it)).into_iter().collect(),
    };
    let by = [("none".to_owned(), struck(1, None)), ("pause".to_owned(), struck(3, Some(3)))];
    assert_eq!(sweep.struck_by, BTreeMap::from(by));
    let nobody = VacuousSchedules { schedules: 4, seed: 1 };
    assert_eq!(sweep.vacuous[&Vacuous::NobodyHeld.what()], nobody, "the lowest seed");
    assert_eq!(sweep.level(Level::Progress), Outcome::Violated);
    assert_eq!(sweep.level(Level::Belief), Outcome::Inconclusive, "nobody held anything");
}

#[test]
fn a_livelock_violates_progress_and_leaves_the_rest_open() {
    let of = |livelock| {
        let mut sweep = Sweep::default();
        sweep.add(4, &history(&[]), Facts { livelock, ..Facts::default() }, 1);
        sweep
    };
    let (ended, unended) = (of(false), of(true));
    assert_eq!(
        (ended.violations, ended.outcome(ended.invariants.last().unwrap())),
        (0, Outcome::Held)
    );
    assert_eq!(unended.failing[&4], [STUCK]);
    assert_eq!(unended.level(Level::Progress), Outcome::Violated);
}

fn counts(held: u64, violated: u64, inconclusive: u64, vacuous: u64) -> InvariantCounts {
    let none = InvariantCounts::new("it", Level::Key);
    InvariantCounts { held, violated, inconclusive, vacuous, not_applicable: 5, ..none }
}

#[test]
fn a_vacuous_schedule_takes_nothing_away_and_more_than_half_do() {
    assert_eq!(counts(999_999, 0, 0, 1).outcome(), Outcome::Held);
    assert_eq!(counts(2, 0, 0, 2).outcome(), Outcome::Held, "half of them show something");
    assert_eq!(counts(2, 0, 0, 3).outcome(), Outcome::Inconclusive);
    assert_eq!(counts(0, 0, 0, 1).outcome(), Outcome::Inconclusive);
    assert_eq!(counts(0, 1, 0, 9).outcome(), Outcome::Violated);
    assert_eq!(counts(9, 0, 1, 0).outcome(), Outcome::Inconclusive, "of another kind");
    assert_eq!(counts(0, 0, 0, 0).outcome(), Outcome::NotApplicable);
}

/// Two clients of which the second wants the lock while the first has it, or comes after it.
fn schedule(contends: bool) -> History {
    let mut history = History::new(Head { locks: true, ..Head::default() });
    let why = history.texts.intern("held by another");
    let asks_ns = if contends { 2 } else { 4 };
    let mut events = vec![
        (1, 1, What::Acquire),
        (1, 1, What::Acquired),
        (3, 1, What::Release),
        (asks_ns, 2, What::Acquire),
        (asks_ns, 2, What::NotAcquired(why)),
    ];
    events.sort_by_key(|(at_ns, ..)| *at_ns);
    for (at_ns, client, what) in events {
        history.events.push(Event { at_ns, client, acquisition: client, op: client, what });
    }
    history
}

#[test]
fn a_schedule_that_shows_nothing_is_counted_once_and_told_with_its_seed() {
    let mut sweep = Sweep::default();
    for (seed, contends) in [(9, true), (7, false), (3, true), (5, false), (4, true)] {
        sweep.add(seed, &schedule(contends), Facts::default(), 2);
    }
    let silent = VacuousSchedules { schedules: 2, seed: 5 };
    let what = Vacuous::NobodyContended.what();
    // No command was ever sent in any of them, which matters for the lock's key alone.
    let untouched = Vacuous::KeyUntouched.what();
    assert_eq!(sweep.vacuous[&what], silent);
    assert_eq!(sweep.vacuous[&untouched], VacuousSchedules { schedules: 3, seed: 3 });
    assert_eq!(sweep.level(Level::Belief), Outcome::Held, "three of five show something");
    assert_eq!(sweep.level(Level::Key), Outcome::Inconclusive, "none of five");
}

#[test]
fn of_an_interrupted_sweep_nothing_counts_as_held_and_a_violation_counts() {
    let mut sweep = Sweep { invariants: vec![counts(9, 0, 0, 0)], ..Sweep::default() };
    assert_eq!(sweep.verdict(), Outcome::Held);
    sweep.interrupted = true;
    assert_eq!(
        (sweep.verdict(), sweep.level(Level::Key)),
        (Outcome::Inconclusive, Outcome::Inconclusive)
    );
    sweep.invariants = vec![counts(9, 1, 0, 0)];
    assert_eq!(sweep.verdict(), Outcome::Violated);
    let none = Sweep { interrupted: true, ..Sweep::default() };
    assert_eq!(none.verdict(), Outcome::Inconclusive, "not one schedule was run");
}

#[test]
fn an_invariant_keeps_the_lowest_seed_that_violated_it() {
    let violated = Verdict::Violated(Witness::default());
    let of = |seeds: &[u64]| {
        let mut counts = InvariantCounts::new("it", Level::Key);
        seeds.iter().for_each(|seed| counts.count(*seed, &violated));
        Sweep { invariants: vec![counts], ..Sweep::default() }
    };
    let mut sweep = of(&[7, 5, 9]);
    assert_eq!(sweep.invariants[0].first_violated, Some(5));
    sweep.merge(of(&[]), 5);
    assert_eq!(sweep.invariants[0].first_violated, Some(5));
    sweep.merge(of(&[3]), 5);
    assert_eq!(sweep.invariants[0].first_violated, Some(3));
}
