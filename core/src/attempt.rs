//! One attempt to acquire: sent, answered or not, and what it leaves behind.
//!
//! Invariant: an attempt ends in a guard, in *surely not*, or in a clean-up that removes what it may
//! have left, also when its future is dropped half-way. Every attempt has an owner token of its own.
//! Deliberately absent: waiting for another attempt.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::cleanup::Cleanup;
use crate::command::Command;
use crate::counters::Count;
use crate::env::{CallError, Conn, Env, Mark, Phase};
use crate::fence::Fence;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::lease::Lease;
use crate::link::Link;
use crate::lock::NotAcquired;
use crate::observe;
use crate::options::Replicas;
use crate::reply::Reply;
use crate::scripts::{TRY, TRY_FENCED};
use crate::sync::lock;
use crate::target::{Decimal, Target, unexpected};
use crate::time::{Instant, span_ms};
use crate::token::OwnerToken;
use crate::validity::is_valid;

/// What the server says to an attempt.
enum Answer {
    Granted(Option<Fence>),
    /// Held by another, and for how long yet where that is known.
    Held(Option<Duration>),
}

/// Tries once.
pub(crate) async fn attempt<E: Env>(target: &Arc<Target<E>>) -> Result<Guard<E>, Failed> {
    let ended = send(target).await;
    observe::attempted(target, ended.as_ref().err().map(|failed| &failed.error));
    ended
}

async fn send<E: Env>(target: &Arc<Target<E>>) -> Result<Guard<E>, Failed> {
    let env = &target.env;
    let conn = target.connect().await.map_err(Failed::surely)?;
    let token = OwnerToken::draw(env);
    env.mark(Mark::Phase(Phase::AcquireBeforeSend));
    let sent = env.now();
    let flight = Flight { target, conn: &conn, token: &token, sent, landed: false };
    let fence = match target.answer(pin!(ask(target, &conn, &token))).await.and_then(read) {
        Ok(Answer::Granted(fence)) => fence,
        Ok(Answer::Held(left)) => {
            return Err(Failed { left, ..flight.missed(NotAcquired::Held) });
        }
        Err(error) if error.is_indeterminate() => return Err(flight.astray(error.into())),
        Err(error) => return Err(flight.missed(error.into())),
    };
    if let Some(replicas) = target.options.replicas()
        && let Err(error) = replicated(target, &conn, replicas).await
    {
        return Err(flight.astray(error));
    }
    flight.granted(sent, Duration::ZERO, Link::on(conn.clone()), fence)
}

async fn ask<E: Env>(
    target: &Target<E>,
    conn: &E::Conn,
    token: &OwnerToken,
) -> Result<Reply, CallError> {
    let (key, ttl_ms) = (&target.key, span_ms(target.options.ttl()));
    let ttl = Decimal::new(ttl_ms);
    let args = [token.as_bytes(), ttl.as_bytes()];
    match (&target.counter, &target.channel) {
        (Some(counter), _) => TRY_FENCED.run_on(conn, &[key, counter], &args).await,
        (None, Some(_)) => TRY.run(conn, key, &args).await,
        (None, None) => {
            let set = Command::new("SET").arg(key).arg(token).arg("NX").arg("PX").int(ttl_ms);
            conn.call(set).await
        }
    }
}

fn read(reply: Reply) -> Result<Answer, CallError> {
    let list = match &reply {
        Reply::Ok => return Ok(Answer::Granted(None)),
        Reply::Nil => return Ok(Answer::Held(None)),
        Reply::Array(list) => &list[..],
        _ => return Err(unexpected(&reply)),
    };
    match *list {
        [Reply::Int(1)] => Ok(Answer::Granted(None)),
        [Reply::Int(1), Reply::Int(fence)] => match u64::try_from(fence) {
            Ok(number) => Ok(Answer::Granted(Some(Fence::new(number)))),
            Err(_) => Err(unexpected(&reply)),
        },
        // A key without a TTL is not one of ours; nobody knows when it goes.
        [Reply::Int(0), Reply::Int(left_ms)] => {
            Ok(Answer::Held(u64::try_from(left_ms).ok().map(Duration::from_millis)))
        }
        _ => Err(unexpected(&reply)),
    }
}

/// Waits until enough replicas know of what was written last on this connection.
async fn replicated<E: Env>(
    target: &Target<E>,
    conn: &E::Conn,
    replicas: Replicas,
) -> Result<(), NotAcquired> {
    let Replicas { count, within } = replicas;
    target.env.mark(Mark::Phase(Phase::AcquireBetween));
    let wait = Command::new("WAIT").int(u64::from(count)).int(span_ms(within));
    match target.answer(pin!(conn.call(wait))).await? {
        Reply::Int(known) => {
            let acknowledged = u32::try_from(known).unwrap_or(0);
            let enough = acknowledged >= count;
            enough.then_some(()).ok_or(NotAcquired::NotReplicated { acknowledged, wanted: count })
        }
        other => Err(unexpected(&other).into()),
    }
}

/// What to tell of an attempt that found the key there. `SET NX` finds a list as it finds another's token, and
/// nobody gives a list up: so before a lock says for the first time that another has it, it looks.
pub(crate) async fn taken_by<E: Env>(target: &Target<E>, error: NotAcquired) -> NotAcquired {
    if error != NotAcquired::Held || *lock(&target.is_text) {
        return error;
    }
    let looked = async {
        let conn = target.connect().await?;
        let get = Command::new("GET").arg(&target.key);
        target.answer(pin!(conn.call(get))).await
    };
    match looked.await {
        Err(CallError::Refused(refusal)) if &*refusal.code == "WRONGTYPE" => {
            NotAcquired::Refused(refusal)
        }
        Ok(Reply::Bulk(_)) => {
            *lock(&target.is_text) = true;
            error
        }
        _ => error,
    }
}

/// The end of an attempt, or the unknown end of an earlier one that is still being looked after.
pub(crate) fn whole_truth(
    error: NotAcquired,
    open: Option<(Arc<Cleanup>, CallError)>,
) -> NotAcquired {
    match open {
        Some((cleanup, unknown)) if !cleanup.is_settled() => NotAcquired::Unknown(unknown),
        _ => error,
    }
}

/// An attempt that gave no guard, and the clean-up it has left running.
pub(crate) struct Failed {
    pub(crate) error: NotAcquired,
    pub(crate) cleanup: Option<Arc<Cleanup>>,
    /// How long another may hold the lock yet, where the server has said so.
    pub(crate) left: Option<Duration>,
}

impl Failed {
    /// The lock was surely not taken.
    pub(crate) fn surely(error: impl Into<NotAcquired>) -> Self {
        Self { error: error.into(), cleanup: None, left: None }
    }
}

/// An acquisition that has been sent. Dropped before it has landed, as it is with its future, its
/// outcome is unknown and a clean-up goes after it.
pub(crate) struct Flight<'a, E: Env> {
    pub(crate) target: &'a Arc<Target<E>>,
    pub(crate) conn: &'a E::Conn,
    pub(crate) token: &'a OwnerToken,
    pub(crate) sent: Instant,
    pub(crate) landed: bool,
}

impl<E: Env> Flight<'_, E> {
    /// Its outcome is known and leaves nothing behind.
    pub(crate) fn land(mut self) {
        self.landed = true;
    }

    /// It surely has not taken the lock.
    pub(crate) fn missed(self, error: NotAcquired) -> Failed {
        tracing::debug!(key = %self.target.key_text(), %error, "lock not acquired");
        self.land();
        Failed::surely(error)
    }

    /// It may have taken the lock, but the caller does not have it.
    pub(crate) fn astray(mut self, error: NotAcquired) -> Failed {
        tracing::warn!(key = %self.target.key_text(), %error, "lock not acquired; cleaning up");
        self.landed = true;
        Failed { error, cleanup: Some(self.clean_up()), left: None }
    }

    /// It has been granted: its TTL began at `from` or later, which is `waited` after something that
    /// this node's clock has seen.
    pub(crate) fn granted(
        self,
        from: Instant,
        waited: Duration,
        link: Link<E::Conn>,
        fence: Option<Fence>,
    ) -> Result<Guard<E>, Failed> {
        let (target, token) = (Arc::clone(self.target), self.token.clone());
        target.env.mark(Mark::Phase(Phase::AcquireApplied));
        let valid_until = target.valid_after(from, waited);
        if !is_valid(target.env.now(), valid_until) {
            return Err(self.astray(NotAcquired::TooLate));
        }
        self.land();
        if let Some(fence) = fence {
            target.env.mark(Mark::Fence(fence.get()));
        }
        tracing::debug!(key = %target.key_text(), "lock acquired");
        Ok(Guard::new(Lease {
            target,
            token,
            sent: from,
            hold: Hold::new(valid_until),
            others: Vec::new(),
            link: Arc::new(link),
            fence,
        }))
    }

    fn clean_up(&self) -> Arc<Cleanup> {
        Cleanup::start(self.target, self.conn, self.token, self.sent)
    }
}

impl<E: Env> Drop for Flight<'_, E> {
    fn drop(&mut self) {
        if !self.landed {
            tracing::debug!(key = %self.target.key_text(), "acquisition dropped in mid-call; cleaning up");
            self.target.counters.count(Count::Unknown);
            // The task goes on by itself; nobody is left to wait for it.
            let _cleanup = self.clean_up();
        }
    }
}
