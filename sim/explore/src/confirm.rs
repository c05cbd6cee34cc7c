//! Whether another world shows the same violation as the virtual one.
//!
//! Invariant: *confirmed* means exactly that the same invariant is violated there at the same level.

use harness::world::{CutShort, Run, RunError};
use history::verdict::{Finding, Level, Verdict};

/// What another world makes of a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reproduction {
    /// The same invariant is violated at the same level.
    Confirmed,
    /// It is not violated; this was found instead.
    NotReproduced(String),
    /// The scenario cannot be run there, or the invariant cannot be judged.
    NotStageable(String),
}

impl Reproduction {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::NotReproduced(_) => "not reproduced",
            Self::NotStageable(_) => "not stageable",
        }
    }

    /// Why it is not confirmed.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Confirmed => None,
            Self::NotReproduced(why) | Self::NotStageable(why) => Some(why),
        }
    }
}

/// Compares what is violated with what a run in another world shows.
///
/// # Errors
/// [`RunError`] if the other world failed by itself, which says nothing of the scenario.
pub fn compare(
    (invariant, level): (&str, Level),
    run: Result<Run, RunError>,
) -> Result<Reproduction, RunError> {
    let run = match run {
        Err(RunError::Impossible { why, .. }) => return Ok(Reproduction::NotStageable(why)),
        run => run?,
    };
    if run.cut_short == Some(CutShort::Interrupted) {
        return Err(RunError::Interrupted);
    }
    Ok(of_findings((invariant, level), &run.findings()))
}

fn of_findings((invariant, level): (&str, Level), findings: &[Finding]) -> Reproduction {
    let same = findings.iter().find(|it| it.name == invariant && it.level == level);
    let others = findings.iter().filter(|it| matches!(it.verdict, Verdict::Violated(_)));
    let others: Vec<&str> = others.map(|it| it.name).collect();
    let beside = match &others[..] {
        [] => String::new(),
        names => format!("; violated: {}", names.join(", ")),
    };
    match same.map(|it| &it.verdict) {
        Some(Verdict::Violated(_)) => Reproduction::Confirmed,
        Some(Verdict::Held) => Reproduction::NotReproduced(format!("{invariant} held{beside}")),
        Some(Verdict::Inconclusive(why)) => Reproduction::NotReproduced(format!("{why}{beside}")),
        Some(Verdict::Vacuous(why)) => Reproduction::NotReproduced(format!("{why}{beside}")),
        Some(Verdict::NotApplicable(why)) => {
            Reproduction::NotStageable(format!("{invariant} is not judged there: {why}"))
        }
        // Some findings exist only if they are violations, such as tasks that wait for ever.
        None => Reproduction::NotReproduced(format!("{invariant} was not found{beside}")),
    }
}

#[cfg(test)]
mod tests {
    use history::verdict::{Vacuous, Witness};

    use super::*;

    fn of(verdict: Verdict) -> Reproduction {
        let other =
            Finding::new("mutual-exclusion", Level::Belief, Verdict::Violated(Witness::default()));
        of_findings(
            ("ownership", Level::Key),
            &[Finding::new("ownership", Level::Key, verdict), other],
        )
    }

    #[test]
    fn only_the_same_violation_confirms() {
        assert_eq!(of(Verdict::Violated(Witness::default())), Reproduction::Confirmed);
        for (verdict, says) in [
            (Verdict::Held, "ownership held; violated: mutual-exclusion"),
            (Verdict::Inconclusive("a search gave up".to_owned()), "a search gave up"),
            (Verdict::Vacuous(Vacuous::NobodyHeld), "nobody ever got the lock"),
        ] {
            let Reproduction::NotReproduced(why) = of(verdict) else { panic!("{says}") };
            assert!(why.contains(says), "{why}");
        }
        let silent = of(Verdict::NotApplicable("times are not exact".to_owned()));
        assert_eq!(silent.name(), "not stageable");
        let elsewhere = of_findings(("pool", Level::Key), &[]);
        assert_eq!(elsewhere.name(), "not reproduced");
    }

    #[test]
    fn what_cannot_be_staged_is_told_from_what_failed() {
        let what = ("ownership", Level::Key);
        let impossible = RunError::Impossible { why: "no replicas".to_owned(), help: "" };
        let found = compare(what, Err(impossible)).unwrap();
        assert_eq!(found, Reproduction::NotStageable("no replicas".to_owned()));
        assert!(compare(what, Err(RunError::Bug("oh".to_owned()))).is_err());
        let run = Run { cut_short: Some(CutShort::Interrupted), ..Run::default() };
        assert!(matches!(compare(what, Ok(run)), Err(RunError::Interrupted)));
    }
}
