//! A schedule that may break a lock: how large its world is, and what strikes in it.
//!
//! Invariant: faults stand in the order in which they strike.

use std::fmt;

use history::fault::Staged;

use super::bounds::Size;

/// A schedule that may break a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// How large its world is.
    pub size: Size,
    /// What strikes.
    pub faults: Vec<Staged>,
}

impl Candidate {
    /// The world of this size in which nothing strikes.
    pub const fn calm(size: Size) -> Self {
        Self { size, faults: Vec::new() }
    }

    /// The same with one fault more.
    #[must_use]
    pub fn with(&self, fault: Staged) -> Self {
        let faults = self.faults.iter().cloned().chain([fault]).collect();
        Self { size: self.size, faults }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.faults.len();
        write!(f, "{}, {faults} fault{}", self.size, if faults == 1 { "" } else { "s" })
    }
}
