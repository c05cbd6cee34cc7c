//! Many schedules on many threads, one after the other: what is found depends on the seeds alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use checkers::{Checkers, judge};
use harness::partition::Partition;
use harness::sweep::BatchProgress;
use harness::{matrix, sweep};
use history::History;
use history::verdict::Level;
use scenarios::catalog;
use scenarios::matrix::{Pair, locks};
use scenarios::scenario::{Overrides, Scenario, ScenarioFile};
use scenarios::sweep::STUCK;
use virtual_world::{Choices, Runner, VirtualWorld};

/// So many schedules of each pair are judged in both ways.
const JUDGED: u64 = 3;

#[test]
fn a_sweep_does_not_depend_on_the_number_of_threads() {
    let text = catalog::text("bonus-pool").unwrap();
    for lock in ["single", "none"] {
        let overrides = Overrides { lock: Some(lock.to_owned()), ..Overrides::default() };
        let scenario = Scenario::parse("pool", "pool.toml", text, &overrides).unwrap();
        let scenario = Arc::new(scenario);
        let run = |order: &sweep::SweepPlan, progress: &BatchProgress| {
            sweep::sweep(VirtualWorld::default, &scenario, order, progress).unwrap()
        };
        let on = |threads| {
            let order = sweep::SweepPlan {
                seeds: 5..45,
                part: Partition::WHOLE,
                threads,
                keep: 3,
                digest: true,
            };
            let progress = BatchProgress::default();
            let found = run(&order, &progress);
            assert_eq!(progress.done.into_inner(), 40);
            found
        };
        let alone = on(1);
        assert_eq!(alone.schedules, 40);
        assert!(alone.digest.is_some());
        assert_eq!(on(2), alone);
        assert_eq!(on(7), alone);
        let seeds = u64::MAX - 2..u64::MAX;
        let last =
            sweep::SweepPlan { seeds, part: Partition::WHOLE, threads: 3, keep: 3, digest: false };
        assert_eq!(run(&last, &BatchProgress::default()).schedules, 2);
        assert_eq!(alone.failing.len(), if lock == "none" { 3 } else { 0 });
    }
}

#[test]
fn a_matrix_says_of_the_same_schedules_what_a_sweep_does() {
    // One schedule of the first pair is vacuous; two of the second leave an invariant open, though all others hold.
    let vacuous = Arc::new(Pair::scenario("switchover", "redlock-watchdog").unwrap());
    let open = Arc::new(Pair::searched("missed-wakeup", "get-set-watchdog").unwrap());
    for (scenario, seeds) in [(vacuous, 20..23), (open, 0..100)] {
        let order = sweep::SweepPlan {
            seeds: seeds.clone(),
            part: Partition::WHOLE,
            threads: 2,
            keep: 3,
            digest: false,
        };
        let progress = BatchProgress::default();
        let swept = sweep::sweep(VirtualWorld::default, &scenario, &order, &progress).unwrap();
        assert!(swept.invariants.iter().any(|it| it.vacuous > 0 || it.inconclusive > 0));
        let all = [Arc::clone(&scenario)];
        let pairs = matrix::pairs(VirtualWorld::default, &all, Some(&seeds), 2, &progress).unwrap();
        for cell in &pairs[0].cells {
            assert_eq!(cell.found, swept.level(cell.level), "{}: {:?}", scenario.name, cell.level);
        }
    }
}

/// The history of a schedule, as bytes.
fn written(scenario: &Scenario) -> Vec<u8> {
    let mut runner = Runner::new(scenario).unwrap();
    runner.run(2, Choices::seeded(2));
    as_bytes(&runner.journal().history())
}

fn as_bytes(history: &History) -> Vec<u8> {
    let mut bytes = Vec::new();
    history::write(history, &mut bytes).unwrap();
    bytes
}

/// This scenario with every recipe, staged and, where it can be, searched.
fn forms(name: &str, text: &str) -> impl Iterator<Item = Scenario> {
    let written = ScenarioFile::read(name, "a.toml", text).unwrap();
    let asked = locks().flat_map(|lock| [(lock, false), (lock, true)]);
    asked.filter_map(move |(lock, searched)| {
        let lock = Some(lock.to_owned());
        written.with(&Overrides { lock, searched, ..Overrides::default() }).ok()
    })
}

#[test]
fn a_schedule_is_the_same_alone_and_after_others() {
    let halves = catalog::ALL.split_at(catalog::ALL.len() / 2);
    std::thread::scope(|scope| {
        scope.spawn(|| are_the_same_alone_and_after_others(halves.0));
        are_the_same_alone_and_after_others(halves.1);
    });
}

fn are_the_same_alone_and_after_others(scenarios: &[(&str, &str)]) {
    for (name, text) in scenarios {
        // This thread has run whatever came before; each of the others has run nothing.
        for scenario in forms(name, text) {
            if scenario.clients > 20 {
                continue; // They take long, and show no more.
            }
            let after_others = written(&scenario);
            let alone =
                std::thread::scope(|scope| scope.spawn(|| written(&scenario)).join().unwrap());
            assert!(alone == after_others, "{name} with {}", scenario.lock.recipe);
        }
    }
}

#[test]
fn a_history_is_read_back_as_written_and_judged_alike_as_a_whole_and_event_by_event() {
    let (next, compared) = (AtomicUsize::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((name, text)) =
                    catalog::ALL.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    compared.fetch_add(are_judged_alike(name, text), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(compared.into_inner() > 4_000);
    assert_explained(STUCK, Level::Progress);
}

/// The book has a row and a section for each invariant.
fn assert_explained(name: &str, level: Level) {
    let section = match level {
        Level::Progress => {
            include_str!("../../../docs/progress.md").contains(&format!("\n## {name}\n"))
        }
        _ => include_str!("../../../docs/safety.md").contains(&format!("\n### {name}\n")),
    };
    let row = include_str!("../../../docs/verdicts.md").contains(&format!("\n| [`{name}`]("));
    assert!(section && row, "{name} is explained in docs: a row of verdicts.md, and a section");
}

/// Compares schedules of every recipe in this scenario, staged and searched; how many.
fn are_judged_alike(name: &str, text: &str) -> u64 {
    let mut compared = 0;
    for scenario in forms(name, text) {
        let mut runner = Runner::new(&scenario).unwrap();
        let seeds = if scenario.clients > 20 { 1 } else { JUDGED };
        for seed in 0..seeds {
            runner.run(seed, Choices::seeded(seed));
            let history = runner.journal().history();
            let mut checkers = Checkers::new(&history.head);
            history.events.iter().for_each(|event| checkers.see(event, &history.texts));
            let as_it_happens = checkers.finish(&history.texts, true);
            let recipe = &scenario.lock.recipe;
            let back = history::read(&as_bytes(&history)[..])
                .unwrap_or_else(|error| panic!("{name} with {recipe}, seed {seed}: {error}"));
            assert!(back == history, "{name} with {recipe}, seed {seed}: it reads back the same");
            let as_a_whole = judge(&back, true);
            assert_eq!(as_a_whole, as_it_happens, "{name} with {recipe}, seed {seed}");
            as_a_whole.iter().for_each(|it| assert_explained(it.name, it.level));
            compared += 1;
        }
    }
    compared
}

fn scenarios() -> Vec<Arc<Scenario>> {
    let pairs = [("crash-holder", "no-ttl"), ("crash-holder", "single"), ("bonus-pool", "none")];
    pairs.map(|(name, lock)| Arc::new(Pair::scenario(name, lock).unwrap())).into()
}

#[test]
fn a_matrix_does_not_depend_on_the_number_of_threads() {
    let progress = BatchProgress::default();
    let on = |threads| {
        let found =
            matrix::pairs(VirtualWorld::default, &scenarios(), Some(&(0..3)), threads, &progress);
        found.unwrap()
    };
    let alone = on(1);
    assert_eq!(alone[0].cells[3].runs.first_violated, Some(0));
    assert_eq!(alone[1].cells[3].runs.held, 3);
    assert_eq!(on(3), alone);
}

#[test]
fn a_pair_has_as_many_schedules_as_are_claimed_of_it() {
    let pair = |name, lock| Arc::new(Pair::scenario(name, lock).unwrap());
    let all = [
        (pair("crash-holder", "single"), 10),
        (pair("bonus-pool", "none"), 2),
        (pair("late-messages", "none"), 100),
        (pair("hanging-job", "polling"), 1),
        (pair("in-time", "polling"), 1),
    ];
    let scenarios: Vec<_> = all.iter().map(|(scenario, _)| Arc::clone(scenario)).collect();
    let progress = BatchProgress::default();
    let found = matrix::pairs(VirtualWorld::default, &scenarios, None, 2, &progress).unwrap();
    for (found, (_, schedules)) in found.iter().zip(all) {
        let runs = found.cells.iter().map(|cell| cell.runs.total());
        assert!(runs.eq([schedules; 4]), "{found:?}");
    }
}

#[test]
fn what_was_not_reached_says_so() {
    let progress = BatchProgress::default();
    progress.stop.store(true, Ordering::Relaxed);
    let found = matrix::pairs(VirtualWorld::default, &scenarios(), None, 2, &progress).unwrap();
    assert!(found.iter().all(|it| it.cells.is_empty() && it.not_run.is_some()));
}
