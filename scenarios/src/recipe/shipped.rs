//! The lock of the library, as a recipe: the very code that is shipped.
//!
//! Invariant: nothing is added here but the boxing, so what is tested is what is used.

use std::time::Duration;

use picklock::env::Env;
use picklock::{Guard, NotAcquired, Options, OptionsError, Poll, Released, Single};

use super::{BoxFuture, Held, NotHeld, Params, Recipe, Release};

/// Longer than any run: the retries end the wait.
const NO_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// A lock on one key of one server.
pub(super) struct Shipped {
    params: Params,
    options: Options,
}

impl Shipped {
    /// The lock with these parameters, renewed by a watchdog or not.
    pub(super) fn new(params: Params, watchdog: bool) -> Result<Self, OptionsError> {
        let builder = Options::builder(params.ttl).drift(params.drift);
        let options = if watchdog { builder.watchdog().build() } else { builder.build() }?;
        Ok(Self { params, options })
    }
}

impl<E: Env> Recipe<E> for Shipped {
    fn acquire(&self, env: E, _client: u32) -> BoxFuture<'_, Result<Box<dyn Held>, NotHeld>> {
        Box::pin(async move {
            let Params { node, key, retries, pause, jitter, .. } = &self.params;
            let lock = Single::new(env, *node, key.clone(), self.options.clone())
                .map_err(|error| super::article::not_held(&error.to_string()))?;
            let poll = Poll { base: *pause, jitter: *jitter, max_retries: Some(*retries) };
            let guard = lock.acquire(NO_DEADLINE, poll).await?;
            Ok(Box::new(guard) as Box<dyn Held>)
        })
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

    fn release(self: Box<Self>) -> BoxFuture<'static, Release> {
        Box::pin(async move {
            match Guard::release(*self).await {
                Released::Released => Release::Answered("released"),
                Released::AlreadyExpired => Release::Answered("already expired"),
                Released::TakenByOther => Release::Answered("taken by another"),
                Released::Unknown(error) => Release::Unknown(error.to_string()),
            }
        })
    }
}
