//! Exit codes: the one place where they are decided.
//!
//! Invariant: 0 only where everything that was checked held.

use std::process::ExitCode;

use scenarios::matrix::{Matrix, Totals};
use scenarios::result::RunResult;
use scenarios::sweep::Sweep;
use scenarios::verdict::{Level, Outcome};

/// How picklock ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything held, or what was asked for was printed.
    Held,
    /// A level of safety was violated.
    Violated,
    /// The command line or a file is wrong.
    Usage,
    /// The run does not say.
    Inconclusive,
    /// Nothing was checked.
    NothingRan,
    /// Only progress was violated.
    ProgressOnly,
    /// A server, a file or the machine is not as it must be.
    Unavailable,
    /// A bug of picklock's own.
    Internal,
    /// Interrupted; a partial report was written.
    Interrupted,
}

impl Exit {
    /// The code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Violated => 1,
            Self::Usage => 2,
            Self::Inconclusive => 3,
            Self::NothingRan => 4,
            Self::ProgressOnly => 5,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::Interrupted => 130,
        }
    }

    /// How a run with this result ends.
    pub fn of(result: &RunResult) -> Self {
        if result.complete { Self::of_incomplete(result) } else { Self::Interrupted }
    }

    /// How a run ends whose result counts as far as it goes.
    pub fn of_incomplete(result: &RunResult) -> Self {
        let violated = |level| result.level(level) == Outcome::Violated;
        match result.verdict {
            Outcome::Violated
                if [Level::Key, Level::Belief, Level::Effect].iter().any(|it| violated(*it)) =>
            {
                Self::Violated
            }
            Outcome::Violated => Self::ProgressOnly,
            Outcome::Inconclusive => Self::Inconclusive,
            Outcome::Held => Self::Held,
            Outcome::NotApplicable => Self::NothingRan,
        }
    }
}

impl Exit {
    /// How a sweep ends.
    pub fn of_sweep(found: &Sweep) -> Self {
        let safety = [Level::Key, Level::Belief, Level::Effect];
        match found.verdict() {
            _ if safety.iter().any(|level| found.level(*level) == Outcome::Violated) => {
                Self::Violated
            }
            Outcome::Violated => Self::ProgressOnly,
            Outcome::Inconclusive => Self::Inconclusive,
            Outcome::Held => Self::Held,
            Outcome::NotApplicable => Self::NothingRan,
        }
    }
}

impl Exit {
    /// How a matrix ends.
    pub fn of_matrix(found: &Matrix) -> Self {
        let Totals { as_expected, different, vacuous, .. } = found.totals;
        match () {
            () if found.interrupted => Self::Interrupted,
            () if different > 0 => Self::Violated,
            () if vacuous > 0 => Self::Inconclusive,
            () if as_expected == 0 => Self::NothingRan,
            () => Self::Held,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
