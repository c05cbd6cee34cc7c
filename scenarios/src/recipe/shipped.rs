//! The locks of the library, as recipes: the very code that is shipped.
//!
//! Invariant: nothing is added here but the boxing, so what is tested is what is used.

use std::time::Duration;

use picklock::env::Env;
use picklock::options::OptionsBuilder;
use picklock::{
    Guard, Node, NotAcquired, Options, OptionsError, Poll, Queue, Redlock, Released, Single,
};

use super::{About, BoxFuture, Held, NotHeld, Params, Recipe, ReleaseOutcome, Validity, article};

/// What there is to say of a lock of the library that says nothing else.
pub(super) const COMMON: About = About {
    from: "the picklock library",
    assumes: &[
        "no pause between the last look at the validity and the write",
        "clocks run apart by less than the drift allowance",
        "the server does not forget: no failover, no power loss",
    ],
    validity: Validity::Tracked,
    ..article::COMMON
};

/// Longer than any run: the retries end the wait.
const NO_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

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

    async fn guard<E: Env>(&self, env: E) -> Result<Guard<E>, NotHeld> {
        let Params { node, retries, pause, jitter, give_up, .. } = self.params;
        let (key, options) = (self.params.key.clone(), self.options.clone());
        let cannot = |error: OptionsError| article::not_held(&error.to_string());
        let deadline = self.params.deadline.unwrap_or(NO_DEADLINE);
        // Who asks anew is ended by the time that the retries may take, and not by their number.
        let max_retries = give_up.is_none().then_some(retries);
        let poll = Poll { base: pause, jitter, max_retries };
        let unlimited = Poll { max_retries: None, ..poll };
        let round = pause.saturating_add(jitter).saturating_add(options.call_timeout());
        let as_long = round.saturating_mul(retries).min(deadline);
        Ok(match self.way {
            WaitStrategy::Poll => {
                let lock = Single::new(env.clone(), node, key, options).map_err(cannot)?;
                let span = if give_up.is_some() { as_long } else { deadline };
                self.again_and_again(&env, span, |span| lock.acquire(span, poll)).await?
            }
            WaitStrategy::Notify => {
                let lock = Single::new(env.clone(), node, key, options).map_err(cannot)?;
                self.again_and_again(&env, as_long, |span| lock.acquire(span, unlimited)).await?
            }
            WaitStrategy::Nodes(nodes) => {
                let nodes = (0..nodes).map(Node);
                let lock = Redlock::new(env.clone(), nodes, key, options).map_err(cannot)?;
                let span = if give_up.is_some() { as_long } else { deadline };
                self.again_and_again(&env, span, |span| lock.acquire(span, poll)).await?
            }
            WaitStrategy::Line => {
                let lock = Queue::new(env.clone(), node, key, options).map_err(cannot)?;
                self.again_and_again(&env, as_long, |span| lock.acquire(span)).await?
            }
        })
    }

    /// Waits as long as the scenario says for one go, gives up, and asks anew, until it has waited for `as_long`.
    /// What it gave up must not be in the way of what it asks for then.
    async fn again_and_again<E: Env, W: Future<Output = Result<Guard<E>, NotAcquired>>>(
        &self,
        env: &E,
        as_long: Duration,
        wait: impl Fn(Duration) -> W,
    ) -> Result<Guard<E>, NotAcquired> {
        let end = env.now().after(as_long);
        loop {
            let left = end.since(env.now());
            let once = self.params.give_up.unwrap_or(left).min(left);
            let waited = wait(once).await;
            let gave_up = matches!(waited, Err(NotAcquired::Deadline { .. }));
            if !gave_up || end.since(env.now()).is_zero() {
                return waited;
            }
        }
    }
}

impl<E: Env> Recipe<E> for Shipped {
    fn acquire(&self, env: E, _client: u32) -> BoxFuture<'_, Result<Box<dyn Held>, NotHeld>> {
        Box::pin(async move { Ok(Box::new(self.guard(env).await?) as Box<dyn Held>) })
    }
}

impl From<NotAcquired> for NotHeld {
    fn from(error: NotAcquired) -> Self {
        Self { outcome: error.outcome(), why: error.to_string() }
    }
}

impl<E: Env> Held for Guard<E> {
    fn is_valid(&self) -> bool {
        Guard::is_valid(self)
    }

    fn fence(&self) -> Option<u64> {
        Guard::fence(self).map(picklock::Fence::get)
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, ReleaseOutcome> {
        Box::pin(async move {
            match Guard::release(*self).await {
                Released::Released => ReleaseOutcome::Answered("released"),
                Released::AlreadyExpired => ReleaseOutcome::Answered("already expired"),
                Released::TakenByOther => ReleaseOutcome::Answered("taken by another"),
                Released::Unknown(error) => ReleaseOutcome::Unknown(error.to_string()),
            }
        })
    }
}
