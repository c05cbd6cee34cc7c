//! `junit.xml`: a run or a sweep for a CI.
//!
//! Invariant: what is inconclusive is never shown as a success.

use history::verdict::Outcome;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::invariant_table::{InvariantTable, Row};

impl InvariantTable {
    /// As JUnit: a suite whose cases are the invariants. Each is looked at for as long as the run lasts.
    ///
    /// # Errors
    /// None that memory does not give.
    pub fn junit(&self) -> Result<String, quick_junit::SerializeError> {
        let mut suite = TestSuite::new(self.headline.as_str());
        for row in &self.rows {
            let mut case = TestCase::new(format!("{} {}", row.level, row.name), status(row));
            case.set_classname(self.class.as_str()).set_time(self.lasted);
            suite.add_test_case(case);
        }
        suite.set_time(self.lasted);
        let mut report = Report::new(format!("picklock: {}", self.headline));
        report.set_time(self.lasted);
        report.add_test_suite(suite);
        report.to_string()
    }
}

/// A case that was left out, and why.
pub(crate) fn skipped(why: &str) -> TestCaseStatus {
    let mut skipped = TestCaseStatus::skipped();
    skipped.set_message(why);
    skipped
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
    let replay = format!("replay: {}", row.replay);
    let lines = row.story.iter().map(String::as_str).chain([replay.as_str()]);
    status.set_description(lines.collect::<Vec<_>>().join("\n"));
    status
}
