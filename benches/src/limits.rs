//! How near a limit can be to what the sound locks need, in virtual time.
//!
//! Invariant: a limit is the most that any seed needed and a margin; where more seeds need ever more, there is none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use checkers::{Needs, needs};
use harness::world::{RunRequest, World};
use history::verdict::{Level, Outcome};
use scenarios::matrix::locks;
use scenarios::scenario::{Overrides, RecipeLimits, Scenario, ScenarioError};
use scenarios::span::Span;
use virtual_world::VirtualWorld;

/// A tenth of the seeds has to show nearly what all of them show.
const FIRST: u64 = 10;
/// By how much the rest may exceed that, in per cent.
const GROWTH_MOST: u64 = 10;
/// What grew so much from a tenth of the seeds to all may grow by this many halves of it with fifty times as many.
const GROWTH_HALVES: u64 = 5;
/// What is added to a time, in per cent; and a round trip.
const TIME_MARGIN: u64 = 25;
/// What is added to commands, in per cent; an average over all acquisitions varies less.
const COST_MARGIN: u64 = 5;
const MS_NS: u64 = 1_000_000;

/// The limits of every sound recipe of which a scenario claims progress, from so many seeds, on so many threads.
///
/// # Errors
/// Where the text is no scenario.
pub fn measure(
    name: &str,
    text: &str,
    seeds: u64,
    threads: usize,
) -> Result<BTreeMap<&'static str, RecipeLimits>, ScenarioError> {
    let mut found = BTreeMap::new();
    for lock in locks() {
        let overrides = Overrides { lock: Some(lock.to_owned()), ..Overrides::default() };
        let scenario = Scenario::parse(name, &format!("{name}.toml"), text, &overrides)?;
        let is_claimed = scenario.expected(lock, Level::Progress) == Outcome::Held;
        if scenario.about_lock().flaw.is_none() && scenario.about_lock().locks && is_claimed {
            let wide = RecipeLimits {
                available_within: scenario.available_within,
                woken_within: scenario.woken_within,
                commands_within: scenario.commands_within,
            };
            let limits = nearer(limits(&Arc::new(scenario), seeds, threads), wide);
            found.extend((limits != RecipeLimits::default()).then_some((lock, limits)));
        }
    }
    Ok(found)
}

/// Those that are nearer than what the scenario allows all.
fn nearer(limits: RecipeLimits, wide: RecipeLimits) -> RecipeLimits {
    fn least<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
        one.filter(|one| other.is_none_or(|other| *one < other))
    }
    RecipeLimits {
        available_within: least(limits.available_within, wide.available_within),
        woken_within: least(limits.woken_within, wide.woken_within),
        commands_within: least(limits.commands_within, wide.commands_within),
    }
}

/// The most that any of its seeds needed.
#[derive(Clone, Copy, Debug, Default)]
struct Most {
    /// Of the first seeds.
    first: u64,
    /// Of all.
    all: u64,
}

impl Most {
    fn see(&mut self, needed: u64, is_first: bool) {
        self.all = self.all.max(needed);
        if is_first {
            self.first = self.first.max(needed);
        }
    }

    /// With so many per cent more at least, and this; none where nothing was needed, or more seeds need ever more.
    fn with(self, percent: u64, more: u64) -> Option<u64> {
        let growth = ((self.all - self.first) * 100).checked_div(self.first)?;
        let percent = percent.max((growth + 1) * GROWTH_HALVES / 2);
        (growth < GROWTH_MOST).then(|| self.all * (100 + percent) / 100 + more)
    }
}

fn limits(scenario: &Arc<Scenario>, seeds: u64, threads: usize) -> RecipeLimits {
    let most = Mutex::new([Most::default(); 3]);
    std::thread::scope(|scope| {
        for first in (0..).take(threads) {
            let most = &most;
            scope.spawn(move || {
                let mut world = VirtualWorld::default();
                for seed in (first..seeds).step_by(threads) {
                    let run = world.run(&RunRequest::new(Arc::clone(scenario), seed));
                    let run = run.expect("the catalogue's recipes can be built");
                    let Needs { available_ns, woken_ns, commands_milli } = needs(&run.history);
                    world.recycle(run);
                    let mut most = most.lock().expect("no thread panics");
                    for (most, needed) in
                        most.iter_mut().zip([available_ns, woken_ns, commands_milli])
                    {
                        most.see(needed, seed < seeds / FIRST);
                    }
                }
            });
        }
    });
    let [available, woken, commands] = most.into_inner().expect("no thread panics");
    let round_ns = u64::try_from(scenario.slowest().as_nanos() * 2).unwrap_or(u64::MAX);
    // Whole milliseconds: nobody reads more.
    let time = |most: Most| {
        let ms = most.with(TIME_MARGIN, round_ns)?.div_ceil(MS_NS);
        Some(Span(Duration::from_millis(ms)))
    };
    RecipeLimits {
        available_within: time(available),
        woken_within: time(woken),
        // Tenths.
        commands_within: commands.with(COST_MARGIN, 0).map(|it| it.div_ceil(100) as f64 / 10.0),
    }
}

/// The text of a scenario's file with these limits in the place of those it has; at its end where it has none.
pub fn rewritten(text: &str, limits: &BTreeMap<&str, RecipeLimits>) -> String {
    let mut rows = String::from("[limits]\n");
    for (lock, it) in limits {
        let times = [("available_within", it.available_within), ("woken_within", it.woken_within)];
        let times = times.into_iter().filter_map(|(key, it)| Some(format!("{key} = \"{}\"", it?)));
        let commands = it.commands_within.map(|it| format!("commands_within = {it:?}"));
        let keys: Vec<String> = times.chain(commands).collect();
        rows += &format!("{lock} = {{ {} }}\n", keys.join(", "));
    }
    match text.find("[limits]\n") {
        None => format!("{text}\n{rows}"),
        Some(from) => {
            let until = text[from..].find("\n\n").map_or(text.len(), |end| from + end + 1);
            format!("{}{rows}{}", &text[..from], &text[until..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_added_to_the_most_unless_it_grows_on() {
        let most = |first, all| Most { first, all }.with(25, 7);
        assert_eq!(most(100, 100), Some(132));
        assert_eq!((most(100, 109), most(100, 110)), (Some(143), None));
        assert_eq!((most(0, 0), most(0, 9)), (None, None));
        let cost = |first, all| Most { first, all }.with(5, 0);
        assert_eq!((cost(1_000, 1_000), cost(1_000, 1_050)), (Some(1_050), Some(1_207)));
    }

    #[test]
    fn rows_take_the_place_of_rows() {
        let limits = |commands| {
            let commands_within = Some(commands);
            BTreeMap::from([(
                "single",
                RecipeLimits { commands_within, ..RecipeLimits::default() },
            )])
        };
        let first = rewritten("a = 1\n", &limits(2.5));
        assert_eq!(first, "a = 1\n\n[limits]\nsingle = { commands_within = 2.5 }\n");
        let again = rewritten(&format!("{first}\n[b]\n"), &limits(3.0));
        assert_eq!(again, "a = 1\n\n[limits]\nsingle = { commands_within = 3.0 }\n\n[b]\n");
    }
}
