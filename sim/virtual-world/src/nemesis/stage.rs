//! Staged faults, in the virtual world: what a cue does to those whom it meets.
//!
//! Invariant: the heal ends whatever is still staged. A fault of messages strikes the next request of the
//! client that came to the place, or that request's reply. Deliberately absent: when a cue strikes, which
//! is the same in every world.

use std::sync::Arc;

use picklock::command::Command;
use picklock::env::{Mark, Phase};
use scenarios::fault::{Chance, Fault, Staged, Ways};

use super::super::choices::Draw;
use super::super::network::Way;
use super::super::world::World;
use super::strike::{Flow, Plan};
use harness::cues::{Cues, Recovery};
use harness::injector::{self, Clocks, Injector, as_cue};

/// What is staged, and what it is about to do.
#[derive(Debug, Default)]
pub(in super::super) struct Stage {
    /// When what strikes.
    pub(super) cues: Cues<Flow>,
    /// Faults that strike the next request of this client, or (0) of any.
    armed: Vec<(u32, u32)>,
    /// The client that has come to the place where it dies, and the cue: it says in the same breath what
    /// it was about to say, and does nothing more.
    doomed: Option<(u32, Option<u16>)>,
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
        self.armed.clear();
        self.doomed = None;
        self.stalled.clear();
    }
}

impl Injector for World {
    type Held = Flow;

    fn cues(&mut self) -> &mut Cues<Flow> {
        &mut self.nemesis.stage.cues
    }

    fn strike_later(&mut self, cue: u32, in_ns: u64) {
        self.plan_in(in_ns, Plan::Cue(cue));
    }

    fn end_later(&mut self, end: Recovery<Flow>, in_ns: u64) {
        self.plan_in(in_ns, Plan::Over(end));
    }

    fn happens(&mut self, chance: Chance) -> bool {
        self.choices().strikes(chance.per_64k())
    }

    fn any_client(&mut self) -> u32 {
        let clients = u32::try_from(self.processes.len() - 1).unwrap_or(u32::MAX);
        1 + self.choices().pick(Draw::Fault, clients)
    }

    fn any_server(&mut self) -> Option<u32> {
        let servers = self.lock_servers();
        Some(self.choices().pick(Draw::Fault, servers))
    }

    fn pause(&mut self, client: u32, cue: &Staged) -> bool {
        self.stop(client, cue.lasts_ns().unwrap_or(0))
    }

    fn resume(&mut self, client: u32) {
        World::resume(self, client);
    }

    fn kill(&mut self, client: u32) {
        if self.is_polling(client) {
            self.nemesis.stage.doomed = Some((client, self.nemesis.stage.cues.striking()));
        } else {
            self.end_client(client);
        }
    }

    fn cut(&mut self, client: u32, ways: Ways, cue: &Staged) {
        self.cut_off(client, ways.there_and_back(), cue.lasts_ns().unwrap_or(0));
    }

    fn mend(&mut self, client: u32) {
        World::mend(self, client);
    }

    fn arm(&mut self, client: u32, cue: u32) {
        self.nemesis.stage.armed.push((client, cue));
    }

    fn deliver(&mut self, held: Flow) {
        self.flow(held);
    }

    fn set_drift(&mut self, whose: Clocks, ppm: i32) {
        World::set_drift(self, whose, ppm);
    }

    fn step_clock(&mut self, whose: Clocks, by_ns: i64) {
        World::step_clock(self, whose, by_ns);
    }

    fn flush_scripts(&mut self, server: Option<u32>) {
        World::flush_scripts(self, server);
    }

    fn end_server(&mut self, fault: Fault, server: Option<u32>, to: Option<u32>, for_ns: u64) {
        World::end(self, fault, server, to, for_ns);
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
            injector::end(self, end);
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
        injector::marked(self, process, mark);
    }

    /// A client is about to send a command.
    pub(super) fn about_to_send(&mut self, process: u32, command: &Command) {
        injector::about_to_send(self, process, command.args().next().unwrap_or_default());
    }

    /// It is time for a fault that waited for it.
    pub(super) fn cue(&mut self, place: u32) {
        injector::due(self, place);
    }

    /// Ends the client whose death was staged for this moment.
    pub(in super::super) fn end_doomed(&mut self) {
        let Some((process, cue)) = self.nemesis.stage.doomed.take() else { return };
        match cue {
            Some(cue) => as_cue(self, cue.into(), process, |world| world.end_client(process)),
            None => self.end_client(process),
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
                    injector::lasts(self, cue, process, Recovery::Deliver(Flow { conn, way }));
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
            as_cue(self, place, process, |world| world.note(process, Fault::Delay, for_ns));
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
                as_cue(self, place, 0, |world| world.lose_message(conn, way, kind));
                true
            }
            (Fault::Reset, _) if ways[way as usize] => {
                as_cue(self, place, 0, |world| world.reset_conn(conn));
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
    pub(super) fn flow(&mut self, held: Flow) {
        let Flow { conn, way } = held;
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
