//! The injector of the live worlds: what a staged fault does to the client or server that it strikes.
//!
//! Invariant: a client that crashes at a phase first sends what it was about to send.

use std::time::Duration;

use history::What;
use history::fault::{Chance, Fault, Staged, Ways};
use picklock::time::span_ns;
use rand_pcg::rand_core::Rng;

use super::server_op::ServerAction;
use super::{Locked, StagedCrash};
use fault_proxy::Cut;
use harness::cues::{Cues, Recovery};
use harness::injector::{self, Injector, ServerFault};

/// How long a client that is to crash may take to send what it was about to send.
const CRASH_GRACE: Duration = Duration::from_millis(20);

impl Injector for Locked<'_> {
    /// The index of the gate at which the messages wait.
    type Held = usize;

    fn cues(&mut self) -> &mut Cues<usize> {
        &mut self.state.cues
    }

    fn strike_later(&mut self, cue: u32, in_ns: u64) {
        self.nemesis.later(in_ns, move |it| injector::due(&mut it.lock(), cue));
    }

    fn end_later(&mut self, end: Recovery<usize>, in_ns: u64) {
        self.nemesis.later(in_ns, move |it| injector::end(&mut it.lock(), end));
    }

    fn happens(&mut self, chance: Chance) -> bool {
        let per_64k = u64::from(chance.per_64k());
        self.state.random.next_u64() >> 48 < per_64k
    }

    fn any_client(&mut self) -> u32 {
        let clients = self.state.clients.len().saturating_sub(1).max(1) as u64;
        1 + u32::try_from(self.state.random.next_u64() % clients).unwrap_or(0)
    }

    fn any_server(&mut self) -> Option<u32> {
        None
    }

    fn pause(&mut self, client: u32, cue: &Staged) -> bool {
        let ran = self.client(client).is_some_and(|it| it.stop());
        if ran {
            self.note(client, Fault::Pause, cue.surely_lasts_ns().unwrap_or(0));
        }
        ran
    }

    fn resume(&mut self, client: u32) {
        if let Some(client) = self.client(client) {
            client.resume();
        }
    }

    fn kill(&mut self, client: u32, comes_back_ns: Option<u64>) {
        let Some(cue) = self.state.cues.striking() else { return };
        let crash = StagedCrash { client, cue: cue.into(), comes_back_ns };
        self.state.pending_crashes.push(crash);
        // It crashes with its next request, or now if there is none.
        let grace_ns = span_ns(CRASH_GRACE);
        self.nemesis.later(grace_ns, move |it| it.lock().crash_if_pending(client));
    }

    fn revive(&mut self, client: u32) {
        if let Some(client) = self.client(client) {
            client.revive();
        }
    }

    fn cut(&mut self, client: u32, ways: Ways, cue: &Staged) {
        let cut = match ways {
            Ways::Both => Cut::Both,
            Ways::There => Cut::Requests,
            Ways::Back => Cut::Replies,
        };
        self.state.links.cut(client, cut);
        self.note(client, Fault::Partition, cue.surely_lasts_ns().unwrap_or(0));
    }

    fn mend(&mut self, client: u32) {
        self.state.links.cut(client, Cut::None);
    }

    fn arm(&mut self, client: u32, cue: u32) {
        self.state.messages.armed.push((client, cue));
    }

    fn disarm(&mut self, client: u32, cue: u32) {
        self.state.messages.armed.retain(|armed| *armed != (client, cue));
    }

    fn deliver(&mut self, gate: usize) {
        self.state.messages.gates[gate].open();
    }

    fn set_drift(&mut self, client: u32, ppm: i32) {
        if let Some(client) = self.client(client) {
            client.set_drift(ppm);
        }
        // It lasts as long as the run, so it meets every hold that is still to come.
        self.write(client, Fault::Drift, 0, true);
    }

    fn step_clock(&mut self, client: u32, by_ns: i64) {
        if let Some(client) = self.client(client) {
            client.step_clock(by_ns);
        }
        self.note(client, Fault::ClockStep, by_ns.unsigned_abs());
    }

    fn strike_server(&mut self, server: Option<u32>, with: ServerFault) {
        self.request_for_cue(ServerAction::Strike(server, with));
    }
}

impl Locked<'_> {
    /// Ends this client, if its crash was staged.
    pub(super) fn crash_if_pending(&mut self, client: u32) {
        let pending = &mut self.state.pending_crashes;
        let Some(at) = pending.iter().position(|it| it.client == client) else { return };
        let StagedCrash { cue, comes_back_ns, .. } = pending.remove(at);
        if self.client(client).is_some_and(|it| it.kill(comes_back_ns.is_some())) {
            let for_ns = comes_back_ns.unwrap_or(0);
            injector::as_cue(self, cue, client, |it| it.note(client, Fault::Crash, for_ns));
            self.state.cues.dies(client);
            self.nemesis.inner.dies(client);
            if let Some(in_ns) = comes_back_ns {
                self.end_later(Recovery::Revive(client), in_ns);
            }
        }
    }

    /// Whether there is a fault that lasts or is about to strike, and that [`heal`](Self::heal) ends. Rules of the
    /// proxy strike once: those that are left have struck already.
    pub(super) fn is_in_force(&self) -> bool {
        let state = &self.state;
        let stopped = state.clients.iter().any(|it| it.is_stopped());
        let armed = !state.messages.armed.is_empty() || !state.pending_crashes.is_empty();
        stopped || armed || state.links.is_any_cut() || state.server_ops.is_busy()
    }

    /// Ends all faults: then no client is stopped or cut off, and no message is held back.
    pub(super) fn heal(&mut self) {
        for client in 0..u32::try_from(self.state.clients.len()).unwrap_or(u32::MAX) {
            self.crash_if_pending(client);
            self.resume(client);
            self.mend(client);
        }
        self.state.messages.end(&self.nemesis.inner.rules);
    }

    /// Records that a fault strikes this client.
    fn note(&self, client: u32, fault: Fault, for_ns: u64) {
        self.write(client, fault, for_ns, self.meets_hold(client));
    }

    fn write(&self, client: u32, fault: Fault, for_ns: u64, in_hold: bool) {
        let staged = self.state.cues.striking();
        let what = What::Fault { fault, node: None, for_ns, in_hold, staged };
        // A fault of a client that the run does not have is not recorded.
        if self.client(client).is_some() {
            self.nemesis.inner.write(client, what);
        }
    }
}
