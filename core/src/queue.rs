//! A lock that is handed over: first come, first served, from the holder that releases to the first that
//! waits.
//!
//! Invariant: one request joins the queue and one release hands over, so a lock changes hands with two
//! commands, however many wait. A waiter that is granted the lock learns the time of the grant by the
//! server's clock; it counts validity from its own clock, with the time between the server's two
//! timestamps. No waiter is dropped without a message, and each looks for itself from time to time. A look
//! that arrives late does nothing; the request that joins is sent once, and cleaned up after if it has no
//! answer.
//!
//! Assumed, besides what every lock here assumes: the server's clock does not step while a client
//! waits, and the server is not replaced by one with another clock. Where it may be replaced and the
//! environment says so (Sentinel, a cluster), a message is only a reason to look, which is a third command.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::attempt::{FailedAttempt, PendingAcquire, Unresolved, attempt, counted, try_once};
use crate::cleanup::Cleanup;
use crate::command::Decimal;
use crate::counters::{Count, Counters};
use crate::env::{CallError, Env, Mark, Node, Phase};
use crate::guard::Guard;
use crate::lock::NotAcquired;
use crate::lock_conn::LockConn;
use crate::observe;
use crate::options::{Options, OptionsError, QUEUE_TTL_MAX, check_key_len};
use crate::queue_scripts::{JOIN, LOOK};
use crate::script::Script;
use crate::subscriber::{GrantWaiter, Notice, Subscriber};
use crate::target::{LockContext, LockTarget, WaitMode};
use crate::time::{Instant, span_ms};
use crate::timeout::{Either, race, within};
use crate::token::OwnerToken;
use crate::validity::{handed_over, is_valid};
use crate::wait_queue::{QueueReply, WaitQueue, read_reply};

/// For each client ahead of it, a waiter sleeps this fraction of the TTL longer, so that not all look at
/// once when a lock has expired.
const STAGGER_PART: u32 = 8;
const STAGGER_MIN: Duration = Duration::from_millis(2);
/// A grant that has less than this fraction of its validity left, or ends before its first renewal, is renewed by a look,
/// which starts a whole TTL.
const SCANT_PART: u32 = 2;
/// The pause after a failed attempt or an unanswered look, as a fraction of the call timeout.
const PAUSE_PART: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// A lock on one key of one server whose waiters form a queue. Cloning gives another handle to the same
/// lock; all acquisitions of a handle and its clones share one subscription.
#[derive(Clone)]
pub struct Queue<E: Env> {
    target: Arc<LockTarget<E>>,
    subscriber: Arc<Subscriber>,
}

/// A request for the lock: when it was sent by our clock, and the server's time when it answered, in
/// microseconds since 1970.
#[derive(Clone, Copy, Debug)]
struct QueueRequest {
    sent: Instant,
    server_us: u64,
}

impl<E: Env> Queue<E> {
    /// The lock of this key on this node. Nothing is sent yet. Every client of the key has to use a
    /// `Queue`.
    ///
    /// # Errors
    /// [`OptionsError::KeyEmpty`], [`OptionsError::KeyTooLong`], [`OptionsError::KeyAlone`],
    /// [`OptionsError::TtlTooLong`] beyond [`QUEUE_TTL_MAX`], and [`OptionsError::NotInLine`] for options of other
    /// locks: fencing tokens, replicas to wait for, notifications of releases.
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
        if options.notifies() || options.is_fenced() || options.replicas().is_some() {
            return Err(OptionsError::NotInLine);
        }
        let ttl = options.ttl();
        if ttl > QUEUE_TTL_MAX {
            return Err(OptionsError::TtlTooLong { ttl, max: QUEUE_TTL_MAX });
        }
        let subscriber = Arc::new(Subscriber::new(&env));
        check_key_len(key.len())?;
        let waiting = WaitMode::Queue(WaitQueue::of(&key)?);
        let target = LockTarget::new(env, node, key, waiting, options, context)?;
        Ok(Self { target: Arc::new(target), subscriber })
    }

    /// What this lock and its clones have done.
    pub fn counters(&self) -> &Counters {
        &self.target.counters
    }

    /// Waits for the background tasks of dropped guards and acquisitions; see
    /// [`Single::drain`](crate::Single::drain).
    pub async fn drain(&self) {
        self.target.counters.drained().await;
    }

    /// Tries once: takes the lock if it is free and nobody waits for it. Takes at most two call timeouts; four where
    /// this handle finds the key taken for the first time, as [`Single::try_acquire`](crate::Single::try_acquire) does.
    ///
    /// Dropping the future in mid-call leaves the outcome unknown: if it has taken the lock, the lock is
    /// released in the background.
    ///
    /// # Errors
    /// See [`NotAcquired`]; never [`NotAcquired::Deadline`].
    pub async fn try_acquire(&self) -> Result<Guard<E>, NotAcquired> {
        try_once(&self.target).await
    }

    /// Waits in the queue, at most for `deadline` from now. What is in flight then is completed, which takes at most
    /// five call timeouts. Dropping the future leaves the queue; a grant that arrives meanwhile is handed to the next.
    ///
    /// # Errors
    /// [`NotAcquired::Deadline`] with the outcome of the last attempt; a refusal that time does not change
    /// (a wrong password, a channel that may not be subscribed to) at once.
    pub async fn acquire(&self, deadline: Duration) -> Result<Guard<E>, NotAcquired> {
        observe::acquisition(&self.target, pin!(Some(self.keep_trying(deadline)))).await
    }

    async fn keep_trying(&self, deadline: Duration) -> Result<Guard<E>, NotAcquired> {
        let env = &self.target.env;
        let end = env.now().after(deadline);
        let mut unresolved = Unresolved::default();
        // A client without competition needs no subscription.
        let mut is_first_try = !self.subscriber.is_subscribed();
        loop {
            let tried = match is_first_try {
                true => attempt(&self.target).await,
                false => counted(&self.target, pin!(self.join(end))).await,
            };
            let failed = match tried {
                Ok(guard) => return Ok(guard),
                Err(failed) => failed,
            };
            unresolved.add(&failed);
            let FailedAttempt { error, cleanup, .. } = failed;
            if !error.may_pass() {
                return Err(unresolved.or(error));
            }
            let joins_now = is_first_try && error == NotAcquired::Held && env.now() < end;
            is_first_try = false;
            if !joins_now && !self.pause(cleanup, end).await {
                let last = Box::new(unresolved.or(error));
                return Err(NotAcquired::Deadline { last });
            }
        }
    }

    /// Waits for the clean-up of an attempt, and a retry pause; false where the deadline leaves no time for
    /// another attempt.
    async fn pause(&self, cleanup: Option<Arc<Cleanup>>, end: Instant) -> bool {
        let target = &self.target;
        let env = &target.env;
        let left = end.since(env.now());
        if left.is_zero() {
            return false;
        }
        if let Some(cleanup) = cleanup
            && within(env, left, pin!(cleanup.answered())).await.is_none()
        {
            return false;
        }
        env.sleep(self.retry_pause().min(end.since(env.now()))).await;
        true
    }

    fn retry_pause(&self) -> Duration {
        (self.target.options.call_timeout() / PAUSE_PART).max(PAUSE_MIN)
    }

    /// Joins the queue under a new token, and waits there.
    async fn join(&self, end: Instant) -> Result<Guard<E>, FailedAttempt> {
        let target = &self.target;
        let env = &target.env;
        // Nothing of the lock has been sent yet, so an unknown outcome here is *not sent* for the lock.
        self.subscriber.subscribe(target).await.map_err(|error| match error {
            CallError::Indeterminate(reason) => {
                FailedAttempt::not_taken(CallError::NotSent(reason))
            }
            error => FailedAttempt::not_taken(error),
        })?;
        let conn = target.connect().await.map_err(FailedAttempt::not_taken)?;
        let token = OwnerToken::draw(env);
        let waiter = self.subscriber.wait_for(&token);
        env.mark(Mark::Phase(Phase::AcquireBeforeSend));
        let sent = env.now();
        let mut pending =
            PendingAcquire { target, conn: &conn, token: &token, sent: Some(sent), settled: false };
        let lock_conn = LockConn::on(conn.clone());
        let answer = self.ask(&JOIN, &lock_conn, &token).await;
        let (server_us, sleep) = match answer {
            Ok(QueueReply::Granted { .. }) => {
                return pending.granted(sent, Duration::ZERO, lock_conn, None);
            }
            Ok(QueueReply::Wait { server_us, sleep }) => (server_us, sleep),
            // JOIN never answers this, as it puts the caller into the queue.
            Ok(QueueReply::NotQueued) => return Err(pending.not_taken(NotAcquired::Held)),
            Err(error) if error.is_indeterminate() => return Err(pending.ambiguous(error.into())),
            Err(error) => return Err(pending.not_taken(error.into())),
        };
        env.mark(Mark::Phase(Phase::Wait));
        target.counters.count(Count::Waited);
        pending.sent = None;
        let request = QueueRequest { sent, server_us };
        self.wait(pending, lock_conn, &waiter, (request, sleep), end).await
    }

    /// Waits for the grant, looking from time to time.
    async fn wait(
        &self,
        pending: PendingAcquire<'_, E>,
        lock_conn: LockConn<E::Conn>,
        waiter: &GrantWaiter,
        (mut request, mut sleep): (QueueRequest, Duration),
        end: Instant,
    ) -> Result<Guard<E>, FailedAttempt> {
        let env = &self.target.env;
        loop {
            let left = end.since(env.now());
            let nap = at_most_two_turns(sleep, self.target.options.ttl()).min(left);
            let woken = race(pin!(waiter.next()), pin!(env.sleep(nap))).await;
            // Where PUBLISH does not count every listener, the lock may have been handed on to another.
            if let Either::Left(Notice::Granted(at_us)) = woken
                && env.counts_listeners(self.target.node)
                && let Some((from, waited)) = self.handed_over(request, at_us)
            {
                return pending.granted(from, waited, lock_conn, None);
            }
            if env.now() >= end {
                return Err(self.leave(pending, NotAcquired::Held).await);
            }
            if !self.subscriber.is_subscribed() {
                // Until it is subscribed again, a release cannot reach it and hands the lock to the next.
                if let Some(error) = self.subscribe_again(left).await {
                    return Err(self.leave(pending, error).await);
                }
            }
            let sent = env.now();
            match self.ask(&LOOK, &lock_conn, pending.token).await {
                Ok(QueueReply::Granted { already }) => {
                    // The grant's message was lost, unless this look only renews a scant grant.
                    if already && !matches!(woken, Either::Left(Notice::Granted(_))) {
                        self.subscriber.distrust();
                    }
                    return pending.granted(sent, Duration::ZERO, lock_conn, None);
                }
                Ok(QueueReply::Wait { server_us, sleep: next }) => {
                    request = QueueRequest { sent, server_us };
                    let is_reachable = self.subscriber.is_subscribed();
                    sleep = if is_reachable { next } else { next.min(self.retry_pause()) };
                }
                Ok(QueueReply::NotQueued) => {
                    // Whoever loses its place is sent a message: this one has not come.
                    if matches!(woken, Either::Right(())) {
                        self.subscriber.distrust();
                    }
                    return Err(pending.not_taken(NotAcquired::Held));
                }
                Err(CallError::Refused(error)) => {
                    let error = NotAcquired::Refused(error);
                    if !error.may_pass() {
                        return Err(match error.is_wrong_type() {
                            // What is there is nobody's token, and leaving is refused as well.
                            true => pending.ambiguous(error),
                            false => self.leave(pending, error).await,
                        });
                    }
                    sleep = self.retry_pause();
                }
                Err(_) => sleep = self.retry_pause(),
            }
        }
    }

    /// Subscribes, and gives up after `span`. Returns a refusal that time does not change.
    async fn subscribe_again(&self, span: Duration) -> Option<NotAcquired> {
        let subscribing = pin!(self.subscriber.subscribe(&self.target));
        let subscribed = within(&self.target.env, span, subscribing).await?;
        subscribed.err().map(NotAcquired::from).filter(|error| !error.may_pass())
    }

    /// Leaves the queue for the reason `error`: the clean-up hands on a grant that came meanwhile. Until it is answered, the
    /// lock may be this client's.
    async fn leave(&self, pending: PendingAcquire<'_, E>, error: NotAcquired) -> FailedAttempt {
        let mut failed = pending.ambiguous(error);
        let span = self.target.options.call_timeout();
        if let Some(cleanup) = &failed.cleanup
            && within(&self.target.env, span, pin!(cleanup.answered())).await.is_none()
        {
            let error = &failed.error;
            let reason = format!("{error}; left the queue, with no answer within {span:?}");
            let doubt = CallError::Indeterminate(reason.into());
            match error.may_pass() {
                true => failed.error = NotAcquired::Unknown(doubt),
                false => failed.doubt = Some(doubt),
            }
        }
        failed
    }

    /// The instant from which a grant counts, and how long after our request it came; none where too little of the
    /// validity would be left: the longer it has waited, the more is taken off for drift.
    fn handed_over(&self, request: QueueRequest, at_us: u64) -> Option<(Instant, Duration)> {
        let target = &self.target;
        let (now, options) = (target.env.now(), &target.options);
        let waited = Duration::from_micros(at_us.saturating_sub(request.server_us));
        let from = handed_over(request.sent, waited, now);
        let renewed = options.renewal().map_or(from, |renewal| from.after(renewal.every));
        let needed = now.after(options.validity() / SCANT_PART).max(renewed);
        let ample = is_valid(needed, target.valid_after(from, waited));
        ample.then_some((from, waited))
    }

    async fn ask(
        &self,
        script: &Script,
        lock_conn: &LockConn<E::Conn>,
        token: &OwnerToken,
    ) -> Result<QueueReply, CallError> {
        let options = &self.target.options;
        let ttl = options.ttl();
        let stagger = Decimal::new(span_ms((ttl / STAGGER_PART).max(STAGGER_MIN)));
        let grace = Decimal::new(span_ms(ttl.saturating_add(options.call_timeout())));
        let ttl = Decimal::new(span_ms(ttl));
        let (token, channel) = (token.as_bytes(), self.subscriber.channel());
        let args = [token, stagger.as_bytes(), grace.as_bytes(), channel, ttl.as_bytes()];
        self.target.run(lock_conn, script, &self.keys(), &args).await.and_then(read_reply)
    }

    fn keys(&self) -> [&[u8]; 3] {
        match &self.target.waiting {
            WaitMode::Queue(queue) => queue.keys(&self.target.key),
            WaitMode::Poll | WaitMode::Notify(_) => unreachable!("`new` makes a wait queue"),
        }
    }
}

/// A sleep of two TTLs or more, cut to between one and two. The server tells a client far back in the queue
/// to sleep for long; but the queue may move, and a client that was granted the lock and missed the message
/// would sleep on while nobody can take it. Whole TTLs are cut off, so that the wake-ups stay apart.
fn at_most_two_turns(sleep: Duration, ttl: Duration) -> Duration {
    let (sleep_ms, ttl_ms) = (span_ms(sleep), span_ms(ttl).max(1));
    match sleep_ms / ttl_ms {
        0 | 1 => sleep,
        _ => Duration::from_millis(ttl_ms.saturating_add(sleep_ms % ttl_ms)),
    }
}

impl<E: Env> fmt::Debug for Queue<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("node", &self.target.node)
            .field("key", &format_args!("{}", self.target))
            .field("options", &self.target.options)
            .finish()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;
    use crate::options::{OptionsBuilder, Renewal};
    use crate::testing::{MS, World};
    use crate::validity::Drift;

    /// Options promise that a renewal comes before validity ends.
    #[test]
    fn a_grant_that_would_end_before_its_first_renewal_is_not_used() {
        let world = World::new();
        world.advance(10_000 * MS);
        let used = |every: Option<Duration>| {
            let builder = Options::builder(1_000 * MS).drift(Drift { ppm: 10_000, fixed: MS });
            let renewal = every.map(|every| Renewal { every, max_hold: None });
            let options = renewal.into_iter().fold(builder, OptionsBuilder::renewal).build();
            let queue = Queue::new(world.env(), Node(0), *b"k", options.unwrap()).unwrap();
            let request = QueueRequest { sent: Instant::from_ns(0), server_us: 0 };
            // After ten seconds of waiting, 111 ms are taken off a validity of 989 ms.
            queue.handed_over(request, 10_000_000).is_some()
        };
        assert!(used(None));
        assert!(used(Some(888 * MS)));
        assert!(!used(Some(889 * MS)));
    }

    #[test]
    fn nobody_sleeps_for_two_turns_and_not_all_wake_at_once() {
        let ms = Duration::from_millis;
        let nap = |sleep_ms| at_most_two_turns(ms(sleep_ms), ms(100));
        for short in [0, 1, 100, 101, 199] {
            assert_eq!(nap(short), ms(short), "as the server said");
        }
        assert_eq!((nap(200), nap(299), nap(300)), (ms(100), ms(199), ms(100)));
        // The first of a long queue wake as far apart as the server said.
        let places = (0..1_000_u64).map(|place| nap(1 + 50 + place * 12)).collect::<Vec<_>>();
        assert!(places.iter().all(|nap| *nap < ms(200)));
        assert!(places.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(at_most_two_turns(Duration::MAX, ms(1)), ms(1), "whatever a server says");
    }
}
