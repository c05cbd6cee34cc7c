//! The budget of a schedule: what may happen in it before it counts as a livelock.
//!
//! Invariant: what is counted follows from the schedule alone, never from a clock of this machine, so a schedule that is over
//! its budget is so each time. Virtual time is bounded by whoever drives the schedule. Deliberately absent: a
//! poll that neither returns nor asks its environment for anything; see [`super::watch`].

use std::cmp::Reverse;
use std::collections::BTreeMap;

use scenarios::scenario::Scenario;

// Each is at least twenty times what any schedule of the matrix has needed, staged or searched: 56,000 events of 3
// acquisitions, 142,000 of 30 and 136,000 of 100; 102 at one instant with 100 clients; 63 calls in one poll.
/// Events and polls that any schedule may have,
const EVENTS: u64 = 3_000_000;
/// for each acquisition besides,
const EVENTS_OF_ACQUISITION: u64 = 20_000;
/// and for each attempt and each renewal on each server: what a scenario asks for is never too much.
const EVENTS_OF_ATTEMPT: u64 = 20;
/// Renewals within one TTL, at most.
const RENEWALS: u64 = 4;
/// Events and polls at one instant,
const AT_ONCE: u32 = 100_000;
/// and for each process besides.
const AT_ONCE_OF_PROCESS: u32 = 1_000;
/// Calls of its environment by a task within one poll.
const CALLS_IN_POLL: u32 = 100_000;
/// Of so many polls before the end it is noted whose they were.
const NOTED: u32 = 1_000;

/// That a schedule came to no end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Livelock {
    /// When it was ended, in virtual nanoseconds.
    pub at_ns: u64,
    /// What there was too much of.
    pub what: String,
    /// Whose tasks ran last, by process, and how often each of the last thousand polls at most; most often first.
    pub ran: Vec<(u32, u32)>,
}

/// What has been spent.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// Events and polls since the beginning.
    pub(super) events: u64,
    events_most: u64,
    at_once: u32,
    at_once_most: u32,
    calls_in_poll: u32,
    /// The process that is being polled, or was last.
    pub(super) polled: u32,
    /// How often each process was polled, once the end is near.
    noted: BTreeMap<u32, u32>,
    overrun: Option<Livelock>,
}

impl Budget {
    /// Begins anew with so many processes.
    pub(super) fn reset(&mut self, processes: usize) {
        let processes = u32::try_from(processes).unwrap_or(u32::MAX);
        let at_once_most = AT_ONCE.saturating_add(AT_ONCE_OF_PROCESS.saturating_mul(processes));
        *self = Self { events_most: EVENTS, at_once_most, ..Self::default() };
    }

    /// Grants what this scenario asks for.
    pub(super) fn grant(&mut self, scenario: &Scenario) {
        let ttls = scenario.hold().ns() / scenario.lock.ttl.ns().max(1);
        let tries = RENEWALS.saturating_mul(ttls).saturating_add(scenario.lock.retries.into());
        let servers = u64::from(scenario.topology().servers());
        let events = EVENTS_OF_ATTEMPT.saturating_mul(servers).saturating_mul(tries);
        let events = events.saturating_add(EVENTS_OF_ACQUISITION);
        self.events_most = EVENTS.saturating_add(events.saturating_mul(scenario.acquisitions()));
    }

    /// Time goes on.
    pub(super) fn begin_instant(&mut self) {
        self.at_once = 0;
    }

    /// Counts an event or a poll.
    pub(super) fn count_event(&mut self, now_ns: u64) {
        self.events += 1;
        self.at_once += 1;
        if self.events > self.events_most {
            self.overrun(now_ns, format!("{} events and polls", self.events_most));
        } else if self.at_once > self.at_once_most {
            self.overrun(now_ns, format!("{} events and polls at one instant", self.at_once_most));
        }
    }

    /// A task of this process is about to be polled.
    pub(super) fn begin_poll(&mut self, process: u32) {
        (self.polled, self.calls_in_poll) = (process, 0);
        let left = self.events_most.saturating_sub(self.events);
        let left = left.min(u64::from(self.at_once_most.saturating_sub(self.at_once)));
        if left < u64::from(NOTED) {
            *self.noted.entry(process).or_default() += 1;
        }
    }

    /// Counts a call of the environment by the task that is being polled; true where there are too many.
    #[inline]
    pub(super) fn count_call(&mut self) -> bool {
        self.calls_in_poll += 1;
        self.calls_in_poll > CALLS_IN_POLL
    }

    /// The task that is being polled has called its environment too often.
    #[cold]
    pub(super) fn spins(&mut self, now_ns: u64) {
        self.noted = BTreeMap::from([(self.polled, 1)]);
        self.overrun(now_ns, format!("{CALLS_IN_POLL} calls of one task that let nobody else run"));
    }

    /// How the schedule came to no end, if it is over its budget.
    pub(super) fn overrun_by(&self) -> Option<&Livelock> {
        self.overrun.as_ref()
    }

    #[cold]
    fn overrun(&mut self, at_ns: u64, what: String) {
        if self.overrun.is_none() {
            let mut ran: Vec<_> = std::mem::take(&mut self.noted).into_iter().collect();
            ran.sort_by_key(|(process, polls)| (Reverse(*polls), *process));
            self.overrun = Some(Livelock { at_ns, what, ran });
        }
    }
}
