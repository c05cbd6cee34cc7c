//! How long a live run waits for clients while none of them gets the lock.
//!
//! Invariant: a run is not ended before its verdict is settled. Nothing here judges; it only saves the waiting.

use std::time::Duration;

use history::fault::Staged;
use scenarios::scenario::Scenario;

/// How much longer than five TTLs: a dead client at the front of a fair queue holds it up for as long as four.
const BEYOND_FIVE_TTLS: Duration = Duration::from_secs(30);
/// How much longer than the time until *availability* is violated, or until the longest staged fault is over.
const BEYOND_LIMIT: Duration = Duration::from_secs(10);

/// How long the run waits although nobody gets the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience {
    /// Until *availability* is certainly violated; none if it is not judged.
    limit: Option<Duration>,
    /// Until the longest staged fault is certainly over.
    faults: Duration,
    /// Until the last client left in a queue has come to its front.
    line: Duration,
    /// Whether the recipe keeps a queue.
    fair: bool,
    /// How long to wait again once everything is healed.
    beyond: Duration,
}

impl Patience {
    /// For this scenario: its lock expires after `ttl`, and two clients that want it must get it within
    /// `available_within`.
    pub(super) fn new(
        scenario: &Scenario,
        ttl: Duration,
        available_within: Option<Duration>,
    ) -> Self {
        let works = scenario.hold().0.saturating_add(scenario.think());
        let beyond = BEYOND_LIMIT.saturating_add(works);
        let longest = scenario.faults.iter().map(Staged::over_by).max().unwrap_or_default();
        Self {
            limit: available_within.map(|within| ttl.max(within).saturating_add(beyond)),
            faults: longest.saturating_add(beyond),
            line: ttl.saturating_mul(5).saturating_add(BEYOND_FIVE_TTLS).saturating_add(works),
            fair: scenario.about_lock().fair.is_some(),
            beyond,
        }
    }

    /// How long to wait until everything is healed, with this many clients at work.
    pub(super) fn until_healed(&self, at_work: usize) -> Duration {
        match self.limit {
            Some(limit) if at_work > 1 => limit,
            _ => self.limit.unwrap_or(self.line).max(self.faults),
        }
    }

    /// How long to wait until the clients are stopped, with this many at work. `late`: everything was healed because
    /// patience had run out once, so only the effect of the heal is still awaited.
    pub(super) fn until_stopped(&self, at_work: usize, late: bool) -> Duration {
        let in_line = at_work == 1 && self.fair;
        match self.limit {
            Some(_) if late && !in_line => self.beyond,
            Some(limit) if !in_line => limit,
            _ => self.line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn patience(limit: Option<u64>, fair: bool) -> Patience {
        Patience { limit: limit.map(S), faults: S(70), line: S(180), fair, beyond: S(10) }
    }

    #[test]
    fn two_clients_are_waited_for_until_availability_is_violated() {
        let two = patience(Some(30), true);
        assert_eq!(two.until_healed(2), S(30));
        assert_eq!(two.until_stopped(2, false), S(30));
        assert_eq!(two.until_stopped(2, true), S(10), "it was violated before the healing");
    }

    #[test]
    fn one_client_alone_is_waited_for_until_faults_are_over() {
        assert_eq!(patience(Some(30), false).until_healed(1), S(70));
        assert_eq!(patience(Some(80), false).until_healed(1), S(80));
        assert_eq!(patience(Some(30), false).until_stopped(1, false), S(30));
        assert_eq!(patience(Some(30), false).until_stopped(1, true), S(10));
    }

    #[test]
    fn a_line_is_waited_for_until_its_dead_are_passed_over() {
        assert_eq!(patience(Some(30), true).until_stopped(1, false), S(180));
        assert_eq!(patience(Some(30), true).until_stopped(1, true), S(180));
    }

    #[test]
    fn where_availability_is_not_judged_every_lock_is_waited_for_as_a_line_is() {
        let unjudged = patience(None, false);
        assert_eq!(unjudged.until_healed(2), S(180));
        assert_eq!(unjudged.until_stopped(2, true), S(180));
    }
}
