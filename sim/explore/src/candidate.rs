//! A schedule that may break a lock: the size of its world, and its faults.
//!
//! Invariant: faults stand in the order in which they strike. What clients drop half-way counts as the first fault.

use std::fmt;

use history::fault::{Fault, Staged, Trigger, Whom};
use scenarios::format::plural;
use scenarios::scenario::DropPart;

use super::bounds::Size;

/// A schedule that may break a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// How large its world is.
    pub size: Size,
    /// What its clients drop half-way, if anything.
    pub drop: Option<DropPart>,
    /// Its faults.
    pub faults: Vec<Staged>,
}

impl Candidate {
    /// The world of this size without faults.
    pub const fn calm(size: Size) -> Self {
        Self { size, drop: None, faults: Vec::new() }
    }

    /// The same with one fault more.
    #[must_use]
    pub fn with(&self, fault: Staged) -> Self {
        let mut more = self.clone();
        more.faults.push(fault);
        more
    }

    /// The same with only its first `many` faults; what is dropped counts as one of them.
    #[must_use]
    pub fn up_to(&self, many: usize) -> Self {
        let drop = self.drop.filter(|_| many > 0);
        let staged = many.saturating_sub(usize::from(self.drop.is_some()));
        let faults = self.faults.iter().take(staged).cloned().collect();
        Self { size: self.size, drop, faults }
    }

    /// The names of its faults.
    pub fn names(&self) -> Vec<&'static str> {
        let dropped =
            self.drop.map(|it| if it.guard { "dropped guards" } else { "dropped acquisitions" });
        dropped.into_iter().chain(self.faults.iter().map(|it| it.kind.name())).collect()
    }

    /// The number of its faults.
    pub fn count(&self) -> usize {
        self.faults.len() + usize::from(self.drop.is_some())
    }
}

/// A fault of this kind with no other setting.
pub(crate) fn bare(kind: Fault, on: Option<Whom>, at: Trigger) -> Staged {
    Staged {
        kind,
        on,
        at,
        lasts: None,
        until: None,
        by: None,
        ppm: None,
        ways: None,
        to: None,
        loses_hold: false,
        error: None,
        comes_back: None,
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.count();
        write!(f, "{}, {faults} {}", self.size, plural(faults as u64, "fault"))
    }
}
