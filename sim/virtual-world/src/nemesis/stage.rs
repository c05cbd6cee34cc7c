//! Staged faults, in the virtual world: what a cue does to those whom it meets.
//!
//! Invariant: the heal ends whatever is still staged. A fault of messages strikes the next request of the
//! client that came to the place, or that request's reply. Deliberately absent: when a cue strikes, which
//! is the same in every world.

use std::sync::Arc;

use picklock::command::Command;
use picklock::env::{Mark, Phase};
use scenarios::fault::{Chance, Fault, Staged, Ways, Whom};

use super::super::choices::Draw;
use super::super::network::Way;
use super::super::world::World;
use super::strike::{Clocks, Plan};
use harness::cues::{self, Cues};

/// What is staged, and what it is about to do.
#[derive(Debug, Default)]
pub(in super::super) struct Stage {
    /// When what strikes.
    pub(super) cues: Cues<Plan>,
    /// The cue whose fault is striking, for what is written down of it.
    pub(super) striking: Option<u16>,
    /// Faults that strike the next request of this client, or (0) of any.
    armed: Vec<(u32, u32)>,
    /// The client that has come to the place where it dies, and the cue: it says in the same breath what
    /// it was about to say, and does nothing more.
    doomed: Option<(u32, u32)>,
    /// Messages that wait on a stalled connection.
    stalled: Vec<(u32, Way, u32)>,
}

impl Stage {
    /// Whether anything is staged.
    pub(in super::super) const fn on(&self) -> bool {
        self.cues.on()
    }

    pub(super) fn reset(&mut self) {
        self.cues.reset();
        self.striking = None;
        self.armed.clear();
        self.doomed = None;
        self.stalled.clear();
    }
}

impl cues::Stage for World {
    type End = Plan;

    fn cues(&mut self) -> &mut Cues<Plan> {
        &mut self.nemesis.stage.cues
    }

    fn enter(&mut self, place: u32, client: u32) {
        self.as_cue(place, |world| world.strike_cue(place, client));
    }

    fn later(&mut self, place: u32, in_ns: u64) {
        self.plan_in(in_ns, Plan::Cue(place));
    }

    fn end(&mut self, end: Plan) {
        self.end_lasting(end);
    }

    fn strikes(&mut self, chance: Chance) -> bool {
        self.choices().strikes(chance.per_64k())
    }

    fn anybody(&mut self, place: u32) -> u32 {
        let cue = self.nemesis.stage.cues.get(place);
        if cue.is_some_and(|cue| cue.kind.is_of_message()) {
            return 0;
        }
        let clients = u32::try_from(self.processes.len() - 1).unwrap_or(u32::MAX);
        1 + self.choices().pick(Draw::Fault, clients)
    }
}

impl World {
    /// Stages these faults, from now on.
    pub(in super::super) fn set_stage(&mut self, cues: &Arc<[Staged]>) {
        let clients = self.processes.len() - 1;
        for (place, at_ns) in self.nemesis.stage.cues.set(cues, clients) {
            self.plan_in(at_ns, Plan::Cue(place));
        }
    }

    /// Everything that lasts ends, and nothing is staged any more.
    pub(super) fn end_stage(&mut self) {
        for end in self.nemesis.stage.cues.close() {
            self.end_lasting(end);
        }
    }

    /// A client has said where its locking has come to.
    pub(in super::super) fn marked(&mut self, process: u32, mark: Mark) {
        let holds = match mark {
            Mark::Phase(Phase::AcquireApplied) => Some(true),
            Mark::Phase(Phase::ReleaseBeforeSend | Phase::Released) | Mark::Lost => Some(false),
            _ => None,
        };
        if let Some(holds) = holds {
            self.processes[process as usize].holds = holds;
        }
        cues::marked(self, process, mark);
    }

    /// A client is about to send a command.
    pub(super) fn about_to_send(&mut self, process: u32, command: &Command) {
        cues::about_to_send(self, process, command.args().next().unwrap_or_default());
    }

    /// It is time for a fault that waited for it.
    pub(super) fn cue(&mut self, place: u32) {
        cues::due(self, place);
    }

    /// Does something of which is written down that it is this cue's.
    fn as_cue(&mut self, place: u32, act: impl FnOnce(&mut Self)) {
        self.nemesis.stage.striking = u16::try_from(place).ok();
        act(self);
        self.nemesis.stage.striking = None;
    }

    fn strike_cue(&mut self, place: u32, process: u32) {
        let cues = self.nemesis.stage.cues.all();
        let cue = &cues[place as usize];
        let (kind, lasts_ns) = (cue.kind, cue.lasts_ns());
        let for_ns = lasts_ns.unwrap_or(0);
        let server = match cue.whom() {
            Whom::Server(server) => Some(server),
            Whom::Any if kind.loses_keys() => {
                let servers = self.lock_servers();
                Some(self.choices().pick(Draw::Fault, servers))
            }
            _ => None,
        };
        let clocks = match cue.whom() {
            Whom::Primary | Whom::Server(_) => Clocks::Server(server.unwrap_or(self.fleet.primary)),
            _ => Clocks::Client(process),
        };
        match kind {
            Fault::Pause => {
                if self.stop(process, lasts_ns) {
                    self.lasts(cue, process, Plan::Resume(process));
                }
            }
            Fault::Crash if self.is_polling(process) => {
                self.nemesis.stage.doomed = Some((process, place));
            }
            Fault::Crash => self.kill(process),
            Fault::Partition => {
                self.cut(process, cue.ways.unwrap_or_default().there_and_back(), for_ns);
                if lasts_ns.is_some() {
                    self.plan_in(for_ns, Plan::Heal(process));
                }
                self.lasts(cue, process, Plan::Heal(process));
            }
            Fault::Delay | Fault::LoseRequest | Fault::LoseReply | Fault::Reset => {
                self.nemesis.stage.armed.push((process, place));
            }
            Fault::Drift => self.set_drift(clocks, cue.ppm.unwrap_or(0)),
            Fault::ClockStep => self.step_clock(clocks, cue.by_ns()),
            Fault::ScriptFlush => self.flush_scripts(server),
            Fault::Failover | Fault::PowerLoss | Fault::ServerCrash => {
                let to = match cue.to {
                    Some(Whom::Server(to)) => Some(to),
                    _ => None,
                };
                self.end(kind, server, to, for_ns);
            }
        }
    }

    /// Ends the client whose death was staged for this moment.
    pub(in super::super) fn end_doomed(&mut self) {
        if let Some((process, place)) = self.nemesis.stage.doomed.take() {
            self.as_cue(place, |world| world.kill(process));
        }
    }

    fn lasts(&mut self, cue: &Staged, process: u32, end: Plan) {
        self.nemesis.stage.cues.lasts(cue, process, end);
    }

    fn end_lasting(&mut self, end: Plan) {
        match end {
            Plan::Resume(process) => self.resume(process),
            Plan::Heal(process) => self.mend(process),
            Plan::Flow { conn, way } => self.flow(conn, way),
            _ => {}
        }
    }

    /// A request goes out on this connection: what was staged for it befalls it. How much later it
    /// arrives, in nanoseconds.
    pub(in super::super) fn staged_request(&mut self, call: u32, conn: u32) -> u64 {
        let process = self.conns[conn as usize].process;
        let mut late_ns = 0;
        let cues = self.nemesis.stage.cues.all();
        let armed = std::mem::take(&mut self.nemesis.stage.armed);
        for (whose, place) in armed {
            if process == 0 || (whose != process && whose != 0) {
                self.nemesis.stage.armed.push((whose, place));
                continue;
            }
            let cue = &cues[place as usize];
            if cue.kind != Fault::Delay {
                self.set_staged(call, place + 1);
                continue;
            }
            let ways = cue.ways.unwrap_or(Ways::There).there_and_back();
            let mut late = 0;
            for (way, on) in [(Way::There, ways[0]), (Way::Back, ways[1])] {
                if on && cue.until.is_some() {
                    self.conns[conn as usize].stalled[way as usize] = true;
                    self.lasts(cue, process, Plan::Flow { conn, way });
                    if let Some(for_ns) = cue.lasts_ns() {
                        self.plan_in(for_ns, Plan::Flow { conn, way });
                    }
                } else if on {
                    late = cue.lasts_ns().unwrap_or(0);
                    if way == Way::There {
                        late_ns += late;
                    } else {
                        self.set_staged(call, place + 1);
                    }
                }
            }
            let for_ns = cue.lasts_ns().unwrap_or(late);
            self.as_cue(place, |world| world.note(process, Fault::Delay, for_ns));
        }
        late_ns
    }

    /// How much later than its latency says the reply of this call arrives, in nanoseconds.
    pub(in super::super) fn staged_reply(&mut self, call: u32) -> u64 {
        match self.staged(call) {
            Some(cue) if cue.kind == Fault::Delay => cue.lasts_ns().unwrap_or(0),
            _ => 0,
        }
    }

    /// Whether what was staged for this call takes this message.
    pub(super) fn staged_loss(&mut self, call: u32, conn: u32, way: Way) -> bool {
        let Some(cue) = self.staged(call) else { return false };
        let place = self.staged_of(call) - 1;
        let (kind, ways) = (cue.kind, cue.ways.unwrap_or(Ways::There).there_and_back());
        match (kind, way) {
            (Fault::LoseRequest, Way::There) | (Fault::LoseReply, Way::Back) => {
                self.as_cue(place, |world| world.lose_message(conn, way, kind));
                true
            }
            (Fault::Reset, _) if ways[way as usize] => {
                self.as_cue(place, |world| world.reset_conn(conn));
                true
            }
            _ => false,
        }
    }

    fn staged(&self, call: u32) -> Option<&Staged> {
        let place = self.staged_of(call).checked_sub(1)?;
        self.nemesis.stage.cues.get(place)
    }

    /// A message on a stalled connection waits; whether it does.
    pub(in super::super) fn stalls(&mut self, call: u32, conn: u32, way: Way) -> bool {
        let stalled = self.conns[conn as usize].stalled[way as usize];
        if stalled {
            self.nemesis.stage.stalled.push((conn, way, call));
        }
        stalled
    }

    /// What waits on a stalled connection goes on, in order.
    pub(super) fn flow(&mut self, conn: u32, way: Way) {
        self.conns[conn as usize].stalled[way as usize] = false;
        for (of, direction, call) in std::mem::take(&mut self.nemesis.stage.stalled) {
            if (of, direction) == (conn, way) {
                self.send_on(conn, way, call);
            } else {
                self.nemesis.stage.stalled.push((of, direction, call));
            }
        }
    }
}
