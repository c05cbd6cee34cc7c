//! Pairs of scenario and lock in a live world, and whether they show what is claimed of them.

use std::sync::Arc;

use harness::world::{Run, RunRequest, World};
use live_world::LiveWorld;
use live_world::endpoint::Choice;
use scenarios::checker;
use scenarios::fault::Fault;
use scenarios::history::{History, What};
use scenarios::matrix::Pair;
use scenarios::verdict::{Level, Outcome, worst};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Runs a lock in a scenario, to the end.
pub(crate) async fn play(choice: Choice, scenario: &str, lock: &str) -> Run {
    let scenario = Arc::new(Pair::scenario(scenario, lock).unwrap());
    let (_interrupt, interrupted) = watch::channel(false);
    let world = LiveWorld::new(choice, Handle::current(), interrupted);
    let mut world = world.supervised_by(env!("CARGO_BIN_EXE_picklock").into());
    let request = RunRequest::new(Arc::clone(&scenario), 1);
    let run = tokio::task::spawn_blocking(move || world.run(&request)).await.unwrap().unwrap();
    assert_eq!(run.cut_short, None, "{} {lock}", scenario.name);
    run
}

/// The faults of a history: which, whether it met a hold, and by which cue.
pub(crate) fn struck(history: &History) -> Vec<(Fault, bool, Option<u16>)> {
    let faults = history.events.iter().filter_map(|event| match event.what {
        What::Fault { fault, in_hold, staged, .. } => Some((fault, in_hold, staged)),
        _ => None,
    });
    faults.collect()
}

/// What is claimed of a pair is found. A machine that is busy can keep a promise of progress waiting, so of
/// progress only what is surely broken is compared.
#[track_caller]
pub(crate) fn shows_what_is_claimed(scenario: &str, lock: &str, history: &History) {
    let findings = checker::judge(history, true);
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
