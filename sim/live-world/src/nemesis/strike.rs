//! What a staged fault does to whom it meets, in a live run.
//!
//! Invariant: a fault of messages strikes the next request of the client that came to the place, or that
//! request's reply, whatever else the client says meanwhile. A client that dies at a phase ends its
//! breath first. Deliberately absent: when a cue strikes, which is the same in every world.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use picklock::env::Node;
use picklock::time::Instant;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use scenarios::fault::{Chance, Fault, Staged, Ways};
use scenarios::history::What;

use super::{Cast, Director, LAST_BREATH, Task};
use crate::env::LiveEnv;
use fault_proxy::{Action, ClientId, Cut, Gate, Occurrence, Rule, RuleId, Side};
use harness::cues::{Cues, End};
use harness::injector::{self, Clocks, Injector};

/// What is staged, and what it is about to do.
pub(super) struct State {
    pub(super) cues: Cues<usize>,
    pub(super) cast: Cast,
    /// Faults that strike the next request of this client, or (0) of any.
    pub(super) armed: Vec<(u32, u32)>,
    /// Clients that have come to the place where they die, and the cue.
    pub(super) doomed: Vec<(u32, u32)>,
    /// What messages wait for.
    pub(super) gates: Vec<Gate>,
    /// The rules that are in force.
    pub(super) rules: Vec<RuleId>,
    /// How many errands are under way, and what is owed once their time has come.
    pub(super) errands: usize,
    pub(super) owed: Vec<(u64, Task)>,
    /// What deserves attention.
    pub(super) remarks: Vec<String>,
    pub(super) random: Pcg64,
}

impl Injector for Director<'_> {
    /// The gate that they wait for.
    type Held = usize;

    fn cues(&mut self) -> &mut Cues<usize> {
        &mut self.state.cues
    }

    fn strike_later(&mut self, cue: u32, in_ns: u64) {
        self.nemesis.later(in_ns, move |it| it.direct(|world| injector::due(world, cue)));
    }

    fn end_later(&mut self, end: End<usize>, in_ns: u64) {
        self.nemesis.later(in_ns, move |it| it.direct(|world| injector::end(world, end)));
    }

    fn happens(&mut self, chance: Chance) -> bool {
        let per_64k = u64::from(chance.per_64k());
        self.state.random.next_u64() >> 48 < per_64k
    }

    fn any_client(&mut self) -> u32 {
        let clients = self.state.cast.clients.len().saturating_sub(1).max(1) as u64;
        1 + u32::try_from(self.state.random.next_u64() % clients).unwrap_or(0)
    }

    fn any_server(&mut self) -> Option<u32> {
        None
    }

    fn pause(&mut self, client: u32, cue: &Staged) -> bool {
        let ran = self.of_client(client, |env| env.process().stop()).unwrap_or(false);
        if ran {
            self.note(client, Fault::Pause, cue.lasts_ns().unwrap_or(0));
        }
        ran
    }

    fn resume(&mut self, client: u32) {
        self.client(client, |env| env.process().resume());
    }

    fn kill(&mut self, client: u32) {
        let Some(cue) = self.state.cues.striking() else { return };
        self.state.doomed.push((client, cue.into()));
        // Where it says nothing more by itself.
        let breath_ns = picklock::time::span_ns(LAST_BREATH);
        self.nemesis.later(breath_ns, move |it| it.direct(|world| world.end_doomed(client)));
    }

    fn cut(&mut self, client: u32, ways: Ways, cue: &Staged) {
        let cut = match ways {
            Ways::Both => Cut::Both,
            Ways::There => Cut::Requests,
            Ways::Back => Cut::Replies,
        };
        self.state.cast.cut(client, cut);
        self.note(client, Fault::Partition, cue.lasts_ns().unwrap_or(0));
    }

    fn mend(&mut self, client: u32) {
        self.state.cast.cut(client, Cut::None);
    }

    fn arm(&mut self, client: u32, cue: u32) {
        self.state.armed.push((client, cue));
    }

    fn deliver(&mut self, gate: usize) {
        self.state.gates[gate].open();
    }

    fn set_drift(&mut self, whose: Clocks, ppm: i32) {
        match whose {
            Clocks::Server(server) => self.send_for(Task::Drift { server, ppm }),
            Clocks::Client(client) => {
                self.client(client, |env| {
                    let now_ns = env.machine_now().as_ns();
                    env.process().clock().set_drift(now_ns, ppm);
                });
                // It lasts as long as the run, so it meets every hold that is still to come.
                let (fault, staged) = (Fault::Drift, self.state.cues.striking());
                let what = What::Fault { fault, node: None, for_ns: 0, in_hold: true, staged };
                self.write(client, what);
            }
        }
    }

    fn step_clock(&mut self, whose: Clocks, by_ns: i64) {
        match whose {
            Clocks::Server(server) => self.send_for(Task::Step { server, by_ns }),
            Clocks::Client(client) => {
                self.client(client, |env| env.process().clock().step_wall(by_ns));
                self.note(client, Fault::ClockStep, by_ns.unsigned_abs());
            }
        }
    }

    fn flush_scripts(&mut self, server: Option<u32>) {
        self.send_for(Task::FlushScripts { server });
    }

    fn end_server(&mut self, fault: Fault, server: Option<u32>, to: Option<u32>, for_ns: u64) {
        self.send_for(Task::End { fault, server, to, for_ns });
    }
}

impl Director<'_> {
    /// Ends this client, if its death was staged.
    pub(super) fn end_doomed(&mut self, client: u32) {
        let Some(at) = self.state.doomed.iter().position(|(whose, _)| *whose == client) else {
            return;
        };
        let (_, place) = self.state.doomed.remove(at);
        if self.of_client(client, |env| env.process().end()) == Some(true) {
            injector::as_cue(self, place, client, |world| world.note(client, Fault::Crash, 0));
            self.client(client, LiveEnv::disconnect);
        }
    }

    /// A request is about to be sent: what was armed for it befalls it.
    pub(super) fn befall(&mut self, client: u32, node: Node, name: &[u8]) {
        if usize::from(node.0) >= self.state.cast.nodes {
            // The resource is out of reach of faults.
            return;
        }
        let is_theirs = |(whose, _): &mut (u32, u32)| *whose == client || *whose == 0;
        let armed: Vec<(u32, u32)> = self.state.armed.extract_if(.., is_theirs).collect();
        let cues = self.state.cues.all();
        for (_, place) in armed {
            let Some(cue) = cues.get(place as usize) else { continue };
            let told = self.teller(place, client, cue);
            for (nth, action) in self.actions(cue, client).into_iter().enumerate() {
                let rule = Rule::new(action).client(ClientId(client)).node(node);
                let rule = Rule { command: Some(resp::frame::CommandName::new(name)), ..rule };
                let rule = rule.when(Occurrence::Nth(1));
                let rule = if nth == 0 { rule.tell(told.clone()) } else { rule };
                let rule = self.nemesis.inner.rules.add(rule);
                self.state.rules.push(rule.id());
            }
        }
    }

    /// What a fault of messages does to a request and its reply.
    fn actions(&mut self, cue: &Staged, client: u32) -> Vec<Action> {
        let [there, back] = cue.ways.unwrap_or(Ways::There).there_and_back();
        let sides = [(there, Side::Request), (back, Side::Reply)];
        let sides: Vec<Side> =
            sides.into_iter().filter_map(|(on, side)| on.then_some(side)).collect();
        match cue.kind {
            Fault::LoseRequest => vec![Action::Drop(Side::Request)],
            Fault::LoseReply => vec![Action::Drop(Side::Reply)],
            // The first of the two leaves nothing for the second.
            Fault::Reset => sides.into_iter().take(1).map(Action::Reset).collect(),
            _ if cue.until.is_some() => {
                let (gate, held) = self.state.gate();
                injector::lasts(self, cue, client, End::Deliver(held));
                sides.into_iter().map(|side| Action::Hold(side, gate.clone())).collect()
            }
            _ => {
                let span = cue.lasts.map_or(std::time::Duration::ZERO, |it| it.0);
                sides.into_iter().map(|side| Action::Delay(side, span)).collect()
            }
        }
    }

    /// Writes a fault of messages down when it strikes. It is told on the proxy's thread.
    fn teller(
        &self,
        place: u32,
        client: u32,
        cue: &Staged,
    ) -> impl Fn() + Clone + Send + Sync + 'static {
        let (fault, for_ns) = (cue.kind, cue.lasts_ns().unwrap_or(0));
        let inner = Arc::clone(&self.nemesis.inner);
        let env = self.state.cast.clients.get(client as usize).cloned();
        let staged = u16::try_from(place).ok();
        // Who has begun to release still has what it releases.
        let has = self.meets_hold(client);
        move || {
            let Some(env) = &env else { return };
            let in_hold = has || env.process().holds.load(Ordering::Relaxed);
            let what = What::Fault { fault, node: None, for_ns, in_hold, staged };
            let origin = inner.origin;
            inner.journal.write(|| run_ns(env, origin), client, 0, 0, |_| what);
        }
    }

    /// Nobody stands still, nobody is cut off, nothing waits.
    pub(super) fn heal(&mut self) {
        self.state.armed.clear();
        for client in 0..self.state.cast.clients.len() {
            let client = u32::try_from(client).unwrap_or(u32::MAX);
            self.end_doomed(client);
            self.client(client, |env| env.process().resume());
            self.state.cast.cut(client, Cut::None);
        }
        self.state.gates.iter().for_each(Gate::open);
        for rule in std::mem::take(&mut self.state.rules) {
            self.nemesis.inner.rules.remove(rule);
        }
    }

    /// Writes down that a fault strikes this client.
    fn note(&mut self, client: u32, fault: Fault, for_ns: u64) {
        let in_hold = self.meets_hold(client);
        let staged = self.state.cues.striking();
        self.write(client, What::Fault { fault, node: None, for_ns, in_hold, staged });
    }

    pub(super) fn write(&self, client: u32, what: What) {
        let origin = self.nemesis.inner.origin;
        self.client(client, |env| {
            self.nemesis.inner.journal.write(|| run_ns(env, origin), client, 0, 0, |_| what);
        });
    }

    /// Whether a fault of this client meets a hold; of nobody in particular (0), any hold.
    pub(super) fn meets_hold(&self, client: u32) -> bool {
        let holds = |env: &LiveEnv| env.process().holds.load(Ordering::Relaxed);
        match client {
            0 => self.state.cast.clients.iter().any(holds) || self.state.cues.holder().is_some(),
            _ => self.of_client(client, holds).unwrap_or(false) || self.state.cues.holds(client),
        }
    }

    pub(super) fn client(&self, client: u32, act: impl FnOnce(&LiveEnv)) {
        self.of_client(client, act);
    }

    fn of_client<T>(&self, client: u32, act: impl FnOnce(&LiveEnv) -> T) -> Option<T> {
        self.state.cast.clients.get(client as usize).map(act)
    }
}

/// The time of the run.
fn run_ns(env: &LiveEnv, origin: Instant) -> u64 {
    env.machine_now().as_ns().saturating_sub(origin.as_ns())
}

/// The place of a cue as a history has it.
pub(super) fn staged(place: u32) -> Option<u16> {
    u16::try_from(place).ok()
}
