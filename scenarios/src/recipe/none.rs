//! No lock at all: everybody goes ahead.
//!
//! Claim: "it is only two commands, what can happen in between?"
//! Flaw: two clients read the same value before either has written.
//! Smallest failing schedule: A reads, B reads, A writes, B writes.
//! Source: the prize pool of the first article, with its lock taken away.

use std::sync::Arc;

use picklock::env::{Env, Mark, Phase};

use super::article::COMMON;
use super::{
    About, Acquired, BoxFuture, Handle, Held, Recipe, ReleaseOutcome, Stateless, stateless,
};

pub(super) static ABOUT: About = About {
    name: "none",
    how: "no lock",
    from: "beside the articles",
    flaw: Some("two clients work at once"),
    assumes: &[],
    locks: false,
    scripts: Vec::new,
    ..COMMON
};

/// The recipe.
pub(super) fn recipe() -> Unlocked {
    Unlocked
}

pub(super) struct Unlocked;

struct Nothing<E>(E);

impl<E: Env> Recipe<E> for Unlocked {
    fn handle(self: Arc<Self>, env: E, client: u32) -> Arc<dyn Handle> {
        stateless(self, env, client)
    }
}

impl<E: Env> Stateless<E> for Unlocked {
    fn acquire(&self, env: E, _client: u32) -> BoxFuture<'_, Acquired> {
        Box::pin(async move {
            env.mark(Mark::Phase(Phase::AcquireApplied));
            Ok(Box::new(Nothing(env)) as Box<dyn Held>)
        })
    }
}

impl<E: Env> Held for Nothing<E> {
    fn is_valid(&self) -> bool {
        true
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, ReleaseOutcome> {
        Box::pin(async move {
            self.0.mark(Mark::Phase(Phase::Released));
            ReleaseOutcome::Answered("nothing to release")
        })
    }
}
