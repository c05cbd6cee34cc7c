//! Faults of messages, as rules of the proxy.
//!
//! Invariant: a fault strikes the next request of the client that came to the place, or that request's reply,
//! whatever else the client sends meanwhile; and it is recorded when the proxy applies it.

use std::sync::Arc;
use std::time::Duration;

use history::What;
use history::fault::{Fault, Staged, Ways};
use picklock::env::Node;

use super::{Locked, staged};
use fault_proxy::{Action, ClientId, Gate, Occurrence, Rule, RuleId, Rules, Side};
use harness::cues::Recovery;
use harness::injector;
use resp::frame::CommandName;

/// The faults of messages that wait for a request, or are in force.
#[derive(Default)]
pub(super) struct MessageFaults {
    /// Clients (0: any) whose next request is to be struck, and the cue.
    pub(super) armed: Vec<(u32, u32)>,
    /// The gates at which messages are held back.
    pub(super) gates: Vec<Gate>,
    rules: Vec<RuleId>,
}

impl MessageFaults {
    /// Forgets what is armed, lets through what is held back, and removes all rules.
    pub(super) fn end(&mut self, rules: &Rules) {
        self.armed.clear();
        self.gates.iter().for_each(Gate::open);
        for rule in self.rules.drain(..) {
            rules.remove(rule);
        }
    }
}

impl Locked<'_> {
    /// This client is about to send this request: whatever is armed for it becomes a rule of the proxy.
    pub(super) fn strike_request(&mut self, client: u32, node: Node, name: &[u8]) {
        if !self.state.links.is_of_lock(node.0) {
            return;
        }
        let is_theirs = |(whose, _): &mut (u32, u32)| *whose == client || *whose == 0;
        let armed: Vec<(u32, u32)> = self.state.messages.armed.extract_if(.., is_theirs).collect();
        let cues = self.state.cues.all();
        for (whose, place) in armed {
            let Some(cue) = cues.get(place as usize) else { continue };
            if cue.strikes_all() {
                self.state.messages.armed.push((whose, place));
            }
            let write = self.writes_strike(place, client, cue);
            for (nth, action) in self.actions(cue, client).into_iter().enumerate() {
                let rule = Rule::new(action).client(ClientId(client)).node(node);
                let rule = Rule { command: Some(CommandName::new(name)), ..rule };
                let rule = rule.when(Occurrence::Nth(1));
                // A fault of both ways is two rules and one event.
                let rule = if nth == 0 { rule.tell(write.clone()) } else { rule };
                let rule = self.nemesis.inner.rules.add(rule);
                self.state.messages.rules.push(rule.id);
            }
        }
    }

    fn actions(&mut self, cue: &Staged, client: u32) -> Vec<Action> {
        let [there, back] = cue.ways.unwrap_or(Ways::There).there_and_back();
        let sides = [(there, Side::Request), (back, Side::Reply)];
        let sides = sides.into_iter().filter_map(|(on, side)| on.then_some(side));
        match cue.kind {
            Fault::LoseRequest => vec![Action::Drop(Side::Request)],
            Fault::LoseReply => vec![Action::Drop(Side::Reply)],
            Fault::Refuse => {
                cue.error.map(|it| Action::Refuse(it.text().into())).into_iter().collect()
            }
            // After the first of the two, there is nothing left for the second.
            Fault::Reset => sides.take(1).map(Action::Reset).collect(),
            _ if cue.until.is_some() => {
                let gate = Gate::shut();
                let held = self.state.messages.gates.len();
                self.state.messages.gates.push(gate.clone());
                injector::lasts(self, cue, client, Recovery::Deliver(held));
                sides.map(|side| Action::Hold(side, gate.clone())).collect()
            }
            _ => {
                let span = cue.lasts.map_or(Duration::ZERO, |it| it.0);
                sides.map(|side| Action::Delay(side, span)).collect()
            }
        }
    }

    /// Records a fault of messages. The proxy calls the result on its own thread, so it must not lock the state.
    fn writes_strike(
        &self,
        place: u32,
        client: u32,
        cue: &Staged,
    ) -> impl Fn() + Clone + Send + Sync + 'static {
        let (fault, for_ns) = (cue.kind, cue.surely_lasts_ns().unwrap_or(0));
        let inner = Arc::clone(&self.nemesis.inner);
        // A client that has begun to release still holds what it releases.
        let held = self.meets_hold(client);
        move || {
            let in_hold = held || inner.holds(client);
            let staged = staged(place);
            inner.write(client, What::Fault { fault, node: None, for_ns, in_hold, staged });
        }
    }
}
