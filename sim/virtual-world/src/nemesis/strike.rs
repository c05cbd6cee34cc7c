//! What was planned, happening.
//!
//! Invariant: each plan is carried out once; one that meets nobody (a server that is down already, a
//! primary without a replica) strikes nothing and is not written down. Deliberately absent: what made
//! the plan.

use scenarios::fault::Fault;
use scenarios::history::What;

use super::super::network::Way;
use super::super::process::State;
use super::super::world::World;
use harness::cues::Recovery;
use harness::injector::{self, Clocks};
use redis_model::model::Termination;

/// What is planned for a later moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum Plan {
    /// A fault that lasted is over.
    Over(Recovery<Flow>),
    /// A process is cut off from the servers, and for how long.
    Cut { process: u32, ways: [bool; 2], for_ns: u64 },
    /// A wall clock jumps.
    Step { whose: Clocks, by_ns: i64 },
    /// A server forgets its scripts: this one, or the primary.
    FlushScripts(Option<u32>),
    /// A server ends: this one, or the primary.
    End { fault: Fault, server: Option<u32>, to: Option<u32>, for_ns: u64 },
    /// It is there again.
    Return(u32),
    /// A replica takes the primary's place, which is there again so much later.
    Promote { to: Option<u32>, for_ns: u64 },
    /// It is time for a staged fault.
    Cue(u32),
    /// Done, or called off by the heal.
    #[default]
    Nothing,
}

/// What is held back on a connection, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Flow {
    pub(super) conn: u32,
    pub(super) way: Way,
}

impl World {
    pub(in super::super) fn strike(&mut self, plan: u32) {
        match std::mem::take(&mut self.nemesis.plans[plan as usize]) {
            Plan::Nothing => {}
            Plan::Over(over) => injector::end(self, over),
            Plan::Cut { process, ways, for_ns } => {
                self.cut_off(process, ways, for_ns);
                self.plan_in(for_ns, Plan::Over(Recovery::Mend(process)));
            }
            Plan::Step { whose, by_ns } => self.step_clock(whose, by_ns),
            Plan::FlushScripts(server) => self.flush_scripts(server),
            Plan::End { fault, server, to, for_ns } => self.end(fault, server, to, for_ns),
            Plan::Return(server) => self.start_server(server),
            Plan::Promote { to, for_ns } => {
                let old = self.fleet.primary;
                self.promote(to);
                self.plan_in(for_ns, Plan::Return(old));
            }
            Plan::Cue(cue) => self.cue(cue),
        }
    }

    /// At the heal: what would strike is called off, and what puts right is done now.
    pub(super) fn put_right(&mut self, plan: usize) {
        match std::mem::take(&mut self.nemesis.plans[plan]) {
            Plan::Return(server) => self.start_server(server),
            Plan::Promote { to, .. } => {
                let old = self.fleet.primary;
                self.promote(to);
                self.start_server(old);
            }
            Plan::Over(Recovery::Deliver(held)) => self.flow(held),
            _ => {}
        }
    }

    /// Cuts a client off, those ways.
    pub(super) fn cut_off(&mut self, process: u32, ways: [bool; 2], for_ns: u64) {
        for server in 0..self.lock_servers() {
            self.link(process, server).cut = ways;
        }
        self.note(process, Fault::Partition, for_ns);
    }

    /// Stops a client that runs; whether it ran.
    pub(in super::super) fn stop(&mut self, process: u32, for_ns: u64) -> bool {
        if self.processes[process as usize].state != State::Running {
            return false;
        }
        self.suspend(process);
        self.note(process, Fault::Pause, for_ns);
        true
    }

    /// Ends a client for good.
    pub(super) fn end_client(&mut self, process: u32) {
        if self.processes[process as usize].state != State::Crashed {
            self.note(process, Fault::Crash, 0);
            self.crash(process);
        }
    }

    pub(super) fn step_clock(&mut self, whose: Clocks, by_ns: i64) {
        let (client, node) = match whose {
            Clocks::Client(client) => {
                self.processes[client as usize].clock.step_wall(by_ns);
                (client, None)
            }
            Clocks::Server(server) => {
                let server = server.unwrap_or(self.fleet.primary);
                self.servers[server as usize].clock.step_wall(by_ns);
                (0, self.node_of(server))
            }
        };
        self.note_at(client, node, Fault::ClockStep, by_ns.unsigned_abs());
    }

    /// From now on clocks run that fast.
    pub(super) fn set_drift(&mut self, whose: Clocks, ppm: i32) {
        let now_ns = self.now_ns;
        let client = match whose {
            Clocks::Client(client) => {
                self.processes[client as usize].clock.set_drift(now_ns, ppm);
                client
            }
            Clocks::Server(server) => {
                let server = server.unwrap_or(self.fleet.primary);
                self.servers[server as usize].clock.set_drift(now_ns, ppm);
                0
            }
        };
        // It lasts as long as the schedule, so it meets every hold that is still to come.
        let (fault, node, staged) = (Fault::Drift, None, self.nemesis.stage.cues.striking());
        self.write_down(client, What::Fault { fault, node, for_ns: 0, in_hold: true, staged });
    }

    pub(super) fn flush_scripts(&mut self, server: Option<u32>) {
        let server = server.unwrap_or(self.fleet.primary);
        if !self.is_up(server) {
            return;
        }
        let wall = self.server_wall(server);
        let it = &mut self.servers[server as usize];
        let session = it.model.connect(wall, "127.0.0.1:1");
        it.model.execute(wall, session, &[b"SCRIPT", b"FLUSH"]);
        it.model.disconnect(session);
        self.note(0, Fault::ScriptFlush, 0);
    }

    /// Whether this fault is to take a hold away that the next primary does not know of.
    fn must_lose(&self, staged: Option<u16>) -> bool {
        let cue = staged.and_then(|staged| self.nemesis.stage.cues.get(staged.into()));
        cue.is_some_and(|cue| cue.loses_hold)
    }

    /// Whether the server that is to be the next primary has the lock's key.
    fn heir_knows(&self, to: Option<u32>) -> bool {
        let (Some(heir), Some(journal)) = (self.heir(to), &self.nemesis.journal) else {
            return false;
        };
        let model = &self.servers[heir as usize].model;
        journal.look(|history| model.has(history.head.lock_key.as_bytes()))
    }

    /// Ends a server that is up, and plans how it goes on.
    pub(super) fn end(&mut self, fault: Fault, server: Option<u32>, to: Option<u32>, for_ns: u64) {
        let server = server.unwrap_or(self.fleet.primary);
        if !self.is_up(server) || (fault == Fault::Failover && !self.has_heir()) {
            return;
        }
        let staged = self.nemesis.stage.cues.striking();
        let in_hold = self.meets_hold(0) && !(self.must_lose(staged) && self.heir_knows(to));
        let node = self.node_of(server);
        self.write_down(0, What::Fault { fault, node, for_ns, in_hold, staged });
        let (ending, then) = match fault {
            Fault::Failover => (Termination::Killed, Plan::Promote { to, for_ns }),
            Fault::PowerLoss => (Termination::PowerLoss, Plan::Return(server)),
            _ => (Termination::Killed, Plan::Return(server)),
        };
        self.end_server(server, ending);
        self.plan_in(for_ns, then);
    }
}
