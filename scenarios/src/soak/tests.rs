//! Turns, what is counted, and what convicts.

use std::collections::BTreeMap;

use history::verdict::Level;

use super::*;
use crate::matrix::Pair;
use crate::sweep::{InvariantCounts, VacuousSchedules};

fn searched(lock: &str) -> Scenario {
    Pair::searched("gc-pause", lock).unwrap()
}

/// Ten schedules, of which one violates this level.
fn found(violated: Option<(u64, Level)>) -> Sweep {
    let count = |(seed, level): (u64, Level)| InvariantCounts {
        name: format!("{}-invariant", level.name()),
        level,
        held: 9,
        violated: 1,
        inconclusive: 0,
        vacuous: 0,
        not_applicable: 0,
        first_violated: Some(seed),
    };
    Sweep {
        schedules: 10,
        met_hold: 4,
        vacuous: BTreeMap::from([(
            "nobody came".to_owned(),
            VacuousSchedules { schedules: 2, seed: 1 },
        )]),
        violations: u64::from(violated.is_some()),
        invariants: violated.map(count).into_iter().collect(),
        ..Sweep::default()
    }
}

#[test]
fn every_pair_has_a_turn_in_each_round_with_the_seeds_of_the_round() {
    let scenarios = [searched("single"), searched("redlock")];
    let mut soak = Soak::new(7, &scenarios);
    let turns: Vec<Turn> = (0..6).map(|_| soak.take(|_| false)).collect();
    let places: Vec<usize> = turns.iter().map(|it| it.place).collect();
    assert_eq!(places, [0, 1, 0, 1, 0, 1]);
    let first: BTreeSet<u64> = turns.iter().map(|it| it.seeds.start).collect();
    assert_eq!(first.len(), 3, "the pairs of a round share its seeds, and no two rounds do");
    assert!(turns.iter().all(|it| it.seeds.clone().count() == 10 && it.seeds.end < 1 << 53));
    let again: Vec<Turn> = {
        let mut soak = Soak::new(7, &scenarios);
        (0..6).map(|_| soak.take(|_| false)).collect()
    };
    assert_eq!(turns, again, "the base seed decides");
    assert_ne!(Soak::new(8, &scenarios).take(|_| false).seeds, turns[0].seeds);
    assert_eq!(Soak::new(7, &scenarios).take(|_| true).seeds.count(), 1);
    assert_eq!(Soak::new(7, &scenarios).take(|_| false).seeds.count(), 10);
}

#[test]
fn a_turn_that_was_left_is_run_again_and_counted_once() {
    let scenarios = [searched("single"), searched("redlock")];
    let mut soak = Soak::new(7, &scenarios);
    let [one, two, three] = std::array::from_fn(|_| soak.take(|_| false));
    soak.done(&two, &scenarios[1], found(None));
    // As it was saved while the first and the third were under way.
    let text = serde_json::to_string(&soak).unwrap();
    let mut resumed: Soak = serde_json::from_str(&text).unwrap();
    assert_eq!(resumed.take(|_| false), one);
    assert_eq!(resumed.take(|_| false), three);
    assert_eq!(resumed.take(|_| false).number, 3);
    resumed.done(&one, &scenarios[0], found(None));
    resumed.leave(&three);
    assert_eq!(resumed.take(|_| false), three, "it was given back");
    let counts = |place: usize| {
        let SoakedPair { schedules, met_hold, vacuous, .. } = resumed.pairs[place];
        (schedules, met_hold, vacuous)
    };
    assert_eq!([counts(0), counts(1)], [(10, 4, 2), (10, 4, 2)]);
    assert_eq!((resumed.whole.schedules, resumed.missing()), (20, 0));
    assert_eq!(resumed.verdict(), Outcome::Held);
}

#[test]
fn what_is_claimed_of_a_sound_recipe_and_all_of_a_flawed_one_convicts() {
    let of = |lock: &str, level: Level| convicted(&searched(lock), &found(Some((17, level))));
    let sound = searched("single");
    let claimed: Vec<Level> = Level::ALL
        .into_iter()
        .filter(|level| sound.expected("single", *level) == Outcome::Held)
        .collect();
    assert!(claimed.contains(&Level::Key) && claimed.contains(&Level::Belief));
    for level in claimed {
        assert_eq!(of("single", level), Some((17, level)), "{level:?}");
    }
    for level in Level::ALL {
        assert_eq!(of("del-release", level), Some((17, level)), "{level:?}");
    }
    assert_eq!(convicted(&sound, &found(None)), None);
}

#[test]
fn how_long_it_takes_where_faults_come_in_a_row_is_no_claim() {
    let mut scenario = searched("single");
    scenario.expect.iter_mut().for_each(|it| it.progress = Outcome::NotApplicable);
    assert_eq!(convicted(&scenario, &found(Some((1, Level::Progress)))), None);
    assert_eq!(convicted(&scenario, &found(Some((1, Level::Key)))), Some((1, Level::Key)));
    let mut soak = Soak::new(7, [&scenario]);
    for (level, expected) in [(Level::Progress, 1), (Level::Key, 1)] {
        let turn = soak.take(|_| false);
        soak.done(&turn, &scenario, found(Some((1, level))));
        assert_eq!(soak.pairs[0].expected, expected, "{level:?}");
    }
}

#[test]
fn the_first_conviction_stands_and_no_seed_is_kept_beside_it() {
    let scenarios = [searched("del-release")];
    let mut soak = Soak::new(7, &scenarios);
    let turn = soak.take(|_| false);
    assert_eq!(soak.verdict(), Outcome::Inconclusive, "nothing has been run");
    let mut violated = found(Some((17, Level::Key)));
    violated.failing.insert(17, vec!["key-invariant".to_owned()]);
    soak.done(&turn, &scenarios[0], violated);
    let turn = soak.take(|_| false);
    soak.done(&turn, &scenarios[0], found(Some((3, Level::Effect))));
    let conviction = soak.conviction.as_ref().unwrap();
    assert_eq!((conviction.seed, conviction.level), (17, Level::Key));
    assert_eq!(soak.verdict(), Outcome::Violated);
    assert!(soak.whole.failing.is_empty() && soak.whole.kinds.is_empty());
}
