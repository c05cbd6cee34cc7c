//! Faults that are planned: those of the swarm, staged ones that have a time, and the ends of those that last.
//!
//! Invariant: each is carried out once. After the heal nothing strikes any more, every client runs and
//! reaches the servers, and every server serves.

use std::sync::Arc;

use harness::cues::Recovery;
use harness::injector::{self, Injector};
use history::fault::{Fault, Staged, Swarm};

use super::super::nemesis::{self, PlannedFault, SwarmDraw};
use super::super::queue::SimEvent;
use super::Simulation;

impl Simulation {
    /// Draws this schedule's faults.
    pub(crate) fn draw_swarm(&mut self, swarm: &Swarm) {
        let (processes, servers) = (self.processes.count(), self.servers.of_lock());
        let drawn = nemesis::draw(swarm, processes - 1, servers, &mut self.choices);
        let SwarmDraw { rates, drift_ppm, planned } = drawn;
        self.nemesis.rates = rates;
        for (place, &ppm) in (0..).zip(&drift_ppm) {
            let clock = match place < processes {
                true => &mut self.processes[place].clock,
                false => &mut self.servers[place - processes].clock,
            };
            clock.set_drift(0, ppm);
        }
        if !drift_ppm.is_empty() {
            // It lasts as long as the schedule, so it meets every hold there is.
            self.nemesis.note_as(0, None, Fault::Drift, 0, true);
        }
        for (at_ns, fault) in planned {
            self.plan_at(at_ns, fault);
        }
    }

    /// Stages these faults, from now on.
    pub(crate) fn set_stage(&mut self, cues: &Arc<[Staged]>) {
        let clients = self.processes.count() - 1;
        for (cue, in_ns) in self.nemesis.cues.set(cues, clients as usize) {
            self.strike_later(cue, in_ns);
        }
    }

    /// The end of the safety phase: everything is put right, and nothing strikes any more.
    pub(crate) fn heal(&mut self) {
        let planned = self.nemesis.close();
        for end in self.nemesis.cues.close() {
            injector::end(self, end);
        }
        for planned in 0..planned {
            self.put_right(planned);
        }
        for process in 0..self.processes.count() {
            self.resume(process);
            self.mend(process);
        }
    }

    fn plan_at(&mut self, at_ns: u64, fault: PlannedFault) {
        let planned = self.nemesis.plan(fault);
        self.time.plan(at_ns, SimEvent::Fault(planned));
    }

    /// Plans something for `in_ns` later.
    pub(super) fn plan_in(&mut self, in_ns: u64, fault: PlannedFault) {
        self.plan_at(self.time.now_ns().saturating_add(in_ns), fault);
    }

    /// A planned fault is due.
    pub(super) fn fault_due(&mut self, planned: u32) {
        match self.nemesis.take_planned(planned) {
            PlannedFault::Nothing => {}
            PlannedFault::Over(end) => injector::end(self, end),
            PlannedFault::Cut { process, directions, for_ns } => {
                self.cut_links(process, directions, for_ns);
                self.end_later(Recovery::Mend(process), for_ns);
            }
            PlannedFault::StepClock { client, by_ns } => self.step_clock(client, by_ns),
            PlannedFault::StrikeServer { server, with } => self.strike_server(server, with),
            PlannedFault::StartServer(server) => self.start_server(server),
            PlannedFault::WakeServer(server) => self.wake_server(server),
            PlannedFault::ClearKey(kept) => self.clear_key(kept),
            PlannedFault::MakeRoom(server) => self.make_room(server),
            PlannedFault::StepDown => self.step_down(),
            PlannedFault::Promote { to, for_ns } => {
                let old = self.servers.primary;
                self.promote(to);
                self.plan_in(for_ns, PlannedFault::StartServer(old));
            }
            PlannedFault::Cue(cue) => injector::due(self, cue),
        }
    }

    /// At the heal: a planned strike is cancelled, and a planned repair is done now.
    fn put_right(&mut self, planned: u32) {
        match self.nemesis.take_planned(planned) {
            PlannedFault::StartServer(server) => self.start_server(server),
            PlannedFault::WakeServer(server) => self.wake_server(server),
            PlannedFault::ClearKey(kept) => self.clear_key(kept),
            PlannedFault::MakeRoom(server) => self.make_room(server),
            PlannedFault::StepDown => self.step_down(),
            PlannedFault::Promote { to, .. } => {
                let old = self.servers.primary;
                self.promote(to);
                self.start_server(old);
            }
            PlannedFault::Over(Recovery::Deliver(stalled)) => self.deliver(stalled),
            PlannedFault::Over(Recovery::Revive(client)) => self.revive(client),
            _ => {}
        }
    }
}
