//! An attack for a CI: a case for each plan.

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use crate::report::{AttackReport, PlanOutcome, PlanReport};

/// The report as JUnit. A bug is a failure, what could not be decided an error; `replay` is the command that runs one
/// plan again.
///
/// # Errors
/// None that memory does not give.
pub fn junit(
    report: &AttackReport,
    replay: impl Fn(&str) -> String,
) -> Result<String, SerializeError> {
    let mut suite = TestSuite::new("picklock attack");
    for plan in &report.plans {
        let mut case = TestCase::new(plan.plan.as_str(), status(plan, &replay(&plan.plan)));
        case.set_classname(report.command.join(" "));
        suite.add_test_case(case);
    }
    let mut all = Report::new("picklock attack");
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
    if plan.outcome == PlanOutcome::Bug {
        let lines = first.iter().flat_map(|it| &it.story).map(|it| it.text.as_str());
        let lines: Vec<&str> = lines.chain([replay]).collect();
        status.set_description(lines.join("\n"));
    }
    status
}
