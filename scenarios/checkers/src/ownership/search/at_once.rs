//! One reading, found without a search.
//!
//! Invariant: it is one of those that the search would try, so that what it excuses is excused. What it does not excuse,
//! another reading may.

use std::mem;

use super::Search;
use super::reading::{Early, Reading};

impl Search<'_> {
    /// Whether nobody is harmed in the reading that takes the first harmless way at every step.
    pub(super) fn excuses_at_once(mut self, until_ns: u64) -> bool {
        let (mut reading, mut early) = (Reading::unknown(), Early::default());
        for answered in self.answers(until_ns) {
            let now_ns = self.op(answered).done_ns;
            self.send_before(answered);
            if early.contains(answered) {
                early = early.without(answered);
            } else if let Some(next) = self.first_way(&reading, &mut early, answered, now_ns) {
                reading = next;
            } else {
                return false;
            }
            self.in_flight.retain(|&it| it != answered);
            self.forget(&mem::take(&mut reading.used));
        }
        true
    }

    /// The first way to carry this command out that harms nobody: at once, or right behind another that is under way.
    fn first_way(
        &mut self,
        reading: &Reading,
        early: &mut Early,
        answered: u32,
        now_ns: u64,
    ) -> Option<Reading> {
        self.set_under_way(early);
        if let Some(next) = self.harmless(reading, answered, now_ns) {
            return Some(next);
        }
        let others: Vec<u32> =
            self.under_way.iter().copied().filter(|it| *it != answered).collect();
        others.into_iter().find_map(|other| {
            self.set_under_way(early);
            let before = self.harmless(reading, other, now_ns)?;
            let with = early.with(other);
            self.set_under_way(&with);
            let next = self.harmless(&before, answered, now_ns)?;
            *early = with;
            Some(next)
        })
    }

    /// The first thing that may come of this command and harms nobody.
    fn harmless(&self, reading: &Reading, place: u32, now_ns: u64) -> Option<Reading> {
        self.carry_out(reading.clone(), place, now_ns).into_iter().find(|it| !it.is_harmful())
    }
}
