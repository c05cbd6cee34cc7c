//! A lock that is handed over: first come, first served, from the one who releases to the next in line.
//!
//! Invariant: one request stands in line and one release hands over, so a lock changes hands with two
//! commands, however many wait. Whoever is handed the lock learns when that was by the server's clock,
//! and counts validity from its own clock and the time between the two words of the server. Who waits is
//! never dropped silently, and looks for itself before long. A look that comes late does nothing; the
//! request that stands in line is sent once, and cleaned up after where it has no answer.
//!
//! Assumed, besides what every lock here assumes: the server's clock does not step while somebody
//! waits, and the server is not replaced by one with another clock. Where it may be replaced and the
//! environment says so (sentinels, a cluster), a message is only a reason to look, which is a third command.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::attempt::{Failed, Flight, taken_by, whole_truth};
use crate::cleanup::Cleanup;
use crate::counters::{Count, Counters};
use crate::ears::{Ears, Heard, Waiter};
use crate::env::{CallError, Env, Mark, Node, Phase};
use crate::guard::Guard;
use crate::line::{Line, Said, said};
use crate::link::Link;
use crate::lock::NotAcquired;
use crate::observe;
use crate::options::{Options, OptionsError};
use crate::queue_scripts::{JOIN, LOOK, TAKE};
use crate::reply::Reply;
use crate::script::Script;
use crate::target::{Common, Decimal, Target, unexpected};
use crate::time::{Instant, span_ms};
use crate::timeout::{First, race, within};
use crate::token::OwnerToken;
use crate::validity::{handed_over, is_valid};

/// For each one ahead of it a waiter sleeps this fraction of the TTL longer, so that not all look at
/// once when a lock has expired.
const STAGGER_PART: u32 = 8;
const STAGGER_MIN: Duration = Duration::from_millis(2);
/// A grant with less than this fraction of its validity left is asked for anew, which starts a whole
/// TTL.
const SCANT_PART: u32 = 2;
/// After a failed attempt or an unanswered look the next comes after this fraction of a call timeout.
const PAUSE_PART: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// A lock on one key of one server whose waiters stand in line. Cloning gives another handle to the same
/// lock, on the same ears: all acquisitions of a handle and its clones share one subscription.
pub struct Queue<E: Env> {
    target: Arc<Target<E>>,
    ears: Arc<Ears>,
}

/// The lock was asked for then, and the server's clock showed this when it answered.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Instant,
    server_us: u64,
}

impl<E: Env> Queue<E> {
    /// The lock of this key on this node. Nothing is sent yet. Whoever uses the key has to use it so.
    ///
    /// # Errors
    /// [`OptionsError::KeyEmpty`], [`OptionsError::KeyTooLong`], [`OptionsError::KeyAlone`], and
    /// [`OptionsError::NotInLine`] for options of other locks: fencing tokens, replicas to wait for,
    /// messages about releases.
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
        if options.notifies() || options.is_fenced() || options.replicas().is_some() {
            return Err(OptionsError::NotInLine);
        }
        let ears = Arc::new(Ears::new(&env));
        let target = Target::new(env, node, key, options, common)?;
        let line = Some(Line::before(&target.key)?);
        Ok(Self { target: Arc::new(Target { line, ..target }), ears })
    }

    /// What this lock and its clones have done.
    pub fn counters(&self) -> &Counters {
        &self.target.counters
    }

    /// Waits until nothing is left to do behind guards and acquisitions that have gone; see
    /// [`Single::drain`](crate::Single::drain).
    pub async fn drain(&self) {
        self.target.background.drained().await;
    }

    /// Tries once: takes the lock where it is free and nobody waits for it.
    ///
    /// Dropping the future in mid-call counts as an unknown outcome: what it may have taken is
    /// released in the background.
    ///
    /// # Errors
    /// See [`NotAcquired`]; never [`NotAcquired::Deadline`].
    pub async fn try_acquire(&self) -> Result<Guard<E>, NotAcquired> {
        let tried = async {
            match self.counting(self.take()).await {
                Ok(guard) => Ok(guard),
                Err(failed) => Err(taken_by(&self.target, failed.error).await),
            }
        };
        observe::acquisition(&self.target, tried).await
    }

    /// Stands in line until `deadline` has passed. Dropping the future leaves the line; a grant that
    /// comes meanwhile goes on to the next.
    ///
    /// # Errors
    /// [`NotAcquired::Deadline`] with how it stood at the end; a refusal that time does not change (a
    /// wrong password, a channel that may not be listened to) at once.
    pub async fn acquire(&self, deadline: Duration) -> Result<Guard<E>, NotAcquired> {
        observe::acquisition(&self.target, self.keep_trying(deadline)).await
    }

    /// Counts how an attempt has ended.
    async fn counting(
        &self,
        attempt: impl Future<Output = Result<Guard<E>, Failed>>,
    ) -> Result<Guard<E>, Failed> {
        let ended = attempt.await;
        observe::attempted(&self.target, ended.as_ref().err().map(|failed| &failed.error));
        ended
    }

    async fn keep_trying(&self, deadline: Duration) -> Result<Guard<E>, NotAcquired> {
        let env = &self.target.env;
        let end = env.now().after(deadline);
        let mut open = None;
        // Who is alone needs no ears.
        let mut alone = !self.ears.is_listening();
        loop {
            let tried = match alone {
                true => self.counting(self.take()).await,
                false => self.counting(self.stand_in_line(end)).await,
            };
            let Failed { error, cleanup, .. } = match tried {
                Ok(guard) => return Ok(guard),
                Err(failed) => failed,
            };
            if let (Some(cleanup), NotAcquired::Unknown(error)) = (&cleanup, &error) {
                open = Some((Arc::clone(cleanup), error.clone()));
            }
            if !error.may_pass() {
                return Err(whole_truth(error, open));
            }
            let held = alone && error == NotAcquired::Held;
            alone = false;
            if !held && !self.pause(cleanup, end).await {
                let last = Box::new(whole_truth(error, open));
                return Err(NotAcquired::Deadline { last });
            }
        }
    }

    /// Waits for the clean-up of an attempt, and a moment; false where there is no time for another.
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
        env.sleep(self.moment().min(end.since(env.now()))).await;
        true
    }

    fn moment(&self) -> Duration {
        (self.target.options.call_timeout() / PAUSE_PART).max(PAUSE_MIN)
    }

    async fn take(&self) -> Result<Guard<E>, Failed> {
        let target = &self.target;
        let conn = target.connect().await.map_err(Failed::surely)?;
        let token = OwnerToken::draw(&target.env);
        target.env.mark(Mark::Phase(Phase::AcquireBeforeSend));
        let sent = target.env.now();
        let flight = Flight { target, conn: &conn, token: &token, sent, landed: false };
        let ttl = Decimal::new(span_ms(target.options.ttl()));
        let (keys, args) = (self.keys(), [token.as_bytes(), ttl.as_bytes()]);
        let asked = TAKE.run_on(&conn, &keys, &args);
        match target.answer(pin!(asked)).await {
            Ok(Reply::Array(list)) if list == [Reply::Int(1)] => {
                flight.granted(sent, Duration::ZERO, Link::on(conn.clone()), None)
            }
            Ok(Reply::Array(list)) if list == [Reply::Int(0)] => {
                Err(flight.missed(NotAcquired::Held))
            }
            Ok(other) => Err(flight.astray(unexpected(&other).into())),
            Err(error) if error.is_indeterminate() => Err(flight.astray(error.into())),
            Err(error) => Err(flight.missed(error.into())),
        }
    }

    /// One token's time in line.
    async fn stand_in_line(&self, end: Instant) -> Result<Guard<E>, Failed> {
        let target = &self.target;
        let env = &target.env;
        self.ears.listen(target).await.map_err(|error| match error {
            CallError::Indeterminate(reason) => Failed::surely(CallError::NotSent(reason)),
            error => Failed::surely(error),
        })?;
        let conn = target.connect().await.map_err(Failed::surely)?;
        let token = OwnerToken::draw(env);
        let waiter = self.ears.wait_for(&token);
        env.mark(Mark::Phase(Phase::AcquireBeforeSend));
        let sent = env.now();
        let flight = Flight { target, conn: &conn, token: &token, sent, landed: false };
        let link = Link::on(conn.clone());
        let answer = self.ask(&JOIN, &link, &token).await;
        let (server_us, sleep) = match answer {
            Ok(Said::Yours { .. }) => return flight.granted(sent, Duration::ZERO, link, None),
            Ok(Said::Wait { server_us, sleep }) => (server_us, sleep),
            // Who joins is never gone.
            Ok(Said::Gone) => return Err(flight.missed(NotAcquired::Held)),
            Err(error) if error.is_indeterminate() => return Err(flight.astray(error.into())),
            Err(error) => return Err(flight.missed(error.into())),
        };
        env.mark(Mark::Phase(Phase::Wait));
        target.counters.count(Count::Waited);
        self.wait(flight, link, &waiter, (Asked { at: sent, server_us }, sleep), end).await
    }

    /// Waits for its turn, looking now and then.
    async fn wait(
        &self,
        flight: Flight<'_, E>,
        link: Link<E::Conn>,
        waiter: &Waiter,
        (mut asked, mut sleep): (Asked, Duration),
        end: Instant,
    ) -> Result<Guard<E>, Failed> {
        let env = &self.target.env;
        loop {
            let left = end.since(env.now());
            let nap = at_most_two_turns(sleep, self.target.options.ttl()).min(left);
            let woken = race(pin!(waiter.heard()), pin!(env.sleep(nap))).await;
            // Where it may have been heard by who was not counted, the lock may have gone on to another.
            if let First::Left(Heard::Granted(at_us)) = woken
                && env.counts_listeners(self.target.node)
                && let Some((from, waited)) = self.handed_over(asked, at_us)
            {
                return flight.granted(from, waited, link, None);
            }
            if env.now() >= end {
                // Leaving hands on what may have been granted meanwhile.
                return Err(flight.astray(NotAcquired::Held));
            }
            if !self.ears.is_listening() {
                // It cannot be told of its turn, and is passed over, until it listens again.
                let _ = within(env, left, pin!(self.ears.listen(&self.target))).await;
            }
            let at = env.now();
            match self.ask(&LOOK, &link, flight.token).await {
                Ok(Said::Yours { already }) => {
                    // It has not been heard, unless it was just too scant.
                    if already && !matches!(woken, First::Left(Heard::Granted(_))) {
                        self.ears.distrust();
                    }
                    return flight.granted(at, Duration::ZERO, link, None);
                }
                Ok(Said::Wait { server_us, sleep: next }) => {
                    let deaf = !self.ears.is_listening();
                    asked = Asked { at, server_us };
                    sleep = if deaf { next.min(self.moment()) } else { next };
                }
                Ok(Said::Gone) => return Err(flight.missed(NotAcquired::Held)),
                Err(CallError::Refused(error)) => {
                    let error = NotAcquired::Refused(error);
                    if !error.may_pass() {
                        return Err(flight.astray(error));
                    }
                    sleep = self.moment();
                }
                Err(_) => sleep = self.moment(),
            }
        }
    }

    /// From when on a grant counts, and how long after we asked it came; none where too little would
    /// be left of it.
    fn handed_over(&self, asked: Asked, at_us: u64) -> Option<(Instant, Duration)> {
        let target = &self.target;
        let now = target.env.now();
        let waited = Duration::from_micros(at_us.saturating_sub(asked.server_us));
        let from = handed_over(asked.at, waited, now);
        let least = target.options.validity() / SCANT_PART;
        let ample = is_valid(now.after(least), target.valid_after(from, waited));
        ample.then_some((from, waited))
    }

    async fn ask(
        &self,
        script: &Script,
        link: &Link<E::Conn>,
        token: &OwnerToken,
    ) -> Result<Said, CallError> {
        let options = &self.target.options;
        let ttl = options.ttl();
        let stagger = Decimal::new(span_ms((ttl / STAGGER_PART).max(STAGGER_MIN)));
        let grace = Decimal::new(span_ms(ttl.saturating_add(options.call_timeout())));
        let ttl = Decimal::new(span_ms(ttl));
        let (token, channel) = (token.as_bytes(), self.ears.channel());
        let args = [token, stagger.as_bytes(), grace.as_bytes(), channel, ttl.as_bytes()];
        self.target.run(link, script, &self.keys(), &args).await.1.and_then(said)
    }

    fn keys(&self) -> [&[u8]; 3] {
        match &self.target.line {
            Some(line) => line.keys(&self.target.key),
            None => unreachable!("a queue has a line"),
        }
    }
}

/// A sleep that is longer than two TTLs, cut to between one and two. Whoever stands far behind is told to sleep
/// for long; but the line may move on, and who has been handed the lock and was not told would sleep on while
/// nobody can have it. What is cut off is whole TTLs, so that they still do not all look at once.
fn at_most_two_turns(sleep: Duration, ttl: Duration) -> Duration {
    let (sleep_ms, ttl_ms) = (span_ms(sleep), span_ms(ttl).max(1));
    match sleep_ms / ttl_ms {
        0 | 1 => sleep,
        _ => Duration::from_millis(ttl_ms.saturating_add(sleep_ms % ttl_ms)),
    }
}

impl<E: Env> Clone for Queue<E> {
    fn clone(&self) -> Self {
        Self { target: Arc::clone(&self.target), ears: Arc::clone(&self.ears) }
    }
}

impl<E: Env> fmt::Debug for Queue<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("node", &self.target.node)
            .field("key", &format_args!("{}", self.target.key_text()))
            .field("options", &self.target.options)
            .finish()
    }
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn nobody_sleeps_for_two_turns_and_not_all_wake_at_once() {
        let ms = Duration::from_millis;
        let nap = |sleep_ms| at_most_two_turns(ms(sleep_ms), ms(100));
        for short in [0, 1, 100, 101, 199] {
            assert_eq!(nap(short), ms(short), "as it was told");
        }
        assert_eq!((nap(200), nap(299), nap(300)), (ms(100), ms(199), ms(100)));
        // The first of a long line wake as far apart as they were told to.
        let places = (0..1_000_u64).map(|place| nap(1 + 50 + place * 12)).collect::<Vec<_>>();
        assert!(places.iter().all(|nap| *nap < ms(200)));
        assert!(places.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(at_most_two_turns(Duration::MAX, ms(1)), ms(1), "whatever a server says");
    }
}
