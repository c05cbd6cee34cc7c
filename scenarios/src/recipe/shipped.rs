//! The locks of the library, as recipes: the very code that is shipped.
//!
//! Invariant: nothing is added here but the boxing, so what is tested is what is used.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use history::words::{EXPIRED, PROTECTED, RELEASED, STOPPED, TAKEN, UNPROTECTED};
use picklock::env::Env;
use picklock::options::{OptionsBuilder, Renewal};
use picklock::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND};
use picklock::{
    Guard, Node, NotAcquired, Options, OptionsError, Outcome, Poll, Queue, Redlock, Released,
    Single, Unprotected,
};

use super::{
    About, Acquired, BoxFuture, Drained, Handle, Held, NotHeld, Params, Recipe, ReleaseOutcome,
    Validity, article,
};
use crate::call::within;

/// What there is to say of a lock of the library that says nothing else.
pub(super) const COMMON: About = About {
    from: "the picklock library",
    assumes: &[
        "no pause between the last look at the validity and the write",
        "clocks run apart by less than the drift allowance",
        "the server does not forget: no failover, no power loss",
    ],
    validity: Validity::Tracked,
    scripts: || vec![&COMPARE_AND_DELETE, &COMPARE_AND_EXTEND],
    ..article::COMMON
};

/// The recipe's way to renew its holds: at a third of the TTL, for no longer than the scenario says.
pub(super) fn watched(params: &Params) -> Renewal {
    Renewal { every: params.ttl / 3, max_hold: params.max_hold }
}

/// As users say that they want to wait for ever: the retries end the wait.
const NO_DEADLINE: Duration = Duration::MAX;

/// How to come to the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitStrategy {
    /// Polling, as often as the scenario says.
    Poll,
    /// Sleeping until told, for as long as the scenario's retries may take.
    Notify,
    /// Standing in line, for as long.
    Line,
    /// Polling so many independent servers.
    Nodes(u16),
}

/// A lock on one key of one server.
pub(super) struct Shipped {
    params: Params,
    options: Options,
    way: WaitStrategy,
}

impl Shipped {
    /// The lock with these parameters, come to in this way, with what `options` adds.
    pub(super) fn new(
        params: Params,
        way: WaitStrategy,
        options: impl FnOnce(OptionsBuilder) -> OptionsBuilder,
    ) -> Result<Self, OptionsError> {
        let builder = options(Options::builder(params.ttl).drift(params.drift));
        let options =
            if way == WaitStrategy::Notify { builder.notify().build() } else { builder.build() }?;
        Ok(Self { params, options, way })
    }

    fn lock<E: Env>(&self, env: E) -> Result<ShippedLock<E>, OptionsError> {
        let (key, options) = (&self.params.key, self.options.clone());
        let node = self.params.node;
        Ok(match self.way {
            WaitStrategy::Poll | WaitStrategy::Notify => {
                ShippedLock::Single(Single::new(env, node, key, options)?)
            }
            WaitStrategy::Nodes(nodes) => {
                ShippedLock::Redlock(Redlock::new(env, (0..nodes).map(Node), key, options)?)
            }
            WaitStrategy::Line => ShippedLock::Queue(Queue::new(env, node, key, options)?),
        })
    }

    async fn guard<E: Env>(&self, env: &E, lock: &ShippedLock<E>) -> Result<Guard<E>, NotAcquired> {
        let Params { retries, pause, jitter, give_up, .. } = self.params;
        let deadline = self.params.deadline.unwrap_or(NO_DEADLINE);
        let max_retries = (!self.params.ends_by_time()).then_some(retries);
        let poll = Poll { base: pause, jitter, max_retries };
        let round = pause.saturating_add(jitter).saturating_add(self.options.call_timeout());
        let as_long = round.saturating_mul(retries).min(deadline);
        let span = if give_up.is_some() { as_long } else { deadline };
        match lock {
            ShippedLock::Single(lock) if self.way == WaitStrategy::Notify => {
                // A caller who sets a deadline means the number of retries, too.
                let (span, poll) = match self.params.deadline {
                    Some(_) => (span, poll),
                    None => (as_long, Poll { max_retries: None, ..poll }),
                };
                self.again_and_again(env, span, |span| lock.acquire(span, poll)).await
            }
            ShippedLock::Single(lock) => {
                self.again_and_again(env, span, |span| lock.acquire(span, poll)).await
            }
            ShippedLock::Redlock(lock) => {
                self.again_and_again(env, span, |span| lock.acquire(span, poll)).await
            }
            // Boxed: it is the largest by far, and all of them would have room for it.
            ShippedLock::Queue(lock) => {
                self.again_and_again(env, as_long, |span| Box::pin(lock.acquire(span))).await
            }
        }
    }

    /// Waits as long as the scenario says for one go, gives up, and asks anew, until it has waited for `as_long`.
    /// What it gave up must not be in the way of what it asks for then. If one go may have taken the lock, the answer says so.
    async fn again_and_again<E: Env, W: Future<Output = Result<Guard<E>, NotAcquired>>>(
        &self,
        env: &E,
        as_long: Duration,
        wait: impl Fn(Duration) -> W,
    ) -> Result<Guard<E>, NotAcquired> {
        let Some(give_up) = self.params.give_up else { return wait(as_long).await };
        let end = env.now().after(as_long);
        let mut unknown = None;
        loop {
            let failed = match wait(end.since(env.now()).min(give_up)).await {
                Ok(guard) => return Ok(guard),
                Err(failed) => failed,
            };
            let gave_up = matches!(failed, NotAcquired::Deadline { .. });
            if !gave_up || end.since(env.now()).is_zero() {
                return Err(unknown.unwrap_or(failed));
            }
            if failed.outcome() == Outcome::Unknown {
                unknown = Some(failed);
            }
        }
    }
}

/// A lock of the library.
#[derive(Clone)]
enum ShippedLock<E: Env> {
    Single(Single<E>),
    Redlock(Redlock<E>),
    Queue(Queue<E>),
}

impl<E: Env> ShippedLock<E> {
    async fn drain(self) {
        match self {
            Self::Single(lock) => lock.drain().await,
            Self::Redlock(lock) => lock.drain().await,
            Self::Queue(lock) => lock.drain().await,
        }
    }
}

fn cannot(error: OptionsError) -> NotHeld {
    article::not_held(&error.to_string())
}

impl<E: Env> Recipe<E> for Shipped {
    fn handle(self: Arc<Self>, env: E, _client: u32) -> Arc<dyn Handle> {
        let lock = self.lock(env.clone()).map_err(cannot);
        Arc::new(ShippedHandle { recipe: self, env, lock })
    }
}

/// A lock of the library, as a service has it: made once, and used for every acquisition.
struct ShippedHandle<E: Env> {
    recipe: Arc<Shipped>,
    env: E,
    lock: Result<ShippedLock<E>, NotHeld>,
}

impl<E: Env> ShippedHandle<E> {
    async fn hold(&self, lock: &ShippedLock<E>) -> Acquired {
        let guard = Some(self.recipe.guard(&self.env, lock).await?);
        Ok(Box::new(HeldGuard { guard, lock: Some(lock.clone()) }))
    }
}

impl<E: Env> Handle for ShippedHandle<E> {
    fn acquire(&self) -> BoxFuture<'_, Acquired> {
        Box::pin(async move {
            match &self.lock {
                Ok(lock) => self.hold(lock).await,
                Err(cannot) => Err(cannot.clone()),
            }
        })
    }

    fn acquire_within(&self, span: Duration) -> BoxFuture<'_, Result<Acquired, Drained>> {
        Box::pin(async move {
            let lock = match &self.lock {
                Ok(lock) => lock,
                Err(cannot) => return Ok(Err(cannot.clone())),
            };
            let acquired = within(&self.env, span, pin!(self.hold(lock))).await;
            acquired.ok_or_else(|| Box::pin(lock.clone().drain()) as Drained)
        })
    }
}

impl From<NotAcquired> for NotHeld {
    fn from(error: NotAcquired) -> Self {
        Self { outcome: error.outcome(), why: error.to_string() }
    }
}

/// A guard, and the lock that it is of.
struct HeldGuard<E: Env> {
    /// None once it was lost and its work stopped.
    guard: Option<Guard<E>>,
    /// None once it is let go.
    lock: Option<ShippedLock<E>>,
}

/// What a release says.
fn told(released: Released) -> ReleaseOutcome {
    match released {
        Released::Released => ReleaseOutcome::Answered(RELEASED),
        Released::AlreadyExpired => ReleaseOutcome::Answered(EXPIRED),
        Released::TakenByOther => ReleaseOutcome::Answered(TAKEN),
        Released::Unknown(error) => ReleaseOutcome::Unknown(error.to_string()),
    }
}

/// The work was stopped, and its lock dropped with it.
fn lost() -> ReleaseOutcome {
    ReleaseOutcome::Unknown(STOPPED.to_owned())
}

impl<E: Env> Held for HeldGuard<E> {
    fn is_valid(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_valid)
    }

    fn remaining(&self) -> Option<Duration> {
        Some(self.guard.as_ref().map_or(Duration::ZERO, Guard::remaining))
    }

    fn fence(&self) -> Option<u64> {
        self.guard.as_ref().and_then(Guard::fence).map(picklock::Fence::get)
    }

    fn extend(&self) -> Option<BoxFuture<'_, bool>> {
        let guard = self.guard.as_ref()?;
        Some(Box::pin(async move { guard.extend().await.is_ok() }))
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, ReleaseOutcome> {
        Box::pin(async move {
            let Some(guard) = self.guard else { return lost() };
            told(guard.release().await)
        })
    }

    fn holding(&self) -> Option<Box<dyn Fn() -> bool + Send + Sync>> {
        let holding = self.guard.as_ref()?.holding();
        Some(Box::new(move || holding.is_valid()))
    }

    fn protect<'a>(self: Box<Self>, work: BoxFuture<'a, ()>) -> BoxFuture<'a, ReleaseOutcome>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let Some(guard) = self.guard else { return lost() };
            match guard.protect(|_| work).await {
                Ok(()) => ReleaseOutcome::Answered(PROTECTED),
                Err(Unprotected::Done { released: Released::Unknown(error), .. }) => {
                    ReleaseOutcome::Unknown(format!("{UNPROTECTED}{error}"))
                }
                Err(Unprotected::Done { released, .. }) => told(released),
                Err(Unprotected::Stopped(_)) => lost(),
            }
        })
    }

    fn drained(&self) -> Drained {
        match self.lock.clone() {
            Some(lock) => Box::pin(lock.drain()),
            None => Box::pin(ready(())),
        }
    }

    fn let_go(&mut self) {
        self.lock = None;
    }

    fn run<'a>(&'a mut self, work: BoxFuture<'a, ()>) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(guard) = self.guard.take() else { return false };
            self.guard = guard.run(work).await.ok().map(|((), guard)| guard);
            self.guard.is_some()
        })
    }
}
