//! A lock on one Redis server: `SET key token NX PX ttl`, released by compare-and-delete.
//!
//! Invariant: a client that waits for a message subscribes before the attempt after which it sleeps, and
//! never sleeps for longer than the key lives, so it sleeps through no release. Nothing here helps against
//! a failover or a power loss of the server, which may lose a lock it has granted.

use std::fmt;
use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use crate::attempt::{FailedAttempt, Unresolved, attempt, check_key_type, try_once};
use crate::cleanup::Cleanup;
use crate::counters::{Count, Counters};
use crate::env::{Env, Mark, Node, Phase, Subscription};
use crate::guard::Guard;
use crate::lock::NotAcquired;
use crate::observe;
use crate::options::{Options, OptionsError};
use crate::target::{LockContext, LockTarget, WaitMode};
use crate::time::Instant;
use crate::timeout::{Either, race, within};
use crate::wait::Poll;

/// Redis counts the TTL of a key in milliseconds.
const GRAIN: Duration = Duration::from_millis(1);

/// So often in a row a subscription is listened to for as long as the key lives, and then replaced: its connection may have
/// gone without a word. If a holder renews the key, it is in vain, too.
const IN_VAIN_MOST: u32 = 4;

/// A lock on one key of one server. Cloning gives another handle to the same lock.
#[derive(Clone)]
pub struct Single<E: Env> {
    target: Arc<LockTarget<E>>,
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
        key: impl AsRef<[u8]>,
        options: Options,
    ) -> Result<Self, OptionsError> {
        Self::with_context(env, node, key.as_ref().into(), options, LockContext::default())
    }

    /// As [`new`](Self::new), sharing a context with other locks.
    pub(crate) fn with_context(
        env: E,
        node: Node,
        key: Box<[u8]>,
        options: Options,
        context: LockContext,
    ) -> Result<Self, OptionsError> {
        let waiting = match options.notifies() {
            true => WaitMode::Notify([b"picklock:", &key[..]].concat().into()),
            false => WaitMode::Poll,
        };
        Ok(Self { target: Arc::new(LockTarget::new(env, node, key, waiting, options, context)?) })
    }

    /// What this lock and its clones have done.
    pub fn counters(&self) -> &Counters {
        &self.target.counters
    }

    /// Waits for the background tasks of dropped guards and acquisitions: releases, and clean-ups of
    /// acquisitions with an unknown outcome. Before a runtime ends, this gives them the time to run; a key
    /// that they have not deleted by then stays for the rest of its TTL. A release takes at most six and a half call
    /// timeouts (see [`Guard::release`]), a clean-up at most [`linger`](crate::options::OptionsBuilder::linger) and two.
    pub async fn drain(&self) {
        self.target.counters.drained().await;
    }

    /// Tries once. Takes at most one call timeout for a connection and one for the answer; with
    /// [`wait_for`](crate::options::OptionsBuilder::wait_for) one more. Until this handle or a clone has seen that the
    /// key holds a string, finding it taken takes as long again: the key is read, as it might hold something else. With
    /// [`notify`](crate::options::OptionsBuilder::notify) or [`fenced`](crate::options::OptionsBuilder::fenced), so it does
    /// each time if the key has no TTL.
    ///
    /// Dropping the future in mid-call leaves the outcome unknown: if it has taken the lock, the lock is
    /// released in the background.
    ///
    /// # Errors
    /// See [`NotAcquired`]; never [`NotAcquired::Deadline`].
    pub async fn try_acquire(&self) -> Result<Guard<E>, NotAcquired> {
        try_once(&self.target).await
    }

    /// Tries until `deadline` (from now) has passed or the retries of `poll` are used up, pausing in between.
    /// An attempt in flight at the deadline is completed, because cutting it off would turn a likely answer
    /// into an unknown one. So this takes at most the deadline and what [`try_acquire`](Self::try_acquire) takes, four
    /// call timeouts; with [`notify`](crate::options::OptionsBuilder::notify) five, as it subscribes before.
    ///
    /// Every attempt has an owner token of its own, so that no late command of one attempt can touch the
    /// key of the next. After an attempt with an unknown outcome, the next begins when the clean-up has had
    /// an answer: before that, it might find the orphan key of the last.
    ///
    /// With [`notify`](crate::options::OptionsBuilder::notify) it sleeps until a release is published or the
    /// key's TTL is over, and polls only where it cannot subscribe.
    ///
    /// Dropping the future is as with [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// [`NotAcquired::Deadline`] with the outcome of the last attempt; that outcome itself where the retries
    /// are used up; a refusal that time does not change (a wrong password) at once.
    pub async fn acquire(&self, deadline: Duration, poll: Poll) -> Result<Guard<E>, NotAcquired> {
        observe::acquisition(&self.target, pin!(Some(self.keep_trying(deadline, poll)))).await
    }

    async fn keep_trying(&self, deadline: Duration, poll: Poll) -> Result<Guard<E>, NotAcquired> {
        let end = self.target.env.now().after(deadline);
        let mut retries = poll.max_retries;
        let mut unresolved = Unresolved::default();
        let mut subscription = None;
        loop {
            let failed = match attempt(&self.target).await {
                Ok(guard) => return Ok(guard),
                Err(failed) => failed,
            };
            unresolved.add(&failed);
            if !failed.error.may_pass() || retries == Some(0) {
                return Err(unresolved.or(check_key_type(&self.target, failed.error).await));
            }
            retries = retries.map(|retries| retries - 1);
            let FailedAttempt { error, cleanup, ttl_left, .. } = failed;
            if !self.wait(cleanup, ttl_left, &mut subscription, end, poll).await {
                let last = unresolved.or(check_key_type(&self.target, error).await);
                return Err(match last.may_pass() {
                    true => NotAcquired::Deadline { last: Box::new(last) },
                    false => last,
                });
            }
        }
    }

    /// Waits for the next attempt; false where the deadline leaves no time for one. With the subscription comes how often
    /// in a row it was listened to in vain.
    async fn wait(
        &self,
        cleanup: Option<Arc<Cleanup>>,
        ttl_left: Option<Duration>,
        subscription: &mut Option<(E::Subscription, u32)>,
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
            && let Either::Right(()) = race(pin!(cleanup.answered()), pin!(env.sleep(left))).await
        {
            return false;
        }
        if let (WaitMode::Notify(channel), Some(ttl_left)) = (&self.target.waiting, ttl_left) {
            let left = end.since(env.now());
            // A key expires when its last millisecond is over. The jitter keeps waiters apart.
            let jitter = poll.pause(env.random()).saturating_sub(poll.base);
            let sleep = env.sleep(ttl_left.saturating_add(jitter + GRAIN).min(left));
            match subscription.take() {
                Some((confirmed, in_vain)) => {
                    match wait_for_message(confirmed, pin!(sleep)).await {
                        Listened::Heard(it) => *subscription = Some((it, 0)),
                        Listened::InVain(it) => {
                            let in_vain = in_vain + 1;
                            *subscription = (in_vain < IN_VAIN_MOST).then_some((it, in_vain));
                            // If it is replaced, then behind this attempt: the key should have expired.
                            return true;
                        }
                        Listened::Broken => {}
                    }
                }
                None => *subscription = self.subscribe(channel).await.map(|it| (it, 0)),
            }
            // After subscribing it tries again at once, as a release may have come before. Where it
            // cannot subscribe, it polls.
            if subscription.is_some() {
                return true;
            }
        }
        // Where the pause would outlast the deadline, the last attempt is made at the deadline.
        let left = end.since(env.now());
        env.sleep(poll.pause(env.random()).min(left)).await;
        true
    }

    async fn subscribe(&self, channel: &[u8]) -> Option<E::Subscription> {
        let target = &self.target;
        let listening = pin!(target.env.subscribe(target.node, channel));
        match within(&target.env, target.options.call_timeout(), listening).await {
            Some(Ok(subscription)) => Some(subscription),
            Some(Err(error)) => {
                tracing::debug!(key = %target, %error, "cannot listen; polling");
                None
            }
            None => None,
        }
    }
}

/// What became of a subscription that was waited on.
enum Listened<S> {
    Heard(S),
    /// No message came.
    InVain(S),
    Broken,
}

/// Waits for a message or the end of `sleep`, and drains further messages.
async fn wait_for_message<S: Subscription>(
    mut subscription: S,
    mut sleep: Pin<&mut impl Future<Output = ()>>,
) -> Listened<S> {
    let woken = race(pin!(subscription.next()), sleep.as_mut()).await;
    match woken {
        Either::Left(Ok(_)) => {}
        Either::Left(Err(_)) => return Listened::Broken,
        Either::Right(()) => return Listened::InVain(subscription),
    }
    loop {
        let more = race(pin!(subscription.next()), pin!(ready(()))).await;
        match more {
            Either::Left(Ok(_)) => {}
            Either::Left(Err(_)) => return Listened::Broken,
            Either::Right(()) => return Listened::Heard(subscription),
        }
    }
}

impl<E: Env> fmt::Debug for Single<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single")
            .field("node", &self.target.node)
            .field("key", &format_args!("{}", self.target))
            .field("options", &self.target.options)
            .finish()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod notify_tests;
#[cfg(all(test, not(picklock_loom)))]
mod tests;
