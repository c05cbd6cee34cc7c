//! What befalls calls: the client that is about to send, the message on its way.
//!
//! Invariant: with no fault of that kind, a message costs a branch and no choice. Deliberately absent:
//! when messages arrive, which the network says.

use picklock::command::Command;
use scenarios::fault::Fault;

use super::super::choices::Draw;
use super::super::network::{Conn, Way};
use super::super::process::State;
use super::super::world::World;
use super::draw::Rates;
use super::strike::Plan;
use harness::cues::Recovery;

impl World {
    /// Whether this client is stopped before it sends: it then goes on by itself, later, or never.
    /// `again` where it has been stopped there before.
    pub(in super::super) fn before_send(
        &mut self,
        process: u32,
        command: &Command,
        again: bool,
    ) -> bool {
        if self.nemesis.stage.on() && !again {
            self.about_to_send(process, command);
        }
        self.end_doomed();
        // Stopped by what is staged here, or at a phase just before.
        if self.processes[process as usize].state != State::Running {
            return true;
        }
        if process != 0 && self.choices_strike(self.nemesis.rates.crash) {
            self.end_client(process);
            return true;
        }
        self.maybe_pause(process)
    }

    fn choices_strike(&mut self, per_64k: u32) -> bool {
        per_64k > 0 && self.choices().strikes(per_64k)
    }

    /// Perhaps stops this client just as its answer arrives.
    pub(in super::super) fn after_reply(&mut self, process: u32) {
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
        self.plan_in(for_ns, Plan::Over(Recovery::Resume(process)));
        self.stop(process, for_ns)
    }

    /// How much later than its latency says a message arrives.
    pub(in super::super) fn late_by(&mut self) -> u64 {
        let (per_64k, most_ns) = self.nemesis.rates.delay;
        if per_64k == 0 || !self.choices().strikes(per_64k) {
            return 0;
        }
        let late_ns = self.choices().span(Draw::Fault, most_ns);
        self.note(0, Fault::Delay, late_ns);
        late_ns
    }

    /// Whether a message of this call is lost just before it arrives: by silence, or with the
    /// connection.
    pub(in super::super) fn loses(&mut self, place: u32, conn: u32, way: Way) -> bool {
        if self.nemesis.stage.on() && self.staged_loss(place, conn, way) {
            return true;
        }
        let Rates { active, lose_request, lose_reply, reset, .. } = self.nemesis.rates;
        let Conn { process, server, .. } = self.conns[conn as usize];
        if !active || process == 0 || self.fleet.is_resource(server) {
            return false;
        }
        let (rate, fault) = match way {
            Way::There => (lose_request, Fault::LoseRequest),
            Way::Back => (lose_reply, Fault::LoseReply),
        };
        if self.choices().strikes(rate) {
            self.lose_message(conn, way, fault);
            return true;
        }
        if self.choices().strikes(reset) {
            self.reset_conn(conn);
            return true;
        }
        false
    }

    /// A message is lost without a word.
    pub(super) fn lose_message(&mut self, conn: u32, way: Way, fault: Fault) {
        let process = self.conns[conn as usize].process;
        self.conns[conn as usize].kill(way);
        // TCP: with a reply, what is sent behind it is lost as well.
        self.conns[conn as usize].kill(Way::There);
        self.note(process, fault, 0);
    }

    /// A connection breaks.
    pub(super) fn reset_conn(&mut self, conn: u32) {
        let process = self.conns[conn as usize].process;
        self.conns[conn as usize].kill(Way::There);
        self.conns[conn as usize].kill(Way::Back);
        self.note(process, Fault::Reset, 0);
        self.break_conn(conn);
    }
}
