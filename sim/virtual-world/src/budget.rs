//! The budget of a schedule: how much may happen in it before it counts as a livelock.
//!
//! Invariant: the counts follow from the schedule alone, never from a clock of this machine, so a schedule that is over
//! its budget is so each time. A schedule that is interrupted ends wherever it is, and says so. The caller that drives
//! the schedule bounds virtual time. Deliberately absent: a poll that neither returns nor calls its environment; see
//! [`super::watch`].

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scenarios::scenario::Scenario;

// A scenario may use as much as it asks for. Each limit is at least twenty times what any schedule of the matrix needs:
// 56,000 events for 3 acquisitions, 142,000 for 30, 136,000 for 100; 102 at one instant with 100 clients; 63 calls in a
// poll.
/// Events and polls of any schedule.
const EVENTS: u64 = 3_000_000;
/// Further events and polls for each acquisition.
const EVENTS_OF_ACQUISITION: u64 = 20_000;
/// Further ones for each attempt and each renewal on each server.
const EVENTS_OF_ATTEMPT: u64 = 20;
/// Further ones for each update of the protected resource, which may show its token first.
const EVENTS_OF_UPDATE: u64 = 100;
/// Further ones for each fault that is planned.
const EVENTS_OF_STRIKE: u64 = 1_000;
/// The most renewals within one TTL.
const RENEWALS: u64 = 4;
/// Events and polls at one instant.
const AT_ONCE: u32 = 100_000;
/// Further ones at one instant for each task that a scenario begins and each fault that it plans.
const AT_ONCE_OF_TASK: u32 = 1_000;
/// Calls of its environment by a task within one poll.
const CALLS_IN_POLL: u32 = 100_000;
/// Calls for each task that it begins and each round that it makes; they count if they are more than those of any poll.
const CALLS_OF_TURN: u32 = 100;
/// How many events pass between two checks whether the schedule should stop.
const STOP_EVERY: u64 = 1 << 12;
/// For how many of the last polls the process is noted.
const NOTED: u32 = 1_000;

/// A schedule that did not end by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Livelock {
    /// When it was ended, in virtual nanoseconds.
    pub at_ns: u64,
    /// What exceeded the budget.
    pub what: String,
    /// The processes whose tasks ran last, and how often each was polled in the last thousand polls; most often first.
    pub ran: Vec<(u32, u32)>,
}

/// What has been spent.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// Events and polls since the beginning.
    pub(super) events: u64,
    events_most: u64,
    /// How many of them each client may have, from its beginning.
    events_of_client: u64,
    at_once: u32,
    at_once_most: u32,
    calls_in_poll: u32,
    calls_in_poll_most: u32,
    /// The process that is being polled, or was last.
    pub(super) polled: u32,
    /// How often each process was polled, once the end is near.
    noted: BTreeMap<u32, u32>,
    overrun: Option<Livelock>,
    /// Turns true if the schedule should stop.
    pub(super) stop: Option<Arc<AtomicBool>>,
    /// It was interrupted.
    pub(super) interrupted: bool,
}

impl Budget {
    /// Starts again with this many processes.
    pub(super) fn reset(&mut self, processes: usize) {
        let processes = u32::try_from(processes).unwrap_or(u32::MAX);
        let at_once_most = AT_ONCE.saturating_add(AT_ONCE_OF_TASK.saturating_mul(processes));
        let (events_most, calls_in_poll_most) = (EVENTS, CALLS_IN_POLL);
        *self = Self { events_most, at_once_most, calls_in_poll_most, ..Self::default() };
    }

    /// Grants what this scenario asks for.
    pub(super) fn grant(&mut self, scenario: &Scenario) {
        let workload = &scenario.workload;
        let ttls = scenario.hold().ns() / scenario.lock.ttl.ns().max(1);
        // Between two updates a lock may be renewed by hand.
        let steps = u64::from(workload.steps());
        let tries = RENEWALS.saturating_mul(ttls).saturating_add(scenario.lock.retries.into());
        let servers = u64::from(scenario.topology().servers());
        let events = EVENTS_OF_ATTEMPT
            .saturating_mul(servers)
            .saturating_mul(tries.saturating_add(steps - 1))
            .saturating_add(EVENTS_OF_UPDATE.saturating_mul(steps - 1))
            .saturating_add(EVENTS_OF_ACQUISITION);
        let turns = u64::from(workload.rounds())
            .saturating_mul(u64::from(workload.tasks()) + u64::from(workload.beside()));
        self.events_of_client = events.saturating_mul(turns);
        let strikes: u32 = scenario.swarm.counts().into_iter().map(|(_, most)| most).sum();
        self.events_most = EVENTS
            .saturating_add(self.events_of_client.saturating_mul(scenario.clients.into()))
            .saturating_add(EVENTS_OF_STRIKE.saturating_mul(strikes.into()));
        let tasks = u32::try_from(scenario.tasks()).unwrap_or(u32::MAX);
        let begun = tasks.saturating_add(1).saturating_add(strikes);
        self.at_once_most = AT_ONCE.saturating_add(AT_ONCE_OF_TASK.saturating_mul(begun));
        let turns = workload.tasks().saturating_add(workload.beside());
        let turns = turns.saturating_add(workload.rounds());
        self.calls_in_poll_most = CALLS_IN_POLL.max(CALLS_OF_TURN.saturating_mul(turns));
    }

    /// A client starts again, with all its work.
    pub(super) fn begin_again(&mut self) {
        self.events_most = self.events_most.saturating_add(self.events_of_client);
    }

    /// Time goes on.
    pub(super) fn begin_instant(&mut self) {
        self.at_once = 0;
    }

    /// Counts an event or a poll.
    pub(super) fn count_event(&mut self, now_ns: u64) {
        self.events += 1;
        self.at_once += 1;
        if self.events.is_multiple_of(STOP_EVERY) {
            let stop = |it: &Arc<AtomicBool>| it.load(Ordering::Relaxed);
            self.interrupted |= self.stop.as_ref().is_some_and(stop);
        }
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

    /// Counts a call of the environment by the task that is being polled; true if there were too many.
    #[inline]
    pub(super) fn count_call(&mut self) -> bool {
        self.calls_in_poll += 1;
        self.calls_in_poll > self.calls_in_poll_most
    }

    /// The task that is being polled has called its environment too often.
    #[cold]
    pub(super) fn spins(&mut self, now_ns: u64) {
        self.noted = BTreeMap::from([(self.polled, 1)]);
        let most = self.calls_in_poll_most;
        self.overrun(now_ns, format!("{most} calls of one task that let nobody else run"));
    }

    /// Whether the schedule is to end here.
    pub(super) const fn is_over(&self) -> bool {
        self.interrupted || self.overrun.is_some()
    }

    /// The livelock, if the schedule is over its budget.
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
