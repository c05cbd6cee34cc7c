//! Pairs of scenario and lock in a live world, and whether they show what is claimed of them.

use std::sync::Arc;

use harness::world::{Run, RunRequest, World};
use history::fault::Fault;
use history::verdict::{Level, Outcome, Verdict, worst};
use history::{History, What};
use live_world::LiveWorld;
use live_world::endpoint::Choice;
use scenarios::matrix::Pair;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Runs these pairs, so many side by side, and looks at what each shows.
pub(crate) async fn play_all<T: Copy + Send + 'static>(
    choice: &Choice,
    at_once: usize,
    pairs: &[(&'static str, &'static str, T)],
    look: impl Fn(&str, &str, T, &Run),
) {
    let (mut runs, at_once) = (JoinSet::new(), Arc::new(Semaphore::new(at_once)));
    for (scenario, lock, expected) in pairs.iter().copied() {
        let (choice, at_once) = (choice.clone(), Arc::clone(&at_once));
        runs.spawn(async move {
            let _place = at_once.acquire().await;
            (scenario, lock, expected, play(choice, scenario, lock).await)
        });
    }
    while let Some(ended) = runs.join_next().await {
        let (scenario, lock, expected, run) = ended.unwrap();
        look(scenario, lock, expected, &run);
        shows_what_is_claimed(scenario, lock, &run.history);
    }
}

/// How often a run is tried while it shows nothing: on a busy machine a fault may miss what it was staged for.
pub(crate) const TRIES: usize = 3;

/// Runs a lock in a scenario, to the end.
async fn play(choice: Choice, scenario: &str, lock: &str) -> Run {
    let scenario = Arc::new(Pair::scenario(scenario, lock).unwrap());
    let (_interrupt, interrupted) = watch::channel(false);
    let world = LiveWorld::new(choice, Handle::current(), interrupted);
    let mut world = world.supervised_by(env!("CARGO_BIN_EXE_picklock").into());
    let request = RunRequest::new(Arc::clone(&scenario), 1);
    let run = move || {
        let mut run = world.run(&request).unwrap();
        for _ in 1..TRIES {
            if is_vacuous(&run) {
                run = world.run(&request).unwrap();
            }
        }
        run
    };
    let run = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!(run.cut_short, None, "{} {lock}", scenario.name);
    run
}

fn is_vacuous(run: &Run) -> bool {
    run.findings().iter().any(|it| matches!(it.verdict, Verdict::Vacuous(_)))
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
fn shows_what_is_claimed(scenario: &str, lock: &str, history: &History) {
    let findings = checkers::judge(history, true);
    let pair = Pair::scenario(scenario, lock).unwrap();
    for level in Level::ALL {
        let of_level = findings.iter().filter(|it| it.level == level);
        let found = worst(of_level.map(|it| it.verdict.outcome()));
        let claimed = pair.expected(lock, level);
        let shown = format!("{scenario} {lock} {level:?}: {findings:#?}");
        if claimed == Outcome::Violated {
            assert_eq!(found, claimed, "{shown}");
        } else if level != Level::Progress {
            assert_ne!(found, Outcome::Violated, "{shown}");
        }
    }
}
