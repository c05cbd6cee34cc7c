//! What counts as expected, and what does not.

use history::verdict::{Vacuous, Witness};

use super::*;
use crate::recipe::about;

const HELD: Outcome = Outcome::Held;
const OPEN: Outcome = Outcome::Inconclusive;
const BROKEN: Outcome = Outcome::Violated;
const NOTHING: Outcome = Outcome::NotApplicable;

fn tally(outcomes: &[Outcome]) -> VerdictCounts {
    let mut tally = VerdictCounts::default();
    for (seed, outcome) in (5..).zip(outcomes) {
        tally.add(seed, *outcome);
    }
    tally
}

fn standing(expected: Outcome, found: &[Outcome], lock: &str, searched: bool) -> Conformance {
    Cell::of(Level::Key, expected, tally(found), about(lock).unwrap(), searched).standing
}

#[test]
fn a_staged_story_shows_the_same_every_time() {
    let staged = |expected, found: &[Outcome]| standing(expected, found, "single", false);
    for outcome in [HELD, BROKEN, OPEN] {
        assert_eq!(staged(outcome, &[outcome, outcome]), Conformance::AsExpected);
    }
    assert_eq!(staged(HELD, &[HELD, BROKEN]), Conformance::Different);
    assert_eq!(staged(BROKEN, &[HELD, BROKEN]), Conformance::Different);
    assert_eq!(staged(HELD, &[HELD, OPEN]), Conformance::Vacuous);
    assert_eq!(staged(BROKEN, &[OPEN, OPEN]), Conformance::Vacuous);
    assert_eq!(staged(BROKEN, &[HELD, OPEN]), Conformance::Different);
    assert_eq!(staged(OPEN, &[HELD, HELD]), Conformance::Different);
    assert_eq!(staged(HELD, &[]), Conformance::Different, "nothing was run");
}

#[test]
fn a_few_runs_that_show_nothing_leave_it_to_the_others() {
    let vacuous = |verdict: Verdict, others: u64, vacuous: u64, expected, searched| {
        let finding = |verdict| [Finding { name: "ownership", level: Level::Key, verdict }];
        let all = (0..others).map(|_| verdict.clone());
        let all = all.chain((0..vacuous).map(|_| Verdict::Vacuous(Vacuous::NobodyHeld)));
        let mut runs = VerdictCounts::default();
        (0..).zip(all).for_each(|(seed, it)| runs.add_run(seed, &finding(it), Level::Key));
        assert_eq!((runs.vacuous, runs.total()), (vacuous, others + vacuous));
        let cell = Cell::of(Level::Key, expected, runs, about("single").unwrap(), searched);
        (cell.found, cell.standing)
    };
    let violated = || Verdict::Violated(Witness::default());
    let open = || Verdict::Inconclusive(String::new());
    for searched in [false, true] {
        let held = |others, nothing| vacuous(Verdict::Held, others, nothing, HELD, searched);
        assert_eq!(held(59, 1), (HELD, Conformance::AsExpected));
        assert_eq!(held(2, 2), (HELD, Conformance::AsExpected));
        assert_eq!(held(2, 3), (OPEN, Conformance::Vacuous));
        assert_eq!(held(0, 3), (OPEN, Conformance::Vacuous));
        let open = |others, nothing| vacuous(open(), others, nothing, HELD, searched);
        assert_eq!(open(1, 1), (OPEN, Conformance::Vacuous));
    }
    let staged = |others, nothing| vacuous(violated(), others, nothing, BROKEN, false);
    assert_eq!(staged(2, 2), (BROKEN, Conformance::AsExpected));
    assert_eq!(staged(1, 2), (BROKEN, Conformance::Different));
    let open = |others, nothing| vacuous(Verdict::Held, others, nothing, OPEN, false);
    assert_eq!(open(0, 3), (OPEN, Conformance::AsExpected));
    assert_eq!(open(1, 3), (OPEN, Conformance::Vacuous), "each run has to be open");
}

#[test]
fn what_is_searched_for_is_found_some_time() {
    let searched = |expected, found: &[Outcome]| standing(expected, found, "single", true);
    assert_eq!(searched(BROKEN, &[HELD, OPEN, BROKEN]), Conformance::AsExpected);
    assert_eq!(searched(BROKEN, &[HELD, OPEN]), Conformance::Different);
    assert_eq!(searched(HELD, &[HELD, NOTHING]), Conformance::AsExpected);
    assert_eq!(searched(HELD, &[HELD, OPEN]), Conformance::Vacuous, "it may hide a violation");
    assert_eq!(searched(HELD, &[HELD, BROKEN]), Conformance::Different);
    assert_eq!(searched(HELD, &[OPEN, OPEN]), Conformance::Vacuous);
}

#[test]
fn of_a_flawed_recipe_nothing_may_be_claimed_and_of_a_sound_one_nothing_may_be_found_then() {
    for found in [HELD, BROKEN, OPEN, NOTHING] {
        assert_eq!(standing(NOTHING, &[found], "polling", false), Conformance::Unclaimed);
    }
    assert_eq!(standing(NOTHING, &[NOTHING], "single", false), Conformance::Unclaimed);
    assert_eq!(standing(NOTHING, &[BROKEN], "single", false), Conformance::Different);
    assert_eq!(standing(HELD, &[NOTHING], "polling", false), Conformance::Different);
}

#[test]
fn in_a_searched_form_progress_alone_may_be_left_open_of_a_sound_recipe() {
    let single = about("single").unwrap();
    for (level, searched, stands) in [
        (Level::Progress, true, Conformance::Unclaimed),
        (Level::Progress, false, Conformance::Different),
        (Level::Key, true, Conformance::Different),
        (Level::Belief, true, Conformance::Different),
        (Level::Effect, true, Conformance::Different),
    ] {
        let cell = Cell::of(level, NOTHING, tally(&[HELD, BROKEN]), single, searched);
        assert_eq!(cell.standing, stands, "{level:?} {searched}");
    }
}

#[test]
fn where_nothing_is_claimed_of_a_pair_no_run_changes_that() {
    let mut unclaimed = 0;
    for (name, _) in catalog::ALL {
        for lock in locks() {
            let scenario = Pair::scenario(name, lock).unwrap();
            let stands = [HELD, BROKEN, OPEN, NOTHING]
                .map(|found| Pair::found(&scenario, [tally(&[found]); 4]).standing().unwrap());
            let is_unclaimed = stands.iter().all(|it| *it == Conformance::Unclaimed);
            assert_eq!(Pair::is_unclaimed(&scenario), is_unclaimed, "{name} with {lock}");
            unclaimed += usize::from(is_unclaimed);
        }
    }
    assert!(unclaimed > 0);
    // Who expects nothing yet wants to see what there is.
    let mut own = Pair::scenario("in-time", "polling").unwrap();
    assert!(Pair::is_unclaimed(&own));
    own.expect.clear();
    assert!(!Pair::is_unclaimed(&own));
}

#[test]
fn tallies_keep_the_first_seed_that_violated() {
    let found = tally(&[HELD, BROKEN, OPEN, BROKEN, NOTHING]);
    assert_eq!(found.total(), 5);
    assert_eq!(
        (found.held, found.violated, found.inconclusive, found.not_applicable),
        (1, 2, 1, 1)
    );
    assert_eq!(found.first_violated, Some(6));
}

fn pair(lock: &str, key: Outcome) -> Pair {
    let scenario = Pair::scenario("gc-pause", lock).unwrap();
    let expected = |level| scenario.expected(lock, level);
    let mut runs = Level::ALL.map(|level| tally(&[expected(level)]));
    runs[0] = tally(&[key]);
    Pair::found(&scenario, runs)
}

#[test]
fn the_seed_of_a_surprise_violates_what_was_expected_to_hold() {
    let scenario = Pair::scenario("gc-pause", "del-release").unwrap();
    let seed = |progress: &[Outcome]| {
        // One of the runs does not violate the key, though all should.
        let key = tally(&[BROKEN, HELD]);
        let runs = [key, tally(&[BROKEN; 2]), tally(&[BROKEN; 2]), tally(progress)];
        let pair = Pair::found(&scenario, runs);
        assert_eq!(pair.cells[0].standing, Conformance::Different);
        pair.first_unexpected()
    };
    assert_eq!(seed(&[HELD, BROKEN]), Some(6));
    assert_eq!(seed(&[HELD, HELD]), None, "no single run shows that another held");
}

#[test]
fn a_matrix_counts_its_cells_and_is_as_expected_only_when_all_are() {
    let good = Matrix::new("virtual", None, vec![pair("single", HELD)], false);
    assert_eq!(good.totals.as_expected, 4);
    assert!(good.is_as_expected());
    assert!(!Matrix::new("virtual", None, good.pairs, true).is_as_expected());
    assert!(!Matrix::new("virtual", None, Vec::new(), false).is_as_expected());
    for (key, count) in [(BROKEN, (1, 0)), (OPEN, (0, 1))] {
        let bad = Matrix::new("virtual", None, vec![pair("single", key)], false);
        assert_eq!((bad.totals.different, bad.totals.vacuous), count);
        assert!(!bad.is_as_expected());
    }
    let scenario = Pair::scenario("gc-pause", "single").unwrap();
    let left = Pair::not_run(&scenario, Some("a reason".to_owned()));
    let matrix = Matrix::new("redis", None, vec![pair("single", HELD), left], false);
    assert_eq!((matrix.totals.as_expected, matrix.totals.not_run), (4, 4));
    assert!(matrix.is_as_expected(), "what cannot be run here is counted, and said");
}

#[test]
fn recipes_that_show_the_same_for_the_same_reason_stand_together() {
    let pairs = ["single", "polling", "notify", "watch-multi"].map(|lock| pair(lock, HELD));
    let matrix = Matrix::new("virtual", None, pairs.into(), false);
    assert_eq!(matrix.scenarios(), ["gc-pause"]);
    let groups = matrix.groups("gc-pause");
    let names: Vec<Vec<&str>> =
        groups.iter().map(|group| group.iter().map(|it| it.lock.as_str()).collect()).collect();
    assert_eq!(names, [vec!["single", "notify"], vec!["polling", "watch-multi"]]);
}

#[test]
fn what_a_sweep_may_add_is_no_part_of_a_story_that_is_staged() {
    assert_eq!(Pair::scenario("bonus-pool", "single").unwrap().swarm, Swarm::default());
    assert!(Pair::scenario("late-messages", "single").unwrap().swarm.searched);
}
