//! The faults that a schedule draws from its scenario's swarm.
//!
//! Invariant: a kind of fault that the scenario does not allow draws nothing. So a new kind changes no
//! schedule of a scenario without it.

use harness::injector::ServerFault;
use history::fault::{Fault, Swarm};

use super::super::choices::Choices;
use super::PlannedFault;

/// How often faults strike by chance, in 65,536, and how long they last at most in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// Whether tasks that are ready at once go in any order.
    pub(crate) shuffles: bool,
    pub(super) pause: (u32, u64),
    /// Crashes of a client that is about to send.
    pub(crate) crash: u32,
    pub(super) delay: (u32, u64),
    pub(super) lose_request: u32,
    pub(super) lose_reply: u32,
    pub(super) reset: u32,
    pub(super) refuse: u32,
    /// The longest time after which a client that crashed by chance comes back; 0: it never does.
    pub(crate) comes_back_ns: u64,
}

/// A schedule's faults.
#[derive(Debug, Default)]
pub(crate) struct SwarmDraw {
    pub(crate) rates: Rates,
    /// How many parts per million the clocks of each process, and then of each server, run fast; empty if
    /// none drifts.
    pub(crate) drift_ppm: Vec<i32>,
    /// Faults with their time in nanoseconds from the beginning of the schedule.
    pub(crate) planned: Vec<(u64, PlannedFault)>,
}

/// Draws a schedule's faults for this many clients and servers. Each kind is off in at least half of all
/// schedules; in the others it is anything from rare to as frequent as allowed. If only one kind is searched
/// for, every schedule has it: a schedule without it would show nothing.
pub(crate) fn draw(swarm: &Swarm, clients: u32, servers: u32, choices: &mut Choices) -> SwarmDraw {
    let alone = swarm.searched && swarm.kinds() == 1;
    let mut drawing = SwarmDrawing { swarm, alone, choices, drawn: SwarmDraw::default() };
    drawing.rates();
    // Process 0, the run itself, has clocks, too.
    drawing.drift(1 + clients + servers);
    drawing.partitions(clients);
    drawing.clock_step(swarm.clock_step.ns(), |by_ns, _| PlannedFault::StrikeServer {
        server: Some(0),
        with: ServerFault::StepClock(by_ns),
    });
    if swarm.script_flush && drawing.has_kind() {
        let with = ServerFault::FlushScripts;
        drawing.plan(|_| PlannedFault::StrikeServer { server: None, with });
    }
    drawing.clock_step(swarm.client_clock_step.ns(), |by_ns, choices| PlannedFault::StepClock {
        client: 1 + choices.pick(clients),
        by_ns,
    });
    drawing.server_ends(servers);
    drawing.server_stalls(servers);
    drawing.drawn
}

struct SwarmDrawing<'a> {
    swarm: &'a Swarm,
    /// One kind alone is searched for.
    alone: bool,
    choices: &'a mut Choices,
    drawn: SwarmDraw,
}

impl SwarmDrawing<'_> {
    fn rates(&mut self) {
        let swarm = self.swarm;
        let pause = (self.rate(swarm.pause.per_64k()), swarm.pause.max.ns());
        let delay = (self.rate(swarm.delay.per_64k()), swarm.delay.max.ns());
        let crash = self.rate(swarm.crash.per_64k());
        let lose_request = self.rate(swarm.lose_request.per_64k());
        let lose_reply = self.rate(swarm.lose_reply.per_64k());
        let reset = self.rate(swarm.reset.per_64k());
        let shuffles = swarm.order && self.choices.pick(2) == 1;
        let refuse = if swarm.refuse.is_none() { 0 } else { self.rate(swarm.refuse.per_64k()) };
        let comes_back_ns = swarm.comes_back.ns();
        self.drawn.rates = Rates {
            shuffles,
            pause,
            crash,
            delay,
            lose_request,
            lose_reply,
            reset,
            refuse,
            comes_back_ns,
        };
    }

    /// How often a fault strikes, given how often it may.
    fn rate(&mut self, most_per_64k: u32) -> u32 {
        let strength = match self.alone {
            true => 8 + self.choices.pick(8),
            false => self.choices.pick(16),
        };
        // 0 to 7: off; 8 to 15: a 128th up to all of what is allowed.
        if strength < 8 {
            0
        } else {
            (most_per_64k >> (15 - strength)).max(u32::from(most_per_64k > 0))
        }
    }

    /// How many faults of a kind, given the maximum; at least one if only this kind is searched for.
    fn count(&mut self, most: u32) -> u32 {
        match self.alone && most > 0 {
            true => 1 + self.choices.pick(most),
            false => self.choices.pick(most.saturating_add(1)),
        }
    }

    /// Whether the schedule has a kind of fault that one schedule in four has.
    fn has_kind(&mut self) -> bool {
        self.alone || self.choices.pick(4) == 3
    }

    /// Plans a fault for any time of the swarm.
    fn plan(&mut self, fault: impl FnOnce(&mut Choices) -> PlannedFault) {
        let at_ns = self.choices.span(self.swarm.within.ns());
        let fault = fault(self.choices);
        self.drawn.planned.push((at_ns, fault));
    }

    fn drift(&mut self, clocks: u32) {
        let most = self.swarm.drift_ppm;
        if most == 0 || (!self.alone && self.choices.pick(2) == 0) {
            return;
        }
        let width = u32::try_from(2 * i64::from(most) + 1).unwrap_or(u32::MAX);
        for _ in 0..clocks {
            // 0 is no drift; the other ways alternate between slow and fast.
            let way = i64::from(self.choices.pick(width));
            let ppm = if way % 2 == 0 { way / 2 } else { -(way + 1) / 2 };
            self.drawn.drift_ppm.push(i32::try_from(ppm).unwrap_or(0));
        }
    }

    fn partitions(&mut self, clients: u32) {
        for _ in 0..self.count(self.swarm.partitions) {
            let process = 1 + self.choices.pick(clients);
            let most_ns = self.swarm.partition.ns();
            self.plan(|choices| {
                let for_ns = choices.span(most_ns);
                let directions = match choices.pick(3) {
                    0 => [true, true],
                    1 => [true, false],
                    _ => [false, true],
                };
                PlannedFault::Cut { process, directions, for_ns }
            });
        }
    }

    fn clock_step(&mut self, most_ns: u64, step: impl FnOnce(i64, &mut Choices) -> PlannedFault) {
        if most_ns == 0 || !self.has_kind() {
            return;
        }
        self.plan(|choices| {
            let by_ns = i64::try_from(choices.span(most_ns)).unwrap_or(0);
            let by_ns = if choices.pick(2) == 0 { by_ns } else { -by_ns };
            step(by_ns, choices)
        });
    }

    fn server_ends(&mut self, servers: u32) {
        for (fault, most, most_ns) in self.swarm.ends() {
            for _ in 0..self.count(most) {
                self.plan(|choices| {
                    let for_ns = choices.span(most_ns);
                    let server = match fault {
                        Fault::Failover => None,
                        _ => Some(choices.pick(servers)),
                    };
                    let with = ServerFault::End { fault, to: None, for_ns };
                    PlannedFault::StrikeServer { server, with }
                });
            }
        }
    }

    fn server_stalls(&mut self, servers: u32) {
        if self.swarm.server_stalls == 0 {
            return;
        }
        for _ in 0..self.count(self.swarm.server_stalls) {
            let most_ns = self.swarm.server_stall.ns();
            self.plan(|choices| {
                let for_ns = choices.span(most_ns);
                let server = Some(choices.pick(servers));
                PlannedFault::StrikeServer { server, with: ServerFault::Stall { for_ns } }
            });
        }
    }
}
