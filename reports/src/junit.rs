//! `junit.xml`: a run or a sweep for a CI.
//!
//! Invariant: what is inconclusive is never shown as a success. Where a run is judged by what was expected of it, only what
//! differs from that fails, as it does for the exit code.

use history::verdict::Outcome;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use scenarios::matrix::Conformance;
use scenarios::matrix::expected::RunConformance;

use crate::invariant_table::{InvariantTable, Row};

impl InvariantTable {
    /// As JUnit: a suite whose cases are the invariants, and what was expected of them together. Each is looked at for as
    /// long as the run lasts.
    ///
    /// # Errors
    /// None that memory does not give.
    pub fn junit(&self) -> Result<String, quick_junit::SerializeError> {
        let mut suite = TestSuite::new(self.headline.as_str());
        let mut add = |mut case: TestCase| {
            case.set_classname(self.class.as_str()).set_time(self.lasted);
            suite.add_test_case(case);
        };
        for row in &self.rows {
            add(self.case(row));
        }
        if let Some(expected) = &self.expected {
            add(TestCase::new("as expected", conformance(expected, &self.replay)));
        }
        suite.set_time(self.lasted);
        let mut report = Report::new(format!("picklock: {}", self.headline));
        report.set_time(self.lasted);
        report.add_test_suite(suite);
        report.to_string()
    }

    fn case(&self, row: &Row) -> TestCase {
        let name = format!("{} {}", row.level, row.name);
        let mut cells = self.expected.iter().flat_map(|it| &it.cells);
        let standing = cells.find(|it| it.level.name() == row.level);
        match (standing.map(|it| it.standing), row.found) {
            (Some(Conformance::AsExpected), Outcome::Violated) => {
                let mut case = TestCase::new(name, TestCaseStatus::success());
                case.set_system_out(format!("violated, as expected: {}\n{}", row.why, told(row)));
                case
            }
            (Some(Conformance::AsExpected), Outcome::Inconclusive) => {
                TestCase::new(name, skipped(&row.why))
            }
            (Some(Conformance::Unclaimed), Outcome::Violated | Outcome::Inconclusive) => {
                let why = format!("{}, and nothing is claimed: {}", row.found.name(), row.why);
                TestCase::new(name, skipped(&why))
            }
            _ => TestCase::new(name, status(row)),
        }
    }
}

/// How a run stands to what was expected of it.
fn conformance(expected: &RunConformance, replay: &str) -> TestCaseStatus {
    let kind = match expected.standing {
        Conformance::AsExpected => return TestCaseStatus::success(),
        Conformance::Unclaimed => return skipped(&expected.remark),
        Conformance::Different => NonSuccessKind::Failure,
        Conformance::Vacuous => NonSuccessKind::Error,
    };
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(expected.remark.as_str());
    status.set_description(format!("replay: {replay}"));
    status
}

/// A case that was left out, and why.
pub(crate) fn skipped(why: &str) -> TestCaseStatus {
    let mut skipped = TestCaseStatus::skipped();
    skipped.set_message(why);
    skipped
}

/// What shows it, line by line, and how to see it again.
fn told(row: &Row) -> String {
    let replay = format!("replay: {}", row.replay);
    let lines = row.story.iter().map(String::as_str).chain([replay.as_str()]);
    lines.collect::<Vec<_>>().join("\n")
}

fn status(row: &Row) -> TestCaseStatus {
    let kind = match row.found {
        Outcome::Held => return TestCaseStatus::success(),
        Outcome::NotApplicable => return skipped(&row.why),
        Outcome::Violated => NonSuccessKind::Failure,
        // The run does not say: that is no failure of the lock, and no success.
        Outcome::Inconclusive => NonSuccessKind::Error,
    };
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(row.found.name());
    status.set_message(row.why.as_str());
    status.set_description(told(row));
    status
}
