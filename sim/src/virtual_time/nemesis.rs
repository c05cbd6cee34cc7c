//! The nemesis: faults that strike at random, as the schedule's choices have it.
//!
//! Invariant: with every choice at 0 nothing strikes; after the heal nothing strikes any more. Each
//! strike is written into the history, with whether it met a hold. Deliberately absent: which faults
//! a scenario allows, which its file says.

use scenarios::fault::{Fault, Swarm};
use scenarios::history::{Journal, What};

use super::choices::Draw;
use super::network::Way;
use super::process::State;
use super::queue::Event;
use super::world::World;

/// What is planned for a later moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// A paused process goes on.
    Resume(u32),
    /// A process is cut off from a server, and for how long.
    Cut { process: u32, ways: [bool; 2], for_ns: u64 },
    /// And has its way again.
    Heal(u32),
    /// A server's wall clock jumps.
    Step { server: u32, by_ns: i64 },
    /// The server forgets its scripts.
    FlushScripts,
    /// Called off by the heal.
    Nothing,
}

/// The nemesis of a world.
#[derive(Debug, Default)]
pub(super) struct Nemesis {
    rates: Rates,
    plans: Vec<Plan>,
    journal: Option<Journal>,
}

/// How this schedule's faults strike: times in 65,536, and at most how hard.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    active: bool,
    shuffles: bool,
    pause: (u32, u64),
    crash: u32,
    delay: (u32, u64),
    lose_request: u32,
    lose_reply: u32,
    reset: u32,
}

impl Nemesis {
    pub(super) fn reset(&mut self) {
        self.rates = Rates::default();
        self.plans.clear();
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
    /// Draws this schedule's faults: each kind is off in half of all schedules, and anything from
    /// rare to all that is allowed in the rest.
    pub(super) fn draw_swarm(&mut self, swarm: &Swarm, clients: u32) {
        let rate = |world: &mut Self, most_per_64k: u32| {
            let strength = world.choices().pick(Draw::Swarm, 16);
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
        self.draw_drift(swarm);
        self.draw_partitions(swarm, clients);
        let most_ns = swarm.clock_step_most_ns();
        if most_ns > 0 && self.choices().pick(Draw::Swarm, 4) == 3 {
            let at_ns = self.choices().span(Draw::Fault, swarm.within_ns());
            let by_ns = i64::try_from(self.choices().span(Draw::Fault, most_ns)).unwrap_or(0);
            let by_ns = if self.choices().pick(Draw::Fault, 2) == 0 { by_ns } else { -by_ns };
            self.plan(at_ns, Plan::Step { server: 0, by_ns });
        }
        if swarm.script_flush && self.choices().pick(Draw::Swarm, 4) == 3 {
            let within_ns = swarm.within_ns();
            let at_ns = self.choices().span(Draw::Fault, within_ns);
            self.plan(at_ns, Plan::FlushScripts);
        }
    }

    fn draw_drift(&mut self, swarm: &Swarm) {
        if swarm.drift_ppm == 0 || self.choices().pick(Draw::Swarm, 2) == 0 {
            return;
        }
        let most = i64::from(swarm.drift_ppm);
        for place in 0..self.processes.len() + self.servers.len() {
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
        self.note(0, Fault::Drift, 0, true);
    }

    fn draw_partitions(&mut self, swarm: &Swarm, clients: u32) {
        let count = self.choices().pick(Draw::Swarm, swarm.partitions + 1);
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

    /// The end of the safety phase: everything is put right, and nothing strikes any more.
    pub(super) fn heal(&mut self) {
        self.nemesis.rates = Rates::default();
        self.nemesis.plans.iter_mut().for_each(|plan| {
            if matches!(plan, Plan::Cut { .. } | Plan::Step { .. } | Plan::FlushScripts) {
                *plan = Plan::Nothing;
            }
        });
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

    pub(super) fn strike(&mut self, plan: u32) {
        match self.nemesis.plans[plan as usize] {
            Plan::Resume(process) => self.resume(process),
            Plan::Cut { process, ways, for_ns } => {
                let holds = self.processes[process as usize].holds;
                self.link(process, 0).cut = ways;
                self.note(process, Fault::Partition, for_ns, holds);
                let end_ns = self.now_ns.saturating_add(for_ns);
                self.plan(end_ns, Plan::Heal(process));
            }
            Plan::Nothing => {}
            Plan::Heal(process) => self.mend(process),
            Plan::Step { server, by_ns } => {
                self.servers[server as usize].clock.step_wall(by_ns);
                let holds = self.processes.iter().any(|it| it.holds);
                self.note(0, Fault::ClockStep, by_ns.unsigned_abs(), holds);
            }
            Plan::FlushScripts => {
                let wall = self.server_wall(0);
                let server = &mut self.servers[0];
                let session = server.model.connect(wall, "127.0.0.1:1");
                server.model.execute(wall, session, &[b"SCRIPT", b"FLUSH"]);
                server.model.disconnect(session);
                let holds = self.processes.iter().any(|it| it.holds);
                self.note(0, Fault::ScriptFlush, 0, holds);
            }
        }
    }

    fn mend(&mut self, process: u32) {
        self.link(process, 0).cut = [false; 2];
        for way in [Way::There, Way::Back] {
            self.release_withheld(process, 0, way);
        }
    }

    /// Whether this client is stopped before it sends: it then goes on by itself, later, or never.
    pub(super) fn before_send(&mut self, process: u32) -> bool {
        if process != 0 && self.choices_strike(self.nemesis.rates.crash) {
            let holds = self.processes[process as usize].holds;
            self.note(process, Fault::Crash, 0, holds);
            self.crash(process);
            return true;
        }
        self.maybe_pause(process)
    }

    fn choices_strike(&mut self, per_64k: u32) -> bool {
        per_64k > 0 && self.choices().strikes(per_64k)
    }

    /// Perhaps stops this client just as its answer arrives.
    pub(super) fn after_reply(&mut self, process: u32) {
        self.maybe_pause(process);
    }

    fn maybe_pause(&mut self, process: u32) -> bool {
        let (per_64k, most_ns) = self.nemesis.rates.pause;
        // The run itself is nobody's client.
        if per_64k == 0 || process == 0 || self.processes[process as usize].state != State::Running
        {
            return false;
        }
        if !self.choices().strikes(per_64k) {
            return false;
        }
        let for_ns = self.choices().span(Draw::Fault, most_ns);
        let holds = self.processes[process as usize].holds;
        self.pause(process);
        self.plan(self.now_ns.saturating_add(for_ns), Plan::Resume(process));
        self.note(process, Fault::Pause, for_ns, holds);
        true
    }

    /// How much later than its latency says a message arrives.
    pub(super) fn late_by(&mut self) -> u64 {
        let (per_64k, most_ns) = self.nemesis.rates.delay;
        if per_64k == 0 || !self.choices().strikes(per_64k) {
            return 0;
        }
        let late_ns = self.choices().span(Draw::Fault, most_ns);
        let holds = self.processes.iter().any(|it| it.holds);
        self.note(0, Fault::Delay, late_ns, holds);
        late_ns
    }

    /// Whether a message is lost just before it arrives: by silence, or with the connection.
    pub(super) fn loses(&mut self, conn: u32, way: Way) -> bool {
        let Rates { active, lose_request, lose_reply, reset, .. } = self.nemesis.rates;
        let process = self.conns[conn as usize].process;
        if !active || process == 0 {
            return false;
        }
        let holds = self.processes[process as usize].holds;
        let (rate, fault) = match way {
            Way::There => (lose_request, Fault::LoseRequest),
            Way::Back => (lose_reply, Fault::LoseReply),
        };
        if self.choices().strikes(rate) {
            self.conns[conn as usize].kill(way);
            // TCP: with a reply, what is sent behind it is lost as well.
            self.conns[conn as usize].kill(Way::There);
            self.note(process, fault, 0, holds);
            return true;
        }
        if self.choices().strikes(reset) {
            self.conns[conn as usize].kill(Way::There);
            self.conns[conn as usize].kill(Way::Back);
            self.note(process, Fault::Reset, 0, holds);
            self.break_conn(conn);
            return true;
        }
        false
    }

    fn note(&mut self, client: u32, fault: Fault, for_ns: u64, in_hold: bool) {
        let now_ns = self.now_ns;
        if let Some(journal) = &self.nemesis.journal {
            journal.write(|| now_ns, client, 0, 0, |_| What::Fault { fault, node: None, for_ns, in_hold });
        }
    }
}
