//! Exit codes: the one place where they are decided.
//!
//! Invariant: 0 only where everything that was checked held.

use std::process::ExitCode;

use attack::{AttackReport, PlanOutcome, Severity};
use explore::{Explored, Reproduction, SearchEnd};
use harness::world::CutShort;
use history::verdict::{Level, Outcome};
use scenarios::matrix::{Conformance, Matrix, Totals};
use scenarios::result::RunResult;
use scenarios::soak::Soak;
use scenarios::sweep::Sweep;
use ttl_model::tuning::{Confirmation, TargetStatus, Tuning};

/// How picklock exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything held, or the output was printed.
    Held = 0,
    /// A level of safety was violated.
    Violated = 1,
    /// The command line or a file is wrong.
    Usage = 2,
    /// The run is inconclusive.
    Inconclusive = 3,
    /// Nothing was checked.
    NothingRan = 4,
    /// Only progress was violated.
    ProgressOnly = 5,
    /// A server, a file or the machine is unusable.
    Unavailable = 69,
    /// A bug in picklock.
    Internal = 70,
    /// Interrupted before all was done. What was found until then is reported, if anything can be.
    Interrupted = 130,
}

impl Exit {
    /// What was found before the server was lost still counts.
    pub(crate) fn of_run(result: &RunResult, cut_short: Option<&CutShort>) -> Self {
        match cut_short {
            Some(CutShort::Interrupted) => Self::Interrupted,
            _ => Self::of_result(result),
        }
    }

    /// The exit of a result, whether or not it is complete.
    pub(crate) fn of_result(result: &RunResult) -> Self {
        Self::of_outcome(result.verdict, |level| result.level(level))
    }

    pub(crate) fn of_sweep(found: &Sweep) -> Self {
        match found.interrupted {
            true => Self::Interrupted,
            false => Self::of_swept(found),
        }
    }

    /// The same for what was run, whether or not that was all.
    pub(crate) fn of_swept(found: &Sweep) -> Self {
        Self::of_outcome(found.verdict(), |level| found.level(level))
    }

    /// A violation of progress alone has an exit of its own.
    fn of_outcome(verdict: Outcome, of: impl Fn(Level) -> Outcome) -> Self {
        let safety = [Level::Key, Level::Belief, Level::Effect];
        match verdict {
            _ if safety.into_iter().any(|level| of(level) == Outcome::Violated) => Self::Violated,
            Outcome::Violated => Self::ProgressOnly,
            Outcome::Inconclusive => Self::Inconclusive,
            Outcome::Held => Self::Held,
            Outcome::NotApplicable => Self::NothingRan,
        }
    }

    /// A bug that only harms progress has the exit of progress, too.
    pub(crate) fn of_attack(found: &AttackReport) -> Self {
        if found.complete { Self::of_attacked(found) } else { Self::Interrupted }
    }

    /// The same for what was run, whether or not that was all.
    pub(crate) fn of_attacked(found: &AttackReport) -> Self {
        let bugs = found.plans.iter().flat_map(|it| &it.findings);
        let bugs = bugs.filter(|it| it.severity == Severity::Bug);
        let level = bugs.map(|it| it.level).min_by_key(|level| *level == Level::Progress);
        match level {
            Some(Level::Progress) => Self::ProgressOnly,
            Some(_) => Self::Violated,
            None if found.plans.is_empty() => Self::NothingRan,
            None if found.count(PlanOutcome::Inconclusive) > 0 => Self::Inconclusive,
            None => Self::Held,
        }
    }

    /// Like that of a run whose lock holds, does not, or is only too slow, unless the server does not confirm the model.
    pub(crate) fn of_tuning(found: &Tuning) -> Self {
        match (found.confirmation.as_ref().map(Confirmation::agrees), found.advice.answer) {
            (Some(None | Some(false)), _) | (_, TargetStatus::Unknown) => Self::Inconclusive,
            (_, TargetStatus::Met) => Self::Held,
            (_, TargetStatus::TooSlow) => Self::ProgressOnly,
            (_, TargetStatus::TooManyOverlaps) => Self::Violated,
        }
    }

    /// A violation ends a soak, so it comes before an interruption.
    pub(crate) fn of_soak(found: &Soak, interrupted: bool) -> Self {
        match (&found.conviction, found.verdict()) {
            (Some(it), _) => Self::of_level(it.level),
            (None, _) if interrupted => Self::Interrupted,
            (None, Outcome::Held) => Self::Held,
            (None, _) => Self::Inconclusive,
        }
    }

    /// Whether all of a shard was done, and nothing of what was found.
    pub(crate) const fn of_shard(complete: bool, interrupted: bool) -> Self {
        match (complete, interrupted) {
            (true, _) => Self::Held,
            (false, true) => Self::Interrupted,
            (false, false) => Self::Inconclusive,
        }
    }

    /// The exit of shards together, given that of what they found: what was not run might have shown something.
    pub(crate) fn of_merged(self, is_whole: bool) -> Self {
        match self {
            Self::Held | Self::NothingRan if !is_whole => Self::Inconclusive,
            exit => exit,
        }
    }

    /// The exit with that of the counterexamples that were kept: one that violates its expectation at this level counts as
    /// a violation, and if all else held, a stale one makes the result inconclusive.
    pub(crate) fn with_regressions(self, broken: Option<Level>, stale: bool) -> Self {
        match (broken, self) {
            (Some(level), Self::Held | Self::Inconclusive | Self::NothingRan) => {
                Self::of_level(level)
            }
            (Some(level), Self::ProgressOnly) if level != Level::Progress => Self::Violated,
            (None, Self::Held) if stale => Self::Inconclusive,
            (_, exit) => exit,
        }
    }

    /// A violation counts even if the budget ran out; an interruption comes before it.
    pub(crate) fn of_explored(found: &Explored, interrupted: bool) -> Self {
        match (found.ended, found.found.first()) {
            _ if interrupted => Self::Interrupted,
            (_, Some(nearest)) => Self::of_level(nearest.violation.level),
            (SearchEnd::Exhausted, None) => Self::Held,
            (SearchEnd::Violated | SearchEnd::Stopped, None) => Self::Inconclusive,
        }
    }

    /// Interrupted, it might have been shrunk further.
    pub(crate) const fn of_shrunk(violated: Level, interrupted: bool) -> Self {
        if interrupted { Self::Interrupted } else { Self::of_level(violated) }
    }

    /// What was confirmed is violated.
    pub(crate) const fn of_confirmation(found: &Reproduction, level: Level) -> Self {
        match found {
            Reproduction::Confirmed => Self::of_level(level),
            Reproduction::NotReproduced(_) => Self::Inconclusive,
            Reproduction::NotStageable(_) => Self::NothingRan,
        }
    }

    pub(crate) const fn of_level(violated: Level) -> Self {
        match violated {
            Level::Progress => Self::ProgressOnly,
            Level::Key | Level::Belief | Level::Effect => Self::Violated,
        }
    }

    /// The exit if the user asked whether a scenario turned out as its file expects.
    pub(crate) const fn of_conformance(found: Conformance) -> Self {
        match found {
            Conformance::AsExpected => Self::Held,
            Conformance::Different => Self::Violated,
            Conformance::Vacuous => Self::Inconclusive,
            Conformance::Unclaimed => Self::NothingRan,
        }
    }

    /// The exit of several matrices: of the worst.
    pub(crate) fn of_matrices(found: &[Matrix]) -> Self {
        let ends: Vec<Self> = found.iter().map(Self::of_matrix).collect();
        let worst = [Self::Interrupted, Self::Violated, Self::Inconclusive, Self::NothingRan];
        let worst = worst.into_iter().find(|exit| ends.contains(exit));
        worst.unwrap_or(if ends.is_empty() { Self::NothingRan } else { Self::Held })
    }

    fn of_matrix(found: &Matrix) -> Self {
        if found.interrupted { Self::Interrupted } else { Self::of_pairs(found) }
    }

    /// The same for what was run, whether or not that was all.
    pub(crate) fn of_pairs(found: &Matrix) -> Self {
        let Totals { as_expected, different, vacuous, .. } = found.totals;
        match () {
            () if different > 0 => Self::Violated,
            () if vacuous > 0 => Self::Inconclusive,
            () if as_expected == 0 => Self::NothingRan,
            () => Self::Held,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use explore::{Candidate, FoundSchedule, Size, Violation};
    use history::verdict::{Finding, Verdict, Witness};

    use super::*;

    #[test]
    fn a_search_that_was_interrupted_says_so_whatever_it_has_found() {
        let verdict = Verdict::Violated(Witness::default());
        let finding = Finding { name: "mutual exclusion", level: Level::Belief, verdict };
        let violation = Violation::all(&[finding], &[]).remove(0);
        let candidate = Candidate::calm(Size { clients: 2, rounds: 1 });
        let found = vec![FoundSchedule { candidate, violation }];
        let found = Explored { stages: Vec::new(), found, ended: SearchEnd::Violated };
        assert_eq!(Exit::of_explored(&found, false), Exit::Violated);
        assert_eq!(Exit::of_explored(&found, true), Exit::Interrupted);
    }

    #[test]
    fn several_matrices_exit_as_the_worst() {
        let of = |totals: Totals, interrupted| Matrix {
            totals,
            ..Matrix::new("redis", None, Vec::new(), interrupted)
        };
        let held = Totals { as_expected: 4, ..Totals::default() };
        let matrix = |exit| match exit {
            Exit::Held => of(held, false),
            Exit::NothingRan => of(Totals { not_run: 4, ..Totals::default() }, false),
            Exit::Inconclusive => of(Totals { vacuous: 1, ..held }, false),
            Exit::Violated => of(Totals { different: 1, vacuous: 1, ..held }, false),
            _ => of(held, true),
        };
        // Each is worse than those before it.
        let order =
            [Exit::Held, Exit::NothingRan, Exit::Inconclusive, Exit::Violated, Exit::Interrupted];
        for (place, worse) in order.into_iter().enumerate() {
            for better in &order[..=place] {
                let (one, other) = (matrix(worse), matrix(*better));
                assert_eq!(Exit::of_matrices(&[one.clone(), other.clone()]), worse);
                assert_eq!(Exit::of_matrices(&[other, one]), worse);
            }
        }
        assert_eq!(Exit::of_matrices(&[]), Exit::NothingRan);
    }

    #[test]
    fn what_is_violated_again_counts_and_what_is_stale_leaves_a_run_open() {
        let broken = |level| (Some(level), true);
        let stale = (None, true);
        for ((broken, stale), of_run, exit) in [
            ((None, false), Exit::Held, Exit::Held),
            (stale, Exit::Held, Exit::Inconclusive),
            (stale, Exit::Violated, Exit::Violated),
            (stale, Exit::ProgressOnly, Exit::ProgressOnly),
            (broken(Level::Key), Exit::Held, Exit::Violated),
            (broken(Level::Key), Exit::ProgressOnly, Exit::Violated),
            (broken(Level::Progress), Exit::Inconclusive, Exit::ProgressOnly),
            (broken(Level::Progress), Exit::Violated, Exit::Violated),
            (broken(Level::Key), Exit::Interrupted, Exit::Interrupted),
        ] {
            let found = of_run.with_regressions(broken, stale);
            assert_eq!(found, exit, "{broken:?}, {stale}, {of_run:?}");
        }
    }
}
