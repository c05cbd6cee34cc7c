//! An attack as JUnit, for CI: a case for each plan.
//!
//! Invariant: a failed or undecided plan says how to run it again. An attack that was cut short is not a success.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use crate::report::{AttackReport, PlanOutcome, PlanReport};
use crate::table::told;

/// The report as JUnit. A bug is a failure, what could not be decided an error; `replay` is the command that runs one
/// plan again. The time of a case is that of the run that counts, by the machine's clock.
///
/// # Errors
/// None that memory does not give.
pub fn junit(
    report: &AttackReport,
    replay: impl Fn(&str) -> String,
) -> Result<String, SerializeError> {
    let mut suite = TestSuite::new("picklock attack");
    let mut whole = Duration::ZERO;
    for plan in &report.plans {
        let mut case = TestCase::new(plan.plan.as_str(), status(plan, &replay(&plan.plan)));
        let lasted = Duration::from_nanos(plan.history.duration_ns());
        case.set_classname(report.command.join(" ")).set_time(lasted);
        suite.add_test_case(case);
        whole += lasted;
    }
    if !report.complete {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message("the attack was cut short before these were run: run it again");
        suite.add_test_case(TestCase::new("the other plans", status));
    }
    suite.set_time(whole);
    let mut all = Report::new("picklock attack");
    all.set_time(whole);
    all.add_test_suite(suite);
    all.to_string()
}

fn status(plan: &PlanReport, replay: &str) -> TestCaseStatus {
    let mut status = match plan.outcome {
        PlanOutcome::Held | PlanOutcome::Api | PlanOutcome::Assumption => {
            return TestCaseStatus::success();
        }
        PlanOutcome::Vacuous | PlanOutcome::NotStageable => TestCaseStatus::skipped(),
        PlanOutcome::Inconclusive => TestCaseStatus::non_success(NonSuccessKind::Error),
        PlanOutcome::Bug => TestCaseStatus::non_success(NonSuccessKind::Failure),
    };
    let first = plan.findings.first();
    let message = first.map(|it| it.summary.as_str()).or(plan.why.as_deref()).unwrap_or_default();
    status.set_message(message);
    if matches!(plan.outcome, PlanOutcome::Bug | PlanOutcome::Inconclusive) {
        let lines = first.iter().flat_map(|it| &it.story).map(told);
        let lines: Vec<String> = lines.chain([format!("replay: {replay}")]).collect();
        status.set_description(lines.join("\n"));
    }
    status
}
