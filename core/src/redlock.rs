//! A lock on several independent servers: held by whoever has the key on more than half of them.
//!
//! Invariant: all nodes are asked for the same token at once, and validity counts from before the first
//! was asked. The answer is given as soon as a quorum has granted it, or none can any more; a node that is late
//! grants it to the hold, or is cleaned up where there is none, and is asked no more once the hold is released. A lock
//! without a quorum, or with no validity left, is given up on every node that may have granted it, and where one
//! surely has before the next attempt; none is asked where a clean-up still waits for its answer. A renewal counts
//! where a quorum has extended its own key. Nothing is ever made again that a node has lost.
//!
//! It needs what the lock on one server needs of more than half of the nodes: a node that forgets, and is
//! back before its grants would have expired, may let two hold the lock. So restart a node that has lost
//! its memory only after the longest TTL. Deliberately absent: fencing tokens (no node counts for all),
//! and lines.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::answers::Answers;
use crate::cleanup::Cleanup;
use crate::command::Command;
use crate::counters::{Count, Counters};
use crate::env::{CallError, Env, Mark, Node, Phase};
use crate::guard::Guard;
use crate::hold::Hold;
use crate::lease::{Lease, Seat};
use crate::link::Link;
use crate::lock::NotAcquired;
use crate::observe;
use crate::options::{Options, OptionsError};
use crate::quorum::{check_nodes, granted, quorum};
use crate::reply::Reply;
use crate::sync::{Mutex, lock};
use crate::target::{Common, Target, unexpected};
use crate::time::span_ms;
use crate::timeout::within;
use crate::token::OwnerToken;
use crate::validity::is_valid;
use crate::wait::Poll;

/// A lock on one key of several independent servers. Cloning gives another handle to the same lock.
///
/// The call timeout of its options is the time a node has to answer. A minority that does not answer delays
/// nothing: not the acquisition, nor renewals, nor the release.
pub struct Redlock<E: Env> {
    places: Arc<[Place<E>]>,
}

/// One node.
struct Place<E: Env> {
    target: Arc<Target<E>>,
    /// The last clean-up here.
    cleanup: Mutex<Option<Arc<Cleanup>>>,
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
        let shared = Common::default();
        let place = |node| {
            // What commands a server has is each node's own affair.
            let Common { native, .. } = Common::default();
            let common = Common { native, ..shared.clone() };
            let target = Target::new(env.clone(), node, key.clone(), options.clone(), common)?;
            Ok(Place { target: Arc::new(target), cleanup: Mutex::new(None) })
        };
        let places: Vec<_> = nodes.into_iter().map(place).collect::<Result<_, OptionsError>>()?;
        Ok(Self { places: places.into() })
    }

    /// What this lock and its clones have done; a clean-up counts on every node.
    pub fn counters(&self) -> &Counters {
        &self.first().counters
    }

    /// Waits until nothing is left to do behind guards and acquisitions that have gone; see
    /// [`Single::drain`](crate::Single::drain).
    pub async fn drain(&self) {
        self.first().background.drained().await;
    }

    /// Tries once: asks all nodes, and waits until a quorum has granted it or none can any more; for each at most one
    /// call timeout for a connection and one for the answer.
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
        let mut ballot = Ballot::begin(&self.places, token);
        let is_granted = ballot.votes.until(granted).await;
        if !is_granted {
            let error = why(ballot.votes.said());
            tracing::debug!(key = %first.key_text(), %error, "lock not acquired");
            return Err(Missed { error, granted: ballot.clean_up() });
        }
        env.mark(Mark::Phase(Phase::AcquireApplied));
        let valid_until = first.valid_until(sent);
        if !is_valid(env.now(), valid_until) {
            return Err(Missed { error: NotAcquired::TooLate, granted: ballot.clean_up() });
        }
        tracing::debug!(key = %first.key_text(), "lock acquired");
        let token = ballot.token.clone();
        let mut seats = ballot.land().into_iter();
        let Some(Seat { target, link }) = seats.next() else {
            unreachable!("a lock on several nodes has a first")
        };
        let (hold, others) = (Hold::new(valid_until), seats.collect());
        Ok(Guard::new(Lease { target, token, sent, hold, link, fence: None, others }))
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
            let answered = Answers::of(granted.into_iter().map(Cleanup::is_answered)).rest();
            let span = self.first().options.call_timeout();
            // A node that has just granted is alive; should it have gone since, nobody waits for it.
            if let Some(answered) = answered {
                let _ = within(env, span.min(left), pin!(answered)).await;
            }
            let left = end.since(env.now());
            env.sleep(poll.pause(env.random()).min(left)).await;
        }
    }

    fn first(&self) -> &Arc<Target<E>> {
        &self.places[0].target
    }
}

type Vote = Result<bool, CallError>;

/// Why these votes are no lock. Where those who refuse for good leave no quorum to the others, waiting
/// mends nothing, and their words say what would. Who has not answered is unknown.
fn why(votes: &[Option<Vote>]) -> NotAcquired {
    let needed = quorum(votes.len());
    let said = || votes.iter().flatten();
    let granted = said().filter(|vote| **vote == Ok(true)).count();
    let errors = || said().filter_map(|vote| vote.as_ref().err());
    let refusals = errors().cloned().map(NotAcquired::from).filter(|error| !error.may_pass());
    let refusals: Vec<NotAcquired> = refusals.collect();
    if votes.len() - refusals.len() < needed
        && let Some(refusal) = refusals.into_iter().next()
    {
        return refusal;
    }
    let unknown = errors().filter(|error| error.is_indeterminate()).count();
    let open = votes.len() - said().count();
    match errors().next().filter(|_| granted + unknown + open >= needed) {
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

/// One attempt on all nodes. Dropped before it has landed, what they may have granted is cleaned up.
struct Ballot<'a, E: Env> {
    places: &'a [Place<E>],
    token: OwnerToken,
    /// One for each place, until it has landed.
    seats: Vec<Seat<E>>,
    votes: Answers<Vote>,
}

impl<'a, E: Env> Ballot<'a, E> {
    fn begin(places: &'a [Place<E>], token: OwnerToken) -> Self {
        let seat =
            |it: &Place<E>| Seat { target: Arc::clone(&it.target), link: Arc::new(Link::ahead()) };
        let seats: Vec<Seat<E>> = places.iter().map(seat).collect();
        let asked = places.iter().zip(&seats).map(|(place, seat)| {
            let open = lock(&place.cleanup).as_ref().is_some_and(|it| it.is_unanswered());
            ask(seat.clone(), token.clone(), open)
        });
        let votes = Answers::of(asked);
        Self { places, token, seats, votes }
    }

    /// The lock is held: whoever is late to answer belongs to it, and its release looks after all.
    fn land(mut self) -> Vec<Seat<E>> {
        if let Some(rest) = self.take_votes().rest() {
            self.places[0].target.begin("the acquisition on a late node", rest);
        }
        std::mem::take(&mut self.seats)
    }

    /// Looks after what may have been granted, once; the clean-ups where it surely was.
    fn clean_up(&mut self) -> Vec<Arc<Cleanup>> {
        let mut granted = Vec::new();
        let seats = std::mem::take(&mut self.seats);
        for ((place, seat), vote) in
            self.places.iter().zip(seats).zip(self.take_votes().into_each())
        {
            let Seat { target, link } = seat;
            // What is still to be sent is sent no more.
            let left = link.withdraw();
            let (cleanup, surely) = match (vote, left) {
                (Ok(vote), Some((conn, sent))) if may_have_granted(&vote) => {
                    (Cleanup::start(&target, &conn, &self.token, sent), vote == Ok(true))
                }
                (Ok(_), _) => continue,
                (Err(vote), _) => {
                    let granted = async move { may_have_granted(&vote.await) };
                    (Cleanup::after(&target, granted, &link, &self.token), false)
                }
            };
            *lock(&place.cleanup) = Some(Arc::clone(&cleanup));
            // What has not answered may be dead, and is not waited for: a minority may be.
            if surely {
                granted.push(cleanup);
            }
        }
        granted
    }

    fn take_votes(&mut self) -> Answers<Vote> {
        std::mem::replace(&mut self.votes, Answers::of(NOBODY))
    }
}

const NOBODY: [std::future::Ready<Vote>; 0] = [];

fn may_have_granted(vote: &Vote) -> bool {
    matches!(vote, Ok(true) | Err(CallError::Indeterminate(_)))
}

impl<E: Env> Drop for Ballot<'_, E> {
    fn drop(&mut self) {
        // The tasks go on by themselves; nobody is left to wait for them.
        if !self.seats.is_empty() {
            let _cleanups = self.clean_up();
        }
    }
}

/// Whether a node grants the lock.
async fn ask<E: Env>(seat: Seat<E>, token: OwnerToken, open: bool) -> Vote {
    if open {
        // It would find what an earlier attempt has left.
        return Err(CallError::NotSent("an earlier attempt is not cleaned up yet".into()));
    }
    let Seat { target, link } = seat;
    let conn = target.connect().await?;
    let ttl_ms = span_ms(target.options.ttl());
    let set = Command::new("SET").arg(&target.key).arg(&token).arg("NX").arg("PX").int(ttl_ms);
    let sent = target.env.now();
    let answer = target.answer(pin!(link.acquire(conn, set, sent))).await;
    answer.and_then(|reply| match reply {
        Reply::Ok => Ok(true),
        Reply::Nil => Ok(false),
        other => Err(unexpected(&other)),
    })
}

impl<E: Env> Clone for Redlock<E> {
    fn clone(&self) -> Self {
        Self { places: Arc::clone(&self.places) }
    }
}

impl<E: Env> fmt::Debug for Redlock<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("nodes", &self.places.len())
            .field("key", &format_args!("{}", self.first().key_text()))
            .field("options", &self.first().options)
            .finish()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests;
