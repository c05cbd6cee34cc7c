//! A lock on one Redis server: `SET key token NX PX ttl`, released by compare-and-delete.
//!
//! Invariant: whoever waits for a message listens before the attempt that it waits after, and never
//! sleeps for longer than the key lives: no release is slept through. Deliberately absent: anything
//! against a failover or a power loss of that server, which may forget a lock it has granted.

use std::fmt;
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use crate::attempt::{Failed, attempt, taken_by, whole_truth};
use crate::cleanup::Cleanup;
use crate::counters::{Count, Counters};
use crate::env::{Env, Mark, Node, Phase, Subscription};
use crate::guard::Guard;
use crate::lock::NotAcquired;
use crate::observe;
use crate::options::{Options, OptionsError};
use crate::target::{Common, Target};
use crate::time::Instant;
use crate::timeout::{First, race, within};
use crate::wait::Poll;

/// Redis counts the life of a key in milliseconds.
const GRAIN: Duration = Duration::from_millis(1);

/// A lock on one key of one server. Cloning gives another handle to the same lock.
pub struct Single<E: Env> {
    target: Arc<Target<E>>,
}

impl<E: Env> Single<E> {
    /// The lock of this key on this node. Nothing is sent yet.
    ///
    /// # Errors
    /// [`OptionsError::KeyEmpty`], [`OptionsError::KeyTooLong`], and where fencing tokens need a second
    /// key [`OptionsError::KeyAlone`], [`OptionsError::OtherSlot`], [`OptionsError::KeyTwice`].
    pub fn new(
        env: E,
        node: Node,
        key: impl Into<Box<[u8]>>,
        options: Options,
    ) -> Result<Self, OptionsError> {
        Self::among(env, node, key, options, Common::default())
    }

    /// The same, among others.
    pub(crate) fn among(
        env: E,
        node: Node,
        key: impl Into<Box<[u8]>>,
        options: Options,
        common: Common,
    ) -> Result<Self, OptionsError> {
        Ok(Self { target: Arc::new(Target::new(env, node, key, options, common)?) })
    }

    /// What this lock and its clones have done.
    pub fn counters(&self) -> &Counters {
        &self.target.counters
    }

    /// Waits until nothing is left to do behind guards and acquisitions that have gone: releases of guards that
    /// were dropped, clean-ups of acquisitions whose outcome is unknown. Before a runtime ends, this gives their
    /// tasks the time to run; what they have not done by then is left to the TTL of the key. A release takes three
    /// call timeouts at most, a clean-up as long as [`linger`](crate::options::OptionsBuilder::linger) says.
    pub async fn drain(&self) {
        self.target.background.drained().await;
    }

    /// Tries once. Takes at most one call timeout for a connection and one for the answer.
    ///
    /// Dropping the future in mid-call counts as an unknown outcome: what it may have taken is
    /// released in the background.
    ///
    /// # Errors
    /// See [`NotAcquired`]; never [`NotAcquired::Deadline`].
    pub async fn try_acquire(&self) -> Result<Guard<E>, NotAcquired> {
        let tried = async {
            match attempt(&self.target).await {
                Ok(guard) => Ok(guard),
                Err(failed) => Err(taken_by(&self.target, failed.error).await),
            }
        };
        observe::acquisition(&self.target, tried).await
    }

    /// Tries until `deadline` has passed or the retries of `poll` are used up, pausing in between.
    /// An attempt under way at the deadline is let finish, for cutting it off would turn a likely
    /// answer into an unknown one; it is bounded by the call timeout.
    ///
    /// Every attempt has an owner token of its own, so that no late command of one attempt can touch
    /// what the next one holds. After an attempt of unknown outcome, the next begins when its
    /// clean-up has had an answer: before that the caller might only find its own orphan.
    ///
    /// With [`notify`](crate::options::OptionsBuilder::notify) it sleeps until it hears of a release or
    /// the key's TTL is over, and polls only where it cannot listen.
    ///
    /// # Errors
    /// [`NotAcquired::Deadline`] with the end of the last attempt; that end itself where the retries
    /// are used up; a refusal that time does not change (a wrong password) at once.
    pub async fn acquire(&self, deadline: Duration, poll: Poll) -> Result<Guard<E>, NotAcquired> {
        observe::acquisition(&self.target, self.keep_trying(deadline, poll)).await
    }

    async fn keep_trying(&self, deadline: Duration, poll: Poll) -> Result<Guard<E>, NotAcquired> {
        let end = self.target.env.now().after(deadline);
        let mut retries = poll.max_retries;
        let mut open = None;
        let mut ear = None;
        loop {
            let failed = match attempt(&self.target).await {
                Ok(guard) => return Ok(guard),
                Err(failed) => failed,
            };
            if let (Some(cleanup), NotAcquired::Unknown(error)) = (&failed.cleanup, &failed.error) {
                open = Some((Arc::clone(cleanup), error.clone()));
            }
            if !failed.error.may_pass() || retries == Some(0) {
                return Err(whole_truth(taken_by(&self.target, failed.error).await, open));
            }
            retries = retries.map(|retries| retries - 1);
            let Failed { error, cleanup, left } = failed;
            if !self.wait(cleanup, left, &mut ear, end, poll).await {
                let last = whole_truth(taken_by(&self.target, error).await, open);
                return Err(match last.may_pass() {
                    true => NotAcquired::Deadline { last: Box::new(last) },
                    false => last,
                });
            }
        }
    }

    /// Waits for the next attempt; false where there is no time for one.
    async fn wait(
        &self,
        cleanup: Option<Arc<Cleanup>>,
        held: Option<Duration>,
        ear: &mut Option<E::Subscription>,
        end: Instant,
        poll: Poll,
    ) -> bool {
        let env = &self.target.env;
        let left = end.since(env.now());
        if left.is_zero() {
            return false;
        }
        env.mark(Mark::Phase(Phase::Wait));
        self.target.counters.count(Count::Waited);
        if let Some(cleanup) = cleanup
            && let First::Right(()) = race(pin!(cleanup.answered()), pin!(env.sleep(left))).await
        {
            return false;
        }
        // Where the pause would outlast the deadline, the last attempt is made at the deadline.
        let left = end.since(env.now());
        if let (Some(channel), Some(held)) = (&self.target.channel, held) {
            // A key is gone when its last millisecond is over.
            let spread = poll.pause(env.random()).saturating_sub(poll.base);
            let sleep = env.sleep(held.saturating_add(spread + GRAIN).min(left));
            match ear.take() {
                Some(heard) => *ear = doze(heard, pin!(sleep)).await,
                None => *ear = self.listen(channel).await,
            }
            // Who has just begun to listen looks again; who cannot listen polls.
            if ear.is_some() {
                return true;
            }
        }
        let left = end.since(env.now());
        env.sleep(poll.pause(env.random()).min(left)).await;
        true
    }

    async fn listen(&self, channel: &[u8]) -> Option<E::Subscription> {
        let target = &self.target;
        let listening = pin!(target.env.subscribe(target.node, channel));
        match within(&target.env, target.options.call_timeout(), listening).await {
            Some(Ok(ear)) => Some(ear),
            Some(Err(error)) => {
                tracing::debug!(key = %target.key_text(), %error, "cannot listen; polling");
                None
            }
            None => None,
        }
    }
}

/// Waits for a message or the end of `sleep`; nothing is left of an ear that hears no more. One
/// message is as good as many.
async fn doze<S: Subscription>(
    mut ear: S,
    mut sleep: Pin<&mut impl Future<Output = ()>>,
) -> Option<S> {
    let woken = race(pin!(ear.next()), sleep.as_mut()).await;
    if matches!(woken, First::Left(Err(_))) {
        return None;
    }
    loop {
        let more = race(pin!(ear.next()), pin!(ready(()))).await;
        match more {
            First::Left(Ok(_)) => {}
            First::Left(Err(_)) => return None,
            First::Right(()) => break,
        }
    }
    Some(ear)
}

impl<E: Env> Clone for Single<E> {
    fn clone(&self) -> Self {
        Self { target: Arc::clone(&self.target) }
    }
}

impl<E: Env> fmt::Debug for Single<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single")
            .field("node", &self.target.node)
            .field("key", &format_args!("{}", self.target.key_text()))
            .field("options", &self.target.options)
            .finish()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod notify_tests;
#[cfg(all(test, not(picklock_loom)))]
mod tests;
