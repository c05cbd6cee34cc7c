//! One attempt to acquire: what is sent, what is answered, and what it may leave behind.
//!
//! Invariant: an attempt ends in a guard, in *surely not taken*, or in a clean-up that removes what it may
//! have left, also when its future is dropped half-way. Every attempt has an owner token of its own.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cleanup::Cleanup;
use crate::command::{Command, Decimal};
use crate::counters::Count;
use crate::env::{CallError, Conn, Env, Mark, Phase};
use crate::fence::Fence;
use crate::guard::Guard;
use crate::held_lock::HeldLock;
use crate::lock::NotAcquired;
use crate::lock_conn::LockConn;
use crate::observe;
use crate::options::Replicas;
use crate::queue_scripts::TAKE;
use crate::reply::Reply;
use crate::scripts::{TRY, TRY_FENCED};
use crate::shared_hold::SharedHold;
use crate::target::{LockTarget, WaitMode};
use crate::time::{Instant, span_ms};
use crate::token::OwnerToken;
use crate::validity::is_valid;

/// What the server answers to an attempt.
enum AttemptReply {
    Granted(Option<Fence>),
    /// Held by another; the TTL that its key has left, where that is known.
    Held(Option<Duration>),
    /// The key never expires, so it is none of a lock.
    Foreign,
}

/// An acquisition of one attempt.
pub(crate) async fn try_once<E: Env>(target: &Arc<LockTarget<E>>) -> Result<Guard<E>, NotAcquired> {
    let tried = async {
        match attempt(target).await {
            Ok(guard) => Ok(guard),
            Err(failed) => Err(check_key_type(target, failed.error).await),
        }
    };
    observe::acquisition(target, pin!(Some(tried))).await
}

/// Tries once; in a wait queue, only where nobody waits.
pub(crate) async fn attempt<E: Env>(
    target: &Arc<LockTarget<E>>,
) -> Result<Guard<E>, FailedAttempt> {
    counted(target, pin!(send(target))).await
}

/// Counts how an attempt has ended.
pub(crate) async fn counted<E: Env>(
    target: &LockTarget<E>,
    attempt: Pin<&mut impl Future<Output = Result<Guard<E>, FailedAttempt>>>,
) -> Result<Guard<E>, FailedAttempt> {
    let ended = attempt.await;
    observe::attempted(target, ended.as_ref().err().map(|failed| &failed.error));
    ended
}

async fn send<E: Env>(target: &Arc<LockTarget<E>>) -> Result<Guard<E>, FailedAttempt> {
    let env = &target.env;
    let conn = target.connect().await.map_err(FailedAttempt::not_taken)?;
    let token = OwnerToken::draw(env);
    env.mark(Mark::Phase(Phase::AcquireBeforeSend));
    let sent = env.now();
    // Made before the command is: from here on, a dropped future leaves a clean-up behind.
    let pending =
        PendingAcquire { target, conn: &conn, token: &token, sent: Some(sent), settled: false };
    let fence = match target.answer(pin!(ask(target, &conn, &token))).await.and_then(read) {
        Ok(AttemptReply::Granted(fence)) => fence,
        Ok(AttemptReply::Held(ttl_left)) => {
            return Err(FailedAttempt { ttl_left, ..pending.not_taken(NotAcquired::Held) });
        }
        Ok(AttemptReply::Foreign) => {
            // It may hold anything, whatever the key has held before.
            target.is_string.store(false, Ordering::Relaxed);
            return Err(pending.not_taken(NotAcquired::Held));
        }
        Err(error) if error.is_indeterminate() => return Err(pending.ambiguous(error.into())),
        Err(error) => return Err(pending.not_taken(error.into())),
    };
    if let Some(replicas) = target.options.replicas()
        && let Err(error) = replicated(target, &conn, replicas).await
    {
        return Err(pending.ambiguous(error));
    }
    pending.granted(sent, Duration::ZERO, LockConn::on(conn.clone()), fence)
}

async fn ask<E: Env>(
    target: &LockTarget<E>,
    conn: &E::Conn,
    token: &OwnerToken,
) -> Result<Reply, CallError> {
    let (key, ttl_ms) = (&target.key, span_ms(target.options.ttl()));
    let ttl = Decimal::new(ttl_ms);
    let args = [token.as_bytes(), ttl.as_bytes()];
    match (&target.fence_counter, &target.waiting) {
        (Some(counter), _) => TRY_FENCED.run_on(conn, &[key, counter], &args).await,
        // A client that sleeps until a release has to know how long the key lives at most.
        (None, WaitMode::Notify(_)) => TRY.run(conn, key, &args).await,
        (None, WaitMode::Queue(queue)) => TAKE.run_on(conn, &queue.keys(key), &args).await,
        (None, WaitMode::Poll) => {
            let set =
                Command::new("SET").arg(key).arg(token).arg("NX").arg("PX").arg(ttl.as_bytes());
            conn.call(set).await
        }
    }
}

fn read(reply: Reply) -> Result<AttemptReply, CallError> {
    let list = match &reply {
        Reply::Ok => return Ok(AttemptReply::Granted(None)),
        Reply::Nil => return Ok(AttemptReply::Held(None)),
        Reply::Array(list) => &list[..],
        _ => return Err(CallError::unexpected(&reply)),
    };
    match *list {
        [Reply::Int(1)] => Ok(AttemptReply::Granted(None)),
        [Reply::Int(1), Reply::Int(fence)] => match u64::try_from(fence) {
            Ok(number) => Ok(AttemptReply::Granted(Some(Fence::new(number)))),
            Err(_) => Err(CallError::unexpected(&reply)),
        },
        // A queue does not report the TTL: it tells its waiters when to look.
        [Reply::Int(0)] => Ok(AttemptReply::Held(None)),
        // A negative number is a key without a TTL, so not one of ours: it may stay for ever.
        [Reply::Int(0), Reply::Int(left_ms)] => Ok(match u64::try_from(left_ms) {
            Ok(left_ms) => AttemptReply::Held(Some(Duration::from_millis(left_ms))),
            Err(_) => AttemptReply::Foreign,
        }),
        _ => Err(CallError::unexpected(&reply)),
    }
}

/// Waits until enough replicas have acknowledged the last write on this connection. Boxed: few locks do this, and
/// otherwise the future of every attempt would have room for it.
fn replicated<E: Env>(
    target: &LockTarget<E>,
    conn: &E::Conn,
    replicas: Replicas,
) -> Pin<Box<impl Future<Output = Result<(), NotAcquired>>>> {
    Box::pin(async move {
        let Replicas { count, within } = replicas;
        target.env.mark(Mark::Phase(Phase::AcquireBetween));
        let wait = Command::new("WAIT").int(u64::from(count)).int(span_ms(within));
        match target.answer(pin!(conn.call(wait))).await.map_err(unreplicated)? {
            Reply::Int(known) => {
                let acknowledged = u32::try_from(known).unwrap_or(0);
                let enough = acknowledged >= count;
                let missed = NotAcquired::NotReplicated { acknowledged, wanted: count };
                enough.then_some(()).ok_or(missed)
            }
            other => Err(CallError::unexpected(&other).into()),
        }
    })
}

/// The error of a WAIT that failed. The lock was granted before, so no error means that nothing was done.
fn unreplicated(error: CallError) -> CallError {
    match error {
        CallError::Indeterminate(_) => error,
        other => CallError::Indeterminate(format!("replicas not waited for: {other}").into()),
    }
}

/// `error`, or the refusal if the key does not hold a string. `SET NX` answers the same for a list as for
/// another's token, but nobody ever releases a list. So before a lock reports *held* for the first time, it
/// reads the key; again where it is told that the key never expires.
pub(crate) async fn check_key_type<E: Env>(
    target: &LockTarget<E>,
    error: NotAcquired,
) -> NotAcquired {
    if error != NotAcquired::Held || target.is_string.load(Ordering::Relaxed) {
        return error;
    }
    let get = async {
        let conn = target.connect().await?;
        let get = Command::new("GET").arg(&target.key);
        target.answer(pin!(conn.call(get))).await
    };
    match get.await {
        Err(CallError::Refused(refusal)) if &*refusal.code == "WRONGTYPE" => {
            NotAcquired::Refused(refusal)
        }
        Ok(Reply::Bulk(_)) => {
            target.is_string.store(true, Ordering::Relaxed);
            error
        }
        _ => error,
    }
}

/// The attempts of an acquisition whose outcome is unknown, while their clean-ups are not settled.
#[derive(Default)]
pub(crate) struct Unresolved(Vec<UnresolvedAttempt>);

struct UnresolvedAttempt {
    /// One for each node that may have granted it.
    cleanups: Vec<Arc<Cleanup>>,
    /// How many grants would give it the lock.
    needed: usize,
    error: CallError,
}

impl Unresolved {
    /// Remembers an attempt, where its outcome is unknown.
    pub(crate) fn add(&mut self, failed: &FailedAttempt) {
        let error = failed.doubt.clone().map(NotAcquired::Unknown);
        self.add_round(failed.cleanup.as_slice(), 1, error.as_ref().unwrap_or(&failed.error));
    }

    /// The same for an attempt on several nodes, of which `needed` are needed.
    pub(crate) fn add_round(
        &mut self,
        cleanups: &[Arc<Cleanup>],
        needed: usize,
        error: &NotAcquired,
    ) {
        self.forget_settled();
        if let NotAcquired::Unknown(error) = error {
            let (cleanups, error) = (cleanups.to_vec(), error.clone());
            self.0.push(UnresolvedAttempt { cleanups, needed, error });
        }
    }

    /// `error`, or the unknown outcome of the last of them: any may still have taken the lock.
    pub(crate) fn or(mut self, error: NotAcquired) -> NotAcquired {
        self.forget_settled();
        self.0.pop().map_or(error, |last| NotAcquired::Unknown(last.error))
    }

    fn forget_settled(&mut self) {
        let open =
            |it: &UnresolvedAttempt| it.cleanups.iter().filter(|it| !it.is_settled()).count();
        self.0.retain(|it| open(it) >= it.needed);
    }
}

/// An attempt that gave no guard, and the clean-up that it has started.
pub(crate) struct FailedAttempt {
    pub(crate) error: NotAcquired,
    /// Why its outcome is unknown, where `error` is a refusal that ends the acquisition.
    pub(crate) doubt: Option<CallError>,
    pub(crate) cleanup: Option<Arc<Cleanup>>,
    /// The TTL that another's key has left, where the server has reported it.
    pub(crate) ttl_left: Option<Duration>,
}

impl FailedAttempt {
    /// The lock was surely not taken.
    pub(crate) fn not_taken(error: impl Into<NotAcquired>) -> Self {
        Self { error: error.into(), doubt: None, cleanup: None, ttl_left: None }
    }
}

/// An acquisition that was sent or is about to be. If it is dropped before it is settled, for example with its
/// future, its outcome is unknown, and it starts a clean-up.
pub(crate) struct PendingAcquire<'a, E: Env> {
    pub(crate) target: &'a Arc<LockTarget<E>>,
    pub(crate) conn: &'a E::Conn,
    pub(crate) token: &'a OwnerToken,
    /// When it was sent; none once the server has answered that it is in the queue: it may have waited there for longer
    /// than a clean-up lingers.
    pub(crate) sent: Option<Instant>,
    pub(crate) settled: bool,
}

impl<E: Env> PendingAcquire<'_, E> {
    fn settle(mut self) {
        self.settled = true;
    }

    /// It surely has not taken the lock.
    pub(crate) fn not_taken(self, error: NotAcquired) -> FailedAttempt {
        tracing::debug!(key = %self.target, %error, "lock not acquired");
        self.settle();
        FailedAttempt::not_taken(error)
    }

    /// It may have taken the lock, but the caller must not rely on it.
    pub(crate) fn ambiguous(mut self, error: NotAcquired) -> FailedAttempt {
        tracing::warn!(key = %self.target, %error, "lock not acquired; cleaning up");
        self.settled = true;
        FailedAttempt { error, doubt: None, cleanup: Some(self.clean_up()), ttl_left: None }
    }

    /// It was granted: its TTL began at `from` or later. `from` is `waited` after an instant that this node's
    /// clock has measured.
    pub(crate) fn granted(
        self,
        from: Instant,
        waited: Duration,
        lock_conn: LockConn<E::Conn>,
        fence: Option<Fence>,
    ) -> Result<Guard<E>, FailedAttempt> {
        let (target, token) = (Arc::clone(self.target), self.token.clone());
        target.env.mark(Mark::Phase(Phase::AcquireApplied));
        let valid_until = target.valid_after(from, waited);
        if !is_valid(target.env.now(), valid_until) {
            return Err(self.ambiguous(NotAcquired::TooLate));
        }
        self.settle();
        if let Some(fence) = fence {
            target.env.mark(Mark::Fence(fence.get()));
        }
        tracing::debug!(key = %target, "lock acquired");
        Ok(Guard::new(HeldLock {
            target,
            token,
            sent: from,
            hold: SharedHold::new(valid_until),
            other_nodes: Vec::new(),
            lock_conn: Arc::new(lock_conn),
            fence,
        }))
    }

    fn clean_up(&self) -> Arc<Cleanup> {
        let from = self.sent.unwrap_or_else(|| self.target.env.now());
        Cleanup::start(self.target, self.conn, self.token, from)
    }
}

impl<E: Env> Drop for PendingAcquire<'_, E> {
    fn drop(&mut self) {
        if !self.settled {
            tracing::debug!(key = %self.target, "acquisition dropped in mid-call; cleaning up");
            self.target.counters.count(Count::Unknown);
            // The task runs by itself; nobody is left to wait for it.
            let _cleanup = self.clean_up();
        }
    }
}
