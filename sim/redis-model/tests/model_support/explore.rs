//! Sequences that are drawn from a seed, tried, and made short where they fail.

use std::cell::RefCell;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::commands::{Draw, sequences};
use super::templates::Place;

/// A number that the environment may say otherwise.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Tries so many sequences.
///
/// # Errors
/// The shortest sequence found that shows a difference, in words.
pub(crate) fn explore(
    templates: &'static [(&'static str, Place)],
    seed: u64,
    count: u64,
    mut compare: impl FnMut(&[Option<Draw>], u8) -> Result<(), String>,
) -> Result<(), String> {
    let config = Config {
        cases: u32::try_from(count).expect("fewer than 2^32 sequences"),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        // Where a reply is missing, each try takes as long as it is waited for.
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let compare = RefCell::new(&mut compare);
    let strategy = (sequences(templates), 2..=3_u8);
    let outcome = TestRunner::new_with_rng(config, rng).run(&strategy, |(draws, protocol)| {
        compare.borrow_mut()(&draws, protocol).map_err(TestCaseError::fail)
    });
    outcome.map_err(|error| match error {
        TestError::Fail(why, _) => format!("seed {seed}: {why}"),
        TestError::Abort(why) => why.to_string(),
    })
}

/// Numbers for so many random choices of each kind, from a seed.
pub(crate) fn draws(seed: u64) -> impl Iterator<Item = u16> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u16::try_from(state >> 48).expect("16 bits are left")
    })
}
