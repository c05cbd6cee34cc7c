//! The places at which faults strike: a client that marks a phase, sends or is answered, and a message that is
//! sent or arrives.
//!
//! Invariant: a kind of fault that the schedule does not have costs a branch and no choice. A staged fault of
//! messages strikes the next request of the client that came to the place, or that request's reply.

use harness::cues::Recovery;
use harness::injector::{self, Injector, as_cue};
use history::fault::{ErrorAnswer, Fault, Staged, Ways};
use picklock::command::Command;
use picklock::env::{Mark, Phase};

use super::super::executor::ProcessState;
use super::super::nemesis::{PendingCrash, StalledDirection};
use super::super::network::{Direction, NetworkConn};
use super::Simulation;

impl Simulation {
    /// A client marks a phase, its validity, its token or a loss.
    pub(crate) fn marked(&mut self, process: u32, mark: Mark) {
        let holds = match mark {
            Mark::Phase(Phase::AcquireApplied) => Some(true),
            Mark::Phase(Phase::ReleaseBeforeSend | Phase::Released) | Mark::Lost => Some(false),
            _ => None,
        };
        if let Some(holds) = holds {
            self.nemesis.holders[process as usize] = holds;
        }
        injector::marked(self, process, mark);
    }

    /// Whether this client is stopped before it sends: it then goes on by itself, later, or never.
    /// `again` says that it was stopped there before.
    pub(crate) fn before_send(&mut self, process: u32, command: &Command, again: bool) -> bool {
        if self.nemesis.cues.on() && !again {
            let name = command.args().next().unwrap_or_default();
            injector::about_to_send(self, process, name);
        }
        self.crash_if_pending();
        // Stopped by a fault that is staged here, or at a phase just before.
        if self.executor.state(process) != ProcessState::Running {
            return true;
        }
        if process != 0 && self.choices.strikes(self.nemesis.rates.crash) {
            let most_ns = self.nemesis.rates.comes_back_ns;
            let comes_back_ns = (most_ns > 0).then(|| self.choices.span(most_ns));
            self.crash_client(process, comes_back_ns);
            return true;
        }
        self.maybe_pause(process)
    }

    /// Ends the client whose crash was staged for this moment.
    pub(super) fn crash_if_pending(&mut self) {
        let Some(pending) = self.nemesis.pending_crash.take() else { return };
        let PendingCrash { client, striking, comes_back_ns } = pending;
        match striking {
            Some(cue) => as_cue(self, cue.into(), client, |sim| {
                sim.crash_client(client, comes_back_ns);
            }),
            None => self.crash_client(client, comes_back_ns),
        }
    }

    /// Perhaps pauses a client that is about to send, or has just been answered; true if it does.
    pub(super) fn maybe_pause(&mut self, process: u32) -> bool {
        // The run itself is nobody's client.
        if process == 0 || self.executor.state(process) != ProcessState::Running {
            return false;
        }
        let Some(for_ns) = self.nemesis.pause_ns(&mut self.choices) else { return false };
        self.end_later(Recovery::Resume(process), for_ns);
        self.pause_client(process, for_ns)
    }

    /// A request is sent on this connection, and the faults armed for it strike it now or later. Returns how
    /// much later it arrives, in nanoseconds.
    pub(super) fn staged_request(&mut self, call: u32, conn: u32) -> u64 {
        let process = self.network.conn(conn).process;
        let mut delay_ns = 0;
        let cues = self.nemesis.cues.all();
        for (whose, place) in std::mem::take(&mut self.nemesis.armed) {
            if process == 0 || (whose != process && whose != 0) {
                self.nemesis.armed.push((whose, place));
                continue;
            }
            let cue = &cues[place as usize];
            if cue.strikes_all() {
                self.nemesis.armed.push((whose, place));
            }
            if cue.kind == Fault::Delay {
                delay_ns += self.staged_delay(call, conn, place, cue);
            } else {
                self.calls[call].staged = Some(place);
            }
        }
        delay_ns
    }

    /// Delays a request, its reply or both: by a time, or until a client comes to a phase. Returns how much
    /// later the request arrives, in nanoseconds.
    fn staged_delay(&mut self, call: u32, conn: u32, place: u32, cue: &Staged) -> u64 {
        let process = self.network.conn(conn).process;
        let for_ns = cue.surely_lasts_ns().unwrap_or(0);
        let [there, back] = cue.ways.unwrap_or(Ways::There).there_and_back();
        let mut delay_ns = 0;
        if cue.until.is_some() {
            for (direction, on) in [(Direction::ToServer, there), (Direction::ToClient, back)] {
                if on {
                    self.network.conn_mut(conn).stalled[direction as usize] = true;
                    let end = Recovery::Deliver(StalledDirection { conn, direction });
                    injector::lasts(self, cue, process, end);
                }
            }
        } else {
            if there {
                delay_ns = for_ns;
            }
            if back {
                self.calls[call].staged = Some(place);
            }
        }
        as_cue(self, place, process, |sim| {
            sim.nemesis.note(process, None, Fault::Delay, for_ns);
        });
        delay_ns
    }

    /// The delay of the reply of this call beyond its latency, in nanoseconds.
    pub(super) fn staged_reply(&mut self, call: u32) -> u64 {
        match self.staged(call) {
            Some((_, cue)) if cue.kind == Fault::Delay => cue.lasts_ns().unwrap_or(0),
            _ => 0,
        }
    }

    /// Whether a message of this call is lost just before it arrives: by silence, or with the connection.
    pub(super) fn loses(&mut self, call: u32, conn: u32, direction: Direction) -> bool {
        if self.nemesis.cues.on() && self.staged_loss(call, conn, direction) {
            return true;
        }
        let NetworkConn { process, server, .. } = *self.network.conn(conn);
        if process == 0 || self.servers.is_resource(server) {
            return false;
        }
        match self.nemesis.message_fault(direction, &mut self.choices) {
            None => return false,
            Some(Fault::Reset) => self.reset_conn(conn),
            Some(fault) => self.lose_message(conn, direction, fault),
        }
        true
    }

    /// Whether the fault that was staged for this call loses this message.
    fn staged_loss(&mut self, call: u32, conn: u32, direction: Direction) -> bool {
        let Some((place, cue)) = self.staged(call) else { return false };
        let (kind, ways) = (cue.kind, cue.ways.unwrap_or(Ways::There).there_and_back());
        match (kind, direction) {
            (Fault::LoseRequest, Direction::ToServer) | (Fault::LoseReply, Direction::ToClient) => {
                as_cue(self, place, 0, |sim| sim.lose_message(conn, direction, kind));
                true
            }
            (Fault::Reset, _) if ways[direction as usize] => {
                as_cue(self, place, 0, |sim| sim.reset_conn(conn));
                true
            }
            _ => false,
        }
    }

    /// The error with which the server answers this call instead of carrying it out, if it does.
    pub(super) fn refusal(&mut self, call: u32) -> Option<ErrorAnswer> {
        let NetworkConn { process, server, .. } = *self.network.conn(self.calls[call].conn);
        if process == 0 || self.servers.is_resource(server) {
            return None;
        }
        let staged = self.staged(call).and_then(|(place, cue)| Some((place, cue.error?)));
        if let Some((place, error)) = staged.filter(|_| self.nemesis.cues.on()) {
            as_cue(self, place, process, |sim| sim.nemesis.note(process, None, Fault::Refuse, 0));
            return Some(error);
        }
        let error = self.nemesis.refusal(&mut self.choices)?;
        self.nemesis.note(process, None, Fault::Refuse, 0);
        Some(error)
    }

    /// The cue whose fault strikes this call, and its place.
    fn staged(&self, call: u32) -> Option<(u32, &Staged)> {
        let place = self.calls[call].staged?;
        self.nemesis.cues.get(place).map(|cue| (place, cue))
    }
}
