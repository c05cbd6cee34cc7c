//! Why a run shows nothing.
//!
//! Invariant: what is said here is the absence of what would have put the lock to the test, never that
//! something could not be decided. So one vacuous schedule of many takes nothing away from what the
//! others show.

use std::fmt;

use crate::fault::Fault;

/// What did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vacuous {
    /// No client ever got the lock.
    NobodyHeld,
    /// No two clients wanted the lock at the same time.
    NobodyContended,
    /// No command was ever sent that could have done something to the lock's key.
    KeyUntouched,
    /// Not all the acquisitions were begun that were asked for.
    TooFew {
        /// How many were asked for.
        requested: u64,
        /// How many were begun.
        begun: u64,
    },
    /// A fault that the scenario stages never struck.
    NeverStruck(Fault),
    /// A fault that the scenario stages in a hold struck, but never in one; or the key of the hold was not
    /// lost by it, where the scenario says that it is to be.
    MetNoHold(Fault),
    /// A fault of a server that the scenario stages in a hold met one, and nobody who came after it had an
    /// answer before that hold was over.
    NobodyAsked(Fault),
    /// After such a fault somebody else got the lock, but nobody looked at the resource before whoever had
    /// the lock first had written.
    WorkedLater(Fault),
}

impl Vacuous {
    /// What did not happen, in words that are the same for every schedule of a scenario.
    pub fn what(self) -> String {
        match self {
            Self::NobodyHeld => "nobody ever got the lock".to_owned(),
            Self::NobodyContended => {
                "no two clients ever wanted the lock at the same time".to_owned()
            }
            Self::KeyUntouched => "no command touched the lock's key".to_owned(),
            Self::TooFew { .. } => "fewer acquisitions were begun than asked for".to_owned(),
            Self::NeverStruck(fault) => format!("the staged fault `{}` never struck", fault.name()),
            Self::MetNoHold(fault) => format!("the staged fault `{}` met no hold", fault.name()),
            Self::NobodyAsked(fault) => format!(
                "after the staged fault `{}` nobody had an answer before the hold that it met was over",
                fault.name()
            ),
            Self::WorkedLater(fault) => format!(
                "after the staged fault `{}` nobody looked at the resource before the first had written",
                fault.name()
            ),
        }
    }
}

impl fmt::Display for Vacuous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { requested, begun } => {
                write!(
                    f,
                    "vacuous: {requested} acquisitions were asked for, and only {begun} begun"
                )
            }
            other => write!(f, "vacuous: {}", other.what()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_how_many_were_missing_and_a_sweep_adds_up_the_same() {
        let few = |begun| Vacuous::TooFew { requested: 9, begun };
        assert_eq!(few(3).to_string(), "vacuous: 9 acquisitions were asked for, and only 3 begun");
        assert_eq!(few(3).what(), few(4).what());
        let never = Vacuous::NeverStruck(Fault::Pause);
        assert_eq!(never.to_string(), "vacuous: the staged fault `pause` never struck");
        assert_ne!(never.what(), Vacuous::NeverStruck(Fault::Crash).what());
    }
}
