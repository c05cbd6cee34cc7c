//! One run beside what its scenario expects of it.
//!
//! Invariant: it stands as the same cells of a matrix would; what one schedule of many does not show is no
//! surprise where faults are searched for. Deliberately absent: any effect on a verdict. What is expected
//! says how a scenario is to turn out, and not whether the lock is safe.

use history::verdict::{Level, Outcome};

use super::{Conformance, Pair, VerdictCounts};
use crate::scenario::Scenario;

/// What was expected beside what was found, in a line; nothing where the scenario expects nothing of
/// anybody. `is_sweep` says that many schedules were run.
pub fn remark(
    scenario: &Scenario,
    is_sweep: bool,
    found: impl Fn(Level) -> Outcome,
) -> Option<String> {
    if scenario.expect.is_empty() {
        return None;
    }
    let lock = &scenario.lock.recipe;
    if scenario.expectation(lock).is_none() {
        return Some(format!("no [[expect]] of {} names {lock}", scenario.name));
    }
    let runs = Level::ALL.map(|level| {
        let mut tally = VerdictCounts::default();
        tally.add(0, found(level));
        tally
    });
    let cells = Pair::found(scenario, runs).cells;
    let is_one_of_many = scenario.swarm.searched && !is_sweep;
    let differs: Vec<String> = cells
        .iter()
        .filter(|it| matches!(it.standing, Conformance::Different | Conformance::Vacuous))
        .filter(|it| !(is_one_of_many && it.expected == Outcome::Violated))
        .map(|it| {
            let (level, found, expected) = (it.level.name(), it.found.name(), it.expected.name());
            format!("{level} is {found}, and {expected} is expected")
        })
        .collect();
    let claims = || cells.iter().filter(|it| it.standing == Conformance::AsExpected);
    match () {
        () if !differs.is_empty() => {
            Some(format!("not as expected of {lock}: {}", differs.join("; ")))
        }
        () if claims().next().is_some() => {
            let names: Vec<&str> = claims().map(|it| it.level.name()).collect();
            Some(format!("as expected of {lock} at {}", names.join(", ")))
        }
        () => Some(format!("what is expected of {lock} was not put to the test")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(scenario: &Scenario, is_sweep: bool, key: Outcome) -> String {
        let found = |level| match level {
            Level::Key => key,
            level => scenario.expected(&scenario.lock.recipe, level),
        };
        remark(scenario, is_sweep, found).unwrap()
    }

    #[test]
    fn what_was_found_is_set_beside_what_was_expected() {
        let staged = Pair::scenario("gc-pause", "single").unwrap();
        assert_eq!(
            of(&staged, false, Outcome::Held),
            "as expected of single at key, belief, effect, progress"
        );
        let differs = of(&staged, false, Outcome::Violated);
        assert_eq!(differs, "not as expected of single: key is violated, and held is expected");
        let open = of(&staged, true, Outcome::Inconclusive);
        assert_eq!(open, "not as expected of single: key is inconclusive, and held is expected");
    }

    #[test]
    fn one_schedule_of_many_need_not_show_what_is_searched_for() {
        let searched = Pair::searched("gc-pause", "del-release").unwrap();
        assert_eq!(searched.expected("del-release", Level::Key), Outcome::Violated);
        assert!(of(&searched, false, Outcome::Held).starts_with("as expected of del-release at "));
        assert!(of(&searched, true, Outcome::Held).starts_with("not as expected of del-release: "));
    }

    #[test]
    fn where_nothing_is_expected_nothing_is_said() {
        let mut scenario = Pair::scenario("gc-pause", "single").unwrap();
        scenario.expect.retain(|it| it.locks == ["none"]);
        assert_eq!(
            remark(&scenario, false, |_| Outcome::Held).unwrap(),
            "no [[expect]] of gc-pause names single"
        );
        scenario.expect.clear();
        assert_eq!(remark(&scenario, false, |_| Outcome::Held), None);
    }
}
