//! A sound recipe violates nothing, whatever a scenario says of its lock, its clients' work and the faults.
//!
//! Invariant: only faults that every sound recipe survives are drawn: no server forgets, and no clock is set.

use std::fmt::Write as _;

use history::verdict::{Finding, Outcome};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use scenarios::scenario::{Overrides, Scenario};
use virtual_world::{Choices, Runner};

/// A key of a scenario, and what it may be; nothing where it is left out. What comes first is the simplest.
type Setting = (&'static str, &'static [&'static str]);

const LOCKS: &[&str] = &[
    "\"single\"",
    "\"single-watchdog\"",
    "\"native-cas\"",
    "\"notify\"",
    "\"queue\"",
    "\"fenced\"",
    "\"single-wait\"",
    "\"redlock\"",
    "\"redlock-watchdog\"",
];
const FLAG: &[&str] = &["", "", "", "true"];

const SECTIONS: &[(&str, &[Setting])] = &[
    (
        "lock",
        &[
            ("recipe", LOCKS),
            ("ttl", &["'1s'", "'100ms'", "'300ms'", "'2s'"]),
            ("retries", &["50", "5", "400"]),
            ("pause", &["'20ms'", "'5ms'", "'50ms'"]),
            ("jitter", &["'20ms'", "'1ms'", "'50ms'"]),
            ("deadline", &["", "", "", "'200ms'", "'500ms'", "'2s'"]),
            ("give_up", &["", "", "", "", "'300ms'", "'1s'"]),
            ("max_hold", &["", "", "", "'400ms'", "'3s'"]),
        ],
    ),
    (
        "workload.register",
        &[
            ("hold", &["'20ms'", "'1ms'", "'100ms'", "'500ms'", "'2s'"]),
            ("steps", &["", "", "3"]),
            ("rounds", &["2", "1", "4"]),
            ("tasks", &["", "", "", "2"]),
            ("beside", &["", "", "", "1"]),
            ("think", &["", "'20ms'"]),
            ("extends", FLAG),
            ("fresh", FLAG),
            ("stops", FLAG),
            ("protects", FLAG),
            (
                "drop",
                &[
                    "",
                    "",
                    "",
                    "{ guard = true }",
                    "{ every = 2, release = true }",
                    "{ after = '30ms' }",
                    "{ every = 2, after = '100ms', ends = true }",
                ],
            ),
        ],
    ),
    (
        "network",
        &[("latency", &["'1ms'", "{ min = '200us', max = '2ms' }", "{ min = '0s', max = '1ms' }"])],
    ),
    (
        "swarm",
        &[
            ("searched", &["true"]),
            ("order", &["true", "false"]),
            (
                "pause",
                &["", "", "{ chance = 0.01, max = '200ms' }", "{ chance = 0.05, max = '3s' }"],
            ),
            ("delay", &["", "{ chance = 0.02, max = '50ms' }", "{ chance = 0.1, max = '900ms' }"]),
            ("lose_request", &["", "0.01", "0.05"]),
            ("lose_reply", &["", "0.01", "0.05"]),
            ("reset", &["", "0.01", "0.05"]),
            ("refuse", &["", "0.01", "0.05"]),
            ("crash", &["", "", "0.002", "0.01"]),
            ("comes_back", &["", "'500ms'"]),
            ("partitions", &["", "", "1", "3"]),
            ("partition", &["'300ms'", "'3s'"]),
            ("server_stalls", &["", "", "1", "2"]),
            ("server_stall", &["'200ms'", "'2s'"]),
            ("drift_ppm", &["", "1000"]),
            ("script_flush", FLAG),
            ("within", &["'1s'", "'3s'"]),
        ],
    ),
];

/// How many settings there are, the clients included.
fn settings() -> usize {
    1 + SECTIONS.iter().map(|(_, settings)| settings.len()).sum::<usize>()
}

/// The scenario with these choices.
fn scenario(choices: &[u8]) -> String {
    let mut choices = choices.iter().map(|it| usize::from(*it));
    let mut choose = || choices.next().expect("a choice for each setting");
    let mut text =
        "title = 't'\nstory = 's'\nsource = 'none'\nproperties = ['mutual exclusion']\n".to_owned();
    let _ = writeln!(text, "clients = {}", 2 + choose() % 7);
    for (section, settings) in SECTIONS {
        let _ = writeln!(text, "[{section}]");
        for (key, values) in *settings {
            let value = values[choose() % values.len()];
            if !value.is_empty() {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
    }
    text
}

fn violated(scenario: &Scenario, seed: u64) -> Vec<Finding> {
    let mut runner = Runner::new(scenario).unwrap();
    runner.run(seed, Choices::seeded(seed));
    let mut findings = runner.journal().look(|history| checkers::judge(history, true));
    findings.retain(|it| it.verdict.outcome() == Outcome::Violated);
    findings
}

/// The same 2,000 scenarios in every run. `PROPTEST_CASES` asks for more, and `PROPTEST_RNG_SEED` for others.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let rng_seed = match asked.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        fixed => fixed,
    };
    let cases = asked.cases.max(2_000);
    // Some settings contradict each other, one choice in ten.
    let max_global_rejects = cases;
    ProptestConfig { cases, max_global_rejects, rng_seed, failure_persistence: None, ..asked }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_sound_recipe_violates_nothing(
        choices in prop::collection::vec(any::<u8>(), settings()),
        seed in 0..1_000_u64,
    ) {
        let text = scenario(&choices);
        let parsed = Scenario::parse("drawn", "drawn.toml", &text, &Overrides::default());
        prop_assume!(parsed.is_ok());
        let found = violated(&parsed.unwrap(), seed);
        prop_assert!(found.is_empty(), "seed {seed} of\n{text}\n{found:#?}");
    }
}
