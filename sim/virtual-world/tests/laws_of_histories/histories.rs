//! A history of every scenario with every lock, and what is done to it.
//!
//! Invariant: a change is the same each time.

use std::collections::BTreeMap;

use history::{Event, History, What};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use scenarios::catalog;
use scenarios::matrix::locks;
use scenarios::scenario::{Overrides, ScenarioFile};
use virtual_world::{Choices, Runner};

const SEED: u64 = 1;
/// Those with more take long, and show no more.
const CLIENTS_MOST: u32 = 20;

pub(crate) type Change = fn(&mut History, &mut Pcg64Mcg);

/// The same, changed.
pub(crate) fn changed(history: &History, change: Change) -> History {
    let mut history = history.clone();
    change(&mut history, &mut Pcg64Mcg::new(u128::from(SEED)));
    history
}

pub(crate) fn below(random: &mut Pcg64Mcg, most: usize) -> usize {
    usize::try_from(random.next_u32()).unwrap() % most
}

/// Looks at each, with the name of its run.
pub(crate) fn for_each(mut look: impl FnMut(&str, History)) {
    for (name, text) in catalog::ALL {
        let written = ScenarioFile::read(name, "a.toml", text).unwrap();
        for (lock, searched) in locks().flat_map(|lock| [(lock, false), (lock, true)]) {
            let lock = Some(lock.to_owned());
            let overrides = Overrides { lock, searched, ..Overrides::default() };
            let Ok(scenario) = written.with(&overrides) else { continue };
            if scenario.clients > CLIENTS_MOST {
                continue;
            }
            let mut runner = Runner::new(&scenario).unwrap();
            runner.run(SEED, Choices::seeded(SEED));
            let run = format!("{name}, {}, {searched}", scenario.lock.recipe);
            look(&run, runner.journal().history());
        }
    }
}

/// Numbers operations in the order in which they begin.
pub(crate) fn number_operations(events: &mut [Event]) {
    let mut numbers = BTreeMap::from([(0, 0)]);
    for it in events {
        let next = u32::try_from(numbers.len()).unwrap();
        it.op = *numbers.entry(it.op).or_insert(next);
        if let What::Answered { found, .. } = &mut it.what {
            *found = numbers[found];
        }
    }
}
