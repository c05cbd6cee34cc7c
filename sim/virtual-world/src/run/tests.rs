//! Schedules: the same again, and what a world does to its clients.

use history::fault::Fault;
use history::verdict::{Level, Outcome, worst};
use history::{Event, History, What};
use scenarios::scenario::Overrides;

use super::*;

mod boundaries;
mod faults;
mod recipes;
mod register;
mod size;

const MS_NS: u64 = 1_000_000;

/// A scenario of the catalogue with this lock and these changes.
fn catalogued(name: &str, lock: &str, set: &[(&str, &str)]) -> Scenario {
    let text = scenarios::catalog::text(name).unwrap();
    let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let overrides = Overrides { lock: Some(lock.to_owned()), set, ..Overrides::default() };
    Scenario::parse(name, name, text, &overrides).unwrap()
}

/// The scenario in this text, with this lock.
fn parsed(text: &str, lock: Option<&str>) -> Scenario {
    let overrides = Overrides { lock: lock.map(str::to_owned), ..Overrides::default() };
    Scenario::parse("test", "test.toml", text, &overrides).unwrap()
}

fn scenario(lock: &str) -> Scenario {
    catalogued("bonus-pool", lock, &[])
}

fn history_of(scenario: &Scenario, seed: u64) -> History {
    let mut runner = Runner::new(scenario).unwrap();
    let schedule = runner.run(seed, Choices::seeded(seed));
    assert_eq!(schedule.facts.stuck, 0);
    runner.journal().history()
}

/// The schedule in which every choice is benign.
fn benign(scenario: &Scenario) -> (Schedule, History) {
    let mut runner = Runner::new(scenario).unwrap();
    let schedule = runner.run(1, Choices::default());
    assert_eq!(schedule.facts.stuck, 0);
    (schedule, runner.journal().history())
}

fn strikes(history: &History) -> Vec<Event> {
    let strikes = history.events.iter().filter(|it| matches!(it.what, What::Fault { .. }));
    strikes.copied().collect()
}

fn bytes(history: &History) -> Vec<u8> {
    let mut bytes = Vec::new();
    history::write(history, &mut bytes).unwrap();
    bytes
}

fn outcome(history: &History, level: Level) -> Outcome {
    let findings = checkers::check(history, true);
    worst(findings.iter().filter(|it| it.level == level).map(|it| it.verdict.outcome()))
}

#[test]
fn a_benign_schedule_has_ten_winners_and_no_fault() {
    for lock in scenarios::recipe::ALL.into_iter().map(|about| about.name) {
        let scenario = scenario(lock);
        let (_, history) = benign(&scenario);
        // What is violated in some schedules need not be in this one.
        let held = |level: &Level| scenario.expected(lock, *level) == Outcome::Held;
        for level in [Level::Key, Level::Belief, Level::Effect].into_iter().filter(held) {
            assert_eq!(outcome(&history, level), Outcome::Held, "{lock} {level:?}");
        }
        assert_eq!(strikes(&history), []);
    }
}

#[test]
fn sound_locks_hold_under_the_swarm_and_no_lock_does_not() {
    for (lock, expected) in [
        ("single", Outcome::Held),
        ("single-watchdog", Outcome::Held),
        ("polling", Outcome::Held),
        ("none", Outcome::Violated),
    ] {
        let mut runner = Runner::new(&scenario(lock)).unwrap();
        for seed in 0..100 {
            let schedule = runner.run(seed, Choices::seeded(seed));
            assert_eq!(schedule.facts.stuck, 0, "{lock} with seed {seed}");
            runner.journal().look(|history| {
                for level in [Level::Belief, Level::Effect] {
                    let found = checkers::check(history, true);
                    assert_eq!(outcome(history, level), expected, "{lock} {seed}: {found:#?}");
                }
            });
        }
    }
}

/// Whether the register was harmed, judged by its updates and its last value alone: two clients surely
/// wrote after they had read the same, or it has fewer steps than there surely were.
fn is_harmed(history: &History) -> bool {
    let mut reads = Vec::new();
    let mut left = 0;
    for event in &history.events {
        match event.what {
            What::Updated(update) => reads.push(update.read),
            What::RegisterLeft(value) => left = value,
            _ => {}
        }
    }
    let steps = i64::try_from(reads.len()).unwrap();
    reads.sort_unstable();
    left < steps || reads.windows(2).any(|pair| pair[0] == pair[1])
}

/// What every scenario claims of every recipe is tried by `sim/tests/virtual_runs/catalogue_page.rs`.
#[test]
fn harm_is_what_the_updates_and_the_end_say() {
    for (name, _) in scenarios::catalog::ALL {
        for lock in scenarios::matrix::locks() {
            let scenario = scenarios::matrix::Pair::scenario(name, lock).unwrap();
            if scenario.resource().is_none() {
                continue;
            }
            let mut runner = Runner::new(&scenario).unwrap();
            for seed in 0..2 {
                let schedule = runner.run(seed, Choices::seeded(seed));
                assert_eq!(schedule.facts.stuck, 0, "{name} {lock} {seed}");
                runner.journal().look(|history| {
                    // Tokens that go back do no harm by themselves.
                    let harmed = checkers::judge(history, true).iter().any(|it| {
                        it.level == Level::Effect
                            && it.name != "rising-tokens"
                            && it.verdict.outcome() == Outcome::Violated
                    });
                    assert_eq!(harmed, is_harmed(history), "{name} {lock} {seed}");
                });
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_bytes_whatever_ran_before_it() {
    let mut runner = Runner::new(&scenario("single")).unwrap();
    let mut first = Vec::new();
    for seed in 0..20 {
        let schedule = runner.run(seed, Choices::seeded(seed));
        first.push((schedule, runner.journal().look(bytes)));
    }
    for seed in (0..20_u64).rev() {
        // Another runner, in a world that has seen other schedules, in another thread.
        let expected = &first[usize::try_from(seed).unwrap()];
        let scenario = scenario("single");
        let again = std::thread::spawn(move || {
            let mut runner = Runner::new(&scenario).unwrap();
            runner.run(99, Choices::seeded(99));
            let schedule = runner.run(seed, Choices::seeded(seed));
            (schedule, runner.journal().look(bytes))
        });
        assert!(again.join().unwrap() == *expected, "seed {seed}");
        runner.run(seed, Choices::seeded(seed));
        assert!(runner.journal().look(bytes) == expected.1, "seed {seed} in a used world");
    }
}

#[test]
fn what_was_chosen_replays_the_schedule() {
    let mut runner = Runner::new(&scenario("single")).unwrap();
    for seed in 0..5 {
        let schedule = runner.run(seed, Choices::seeded(seed).recorded());
        let history = runner.journal().look(bytes);
        assert!(!schedule.taken.is_empty());
        runner.run(seed, Choices::listed(schedule.taken));
        assert!(runner.journal().look(bytes) == history, "seed {seed}");
    }
}

#[test]
fn a_links_own_latency_reaches_that_link_and_no_other() {
    let text = scenarios::catalog::text("bonus-pool").unwrap();
    let links = "latency = \"1ms\"\n[[network.link]]\nclients = \"3..5\"\nlatency = \"4ms\"\n";
    let text = text.replace("latency = { min = \"200us\", max = \"2ms\" }", links);
    let (_, history) = benign(&parsed(&text, None));
    let mut asked = std::collections::BTreeMap::new();
    let mut answered = [0; 101];
    for event in &history.events {
        match event.what {
            What::Command { .. } => drop(asked.insert(event.op, event.at_ns)),
            What::Answered { .. } => {
                let round_ms = if matches!(event.client, 3 | 4) { 8 } else { 2 };
                let took_ns = event.at_ns - asked[&event.op];
                assert_eq!(took_ns, round_ms * 1_000_000, "client {}", event.client);
                answered[event.client as usize] += 1;
            }
            _ => {}
        }
    }
    assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
}
