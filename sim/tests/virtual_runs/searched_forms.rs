//! The searched form of every scenario, with every recipe: what is claimed to be violated some seed finds,
//! and what is claimed to hold no seed breaks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use harness::matrix::shown;
use history::verdict::{Level, Outcome};
use scenarios::catalog;
use scenarios::matrix::{Pair, locks};
use scenarios::scenario::Scenario;
use virtual_world::VirtualWorld;

/// Every pair sees so many.
const LEAST: u64 = 10;
/// The same with many clients.
const CROWDED: u64 = 3;
/// What is claimed must be found by then; `matrix --searched` runs more.
const MOST: u64 = 400;

fn pairs() -> Vec<Scenario> {
    let all = catalog::all().unwrap();
    let searched = all.iter().filter(|it| it.unsearchable().is_none());
    let pairs =
        searched.flat_map(|it| locks().map(move |lock| Pair::searched(&it.name, lock).unwrap()));
    pairs.collect()
}

/// What its seeds show that is not as claimed: the fewest that find what there is to be found.
fn surprises(scenario: &Scenario) -> Vec<String> {
    let about = scenario.about_lock();
    let expected = Level::ALL.map(|level| scenario.expected(about.name, level));
    let least = if scenario.is_crowded() { CROWDED } else { LEAST };
    let (mut world, shared) = (VirtualWorld::default(), Arc::new(scenario.clone()));
    let mut missing: Vec<usize> =
        (0..Level::ALL.len()).filter(|at| expected[*at] == Outcome::Violated).collect();
    let mut surprises = Vec::new();
    let pair = format!("{} with {}", scenario.name, about.name);
    for seed in 0..MOST {
        if seed >= least && missing.is_empty() {
            break;
        }
        let (shown, _) = shown(&mut world, &shared, seed).unwrap();
        missing.retain(|at| shown[*at] != Outcome::Violated);
        for (at, level) in Level::ALL.into_iter().enumerate() {
            let wrong = match expected[at] {
                Outcome::Held | Outcome::Inconclusive => shown[at] == Outcome::Violated,
                Outcome::NotApplicable => {
                    about.flaw.is_none() && level != Level::Progress && shown[at] != expected[at]
                }
                Outcome::Violated => false,
            };
            if wrong {
                let (level, shown) = (level.name(), shown[at].name());
                surprises.push(format!("{pair}: {level} is {shown} with seed {seed}"));
            }
        }
    }
    let not_found = missing.iter().map(|at| Level::ALL[*at].name());
    surprises.extend(not_found.map(|level| format!("{pair}: {level} is violated by no seed")));
    surprises
}

#[test]
fn every_searched_form_shows_what_is_claimed() {
    let pairs = pairs();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(scenario) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Not in one line with the lock, which would be held meanwhile.
                    let surprises = surprises(scenario);
                    found.lock().unwrap().extend(surprises);
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
