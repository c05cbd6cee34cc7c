//! A lock on several independent servers: held by whoever has the key on more than half of them.
//!
//! Invariant: all nodes are asked for the same token at once, and validity counts from before the first
//! was asked; a lock without a quorum, or with no validity left, is given up on every node that may have
//! granted it, and where one surely has before the next attempt. A renewal counts where a quorum has
//! extended its own key. Nothing is ever made again that a node has lost.
//!
//! It needs what the lock on one server needs of more than half of the nodes: a node that forgets, and is
//! back before its grants would have expired, may let two hold the lock. So restart a node that has lost
//! its memory only after the longest TTL. Deliberately absent: fencing tokens (no node counts for all),
//! and lines.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::cleanup::Cleanup;
use crate::command::Command;
use crate::counters::{Count, Counters};
use crate::env::{CallError, Conn, Env, Mark, Node, Phase};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::lease::{Lease, Seat};
use crate::link::Link;
use crate::lock::NotAcquired;
use crate::observe;
use crate::options::{Options, OptionsError};
use crate::quorum::{check_nodes, quorum};
use crate::reply::Reply;
use crate::target::{Common, Target, unexpected};
use crate::time::{Instant, span_ms};
use crate::timeout::{all, within};
use crate::token::OwnerToken;
use crate::validity::is_valid;
use crate::wait::Poll;

/// A lock on one key of several independent servers. Cloning gives another handle to the same lock.
///
/// The call timeout of its options is the time a node has to answer; let it be far below the TTL, for
/// what a dead node costs is taken off the validity of every acquisition.
pub struct Redlock<E: Env> {
    targets: Arc<[Arc<Target<E>>]>,
}

impl<E: Env> Redlock<E> {
    /// The lock of this key on these nodes. Nothing is sent yet.
    ///
    /// # Errors
    /// [`OptionsError::NodesUneven`] for fewer than three nodes or an even number of them,
    /// [`OptionsError::NodeTwice`], [`OptionsError::OneNodeOnly`] for options of a lock on one server, and
    /// what is wrong with the key.
    pub fn new(
        env: E,
        nodes: impl IntoIterator<Item = Node>,
        key: impl Into<Box<[u8]>>,
        options: Options,
    ) -> Result<Self, OptionsError> {
        let nodes: Vec<Node> = nodes.into_iter().collect();
        check_nodes(nodes.len())?;
        if let Some(twice) = (1..nodes.len()).find(|place| nodes[..*place].contains(&nodes[*place]))
        {
            return Err(OptionsError::NodeTwice { node: nodes[twice].0 });
        }
        if options.notifies() || options.is_fenced() || options.replicas().is_some() {
            return Err(OptionsError::OneNodeOnly);
        }
        let key = key.into();
        let counters = Counters::default();
        let target = |node| {
            // What commands a server has is each node's own affair.
            let common = Common { counters: counters.clone(), ..Common::default() };
            Target::new(env.clone(), node, key.clone(), options.clone(), common)
        };
        let targets: Vec<_> =
            nodes.into_iter().map(|node| target(node).map(Arc::new)).collect::<Result<_, _>>()?;
        Ok(Self { targets: targets.into() })
    }

    /// What this lock and its clones have done; a clean-up counts on every node.
    pub fn counters(&self) -> &Counters {
        &self.first().counters
    }

    /// Tries once: asks all nodes, and waits for each at most one call timeout for a connection and one
    /// for the answer.
    ///
    /// Dropping the future in mid-call counts as an unknown outcome: what it may have taken is released
    /// in the background.
    ///
    /// # Errors
    /// See [`NotAcquired`]; [`NotAcquired::NoQuorum`] where too few nodes granted it.
    pub async fn try_acquire(&self) -> Result<Guard<E>, NotAcquired> {
        let tried = async { self.attempt().await.map_err(|missed| missed.error) };
        observe::acquisition(self.first(), tried).await
    }

    async fn attempt(&self) -> Result<Guard<E>, Missed> {
        let dropped = observe::Dropped::beside(self.first());
        let ended = self.ask().await;
        dropped.not();
        observe::attempted(self.first(), ended.as_ref().err().map(|missed| &missed.error));
        ended
    }

    async fn ask(&self) -> Result<Guard<E>, Missed> {
        let first = self.first();
        let env = &first.env;
        let token = OwnerToken::draw(env);
        env.mark(Mark::Phase(Phase::AcquireBeforeSend));
        let sent = env.now();
        let mut asked: Vec<Asked<E>> =
            self.targets.iter().map(|target| Asked::new(target, &token)).collect();
        let votes = all(asked.iter_mut().map(|node| Box::pin(node.ask())).collect()).await;
        let granted = votes.iter().filter(|vote| **vote == Ok(true)).count();
        let needed = quorum(votes.len());
        if granted < needed {
            tracing::debug!(key = %first.key_text(), granted, needed, "lock not acquired");
            return Err(Missed::after(why(&votes), &votes, asked));
        }
        env.mark(Mark::Phase(Phase::AcquireApplied));
        let valid_until = first.valid_until(sent);
        if !is_valid(env.now(), valid_until) {
            return Err(Missed::after(NotAcquired::TooLate, &votes, asked));
        }
        tracing::debug!(key = %first.key_text(), granted, "lock acquired");
        let (target, link) = (Arc::clone(first), asked[0].land());
        let others = asked[1..]
            .iter_mut()
            .map(|node| Seat { target: Arc::clone(node.target), link: node.land() })
            .collect();
        let hold = Hold::new(valid_until);
        Ok(Guard::new(Lease {
            target,
            token: token.clone(),
            sent,
            hold,
            link,
            fence: None,
            others,
        }))
    }

    /// Tries until `deadline` has passed or the retries of `poll` are used up, pausing in between. Its
    /// jitter keeps clients apart that have split the nodes between them, so leave it some. The next
    /// attempt begins when the nodes that granted the last one have answered its clean-up, or have
    /// had a call timeout for it: its own leavings would stand in its way.
    ///
    /// # Errors
    /// [`NotAcquired::Deadline`] with the end of the last attempt; that end itself where the retries are
    /// used up; a refusal of so many nodes that the others are no quorum, and that time does not change
    /// (a wrong password), at once.
    pub async fn acquire(&self, deadline: Duration, poll: Poll) -> Result<Guard<E>, NotAcquired> {
        observe::acquisition(self.first(), self.keep_trying(deadline, poll)).await
    }

    async fn keep_trying(&self, deadline: Duration, poll: Poll) -> Result<Guard<E>, NotAcquired> {
        let env = &self.first().env;
        let end = env.now().after(deadline);
        let mut retries = poll.max_retries;
        loop {
            let Missed { error, granted } = match self.attempt().await {
                Ok(guard) => return Ok(guard),
                Err(missed) => missed,
            };
            if !error.may_pass() || retries == Some(0) {
                return Err(error);
            }
            retries = retries.map(|retries| retries - 1);
            let left = end.since(env.now());
            if left.is_zero() {
                return Err(NotAcquired::Deadline { last: Box::new(error) });
            }
            env.mark(Mark::Phase(Phase::Wait));
            self.first().counters.count(Count::Waited);
            let answered = all(granted.iter().map(|it| Box::pin(it.answered())).collect());
            let span = self.first().options.call_timeout();
            // A node that has just granted is alive; should it have gone since, nobody waits for it.
            let _ = within(env, span.min(left), pin!(answered)).await;
            let left = end.since(env.now());
            env.sleep(poll.pause(env.random()).min(left)).await;
        }
    }

    fn first(&self) -> &Arc<Target<E>> {
        &self.targets[0]
    }
}

/// Why these votes are no lock. Where those who refuse for good leave no quorum to the others, waiting
/// mends nothing, and their words say what would.
fn why(votes: &[Result<bool, CallError>]) -> NotAcquired {
    let needed = quorum(votes.len());
    let granted = votes.iter().filter(|vote| **vote == Ok(true)).count();
    let errors = || votes.iter().filter_map(|vote| vote.as_ref().err());
    let refusals = errors().cloned().map(NotAcquired::from).filter(|error| !error.may_pass());
    let refusals: Vec<NotAcquired> = refusals.collect();
    if votes.len() - refusals.len() < needed
        && let Some(refusal) = refusals.into_iter().next()
    {
        return refusal;
    }
    let open = errors().filter(|error| error.is_indeterminate()).count();
    match errors().next().filter(|_| granted + open >= needed) {
        Some(error) => NotAcquired::Unknown(CallError::Indeterminate(
            format!("granted by {granted} of the {needed} nodes needed; {error}").into(),
        )),
        None => NotAcquired::NoQuorum { granted, needed },
    }
}

/// An attempt that gave no guard, and the clean-ups of what nodes had surely granted.
struct Missed {
    error: NotAcquired,
    granted: Vec<Arc<Cleanup>>,
}

impl Missed {
    /// Cleans up on every node that may have granted it.
    fn after<E: Env>(
        error: NotAcquired,
        votes: &[Result<bool, CallError>],
        asked: Vec<Asked<'_, E>>,
    ) -> Self {
        let cleaned = asked.into_iter().zip(votes).map(|(mut node, vote)| {
            let cleanup = node.clean_up();
            // What has not answered may be dead, and is not waited for: a minority may be.
            cleanup.filter(|_| *vote == Ok(true))
        });
        Self { error, granted: cleaned.flatten().collect() }
    }
}

/// One node being asked. Dropped before it has landed, what it may have granted is cleaned up.
struct Asked<'a, E: Env> {
    target: &'a Arc<Target<E>>,
    token: &'a OwnerToken,
    conn: Option<E::Conn>,
    /// When it was asked, unless it surely granted nothing.
    sent: Option<Instant>,
}

impl<'a, E: Env> Asked<'a, E> {
    fn new(target: &'a Arc<Target<E>>, token: &'a OwnerToken) -> Self {
        Self { target, token, conn: None, sent: None }
    }

    /// Whether the node grants the lock.
    async fn ask(&mut self) -> Result<bool, CallError> {
        let target = self.target;
        let conn = self.conn.insert(target.connect().await?).clone();
        let ttl_ms = span_ms(target.options.ttl());
        let set = Command::new("SET").arg(&target.key).arg(self.token).arg("NX");
        let set = set.arg("PX").int(ttl_ms);
        self.sent = Some(target.env.now());
        let answer = target.answer(pin!(conn.call(set))).await.and_then(|reply| match reply {
            Reply::Ok => Ok(true),
            Reply::Nil => Ok(false),
            other => Err(unexpected(&other)),
        });
        if matches!(&answer, Ok(false) | Err(CallError::Refused(_) | CallError::NotSent(_))) {
            self.sent = None;
        }
        answer
    }

    /// The lock is held: its release looks after this node as well.
    fn land(&mut self) -> Link<E::Conn> {
        self.sent = None;
        self.conn.take().map_or_else(Link::unconnected, Link::on)
    }

    /// Looks after what it may have granted, once.
    fn clean_up(&mut self) -> Option<Arc<Cleanup>> {
        let (sent, conn) = (self.sent.take()?, self.conn.as_ref()?);
        Some(Cleanup::start(self.target, conn, self.token, sent))
    }
}

impl<E: Env> Drop for Asked<'_, E> {
    fn drop(&mut self) {
        // The task goes on by itself; nobody is left to wait for it.
        let _cleanup = self.clean_up();
    }
}

impl<E: Env> Clone for Redlock<E> {
    fn clone(&self) -> Self {
        Self { targets: Arc::clone(&self.targets) }
    }
}

impl<E: Env> fmt::Debug for Redlock<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("nodes", &self.targets.len())
            .field("key", &format_args!("{}", self.first().key_text()))
            .field("options", &self.first().options)
            .finish()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
