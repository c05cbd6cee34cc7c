//! One run beside what its scenario expects of it.
//!
//! Invariant: it stands as the same cells of a matrix would; what one schedule of many does not show is no
//! surprise where faults are searched for. Deliberately absent: any effect on a verdict. What is expected
//! says how a scenario is to turn out, and not whether the lock is safe: that is `RunConformance::standing`.

use history::verdict::{Level, Outcome};

use super::{Cell, Conformance, Pair, VerdictCounts};
use crate::scenario::Scenario;

/// What was found beside what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunConformance {
    /// How they stand to each other, at all levels together.
    pub standing: Conformance,
    /// The same in a line, with the levels.
    pub remark: String,
    /// Level by level; nothing where no expectation names the lock.
    pub cells: Vec<Cell>,
}

/// What was expected beside what was found; nothing where the scenario expects nothing of
/// anybody. `is_sweep` says that many schedules were run.
pub fn compare(
    scenario: &Scenario,
    is_sweep: bool,
    found: impl Fn(Level) -> Outcome,
) -> Option<RunConformance> {
    if scenario.expect.is_empty() {
        return None;
    }
    let lock = &scenario.lock.recipe;
    let Some(expectation) = scenario.expectation(lock) else {
        let remark = format!("no [[expect]] of {} names {lock}", scenario.name);
        let standing = Conformance::Unclaimed;
        return Some(RunConformance { standing, remark, cells: Vec::new() });
    };
    let runs = Level::ALL.map(|level| VerdictCounts::of_run(0, found(level)));
    let cells = Pair::found(scenario, runs).cells;
    let is_one_of_many = scenario.swarm.searched && !is_sweep;
    let differs: Vec<&Cell> = cells
        .iter()
        .filter(|it| matches!(it.standing, Conformance::Different | Conformance::Vacuous))
        .filter(|it| !(is_one_of_many && it.expected == Outcome::Violated))
        .collect();
    let says = |it: &&Cell| {
        let (level, found, expected) = (it.level.name(), it.found.name(), it.expected.name());
        format!("{level} is {found}, and {expected} is expected")
    };
    let claims = cells.iter().filter(|it| it.standing == Conformance::AsExpected);
    let claims: Vec<&str> = claims.map(|it| it.level.name()).collect();
    let (standing, remark) = if !differs.is_empty() {
        let is_vacuous = differs.iter().all(|it| it.standing == Conformance::Vacuous);
        let standing = if is_vacuous { Conformance::Vacuous } else { Conformance::Different };
        let differs: Vec<String> = differs.iter().map(says).collect();
        (standing, format!("not as expected of {lock}: {}", differs.join("; ")))
    } else if claims.is_empty() {
        (Conformance::Unclaimed, format!("what is expected of {lock} was not put to the test"))
    } else {
        let mut remark = format!("as expected of {lock} at {}", claims.join(", "));
        if !expectation.why.is_empty() {
            remark.extend([": ", &expectation.why]);
        }
        (Conformance::AsExpected, remark)
    };
    Some(RunConformance { standing, remark, cells })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(scenario: &Scenario, is_sweep: bool, key: Outcome) -> String {
        compared(scenario, is_sweep, key).remark
    }

    fn compared(scenario: &Scenario, is_sweep: bool, key: Outcome) -> RunConformance {
        let found = |level| match level {
            Level::Key => key,
            level => scenario.expected(&scenario.lock.recipe, level),
        };
        compare(scenario, is_sweep, found).unwrap()
    }

    #[test]
    fn what_was_found_is_set_beside_what_was_expected() {
        let staged = Pair::scenario("gc-pause", "single").unwrap();
        assert_eq!(
            of(&staged, false, Outcome::Held),
            "as expected of single at key, belief, effect, progress: its belief ends with its validity, and the \
             resource takes the late write all the same"
        );
        let differs = of(&staged, false, Outcome::Violated);
        assert_eq!(differs, "not as expected of single: key is violated, and held is expected");
        let open = of(&staged, true, Outcome::Inconclusive);
        assert_eq!(open, "not as expected of single: key is inconclusive, and held is expected");
    }

    #[test]
    fn what_was_found_stands_as_the_worst_level_does() {
        let staged = Pair::scenario("gc-pause", "single").unwrap();
        for (key, standing) in [
            (Outcome::Held, Conformance::AsExpected),
            (Outcome::Inconclusive, Conformance::Vacuous),
            (Outcome::Violated, Conformance::Different),
        ] {
            assert_eq!(compared(&staged, false, key).standing, standing, "{key:?}");
        }
        // Of a level that says nothing, nothing is known: the others decide.
        let silent = |_| Outcome::NotApplicable;
        let nothing = compare(&staged, false, silent).unwrap().standing;
        assert_ne!(nothing, Conformance::AsExpected);
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
            compare(&scenario, false, |_| Outcome::Held).unwrap().remark,
            "no [[expect]] of gc-pause names single"
        );
        scenario.expect.clear();
        assert_eq!(compare(&scenario, false, |_| Outcome::Held), None);
    }
}
