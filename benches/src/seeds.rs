//! How many seeds it takes until a searched form convicts a flawed recipe.
//!
//! Invariant: what is counted is what the scenario claims of the recipe, level by level; each count begins
//! at seeds that no other has run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use harness::matrix::shown;
use history::verdict::{Level, Outcome};
use scenarios::catalog;
use scenarios::matrix::{Pair, locks};
use scenarios::scenario::{Scenario, ScenarioError};
use virtual_world::VirtualWorld;

/// A claim that a flawed recipe is violated at a level, and how many seeds each search took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The scenario's name.
    pub scenario: String,
    /// The recipe's name.
    pub lock: String,
    /// At which level.
    pub level: Level,
    /// How many seeds each search took, the convicting one included, in rising order; none for each that
    /// gave up, at the end.
    pub seeds: Vec<Option<u64>>,
}

/// How often and how long is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searches {
    /// How many times, each from seeds of its own.
    pub count: u64,
    /// After how many seeds a search gives up.
    pub most: u64,
}

impl Claim {
    /// How many seeds this share of all searches took at most, in percent; none where one gave up.
    ///
    /// # Panics
    /// Without a search.
    pub fn percentile(&self, percent: usize) -> Option<u64> {
        let last = self.seeds.len() - 1;
        self.seeds[(last * percent).div_ceil(100)]
    }
}

/// The levels at which this scenario claims that its recipe is violated.
fn claimed(scenario: &Scenario) -> Vec<Level> {
    let about = scenario.about_lock();
    let violated = |level: &Level| scenario.expected(about.name, *level) == Outcome::Violated;
    Level::ALL.into_iter().filter(|level| about.flaw.is_some() && violated(level)).collect()
}

/// The searched forms with a flawed recipe of which something is claimed, in the order of the catalogue.
///
/// # Errors
/// None, as long as the catalogue's files are right.
pub fn searchable() -> Result<Vec<Scenario>, ScenarioError> {
    let mut found = Vec::new();
    for scenario in catalog::all()?.iter().filter(|it| it.unsearchable().is_none()) {
        for lock in locks() {
            let scenario = Pair::searched(&scenario.name, lock)?;
            found.extend((!claimed(&scenario).is_empty()).then_some(scenario));
        }
    }
    Ok(found)
}

/// Searches all of these for all that is claimed of them, on so many threads.
pub fn measure(scenarios: &[Scenario], searches: Searches, threads: usize) -> Vec<Claim> {
    let (left, all) = (Mutex::new(scenarios.iter().enumerate()), Mutex::new(BTreeMap::new()));
    // A function, so that nobody searches with the mutex locked.
    let take = || left.lock().expect("no thread panics").next();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some((place, scenario)) = take() {
                    let claims = search(scenario, searches);
                    all.lock().expect("no thread panics").insert(place, claims);
                }
            });
        }
    });
    all.into_inner().expect("no thread panics").into_values().flatten().collect()
}

fn search(scenario: &Scenario, searches: Searches) -> Vec<Claim> {
    let levels = claimed(scenario);
    let (mut world, scenario) = (VirtualWorld::default(), Arc::new(scenario.clone()));
    let mut taken = vec![Vec::new(); levels.len()];
    for nth in 0..searches.count {
        let mut first = vec![None; levels.len()];
        for place in 0..searches.most {
            if first.iter().all(Option::is_some) {
                break;
            }
            let seed = nth * searches.most + place;
            let shown = shown(&mut world, &scenario, seed);
            let (shown, _) = shown.expect("the catalogue's recipes can be built");
            for (first, level) in first.iter_mut().zip(&levels) {
                let at = Level::ALL.iter().position(|it| it == level).unwrap_or(0);
                if first.is_none() && shown[at] == Outcome::Violated {
                    *first = Some(place + 1);
                }
            }
        }
        taken.iter_mut().zip(first).for_each(|(taken, first)| taken.push(first));
    }
    let claim = |(level, mut seeds): (Level, Vec<Option<u64>>)| {
        seeds.sort_by_key(|it| it.unwrap_or(u64::MAX));
        let (scenario, lock) = (scenario.name.clone(), scenario.lock.recipe.clone());
        Claim { scenario, lock, level, seeds }
    };
    levels.into_iter().zip(taken).map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_search_begins_at_seeds_of_its_own_and_ends_with_a_conviction() {
        let searches = Searches { count: 3, most: 40 };
        let scenario = Pair::searched("crash-holder", "no-ttl").unwrap();
        let found = measure(std::slice::from_ref(&scenario), searches, 2);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].level, found[0].seeds.len()), (Level::Progress, 3));
        let (mut world, scenario) = (VirtualWorld::default(), Arc::new(scenario));
        let mut taken = Vec::new();
        for nth in 0..3 {
            let is_violated =
                |seed: u64| shown(&mut world, &scenario, seed).unwrap().0[3] == Outcome::Violated;
            let first = (nth * 40..(nth + 1) * 40).position(is_violated);
            taken.push(first.map(|place| place as u64 + 1));
        }
        taken.sort_by_key(|it| it.unwrap_or(u64::MAX));
        assert_eq!(found[0].seeds, taken);
    }

    #[test]
    fn a_percentile_is_none_where_searches_gave_up() {
        let claim = |gave_up: usize| {
            let found = (1..=101 - gave_up as u64).map(Some);
            let seeds = found.chain(std::iter::repeat_n(None, gave_up)).collect();
            let (scenario, lock) = (String::new(), String::new());
            Claim { scenario, lock, level: Level::Key, seeds }
        };
        assert_eq!((claim(0).percentile(50), claim(0).percentile(90)), (Some(51), Some(91)));
        assert_eq!((claim(10).percentile(90), claim(11).percentile(90)), (Some(91), None));
        assert_eq!((claim(50).percentile(50), claim(51).percentile(50)), (Some(51), None));
    }
}
