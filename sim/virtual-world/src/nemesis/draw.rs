//! What a schedule draws of the scenario's swarm.
//!
//! Invariant: what the scenario does not allow draws nothing, so a new kind of fault changes no
//! schedule of a scenario without it. Deliberately absent: the strikes themselves.

use scenarios::fault::{Fault, Swarm};
use scenarios::history::What;

use super::super::choices::Draw;
use super::super::world::World;
use super::strike::Plan;
use harness::injector::Clocks;

/// How this schedule's faults strike: times in 65,536, and at most how hard.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) active: bool,
    pub(super) shuffles: bool,
    pub(super) pause: (u32, u64),
    pub(super) crash: u32,
    pub(super) delay: (u32, u64),
    pub(super) lose_request: u32,
    pub(super) lose_reply: u32,
    pub(super) reset: u32,
}

impl World {
    /// Draws this schedule's faults: each kind is off in half of all schedules or more, and anything from
    /// rare to all that is allowed in the rest. Where one kind alone is searched for, every schedule has it:
    /// those without would show nothing.
    pub(in super::super) fn draw_swarm(&mut self, swarm: &Swarm, clients: u32) {
        let alone = swarm.searched && swarm.kinds() == 1;
        let rate = |world: &mut Self, most_per_64k: u32| {
            let strength = match alone {
                true => 8 + world.choices().pick(Draw::Swarm, 8),
                false => world.choices().pick(Draw::Swarm, 16),
            };
            // 0 to 7: off; 8 to 15: a 128th up to all of what is allowed.
            if strength < 8 {
                0
            } else {
                (most_per_64k >> (15 - strength)).max(u32::from(most_per_64k > 0))
            }
        };
        let pause = (rate(self, swarm.pause.per_64k()), swarm.pause.most_ns());
        let delay = (rate(self, swarm.delay.per_64k()), swarm.delay.most_ns());
        let crash = rate(self, swarm.crash.per_64k());
        let lose_request = rate(self, swarm.lose_request.per_64k());
        let lose_reply = rate(self, swarm.lose_reply.per_64k());
        let reset = rate(self, swarm.reset.per_64k());
        let shuffles = swarm.order && self.choices().pick(Draw::Swarm, 2) == 1;
        self.nemesis.rates =
            Rates { active: true, shuffles, pause, crash, delay, lose_request, lose_reply, reset };
        self.draw_drift(swarm, alone);
        self.draw_partitions(swarm, clients, alone);
        let server = |_: &mut Self| Clocks::Server(Some(0));
        self.draw_step(swarm.clock_step_most_ns(), swarm.within_ns(), alone, server);
        if swarm.script_flush && (alone || self.choices().pick(Draw::Swarm, 4) == 3) {
            let within_ns = swarm.within_ns();
            let at_ns = self.choices().span(Draw::Fault, within_ns);
            self.plan(at_ns, Plan::FlushScripts(None));
        }
        self.draw_step(swarm.client_clock_step_most_ns(), swarm.within_ns(), alone, |world| {
            Clocks::Client(1 + world.choices().pick(Draw::Fault, clients))
        });
        self.draw_ends(swarm, alone);
    }

    /// How many of something that may happen so often; at least one, where it stands alone.
    fn draw_count(&mut self, most: u32, alone: bool) -> u32 {
        match alone && most > 0 {
            true => 1 + self.choices().pick(Draw::Swarm, most),
            false => self.choices().pick(Draw::Swarm, most.saturating_add(1)),
        }
    }

    fn draw_step(
        &mut self,
        most_ns: u64,
        within_ns: u64,
        alone: bool,
        whose: impl FnOnce(&mut Self) -> Clocks,
    ) {
        if most_ns > 0 && (alone || self.choices().pick(Draw::Swarm, 4) == 3) {
            let at_ns = self.choices().span(Draw::Fault, within_ns);
            let by_ns = i64::try_from(self.choices().span(Draw::Fault, most_ns)).unwrap_or(0);
            let by_ns = if self.choices().pick(Draw::Fault, 2) == 0 { by_ns } else { -by_ns };
            let whose = whose(self);
            self.plan(at_ns, Plan::Step { whose, by_ns });
        }
    }

    fn draw_drift(&mut self, swarm: &Swarm, alone: bool) {
        if swarm.drift_ppm == 0 || (!alone && self.choices().pick(Draw::Swarm, 2) == 0) {
            return;
        }
        let most = i64::from(swarm.drift_ppm);
        for place in 0..self.processes.len() + self.lock_servers() as usize {
            let width = u32::try_from(2 * most + 1).unwrap_or(u32::MAX);
            // 0 is no drift; the other ways alternate between slow and fast.
            let way = i64::from(self.choices().pick(Draw::Fault, width));
            let ppm = if way % 2 == 0 { way / 2 } else { -(way + 1) / 2 };
            let ppm = i32::try_from(ppm).unwrap_or(0);
            match self.processes.get_mut(place) {
                Some(process) => process.clock.set_drift(0, ppm),
                None => self.servers[place - self.processes.len()].clock.set_drift(0, ppm),
            }
        }
        // It lasts as long as the schedule, so it meets every hold there is.
        let (fault, node, staged) = (Fault::Drift, None, None);
        self.write_down(0, What::Fault { fault, node, for_ns: 0, in_hold: true, staged });
    }

    fn draw_partitions(&mut self, swarm: &Swarm, clients: u32, alone: bool) {
        let count = self.draw_count(swarm.partitions, alone);
        for _ in 0..count {
            let process = 1 + self.choices().pick(Draw::Fault, clients);
            let at_ns = self.choices().span(Draw::Fault, swarm.within_ns());
            let for_ns = self.choices().span(Draw::Fault, swarm.partition_most_ns());
            let ways = match self.choices().pick(Draw::Fault, 3) {
                0 => [true, true],
                1 => [true, false],
                _ => [false, true],
            };
            self.plan(at_ns, Plan::Cut { process, ways, for_ns });
        }
    }

    fn draw_ends(&mut self, swarm: &Swarm, alone: bool) {
        let servers = self.lock_servers();
        for (fault, most, most_ns) in swarm.ends() {
            let count = self.draw_count(most, alone);
            for _ in 0..count {
                let at_ns = self.choices().span(Draw::Fault, swarm.within_ns());
                let for_ns = self.choices().span(Draw::Fault, most_ns);
                let server = match fault {
                    Fault::Failover => None,
                    _ => Some(self.choices().pick(Draw::Fault, servers)),
                };
                self.plan(at_ns, Plan::End { fault, server, to: None, for_ns });
            }
        }
    }
}
