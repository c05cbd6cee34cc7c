//! The nemesis: faults that strike at random, as the schedule's choices have it, and those that a
//! scenario stages.
//!
//! Invariant: with every choice at 0 nothing strikes but what is staged; after the heal nothing
//! strikes any more, and every server serves. Each strike is written into the history, with whether it
//! met a hold. Deliberately absent: which faults a scenario allows or stages, which its file says.

mod calls;
mod draw;
mod stage;
mod strike;
#[cfg(test)]
mod tests;

use scenarios::fault::Fault;
use scenarios::history::{Journal, What};

use self::draw::Rates;
use self::stage::Stage;
use self::strike::Plan;
use super::network::Way;
use super::queue::Event;
use super::world::World;

/// The nemesis of a world.
#[derive(Debug, Default)]
pub(super) struct Nemesis {
    rates: Rates,
    plans: Vec<Plan>,
    pub(super) stage: Stage,
    journal: Option<Journal>,
}

impl Nemesis {
    pub(super) fn reset(&mut self) {
        self.rates = Rates::default();
        self.plans.clear();
        self.stage.reset();
    }

    /// Where strikes are written down.
    pub(super) fn write_to(&mut self, journal: Journal) {
        self.journal = Some(journal);
    }

    /// Whether tasks that are ready at once go in any order.
    pub(super) fn shuffles(&self) -> bool {
        self.rates.shuffles
    }
}

impl World {
    /// The end of the safety phase: everything is put right, and nothing strikes any more.
    pub(super) fn heal(&mut self) {
        self.nemesis.rates = Rates::default();
        self.end_stage();
        for plan in 0..self.nemesis.plans.len() {
            self.put_right(plan);
        }
        for process in 0..u32::try_from(self.processes.len()).unwrap_or(0) {
            self.resume(process);
            self.mend(process);
        }
    }

    fn plan(&mut self, at_ns: u64, plan: Plan) {
        self.nemesis.plans.push(plan);
        let place = u32::try_from(self.nemesis.plans.len() - 1).expect("fewer than 2^32 plans");
        self.queue.push(at_ns.max(self.now_ns), Event::Nemesis(place));
    }

    /// Plans something for so much later.
    fn plan_in(&mut self, in_ns: u64, plan: Plan) {
        self.plan(self.now_ns.saturating_add(in_ns), plan);
    }

    /// Mends a client's ways to all servers.
    fn mend(&mut self, process: u32) {
        for server in 0..self.lock_servers() {
            self.link(process, server).cut = [false; 2];
            for way in [Way::There, Way::Back] {
                self.release_withheld(process, server, way);
            }
        }
    }

    /// Whether a fault of this client meets a hold; of nobody in particular (0), any hold.
    fn meets_hold(&self, client: u32) -> bool {
        match client {
            0 => {
                self.processes.iter().any(|it| it.holds)
                    || self.nemesis.stage.cues.holder().is_some()
            }
            _ => self.processes[client as usize].holds || self.nemesis.stage.cues.holds(client),
        }
    }

    fn note(&mut self, client: u32, fault: Fault, for_ns: u64) {
        self.note_at(client, None, fault, for_ns);
    }

    /// The same of a server, by the node that leads to it.
    fn note_at(&mut self, client: u32, node: Option<u16>, fault: Fault, for_ns: u64) {
        let in_hold = self.meets_hold(client);
        let staged = self.nemesis.stage.cues.striking();
        self.write_down(client, What::Fault { fault, node, for_ns, in_hold, staged });
    }

    fn write_down(&mut self, client: u32, what: What) {
        let now_ns = self.now_ns;
        if let Some(journal) = &self.nemesis.journal {
            journal.write(|| now_ns, client, 0, 0, |_| what);
        }
    }
}
