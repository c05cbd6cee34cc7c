//! One acquisition while it is held: what its guard, its watchdog and its release do with it.
//!
//! Invariant: whatever ends the hold, the world is told once. A renewal that is still under way
//! when the hold ends is abandoned, and harmless however late it is carried out: it extends the key
//! only while the key holds this acquisition's token, it never creates the key, and no later
//! acquisition has the same token. So it can neither bring a released lock back nor touch another's.

mod everywhere;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Span};

use crate::counters::Count;
use crate::env::{CallError, Env, Mark, Phase};
use crate::fence::Fence;
use crate::hold::{Hold, Seen, Standing};
use crate::link::Link;
use crate::lock::{Lost, NotExtended, Released};
use crate::observe;
use crate::target::{Found, Target};
use crate::time::Instant;
use crate::timeout::{First, race};
use crate::token::OwnerToken;
use crate::validity::is_valid;

/// A deletion is idempotent, so one without an answer is tried again; this often in all.
const RELEASE_TRIES: u32 = 3;

/// An acquisition that was answered with yes.
pub(crate) struct Lease<E: Env> {
    pub(crate) target: Arc<Target<E>>,
    pub(crate) token: OwnerToken,
    /// When the acquisition was sent.
    pub(crate) sent: Instant,
    pub(crate) hold: Hold,
    pub(crate) link: Arc<Link<E::Conn>>,
    pub(crate) fence: Option<Fence>,
    /// The other nodes of a lock on several.
    pub(crate) others: Vec<Seat<E>>,
}

/// A lease's place on one more node.
pub(crate) struct Seat<E: Env> {
    pub(crate) target: Arc<Target<E>>,
    pub(crate) link: Arc<Link<E::Conn>>,
}

impl<E: Env> Lease<E> {
    /// How the hold stands now.
    pub(crate) fn standing(&self) -> Standing {
        self.tell(self.hold.look(self.target.env.now()))
    }

    /// How much validity is left.
    pub(crate) fn remaining(&self) -> Duration {
        match self.standing() {
            Standing::Held(until) => until.since(self.target.env.now()),
            Standing::Lost(_) | Standing::Releasing => Duration::ZERO,
        }
    }

    /// Waits for the end of the hold: lost, or its release begun. The end of validity is such an
    /// end, whether or not anyone else notices.
    pub(crate) async fn over(&self) -> Standing {
        let env = &self.target.env;
        loop {
            let until = match self.standing() {
                Standing::Held(until) => until,
                ended => return ended,
            };
            // A renewal moves the end: after the sleep it is looked at again.
            race(pin!(self.hold.over()), pin!(env.sleep(until.since(env.now())))).await;
        }
    }

    /// Asks the server for another whole TTL; returns the new end of validity.
    pub(crate) async fn renew(self: &Arc<Self>) -> Result<Instant, NotExtended> {
        observe::renewal(&self.target, self.send_renewal()).await
    }

    async fn send_renewal(self: &Arc<Self>) -> Result<Instant, NotExtended> {
        let target = &*self.target;
        match self.standing() {
            Standing::Held(_) => {}
            ended => return extended(ended),
        }
        target.env.mark(Mark::Phase(Phase::RenewBeforeSend));
        let sent = target.env.now();
        match race(pin!(self.ask_to_extend()), pin!(self.over())).await {
            First::Left(Ok(Found::Own)) => {
                let until = target.valid_until(sent);
                let standing = self.tell(self.hold.extend(until, target.env.now()));
                if let Standing::Held(until) = standing {
                    target.env.mark(Mark::ValidUntil(until));
                    tracing::debug!(key = %target.key_text(), "lock renewed");
                }
                extended(standing)
            }
            First::Left(Ok(Found::Missing)) => extended(self.lose(Lost::KeyGone)),
            First::Left(Ok(Found::Other)) => extended(self.lose(Lost::TakenByOther)),
            First::Left(Err(error)) => {
                tracing::debug!(key = %target.key_text(), %error, "lock not renewed");
                Err(error.into())
            }
            First::Right(ended) => extended(ended),
        }
    }

    async fn ask_to_extend(self: &Arc<Self>) -> Result<Found, CallError> {
        if self.others.is_empty() {
            return self.target.compare_and_extend(&self.link, &self.token).await.1;
        }
        self.extend_everywhere().await
    }

    /// Begins the release in the background, unless it has begun.
    pub(crate) fn begin_release(self: &Arc<Self>) {
        if !self.hold.begin_release() {
            return;
        }
        self.target.env.mark(Mark::Phase(Phase::ReleaseBeforeSend));
        let span = observe::release(&self.target);
        let release = Release(Arc::clone(self), span.clone());
        self.target.begin("the release", async move { release.run().await }.instrument(span));
    }

    async fn release(self: &Arc<Self>) -> Released {
        if !self.others.is_empty() {
            return self.release_everywhere().await;
        }
        let target = &*self.target;
        let mut unanswered = None;
        for attempt in 1..=RELEASE_TRIES {
            target.env.mark(Mark::Phase(Phase::ReleaseBeforeDelete));
            let (_, answer) = target.give_up(&self.link, &self.token).await;
            let error = match answer {
                Ok(found) => return self.judge(found, unanswered),
                Err(error) => error,
            };
            if error.is_indeterminate() || unanswered.is_none() {
                unanswered = Some(error);
            }
            if attempt < RELEASE_TRIES {
                target.env.sleep(target.options.call_timeout() / 4).await;
            }
        }
        match unanswered {
            Some(error) => Released::Unknown(error),
            None => unreachable!("every try that returns no answer leaves its error"),
        }
    }

    /// What a definite answer means after tries that had none.
    fn judge(&self, found: Found, unanswered: Option<CallError>) -> Released {
        let gone = match found {
            Found::Own => return Released::Released,
            Found::Missing => Released::AlreadyExpired,
            Found::Other => Released::TakenByOther,
        };
        match unanswered {
            // An earlier try may have deleted the key. While the lease cannot have expired, it did.
            Some(error) if error.is_indeterminate() => {
                if is_valid(self.target.env.now(), self.hold.valid_until()) {
                    Released::Released
                } else {
                    Released::Unknown(error)
                }
            }
            _ => gone,
        }
    }

    fn lose(&self, why: Lost) -> Standing {
        self.tell(self.hold.lose(why))
    }

    fn tell(&self, seen: Seen) -> Standing {
        if seen.newly_lost {
            self.target.env.mark(Mark::Lost);
            self.target.counters.count(Count::Lost);
            tracing::warn!(key = %self.target.key_text(), standing = ?seen.standing, "lock lost");
        }
        seen.standing
    }
}

/// How a hold stands, as the answer to a renewal.
fn extended(standing: Standing) -> Result<Instant, NotExtended> {
    match standing {
        Standing::Held(until) => Ok(until),
        Standing::Lost(lost) => Err(lost.into()),
        // Only the watchdog can meet this: a guard that is being released is gone.
        Standing::Releasing => Err(CallError::NotSent("the lock is being released".into()).into()),
    }
}

/// The release as a task. Should the task be dropped unfinished, as by a runtime that shuts down,
/// whoever waits for it is told so.
struct Release<E: Env>(Arc<Lease<E>>, Span);

impl<E: Env> Release<E> {
    async fn run(self) {
        let lease = &self.0;
        let outcome = lease.release().await;
        lease.target.env.mark(Mark::Phase(Phase::Released));
        tracing::debug!(key = %lease.target.key_text(), ?outcome, "lock released");
        observe::released(&lease.target, &self.1, &outcome);
        lease.hold.released(outcome);
    }
}

impl<E: Env> Drop for Release<E> {
    fn drop(&mut self) {
        if !self.0.hold.is_released() {
            let reason = "the task of the release was dropped";
            let outcome = Released::Unknown(CallError::Indeterminate(reason.into()));
            observe::released(&self.0.target, &self.1, &outcome);
            self.0.hold.released(outcome);
        }
    }
}
