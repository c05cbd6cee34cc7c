//! A lock on several independent servers: held by the client whose token is on more than half of them.
//!
//! Invariant: an attempt sends one token to all nodes at once, and validity counts from before the first
//! send. It ends as soon as a quorum has granted the lock or none is possible any more. A late grant belongs to
//! the hold, or is cleaned up if there is no hold. If the acquisition was not yet sent to a node when the hold
//! is released, nothing is sent to that node. After an attempt without a quorum, or with no validity left,
//! every node that may have granted it is cleaned up, and the next attempt waits for the answer of those that
//! surely have. A node whose clean-up has no answer yet is left out of an attempt. A renewal counts if a
//! quorum has extended the key. A key that a node has lost is never set again.
//!
//! It assumes of more than half of the nodes what a lock on one server assumes of its server: a node that
//! loses its keys, and is back before its grants would have expired, may let two clients hold the lock. So
//! restart a node that has lost its memory only after the longest TTL. There are no fencing tokens (no
//! node counts for all), and no wait queue.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::attempt::{Unresolved, check_key_type};
use crate::cleanup::Cleanup;
use crate::command::Command;
use crate::counters::{Count, Counters};
use crate::env::{CallError, Env, Mark, Node, Phase};
use crate::fan_out::FanOut;
use crate::guard::Guard;
use crate::held_lock::{HeldLock, NodeConn};
use crate::lock::NotAcquired;
use crate::lock_conn::LockConn;
use crate::observe;
use crate::options::{Options, OptionsError};
use crate::quorum::{granted, quorum};
use crate::reply::Reply;
use crate::shared_hold::SharedHold;
use crate::sync::{Mutex, lock};
use crate::target::{LockContext, LockTarget, WaitMode};
use crate::time::{Instant, span_ms};
use crate::timeout::within;
use crate::token::OwnerToken;
use crate::validity::is_valid;
use crate::wait::Poll;

/// A lock on one key of several independent servers. Cloning gives another handle to the same lock.
///
/// The call timeout of its options is the time each node has to answer. A minority that does not answer delays
/// neither the acquisition nor renewals nor the release.
#[derive(Clone)]
pub struct Redlock<E: Env> {
    nodes: Arc<[LockNode<E>]>,
}

struct LockNode<E: Env> {
    target: Arc<LockTarget<E>>,
    /// The clean-ups on this node that may still be without an answer: tasks that share this handle each have their own.
    cleanups: Mutex<Vec<Arc<Cleanup>>>,
}

impl<E: Env> LockNode<E> {
    /// Whether the key of an earlier attempt may be there.
    fn is_cleaning(&self) -> bool {
        lock(&self.cleanups).iter().any(|it| it.is_unanswered())
    }

    fn add(&self, cleanup: &Arc<Cleanup>) {
        let mut cleanups = lock(&self.cleanups);
        cleanups.retain(|it| it.is_unanswered());
        cleanups.push(Arc::clone(cleanup));
    }
}

impl<E: Env> Redlock<E> {
    /// The lock of this key on these nodes. Nothing is sent yet.
    ///
    /// # Errors
    /// [`OptionsError::NodesUneven`] for fewer than three nodes or an even number of them,
    /// [`OptionsError::NodeTwice`] (only indices are compared: two that lead to one server would give it two votes),
    /// [`OptionsError::OneNodeOnly`] for options of a lock on one server, and
    /// what is wrong with the key.
    pub fn new(
        env: E,
        nodes: impl IntoIterator<Item = Node>,
        key: impl AsRef<[u8]>,
        options: Options,
    ) -> Result<Self, OptionsError> {
        let nodes: Vec<Node> = nodes.into_iter().collect();
        // An even number tolerates no more failures than one node less, and one or two tolerate none.
        if nodes.len() < 3 || nodes.len().is_multiple_of(2) {
            return Err(OptionsError::NodesUneven { nodes: nodes.len() });
        }
        if let Some(twice) = (1..nodes.len()).find(|index| nodes[..*index].contains(&nodes[*index]))
        {
            return Err(OptionsError::NodeTwice { node: nodes[twice].0 });
        }
        if options.notifies() || options.is_fenced() || options.replicas().is_some() {
            return Err(OptionsError::OneNodeOnly);
        }
        let shared = LockContext::default();
        let node = |node| {
            // What commands a server has is not shared: the nodes may be of different versions.
            let (env, options, context) = (env.clone(), options.clone(), shared.clone());
            let target =
                LockTarget::new(env, node, key.as_ref().into(), WaitMode::Poll, options, context)?;
            Ok(LockNode { target: Arc::new(target), cleanups: Mutex::default() })
        };
        let nodes: Vec<_> = nodes.into_iter().map(node).collect::<Result<_, OptionsError>>()?;
        Ok(Self { nodes: nodes.into() })
    }

    /// What this lock and its clones have done; a clean-up counts on every node.
    pub fn counters(&self) -> &Counters {
        &self.first().counters
    }

    /// Waits for the background tasks of dropped guards and acquisitions; see
    /// [`Single::drain`](crate::Single::drain).
    pub async fn drain(&self) {
        self.first().counters.drained().await;
    }

    /// Tries once: asks all nodes, and waits until a quorum has granted the lock or none is possible any more. Takes at
    /// most one call timeout for a connection and one for the answer. Until this handle or a clone has seen that the keys
    /// hold strings, those that are found taken are read in what is left of this time, as they might hold something else.
    ///
    /// Dropping the future in mid-call leaves the outcome unknown: nodes that have granted the lock are
    /// cleaned up in the background.
    ///
    /// # Errors
    /// See [`NotAcquired`]; [`NotAcquired::NoQuorum`] where too few nodes granted it.
    pub async fn try_acquire(&self) -> Result<Guard<E>, NotAcquired> {
        let tried = async {
            let (began, refusals) = (self.first().env.now(), Arc::default());
            match self.attempt(&refusals).await {
                Ok(guard) => Ok(guard),
                Err(failed) => Err(self.check_key_types(failed.error, failed.votes, began).await),
            }
        };
        observe::acquisition(self.first(), pin!(Some(tried))).await
    }

    async fn attempt(&self, refusals: &Arc<LastRefusals>) -> Result<Guard<E>, FailedRound> {
        let ended = self.ask(refusals).await;
        observe::attempted(self.first(), ended.as_ref().err().map(|failed| &failed.error));
        ended
    }

    async fn ask(&self, refusals: &Arc<LastRefusals>) -> Result<Guard<E>, FailedRound> {
        let first = self.first();
        let env = &first.env;
        let token = OwnerToken::draw(env);
        env.mark(Mark::Phase(Phase::AcquireBeforeSend));
        let sent = env.now();
        let mut attempt = QuorumAttempt::begin(&self.nodes, token, refusals);
        let is_granted = attempt.votes.until(granted).await;
        if !is_granted {
            let votes = attempt.votes.received().to_vec();
            let error = failure_of(&votes, &refusals.of_missing(&votes));
            tracing::debug!(key = %first, %error, "lock not acquired");
            return Err(FailedRound { error, votes, cleanups: attempt.clean_up() });
        }
        env.mark(Mark::Phase(Phase::AcquireApplied));
        let valid_until = first.valid_until(sent);
        if !is_valid(env.now(), valid_until) {
            let votes = Vec::new();
            return Err(FailedRound {
                votes,
                error: NotAcquired::TooLate,
                cleanups: attempt.clean_up(),
            });
        }
        tracing::debug!(key = %first, "lock acquired");
        let token = attempt.token.clone();
        let mut node_conns = attempt.settle().into_iter();
        let Some(NodeConn { target, lock_conn }) = node_conns.next() else {
            unreachable!("a lock on several nodes has a first")
        };
        let (hold, other_nodes) = (SharedHold::new(valid_until), node_conns.collect());
        Ok(Guard::new(HeldLock { target, token, sent, hold, lock_conn, fence: None, other_nodes }))
    }

    /// Tries until `deadline` (from now) has passed or the retries of `poll` are used up, pausing in between.
    /// The jitter of `poll` separates clients that have split the nodes between them, so it should not be
    /// zero. The next attempt begins when the nodes that granted the last one have answered its clean-up, or
    /// after a call timeout: before that, it would find its own keys. An attempt in flight at the deadline is
    /// completed, so this takes at most the deadline and two call timeouts. Dropping the future is as with
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// [`NotAcquired::Deadline`] with the outcome of the last attempt; that outcome itself where the retries
    /// are used up; at once, a refusal that time does not change (a wrong password) of so many nodes that
    /// the others are no quorum.
    pub async fn acquire(&self, deadline: Duration, poll: Poll) -> Result<Guard<E>, NotAcquired> {
        observe::acquisition(self.first(), pin!(Some(self.keep_trying(deadline, poll)))).await
    }

    async fn keep_trying(&self, deadline: Duration, poll: Poll) -> Result<Guard<E>, NotAcquired> {
        let env = &self.first().env;
        let end = env.now().after(deadline);
        let mut retries = poll.max_retries;
        let mut unresolved = Unresolved::default();
        let refusals = Arc::default();
        loop {
            let began = env.now();
            let FailedRound { error, votes, cleanups } = match self.attempt(&refusals).await {
                Ok(guard) => return Ok(guard),
                Err(failed) => failed,
            };
            unresolved.add_round(&cleanups.all, quorum(self.nodes.len()), &error);
            if !error.may_pass() || retries == Some(0) {
                return Err(unresolved.or(self.check_key_types(error, votes, began).await));
            }
            retries = retries.map(|retries| retries - 1);
            let left = end.since(env.now());
            if left.is_zero() {
                let last = unresolved.or(self.check_key_types(error, votes, began).await);
                return Err(match last.may_pass() {
                    true => NotAcquired::Deadline { last: Box::new(last) },
                    false => last,
                });
            }
            env.mark(Mark::Phase(Phase::Wait));
            self.first().counters.count(Count::Waited);
            let answers = cleanups.granted.into_iter().map(|it| async move { it.answered().await });
            let answered = FanOut::of(answers).rest();
            let span = self.first().options.call_timeout();
            // A node that has just granted is alive. One that has failed since is waited for this long.
            if let Some(answered) = answered {
                let _ = within(env, span.min(left), pin!(answered)).await;
            }
            let left = end.since(env.now());
            env.sleep(poll.pause(env.random()).min(left)).await;
        }
    }

    /// `error`, or the refusal if on so many nodes the key holds no string that the others are no quorum. Before a lock
    /// reports for the first time that others hold it, it reads the keys, within two call timeouts of when the attempt
    /// `began`; see [`check_key_type`].
    async fn check_key_types(
        &self,
        error: NotAcquired,
        votes: Vec<Option<Vote>>,
        began: Instant,
    ) -> NotAcquired {
        if !matches!(error, NotAcquired::NoQuorum { .. }) {
            return error;
        }
        let checks = self.nodes.iter().zip(votes).map(|(node, vote)| {
            let target = Arc::clone(&node.target);
            async move {
                match vote {
                    Some(Ok(false)) => match check_key_type(&target, NotAcquired::Held).await {
                        NotAcquired::Refused(refusal) => Some(Err(refusal.into())),
                        _ => vote,
                    },
                    _ => vote,
                }
            }
        });
        let all = |checked: &[Option<Option<Vote>>]| checked.iter().cloned().collect();
        let mut checked = FanOut::of(checks);
        let LockTarget { env, options, .. } = &**self.first();
        let end = began.after(options.call_timeout().saturating_mul(2));
        let left = end.since(env.now());
        let votes: Option<Vec<Option<Vote>>> = within(env, left, pin!(checked.until(all))).await;
        match votes.map(|votes| failure_of(&votes, &[])) {
            Some(NotAcquired::Refused(refusal)) => NotAcquired::Refused(refusal),
            _ => error,
        }
    }

    fn first(&self) -> &Arc<LockTarget<E>> {
        &self.nodes[0].target
    }
}

/// Whether a node grants the lock.
type Vote = Result<bool, CallError>;

/// The refusal with which each node has answered last in an acquisition, if time does not change it. An attempt ends
/// before the last node has answered, and the same node may be the last each time.
#[derive(Default)]
struct LastRefusals(Mutex<BTreeMap<usize, NotAcquired>>);

impl LastRefusals {
    fn note(&self, place: usize, vote: &Vote) {
        let mut refusals = lock(&self.0);
        match vote {
            Ok(_) => drop(refusals.remove(&place)),
            // What has no answer says nothing of the permissions.
            Err(error @ CallError::Refused(_)) => match NotAcquired::from(error.clone()) {
                refusal if refusal.may_pass() => drop(refusals.remove(&place)),
                refusal => drop(refusals.insert(place, refusal)),
            },
            Err(_) => {}
        }
    }

    /// Those of nodes that have not answered yet.
    fn of_missing(&self, votes: &[Option<Vote>]) -> Vec<NotAcquired> {
        let refusals = lock(&self.0);
        let missing = refusals.iter().filter(|(place, _)| votes[**place].is_none());
        missing.map(|(_, refusal)| refusal.clone()).collect()
    }
}

/// Why these votes give no lock. Where permanent refusals leave the other nodes no quorum, waiting does not
/// help, and a refusal says what would. A node without an answer counts as unknown; `earlier` are the refusals with
/// which such nodes have answered an earlier attempt.
fn failure_of(votes: &[Option<Vote>], earlier: &[NotAcquired]) -> NotAcquired {
    let needed = quorum(votes.len());
    let answered = || votes.iter().flatten();
    let granted = answered().filter(|vote| **vote == Ok(true)).count();
    let errors = || answered().filter_map(|vote| vote.as_ref().err());
    let refusals = errors().cloned().map(NotAcquired::from).filter(|error| !error.may_pass());
    let refusals: Vec<NotAcquired> = refusals.collect();
    let refused = refusals.len();
    if votes.len() - refusals.len() < needed
        && let Some(refusal) = refusals.into_iter().next()
    {
        return refusal;
    }
    let unknown = errors().filter(|error| error.is_indeterminate()).count();
    let pending = votes.len() - answered().count();
    let ambiguous = errors().find(|error| error.is_indeterminate());
    match ambiguous.filter(|_| granted + unknown + pending >= needed) {
        Some(error) => NotAcquired::Unknown(CallError::Indeterminate(
            format!("granted by {granted} of the {needed} nodes needed; {error}").into(),
        )),
        // This attempt surely has no quorum, and the next will have none.
        None if votes.len() - refused - earlier.len() < needed && !earlier.is_empty() => {
            earlier[0].clone()
        }
        None => {
            NotAcquired::NoQuorum { granted, needed, error: errors().next().cloned().map(Box::new) }
        }
    }
}

/// An attempt that gave no guard, and the clean-ups that it has started.
struct FailedRound {
    error: NotAcquired,
    votes: Vec<Option<Vote>>,
    cleanups: RoundCleanups,
}

/// The clean-ups of a round.
#[derive(Default)]
struct RoundCleanups {
    /// On every node that may have granted it.
    all: Vec<Arc<Cleanup>>,
    /// On those that surely had.
    granted: Vec<Arc<Cleanup>>,
}

/// One attempt on all nodes. If it is dropped before it is settled, all nodes that may have granted it are cleaned
/// up.
struct QuorumAttempt<'a, E: Env> {
    nodes: &'a [LockNode<E>],
    token: OwnerToken,
    /// One for each node; none once it is settled.
    node_conns: Vec<NodeConn<E>>,
    votes: FanOut<Vote>,
}

impl<'a, E: Env> QuorumAttempt<'a, E> {
    fn begin(nodes: &'a [LockNode<E>], token: OwnerToken, refusals: &Arc<LastRefusals>) -> Self {
        let node_conn = |node: &LockNode<E>| {
            let target = Arc::clone(&node.target);
            NodeConn { target, lock_conn: Arc::new(LockConn::unsent()) }
        };
        let node_conns: Vec<NodeConn<E>> = nodes.iter().map(node_conn).collect();
        let calls = nodes.iter().zip(&node_conns).enumerate().map(|(place, (node, node_conn))| {
            let cleaning = node.is_cleaning();
            let asking = ask(node_conn.clone(), token.clone(), cleaning);
            let refusals = Arc::clone(refusals);
            async move {
                let vote = asking.await;
                refusals.note(place, &vote);
                vote
            }
        });
        let votes = FanOut::of(calls);
        Self { nodes, token, node_conns, votes }
    }

    /// The lock is held: a late grant belongs to it, and its release covers every node.
    fn settle(mut self) -> Vec<NodeConn<E>> {
        if let Some(rest) = self.take_votes().rest() {
            self.nodes[0].target.spawn("the acquisition on a late node", rest);
        }
        std::mem::take(&mut self.node_conns)
    }

    /// Cleans up, once, where the lock may have been granted.
    fn clean_up(&mut self) -> RoundCleanups {
        let mut cleanups = RoundCleanups::default();
        let node_conns = std::mem::take(&mut self.node_conns);
        for ((node, node_conn), vote) in
            self.nodes.iter().zip(node_conns).zip(self.take_votes().into_each())
        {
            let NodeConn { target, lock_conn } = node_conn;
            let sent = lock_conn.withdraw();
            let (cleanup, surely) = match (vote, sent) {
                (Ok(vote), Some((conn, sent))) if may_have_granted(&vote) => {
                    (Cleanup::start(&target, &conn, &self.token, sent), vote == Ok(true))
                }
                (Ok(_), _) => continue,
                (Err(vote), _) => {
                    let granted = async move { may_have_granted(&vote.await) };
                    (Cleanup::after(&target, granted, &lock_conn, &self.token), false)
                }
            };
            node.add(&cleanup);
            // A node without an answer may be dead, so nobody waits for it.
            if surely {
                cleanups.granted.push(Arc::clone(&cleanup));
            }
            cleanups.all.push(cleanup);
        }
        cleanups
    }

    fn take_votes(&mut self) -> FanOut<Vote> {
        std::mem::take(&mut self.votes)
    }
}

fn may_have_granted(vote: &Vote) -> bool {
    matches!(vote, Ok(true) | Err(CallError::Indeterminate(_)))
}

impl<E: Env> Drop for QuorumAttempt<'_, E> {
    fn drop(&mut self) {
        if !self.node_conns.is_empty() {
            self.nodes[0].target.counters.count(Count::Unknown);
            // The tasks run by themselves; nobody is left to wait for them.
            let _cleanups = self.clean_up();
        }
    }
}

/// Sends the acquisition to a node, unless a clean-up of an earlier attempt is running there.
async fn ask<E: Env>(node_conn: NodeConn<E>, token: OwnerToken, cleaning: bool) -> Vote {
    if cleaning {
        // It might find the key of an earlier attempt.
        return Err(CallError::NotSent(
            "an earlier attempt is still being cleaned up there".into(),
        ));
    }
    let NodeConn { target, lock_conn } = node_conn;
    let conn = target.connect().await?;
    let ttl_ms = span_ms(target.options.ttl());
    let set = Command::new("SET").arg(&target.key).arg(&token).arg("NX").arg("PX").int(ttl_ms);
    let sent = target.env.now();
    let answer = target.answer(pin!(lock_conn.acquire(conn, set, sent))).await;
    answer.and_then(|reply| match reply {
        Reply::Ok => Ok(true),
        Reply::Nil => Ok(false),
        other => Err(CallError::unexpected(&other)),
    })
}

impl<E: Env> fmt::Debug for Redlock<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("nodes", &self.nodes.len())
            .field("key", &format_args!("{}", self.first()))
            .field("options", &self.first().options)
            .finish()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
