//! One acquisition while it is held: what its guard, its watchdog and its release do with it.
//!
//! Invariant: whatever ends the hold, its loss is reported once. A renewal that is in flight when the hold
//! ends is abandoned, and harmless however late it is carried out: it extends the key only while the key
//! holds this acquisition's token, it never creates the key, and no later acquisition has the same token.
//! So it can neither bring a released lock back nor touch another's.

mod all_nodes;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Span};

use crate::counters::Count;
use crate::env::{CallError, Env, Mark, Phase};
use crate::fence::Fence;
use crate::lock::{Lost, NotExtended, Released};
use crate::lock_conn::LockConn;
use crate::observe;
use crate::shared_hold::{HoldStatus, HoldView, SharedHold};
use crate::target::{KeyOwner, LockTarget};
use crate::time::Instant;
use crate::timeout::{Either, race};
use crate::token::OwnerToken;
use crate::validity::is_valid;

/// How many times a deletion without an answer is sent in all. It is idempotent, so repeating is safe.
const RELEASE_TRIES: u32 = 3;

/// An acquisition that was granted.
pub(crate) struct HeldLock<E: Env> {
    pub(crate) target: Arc<LockTarget<E>>,
    pub(crate) token: OwnerToken,
    /// When the acquisition was sent.
    pub(crate) sent: Instant,
    pub(crate) hold: SharedHold,
    pub(crate) lock_conn: Arc<LockConn<E::Conn>>,
    pub(crate) fence: Option<Fence>,
    /// The other nodes of a lock on several.
    pub(crate) other_nodes: Vec<NodeConn<E>>,
}

/// An acquisition's key on one node of several.
#[derive(Clone)]
pub(crate) struct NodeConn<E: Env> {
    pub(crate) target: Arc<LockTarget<E>>,
    pub(crate) lock_conn: Arc<LockConn<E::Conn>>,
}

impl<E: Env> HeldLock<E> {
    pub(crate) fn status(&self) -> HoldStatus {
        self.report(self.hold.look(self.target.env.now()))
    }

    /// How much validity is left.
    pub(crate) fn remaining(&self) -> Duration {
        match self.status() {
            HoldStatus::Held(until) => until.since(self.target.env.now()),
            HoldStatus::Lost(_) | HoldStatus::Releasing => Duration::ZERO,
        }
    }

    /// Waits until the hold is lost or its release has begun. The end of validity is a loss, even if nobody
    /// else checks.
    pub(crate) async fn over(&self) -> HoldStatus {
        let env = &self.target.env;
        loop {
            let until = match self.status() {
                HoldStatus::Held(until) => until,
                ended => return ended,
            };
            // A renewal moves the end, so the status is read again after the sleep.
            race(pin!(self.hold.over()), pin!(env.sleep(until.since(env.now())))).await;
        }
    }

    /// Renews the hold for a whole TTL; returns the new end of validity.
    pub(crate) async fn renew(self: &Arc<Self>) -> Result<Instant, NotExtended> {
        observe::renewal(&self.target, pin!(Some(self.send_renewal()))).await
    }

    async fn send_renewal(self: &Arc<Self>) -> Result<Instant, NotExtended> {
        let target = &*self.target;
        match self.status() {
            HoldStatus::Held(_) => {}
            ended => return extended(ended),
        }
        target.env.mark(Mark::Phase(Phase::RenewBeforeSend));
        let sent = target.env.now();
        match race(pin!(self.send_extend()), pin!(self.over())).await {
            Either::Left(Ok(KeyOwner::Own)) => {
                let until = target.valid_until(sent);
                let status = self.report(self.hold.extend(until, target.env.now()));
                if let HoldStatus::Held(until) = status {
                    target.env.mark(Mark::ValidUntil(until));
                    tracing::debug!(key = %target, "lock renewed");
                }
                extended(status)
            }
            Either::Left(Ok(KeyOwner::Missing | KeyOwner::Waiting { taken: false })) => {
                extended(self.lose(Lost::KeyGone))
            }
            Either::Left(Ok(KeyOwner::Other | KeyOwner::Waiting { taken: true })) => {
                extended(self.lose(Lost::TakenByOther))
            }
            Either::Left(Err(error)) => {
                tracing::debug!(key = %target, %error, "lock not renewed");
                Err(error.into())
            }
            Either::Right(ended) => extended(ended),
        }
    }

    async fn send_extend(self: &Arc<Self>) -> Result<KeyOwner, CallError> {
        if self.other_nodes.is_empty() {
            return self.target.compare_and_extend(&self.lock_conn, &self.token).await;
        }
        self.extend_on_all().await
    }

    /// Begins the release in the background, unless it has begun.
    pub(crate) fn begin_release(self: &Arc<Self>) {
        if !self.hold.begin_release() {
            return;
        }
        self.target.env.mark(Mark::Phase(Phase::ReleaseBeforeSend));
        let span = observe::release(&self.target);
        let release = ReleaseTask(Arc::clone(self), span.clone());
        self.target.spawn("the release", async move { release.run().await }.instrument(span));
    }

    async fn release(self: &Arc<Self>) -> Released {
        if !self.other_nodes.is_empty() {
            return self.release_on_all().await;
        }
        let target = &*self.target;
        let mut unanswered = None;
        for attempt in 1..=RELEASE_TRIES {
            target.env.mark(Mark::Phase(Phase::ReleaseBeforeDelete));
            let error = match target.give_up(&self.lock_conn, &self.token).await {
                Ok(owner) => return self.release_outcome(owner, unanswered),
                Err(error) => error,
            };
            if target.may_have_given_up(&error) || unanswered.is_none() {
                unanswered = Some(error);
            }
            if attempt < RELEASE_TRIES {
                target.env.sleep(target.options.call_timeout() / 4).await;
            }
        }
        match unanswered {
            Some(error) => Released::Unknown(error),
            None => unreachable!("a try that does not return leaves its error"),
        }
    }

    /// What a definite answer means after `unanswered`, the error of an earlier try.
    fn release_outcome(&self, owner: KeyOwner, unanswered: Option<CallError>) -> Released {
        let gone = match owner {
            KeyOwner::Own => return Released::Released,
            KeyOwner::Missing | KeyOwner::Waiting { taken: false } => Released::AlreadyExpired,
            KeyOwner::Other | KeyOwner::Waiting { taken: true } => Released::TakenByOther,
        };
        match unanswered {
            // What a renewal has found gone, no try has deleted.
            _ if matches!(self.hold.lost(), Some(Lost::KeyGone | Lost::TakenByOther)) => gone,
            // An earlier try may have deleted the key. If the key cannot have expired yet, it did.
            Some(error) if self.target.may_have_given_up(&error) => {
                if is_valid(self.target.env.now(), self.hold.valid_until()) {
                    Released::Released
                } else {
                    Released::Unknown(error)
                }
            }
            _ => gone,
        }
    }

    fn lose(&self, why: Lost) -> HoldStatus {
        self.report(self.hold.lose(why))
    }

    /// Reports a loss that this caller is the first to see.
    fn report(&self, view: HoldView) -> HoldStatus {
        if view.newly_lost {
            self.target.env.mark(Mark::Lost);
            self.target.counters.count(Count::Lost);
            tracing::warn!(key = %self.target, standing = ?view.status, "lock lost");
        }
        view.status
    }
}

/// The status of a hold, as the result of a renewal.
fn extended(status: HoldStatus) -> Result<Instant, NotExtended> {
    match status {
        HoldStatus::Held(until) => Ok(until),
        HoldStatus::Lost(lost) => Err(lost.into()),
        // Only the watchdog gets here: the release has consumed the guard.
        HoldStatus::Releasing => {
            Err(CallError::NotSent("the lock is being released".into()).into())
        }
    }
}

/// The release as a task. If the task is dropped unfinished, for example by a runtime that shuts down, the
/// outcome is *unknown*, so that nobody waits for it for ever.
struct ReleaseTask<E: Env>(Arc<HeldLock<E>>, Span);

impl<E: Env> ReleaseTask<E> {
    async fn run(self) {
        let held = &self.0;
        let outcome = held.release().await;
        held.target.env.mark(Mark::Phase(Phase::Released));
        tracing::debug!(key = %held.target, ?outcome, "lock released");
        if let Released::Unknown(error) = &outcome {
            tracing::warn!(
                key = %held.target,
                %error,
                "lock not released; if its key is still there, it stays until its ttl is over"
            );
        }
        observe::released(&held.target, &self.1, &outcome);
        held.hold.released(outcome);
    }
}

impl<E: Env> Drop for ReleaseTask<E> {
    fn drop(&mut self) {
        if !self.0.hold.is_released() {
            let reason = "the task of the release was dropped";
            let outcome = Released::Unknown(CallError::Indeterminate(reason.into()));
            observe::released(&self.0.target, &self.1, &outcome);
            self.0.hold.released(outcome);
        }
    }
}
