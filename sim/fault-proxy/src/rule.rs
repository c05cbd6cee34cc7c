//! Rules: what happens to which frame.
//!
//! Invariant: a rule counts every request it matches, whether or not another rule strikes first, so "the third DEL"
//! means the same with and without other rules. Faults of the wire are [`Effect`](super::Effect)s.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use picklock::env::Node;
use redis_model::first_key::first_key;
use resp::frame::{CommandName, RequestFrame};

use super::effect::Toxicity;
use super::gate::Gate;
use super::ids::{ClientId, LinkConnection, Side};

/// What is done to a frame.
///
/// A lost frame is lost as TCP loses it: nothing after it on the same connection gets through
/// either, until the connection is closed. So after [`Drop`](Self::Drop) the client waits in vain
/// until its own timeout; it never sees a later reply in the place of the lost one.
#[derive(Clone, Debug)]
pub enum Action {
    /// The frame is lost. [`Side::Request`]: the server never sees the command. [`Side::Reply`]: the
    /// server carries it out and the client never hears. Requests before it keep their replies;
    /// requests behind it are not delivered (see [`AfterLostReply`](super::AfterLostReply)). The
    /// connection stays open and silent until the client closes it, or
    /// [`Plan::grace`](super::Plan::grace) is over.
    Drop(Side),
    /// The frame arrives this much later than the link's latency; later frames wait.
    Delay(Side, Duration),
    /// The frame waits for the gate, and so do later frames.
    Hold(Side, Gate),
    /// The client's connection is reset (RST) in the frame's place, and the server's is closed:
    /// [`Side::Request`] before the server sees the command, [`Side::Reply`] after it has answered.
    Reset(Side),
    /// The server never sees the command, and the client gets this error in order, such as
    /// `LOADING Redis is loading the dataset in memory`. Inside MULTI the transaction fails, as after any error;
    /// an EXEC that is refused discards it.
    Refuse(Arc<str>),
}

impl Action {
    /// The frame it strikes.
    pub const fn side(&self) -> Side {
        match self {
            Self::Drop(side) | Self::Delay(side, _) | Self::Hold(side, _) | Self::Reset(side) => {
                *side
            }
            Self::Refuse(_) => Side::Request,
        }
    }
}

/// Which of the matching requests are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// All of them.
    Every,
    /// This one only; the first is 1.
    Nth(u64),
    /// This one and all later ones; the first is 1.
    From(u64),
}

/// A rule. A field that is `None` or empty matches anything.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Requests of this client.
    pub client: Option<ClientId>,
    /// Requests to this server.
    pub node: Option<Node>,
    /// Requests of this command.
    pub command: Option<CommandName>,
    /// Requests whose first key is this.
    pub key: Option<Vec<u8>>,
    /// Requests with these arguments at these places, the command's name being at 0: the digest of
    /// an EVALSHA stands at 1.
    pub args: Vec<(usize, Vec<u8>)>,
    /// Which of those. Counted over all connections from when the rule was added.
    pub when: Occurrence,
    /// On which part of the connections.
    pub toxicity: Toxicity,
    /// What is done.
    pub action: Action,
    /// Called each time, before the action.
    pub observer: Option<StrikeObserver>,
}

/// Called when a rule strikes, on the proxy's thread: it must not block, nor call the proxy.
#[derive(Clone)]
pub struct StrikeObserver(pub Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for StrikeObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StrikeObserver")
    }
}

impl Rule {
    /// A rule for every request; narrow it with the other methods.
    pub fn new(action: Action) -> Self {
        let (client, node, command, key, args) = (None, None, None, None, Vec::new());
        let (when, toxicity) = (Occurrence::Every, Toxicity::ALL);
        Self { client, node, command, key, args, when, toxicity, action, observer: None }
    }

    /// Only requests of this client.
    #[must_use]
    pub fn client(self, client: ClientId) -> Self {
        Self { client: Some(client), ..self }
    }

    /// Only requests to this server.
    #[must_use]
    pub fn node(self, node: Node) -> Self {
        Self { node: Some(node), ..self }
    }

    /// Whether a request can have this name: one word.
    pub(crate) fn can_be_command(name: &str) -> bool {
        !name.is_empty() && !name.contains(char::is_whitespace)
    }

    /// Only this command, in any case.
    #[must_use]
    pub fn command(self, name: &str) -> Self {
        Self { command: Some(CommandName::new(name.as_bytes())), ..self }
    }

    /// Only requests whose first key is this.
    #[must_use]
    pub fn key(self, key: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Only requests with this argument at this place.
    #[must_use]
    pub fn arg(mut self, place: usize, value: impl Into<Vec<u8>>) -> Self {
        self.args.push((place, value.into()));
        self
    }

    /// Only these of the matching requests.
    #[must_use]
    pub fn when(self, when: Occurrence) -> Self {
        Self { when, ..self }
    }

    /// Only on this part of the connections. Requests on the others are not counted.
    #[must_use]
    pub fn toxicity(self, toxicity: Toxicity) -> Self {
        Self { toxicity, ..self }
    }

    /// Calls this observer each time.
    #[must_use]
    pub fn tell(self, observer: impl Fn() + Send + Sync + 'static) -> Self {
        Self { observer: Some(StrikeObserver(Arc::new(observer))), ..self }
    }

    fn matches(
        &self,
        client: ClientId,
        node: Node,
        name: CommandName,
        request: RequestFrame<'_>,
    ) -> bool {
        self.concerns(client, node, name)
            && self.key.as_ref().is_none_or(|wanted| first_key(request) == Some(wanted))
            && self.args.iter().all(|(place, wanted)| request.arg(*place) == Some(wanted))
    }

    fn concerns(&self, client: ClientId, node: Node, name: CommandName) -> bool {
        self.client.is_none_or(|wanted| wanted == client)
            && self.node.is_none_or(|wanted| wanted == node)
            && self.command.is_none_or(|wanted| wanted == name)
    }
}

/// A rule's name in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u64);

/// An installed rule. Dropping the handle keeps the rule.
#[derive(Clone, Debug)]
pub struct RuleHandle {
    /// The rule's name in the log.
    pub id: RuleId,
    fired: Arc<AtomicU64>,
}

impl RuleHandle {
    /// How often the rule has been applied.
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::Acquire)
    }
}

/// The rules of a proxy.
#[derive(Debug, Default)]
pub struct Rules {
    /// Lets frames pass without the lock if there is no rule.
    count: AtomicUsize,
    inner: Mutex<RuleTable>,
}

#[derive(Debug, Default)]
struct RuleTable {
    installed: Vec<InstalledRule>,
    next: u64,
}

#[derive(Debug)]
struct InstalledRule {
    id: RuleId,
    rule: Rule,
    matched: u64,
    fired: Arc<AtomicU64>,
}

/// What happens to a request, and to its reply.
#[derive(Clone, Debug, Default)]
pub(super) struct Decision {
    pub(super) request: Option<(RuleId, Action)>,
    pub(super) reply: Option<(RuleId, Action)>,
}

impl Decision {
    /// The rules that are applied.
    pub(super) fn applied(&self) -> impl Iterator<Item = &(RuleId, Action)> {
        self.request.iter().chain(&self.reply)
    }
}

impl Rules {
    /// Adds a rule for every link, after the rules that are there.
    pub fn add(&self, rule: Rule) -> RuleHandle {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.next += 1;
        let id = RuleId(inner.next);
        let fired = Arc::new(AtomicU64::new(0));
        inner.installed.push(InstalledRule { id, rule, matched: 0, fired: Arc::clone(&fired) });
        self.count.store(inner.installed.len(), Ordering::Release);
        RuleHandle { id, fired }
    }

    /// Removes every rule. Their past decisions stand.
    pub fn clear(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.installed.clear();
        self.count.store(0, Ordering::Release);
    }

    /// Removes a rule; false if there is none of this id. Its past decisions stand.
    pub fn remove(&self, id: RuleId) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let before = inner.installed.len();
        inner.installed.retain(|installed| installed.id != id);
        self.count.store(inner.installed.len(), Ordering::Release);
        inner.installed.len() < before
    }

    /// Whether a rule may match a request of this name, whatever its arguments.
    pub(super) fn concern(&self, place: LinkConnection, name: CommandName) -> bool {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner
            .installed
            .iter()
            .any(|installed| installed.rule.concerns(place.client, place.node, name))
    }

    /// What is done to this request and to its reply: for each the first matching rule, in the order of
    /// adding.
    pub(super) fn decide(
        &self,
        place: LinkConnection,
        seed: u64,
        name: CommandName,
        request: RequestFrame<'_>,
    ) -> Decision {
        let mut decision = Decision::default();
        if self.count.load(Ordering::Acquire) == 0 {
            return decision;
        }
        let LinkConnection { client, node, connection } = place;
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for installed in &mut inner.installed {
            // Named apart from effects, whose names are counted for each link from 1.
            let names = [u64::from(client.0), u64::from(node.0), connection, !installed.id.0];
            if !installed.rule.matches(client, node, name, request)
                || !installed.rule.toxicity.strikes(seed, names)
            {
                continue;
            }
            installed.matched += 1;
            let meant = match installed.rule.when {
                Occurrence::Every => true,
                Occurrence::Nth(nth) => installed.matched == nth,
                Occurrence::From(first) => installed.matched >= first,
            };
            let action = &installed.rule.action;
            let chosen = match action.side() {
                Side::Request => &mut decision.request,
                Side::Reply => &mut decision.reply,
            };
            if meant && chosen.is_none() {
                *chosen = Some((installed.id, action.clone()));
                if let Some(StrikeObserver(observe)) = &installed.rule.observer {
                    observe();
                }
                installed.fired.fetch_add(1, Ordering::Release);
            }
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(rules: &Rules, client: u32, line: &str) -> Option<RuleId> {
        let request = RequestFrame::new(line.as_bytes());
        let place = LinkConnection { client: ClientId(client), node: Node(0), connection: 1 };
        let decision = rules.decide(place, 0, request.name(), request);
        decision.applied().next().map(|(id, _)| *id)
    }

    #[test]
    fn the_nth_match_is_counted_over_all_connections_and_beside_other_rules() {
        let rules = Rules::default();
        let first = rules.add(Rule::new(Action::Drop(Side::Request)).command("set"));
        let second = rules.add(
            Rule::new(Action::Drop(Side::Request)).command("SET").key("k").when(Occurrence::Nth(2)),
        );
        assert_eq!(decide(&rules, 0, "SET k 1\r\n"), Some(first.id));
        assert_eq!(decide(&rules, 0, "GET k\r\n"), None);
        assert_eq!(decide(&rules, 1, "SET k 1\r\n"), Some(first.id));
        assert_eq!((first.fired(), second.fired()), (2, 0));
        assert!(rules.remove(first.id));
        assert!(!rules.remove(first.id));
        assert_eq!(decide(&rules, 0, "SET k 1\r\n"), None, "the second has passed");
    }

    #[test]
    fn every_field_narrows() {
        let rules = Rules::default();
        let rule = Rule::new(Action::Drop(Side::Request)).client(ClientId(1)).arg(1, "abc");
        let handle = rules.add(rule.when(Occurrence::From(2)));
        assert_eq!(decide(&rules, 1, "EVALSHA abc 1 k\r\n"), None);
        assert_eq!(decide(&rules, 0, "EVALSHA abc 1 k\r\n"), None);
        assert_eq!(decide(&rules, 1, "EVALSHA abd 1 k\r\n"), None);
        assert_eq!(decide(&rules, 1, "EVALSHA abc 1 k\r\n"), Some(handle.id));
        assert_eq!(decide(&rules, 1, "EVALSHA abc 1 k\r\n"), Some(handle.id));
    }

    #[test]
    fn on_a_part_of_the_connections_a_rule_counts_those_alone() {
        let rules = Rules::default();
        let half = Toxicity::of(0.5).unwrap();
        let rule = Rule::new(Action::Reset(Side::Request)).toxicity(half);
        let handle = rules.add(rule.when(Occurrence::From(1)));
        let request = RequestFrame::new(b"PING\r\n");
        let struck = |connection| {
            let place = LinkConnection { client: ClientId(0), node: Node(0), connection };
            rules.decide(place, 7, request.name(), request).request.is_some()
        };
        let first: Vec<bool> = (0..64).map(struck).collect();
        assert_eq!(handle.fired(), first.iter().filter(|is_struck| **is_struck).count() as u64);
        assert!((1..64).contains(&handle.fired()));
        assert_eq!((0..64).map(struck).collect::<Vec<_>>(), first, "a connection keeps its lot");
    }

    #[test]
    fn a_request_and_its_reply_have_a_rule_each() {
        let rules = Rules::default();
        let observed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&observed);
        let first = rules.add(Rule::new(Action::Drop(Side::Reply)).command("SET"));
        let second = rules.add(Rule::new(Action::Reset(Side::Reply)).command("SET"));
        let third =
            rules.add(Rule::new(Action::Delay(Side::Request, Duration::ZERO)).tell(move || {
                count.fetch_add(1, Ordering::Relaxed);
            }));
        let request = RequestFrame::new(b"SET k 1\r\n");
        let place = LinkConnection { client: ClientId(0), node: Node(0), connection: 1 };
        let decision = rules.decide(place, 0, request.name(), request);
        let ids: Vec<RuleId> = decision.applied().map(|(id, _)| *id).collect();
        assert_eq!(ids, [third.id, first.id]);
        assert_eq!((second.fired(), third.fired(), observed.load(Ordering::Relaxed)), (0, 1, 1));
    }
}
