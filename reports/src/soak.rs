//! A soak as it is reported: on its page, and at the end of a sitting.

use history::verdict::Outcome;
use scenarios::soak::{Sitting, Soak};

/// A soak, and how it was run.
#[derive(Clone, Copy, Debug)]
pub struct SoakReport<'a> {
    /// What it has found.
    pub found: &'a Soak,
    /// Its sittings, the present one last.
    pub sittings: &'a [Sitting],
    /// How long it is to last in all, in nanoseconds.
    pub asked_ns: u64,
    /// Whether it goes on.
    pub is_running: bool,
    /// The line that goes on with it, or that runs the schedule again which ended it.
    pub again: &'a str,
}

impl SoakReport<'_> {
    /// How long all sittings have lasted, in nanoseconds.
    pub fn lasted_ns(&self) -> u64 {
        self.sittings.iter().map(|it| it.lasted_ns).sum()
    }

    /// Whether it was ended before its time, and not by a violation.
    pub(crate) fn is_interrupted(&self) -> bool {
        let is_early = self.lasted_ns() < self.asked_ns;
        !self.is_running && is_early && self.found.conviction.is_none()
    }

    /// What it shows. As of a sweep, nothing counts as held of one that was interrupted.
    pub(crate) fn verdict(&self) -> Outcome {
        match self.found.verdict() {
            Outcome::Held if self.is_interrupted() => Outcome::Inconclusive,
            verdict => verdict,
        }
    }

    /// Schedules a second.
    pub(crate) fn pace(&self) -> u64 {
        let schedules = u128::from(self.found.whole.schedules) * 1_000_000_000;
        u64::try_from(schedules / u128::from(self.lasted_ns().max(1))).unwrap_or(u64::MAX)
    }

    /// The most memory of any sitting, in bytes.
    pub(crate) fn highest_bytes(&self) -> u64 {
        self.sittings.iter().map(|it| it.highest_bytes).max().unwrap_or_default()
    }
}

/// So many bytes, as people read them.
pub(crate) fn megabytes(bytes: u64) -> String {
    match bytes {
        0 => "unknown".to_owned(),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}
